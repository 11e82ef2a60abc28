// Ids against Hugging Face: the golden files of ../shared/data/tokenizers where they are, and tables made with its
// `tokenizers` 0.23 for the two tokenizers that have no golden file.
#include "model/tokenizer/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/text/utf8.h"
#include "model/vocabulary/tokenizer_json.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> Make(const std::string& tokenizer_json) {
  const auto document = JsonDocument::Parse(tokenizer_json, kTokenizerJsonLimits, "tokenizer.json");
  EXPECT_THAT(document, IsOk());
  const auto spec = ReadTokenizerJson(*document, "tokenizer.json");
  EXPECT_THAT(spec, IsOk());
  if (!spec.ok()) return nullptr;
  auto tokenizer = BpeTokenizer::Create(*spec, 0);
  EXPECT_THAT(tokenizer, IsOk());
  return tokenizer.ok() ? *tokenizer : nullptr;
}

// Pushes the ids one by one: every piece is whole characters, and together they are the decoded text.
void ExpectStreams(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer stream(tokenizer, /*skip_special_tokens=*/false);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string piece = stream.Push(id);
    EXPECT_EQ(ValidUtf8Prefix(piece), piece.size());
    streamed += piece;
  }
  EXPECT_EQ(streamed + stream.Finish(), tokenizer.Decode(ids, false));
}

void ExpectGolden(const Tokenizer& tokenizer, const std::string& text, const Ids& ids) {
  SCOPED_TRACE(testing::PrintToString(text));
  EXPECT_EQ(tokenizer.Encode(text, {}), ids);
  ExpectStreams(tokenizer, ids);
}

// --- golden files ----------------------------------------------------------------------------------------------------

const std::string kData = SourceDir() + "/../shared/data/tokenizers/";

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// GPT-2 has its vocabulary and its merges in two files; this is the tokenizer.json they amount to.
std::string Gpt2Json() {
  json merges = json::array();
  std::istringstream lines(ReadAll(kData + "gpt2/merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  json tokenizer = TinyTokenizerJson();
  tokenizer["model"] = {
      {"type", "BPE"}, {"vocab", json::parse(ReadAll(kData + "gpt2/vocab.json"))}, {"merges", merges}};
  tokenizer["added_tokens"] = {{{"id", 50256}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", true}}};
  tokenizer["post_processor"] = nullptr;
  return tokenizer.dump();
}

struct Golden {
  const char* name;
  std::string (*tokenizer_json)();
  const char* cases;  // golden/<cases>.json
  const char* key;
  const char* pairs;  // golden/<pairs>.strings.txt and .ids.txt
};
// For messages: the bytes of pointers say nothing and differ from run to run.
void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class GoldenTokenizer : public testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kData)) GTEST_SKIP() << kData << " is not there";
    tokenizer_ = Make(GetParam().tokenizer_json());
    ASSERT_NE(tokenizer_, nullptr);
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(GoldenTokenizer, GivesTheIdsAndTheTextOfTransformers) {
  const json cases = json::parse(ReadAll(kData + "golden/" + GetParam().cases + ".json"));
  ASSERT_GE(cases.at(GetParam().key).size(), 20u);
  for (const auto& [name, entry] : cases.at(GetParam().key).items()) {
    SCOPED_TRACE(name);
    const Ids ids = entry.at("ids").get<Ids>();
    ExpectGolden(*tokenizer_, entry.at("text").get<std::string>(), ids);
    // Not the file's `decoded`: transformers tidies spaces before punctuation there, in one case.
    EXPECT_EQ(tokenizer_->Decode(ids, false), entry.at("text").get<std::string>());
    const auto tokens = entry.at("tokens").get<std::vector<std::string>>();
    ASSERT_EQ(tokens.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(tokenizer_->TokenPiece(ids[i]), tokens[i]);
  }
}

TEST_P(GoldenTokenizer, GivesTheIdsOfLlamaCpp) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string strings = ReadAll(kData + "golden/" + GetParam().pairs + ".strings.txt");
  std::istringstream lines(ReadAll(kData + "golden/" + GetParam().pairs + ".ids.txt"));
  int count = 0;
  size_t at = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const size_t end = std::min(strings.find(kSeparator, at), strings.size());
    std::istringstream numbers(line);
    ExpectGolden(*tokenizer_, strings.substr(at, end - at), Ids(std::istream_iterator<int32_t>(numbers), {}));
    at = end + kSeparator.size();
  }
  EXPECT_GE(count, 40);
}

INSTANTIATE_TEST_SUITE_P(, GoldenTokenizer,
                         testing::Values(Golden{"Gpt2", Gpt2Json, "gpt2", "Xenova/gpt2", "gpt-2"},
                                         Golden{"Qwen25", [] { return ReadAll(kData + "qwen2.5/tokenizer.json"); },
                                                "qwen2", "Xenova/Qwen1.5-0.5B-Chat", "qwen2"}),
                         [](const auto& test) { return test.param.name; });

struct Ours {
  std::string text;
  Ids smollm, neox;
};
const Ours kOurs[] = {
    {"Hello world", {19556, 905}, {12092, 1533}},
    {"It's 2024, they'LL pay $1,234.56!",
     {1589, 506, 216, 34, 32, 34, 36, 28, 502, 23, 16421, 2290, 1885, 33, 28, 34, 35, 36, 30, 37, 38, 17},
     {1147, 434, 1384, 1348, 13, 597, 8, 2293, 2075, 370, 18, 13, 20210, 15, 3208, 2}},
    {"  leading, trailing  ", {216, 2899, 28, 35079, 256}, {50276, 16378, 13, 28417, 50276}},
    {"\tif (x == 0) {\n\t\treturn;\n\n\n}",
     {197, 342, 365, 104, 1758, 216, 32, 25, 1662, 3354, 197, 5406, 43, 1116, 198, 109},
     {186, 338, 313, 89, 2295, 470, 10, 551, 996, 186, 2309, 28, 535, 187, 94}},
    {"Größe: déjà vu — naïve café",
     {27302, 7466, 34878, 85, 42, 32564, 90, 16739, 386, 101, 1841, 15486, 46494, 37366},
     {3594, 2381, 44366, 27, 41751, 24821, 1905, 36060, 36241}},
    {"e\u0301 a\u030a ﬁ Å", {85, 151, 219, 253, 151, 228, 40367, 5549, 223}, {860, 13581, 16141, 107, 212, 17732}},
    {"生活的真谛是 하루 жизнь",
     {43293, 177,   129, 136, 11567, 178, 246,  249, 179,  125,   245,  27830,
      216,   33085, 242, 182, 113,   118, 5470, 131, 7872, 23035, 8831, 19884},
     {20025, 46549, 5225, 48561, 33656, 238, 12105, 209, 29470, 167, 98, 103, 25705, 21887, 1640, 4169}},
    {"👨\u200d👩\u200d👧 🚀🚀",
     {10813, 235, 118, 321, 231, 10813, 235, 119, 321, 231, 10813, 235, 117, 15107, 244, 218, 10813, 244, 218},
     {14931, 228, 103, 325, 224, 14931, 228, 104, 325, 224, 14931, 228, 102, 22692, 237, 211, 14931, 237, 211}},
    {"<|im_start|>user\nHi<|im_end|>\n",
     {1, 4093, 198, 26843, 2, 198},
     {29, 93, 303, 64, 5478, 49651, 4537, 187, 12764, 29, 93, 303, 64, 423, 49651, 187}},
    {"                 x", {1703, 1792}, {50261, 89}},
    {std::string(40, 'a'), Ids(10, 46880), Ids(5, 49642)},
    {"\u00a0\u3000x\u200by", {15442, 12109, 218, 104, 321, 229, 105}, {575, 19409, 89, 12882, 90}},
};

TEST(BpeTokenizer, GptNeoxGivesTheIdsOfHuggingFace) {
  if (!std::filesystem::exists(kData)) GTEST_SKIP() << kData << " is not there";
  const auto tokenizer = Make(ReadAll(kData + "gpt-neox/tokenizer.json"));
  ASSERT_NE(tokenizer, nullptr);
  for (const Ours& golden : kOurs) ExpectGolden(*tokenizer, golden.text, golden.neox);
}

TEST(BpeTokenizer, OpenLlamaGivesTheIdsOfHuggingFace) {
  if (!std::filesystem::exists(kData)) GTEST_SKIP() << kData << " is not there";
  const auto tokenizer = Make(ReadAll(kData + "openllama/tokenizer.json"));
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<std::string, Ids> goldens[] = {
      {"Hello world", {1, 16644, 924}},
      {"It's 2024, they'LL pay $1,234.56!",
       {1,     571,  31876, 31829, 31822, 31855, 31852, 31855, 31882, 31844, 526,   31876,
        13105, 1534, 569,   31853, 31844, 31855, 31878, 31882, 31843, 31880, 31887, 31905}},
      {"  leading, trailing  ", {1, 31822, 31822, 3034, 31844, 30174, 31822, 31822}},
      {"Größe: déjà vu", {1, 1704, 31957, 198, 162, 31823, 31871, 11281, 31879, 31965, 399, 31835}},
      {"생활", {1, 31822, 239, 134, 160, 240, 156, 159}},
      {"👨\u200d👩 🚀", {1, 31822, 243, 162, 148, 171, 229, 131, 144, 243, 162, 148, 172, 31822, 243, 162, 157, 131}},
      {"<s>a</s> b", {1, 1, 31825, 2, 31822, 284}},
  };
  for (const auto& [text, ids] : goldens) {
    ExpectGolden(*tokenizer, text, ids);
    EXPECT_EQ(tokenizer->Decode(ids, false).substr(0, 3), "<s>");
  }
}

TEST(BpeTokenizer, TheDefaultModelGivesTheIdsOfHuggingFace) {
  const std::string model = SourceDir() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << model << " is not there; ./hydrant up fetches it";
  const auto checkpoint = Checkpoint::Open(model);
  ASSERT_THAT(checkpoint, IsOk());
  const Tokenizer& tokenizer = *(*checkpoint)->tokenizer;
  for (const Ours& golden : kOurs) {
    ExpectGolden(tokenizer, golden.text, golden.smollm);
    EXPECT_EQ(tokenizer.Decode(golden.smollm, false), golden.text);
  }
}

// --- rules -----------------------------------------------------------------------------------------------------------

// The bytes, then what the merges make.
json WithMerges(const std::vector<std::pair<std::string, std::string>>& merges) {
  json tokenizer = GrowingTokenizerJson();
  int32_t id = 258;
  for (const auto& [left, right] : merges) {
    tokenizer["model"]["merges"].push_back({left, right});
    tokenizer["model"]["vocab"][left + right] = id++;
  }
  return tokenizer;
}
constexpr Tokenizer::EncodeOptions kPlain{.add_special_tokens = false};

// Row D5 of the table of bad input: every byte string decodes to itself as far as it is UTF-8.
TEST(BpeTokenizer, EveryByteStringIsItsOwnTokens) {
  const auto tokenizer = Make(WithMerges({{"a", "b"}, {"Ã", "©"}, {"Ġ", "a"}}).dump());
  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < round % 40; ++i)
      text += static_cast<char>(round % 3 == 0 ? random() : "ab \xc3\xa9\xf0"[random() % 6]);
    const Ids ids = tokenizer->Encode(text, kPlain);
    std::string bytes;
    for (const int32_t id : ids) bytes += tokenizer->TokenBytes(id);
    ASSERT_EQ(bytes, text);
    ExpectStreams(*tokenizer, ids);
  }
}

TEST(BpeTokenizer, MergesBestRankFirstAndLeftmostFirst) {
  const auto tokenizer = Make(WithMerges({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}}).dump());
  EXPECT_EQ(tokenizer->Encode("abc", kPlain), (Ids{'a', 258}));  // "bc" outranks "ab"
  EXPECT_EQ(tokenizer->Encode("aaaa", kPlain), (Ids{260, 260}));
  EXPECT_EQ(tokenizer->Encode("aaa", kPlain), Ids{261});
}

TEST(BpeTokenizer, IgnoreMergesTakesAWholeWordFirst) {
  json from = WithMerges({{"a", "b"}});
  from["model"]["vocab"]["abc"] = 259;
  EXPECT_EQ(Make(from.dump())->Encode("abc", kPlain), (Ids{258, 'c'}));
  from["model"]["ignore_merges"] = true;
  EXPECT_EQ(Make(from.dump())->Encode("abc", kPlain), Ids{259});
}

// Row D2: with parse_special_tokens off, the text of a special token is plain text.
TEST(BpeTokenizer, SpecialTokensAreParsedOnRequestOnly) {
  const auto tokenizer = Make(TinyTokenizerJson().dump());
  EXPECT_EQ(tokenizer->Encode("</s>", {}), (Ids{256, 257}));
  EXPECT_EQ(tokenizer->Encode("</s>", kPlain), Ids{257});
  const Ids as_text = tokenizer->Encode("</s>", {.add_special_tokens = false, .parse_special_tokens = false});
  EXPECT_EQ(as_text.size(), 4u);
  EXPECT_EQ(tokenizer->Decode(as_text, true), "</s>");
  EXPECT_EQ(tokenizer->Decode({256, 257}, true), "");
  EXPECT_EQ(tokenizer->Decode({256, 257}, false), "<s></s>");
}

TEST(BpeTokenizer, SpecialTokensAreNotFoundInPlainRanges) {
  json from = WithMerges({{"a", "b"}});
  from["added_tokens"].push_back({{"id", 259}, {"content", "<n>"}, {"special", true}, {"normalized", true}});
  for (const bool nfc : {false, true}) {
    if (nfc) from["normalizer"] = {{"type", "NFC"}};
    const auto tokenizer = Make(from.dump());
    const auto encode = [&](std::string_view text, const std::vector<ByteRange>& client_ranges) {
      return tokenizer->Encode(text, {.add_special_tokens = false, .client_ranges = client_ranges});
    };
    for (const std::string special : {"</s>", "<n>"}) {
      const int32_t id = special == "<n>" ? 259 : 257;
      const std::string text = special + "e\u0301" + special + "ab" + special;
      const size_t second = special.size() + 3;
      const Ids ids = encode(text, {{second, second + special.size()}});
      EXPECT_EQ(ids.front(), id);
      EXPECT_EQ(ids.back(), id);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 2);
      EXPECT_EQ(tokenizer->Decode(ids, true), std::string(nfc ? "é" : "e\u0301") + special + "ab");
      // All of it plain is the same as parsing none.
      EXPECT_EQ(encode(text, {{0, text.size()}}),
                tokenizer->Encode(text, {.add_special_tokens = false, .parse_special_tokens = false}));
    }
    EXPECT_EQ(encode("ab", {{1, 2}}), Ids{258}) << "a merge goes across the border";
    EXPECT_EQ(encode("</s>a</s>", {{4, 5}}), (Ids{257, 'a', 257}));
  }
}

TEST(BpeTokenizer, NormalisesWhenTheFileAsksForIt) {
  json from = TinyTokenizerJson();
  EXPECT_EQ(Make(from.dump())->Encode("e\u0301", kPlain).size(), 3u);
  from["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = Make(from.dump());
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("e\u0301 \xff \u212b", kPlain), false), "é \uFFFD Å");
}

// Row D1: a megabyte of one character is one word. That it ends at all is the test; its time is the bench's.
TEST(BpeTokenizer, AMegabyteOfOneCharacterEnds) {
  const auto tokenizer = Make(WithMerges({{"a", "a"}, {"aa", "aa"}, {"_", "_"}, {"Ġ", "Ġ"}, {"Ċ", "Ċ"}}).dump());
  for (const char c : {'a', '_', '^', ' ', '\n'}) {
    const std::string text(1 << 20, c);
    const Ids ids = tokenizer->Encode(text, kPlain);
    EXPECT_EQ(tokenizer->Decode(ids, false), text) << c;
    EXPECT_LE(ids.size(), c == 'a' ? text.size() / 4 : c == '^' ? text.size() : text.size() / 2 + 2) << c;
  }
}

TEST(BpeTokenizer, PaddedIdsExistWithoutText) {
  const auto document = JsonDocument::Parse(TinyTokenizerJson().dump(), kTokenizerJsonLimits, "t");
  const auto spec = ReadTokenizerJson(*document, "t");
  const auto tokenizer = BpeTokenizer::Create(*spec, 300);
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_EQ((*tokenizer)->vocab_size(), 300);
  EXPECT_EQ((*tokenizer)->TokenBytes(299), "");
  EXPECT_FALSE((*tokenizer)->IsSpecial(299));
}

// Whatever a file calls it: an ordinary piece that merges make, or a token that is added but not special.
TEST(BpeTokenizer, NoPlainTextBecomesATokenThatEndsATurn) {
  const std::vector<ByteRange> client_ranges = {{0, 4}};
  for (const bool ignore_merges : {false, true}) {
    for (const bool added : {false, true}) {
      TokenizerSpec spec;
      const std::vector<std::string> bytes = ByteAlphabet();
      spec.pieces.assign(bytes.begin(), bytes.end());
      for (const std::string_view piece : {"</", "s>", "</s>"}) spec.pieces.push_back(piece);
      spec.merges = {{"<", "/"}, {"s", ">"}, {"</", "s>"}};
      spec.byte_level = true;
      spec.ignore_merges = ignore_merges;
      spec.decoder.push_back({.kind = DecoderStep::Kind::kByteLevel});
      if (added) spec.added.push_back({.id = 258, .content = "</s>"});
      const auto before = BpeTokenizer::Create(spec, 0);
      ASSERT_THAT(before, IsOk());
      EXPECT_EQ((*before)->Encode("</s>", {.client_ranges = client_ranges}), Ids{258});
      spec.control_ids = {258, -1};
      const auto after = BpeTokenizer::Create(spec, 0);
      ASSERT_THAT(after, IsOk());
      EXPECT_TRUE((*after)->IsSpecial(258));
      EXPECT_EQ((*after)->Encode("</s>", {.client_ranges = client_ranges}), (Ids{256, 257}));
      EXPECT_EQ((*after)->Encode("</s>", {}), Ids{258});
    }
  }
}

TEST(BpeTokenizer, AModelThatEndsAtALineBreakReadsLineBreaks) {
  TokenizerSpec spec;
  const std::vector<std::string> bytes = ByteAlphabet();
  spec.pieces.assign(bytes.begin(), bytes.end());
  spec.byte_level = true;
  spec.control_ids = {'\n'};
  const auto tokenizer = BpeTokenizer::Create(spec, 0);
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_EQ((*tokenizer)->Encode("a\n", {.parse_special_tokens = false}), (Ids{'a', '\n'}));
}

// Every step alone is harmless.
TEST(BpeTokenizer, RefusesStepsThatTogetherMakeTextTooLong) {
  const auto refused = [](const json& part, const json& value) {
    json from = TinyTokenizerJson();
    from[part.get<std::string>()] = value;
    const auto document = JsonDocument::Parse(from.dump(), kTokenizerJsonLimits, "t.json");
    return BpeTokenizer::Create(*ReadTokenizerJson(*document, "t.json"), 0).status();
  };
  const json four = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaa"}};
  const auto sequence = [](const char* key, const json& step, int count) {
    return json{{"type", "Sequence"}, {key, std::vector<json>(static_cast<size_t>(count), step)}};
  };
  EXPECT_THAT(refused("normalizer", sequence("normalizers", four, 4)), IsOk());
  EXPECT_THAT(refused("normalizer", sequence("normalizers", four, 5)),
              RefusedWith("t.json: normalizer: ", "up to 1024 times as long"));
  const json mark = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  EXPECT_THAT(refused("pre_tokenizer", sequence("pretokenizers", mark, 4)), IsOk());
  EXPECT_THAT(refused("pre_tokenizer", sequence("pretokenizers", mark, 5)),
              RefusedWith("t.json: normalizer: ", "1024"));
  const json sixteen = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaaaaaaaa"}};
  EXPECT_THAT(refused("decoder", sequence("decoders", sixteen, 16)), RefusedWith("t.json: decoder: makes up to ", ""));
}

TEST(BpeTokenizer, RefusesLongTokensThatAreLookedForInText) {
  const std::string longest(512, 'a');
  TokenizerSpec spec;
  spec.file = "t.json";
  spec.pieces = {"a"};
  spec.added.push_back({.id = 0, .content = longest, .normalized = true});
  EXPECT_THAT(BpeTokenizer::Create(spec, 0), IsOk());
  spec.normalizer.push_back({.kind = NormalizerStep::Kind::kReplace, .pattern = "a", .content = "aa"});
  EXPECT_THAT(BpeTokenizer::Create(spec, 0), RefusedWith("t.json: token 0: ", "has 1024 bytes"));
}

// Row E21.
TEST(BpeTokenizer, RefusesMergesOfUnknownTokens) {
  for (const auto& [left, right] : {std::pair("a", "zz"), std::pair("zz", "a"), std::pair("a", "z")}) {
    json from = TinyTokenizerJson();
    from["model"]["merges"].push_back({left, right});
    const auto document = JsonDocument::Parse(from.dump(), kTokenizerJsonLimits, "t.json");
    EXPECT_THAT(BpeTokenizer::Create(*ReadTokenizerJson(*document, "t.json"), 0),
                RefusedWith("t.json: merge 0: ", "is not in the vocabulary"));
  }
}

// --- texts that are too long ------------------------------------------------------------------------------------------

TEST(BpeTokenizer, EncodingStopsWhenThereIsEnough) {
  const auto tokenizer = Make(TinyTokenizerJson().dump());
  const std::string text = "hello world, hello ";
  std::string many;
  for (int i = 0; i < 100; ++i) many += text;
  const Ids all = tokenizer->Encode(many, {.add_special_tokens = false});
  const Ids some = tokenizer->Encode(many, {.add_special_tokens = false, .ids_max = 20});
  EXPECT_GT(some.size(), 20u);
  EXPECT_LT(some.size(), 40u);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  EXPECT_EQ(tokenizer->Encode(many, {.add_special_tokens = false, .ids_max = all.size()}), all);
}

// A word that is too long whatever becomes of it is not merged: the limit is exceeded where it is without, and not otherwise.
TEST(BpeTokenizer, StopsInsideALongWordOnlyWhereItHasMoreIdsThanItsLimit) {
  const auto tokenizer =
      Make(WithMerges({{"a", "b"}, {"ab", "ab"}, {"a", "a"}, {"aa", "aa"}, {"abab", "c"}, {"Ã", "©"}}).dump());
  std::mt19937 random(5);
  size_t stopped = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::string word;
    const int kind = i % 3;
    for (size_t length = random() % 200; word.size() < length;)
      word += kind == 0 ? "a" : kind == 1 ? std::string(1, "abc"[random() % 3]) : "é";
    const Ids all = tokenizer->Encode(word, kPlain);
    const size_t limit = random() % 60;
    const Ids some = tokenizer->Encode(word, {.add_special_tokens = false, .ids_max = limit});
    ASSERT_EQ(some.size() > limit, all.size() > limit) << word << " " << limit;
    ASSERT_LE(some.size(), all.size());
    if (all.size() <= limit) {
      ASSERT_EQ(some, all);
    }
    if (some != all) ++stopped;
  }
  EXPECT_GT(stopped, 200u);
}

TEST(BpeTokenizer, TheLeastNumberOfIdsIsNoMoreThanThereAre) {
  std::mt19937 random(7);
  for (const bool swallows : {false, true}) {
    json description = TinyTokenizerJson();
    if (swallows) {
      description["added_tokens"].push_back({{"id", 258},
                                             {"content", "<x>"},
                                             {"special", true},
                                             {"single_word", false},
                                             {"lstrip", false},
                                             {"rstrip", true},
                                             {"normalized", false}});
    }
    const auto tokenizer = Make(description.dump());
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->ids_min("<x>" + std::string(10'000, ' ')) == 0, swallows) << "white space goes with its token";
    for (int i = 0; i < 200; ++i) {
      std::string text(random() % 64, ' ');
      for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() % 256 : 'a' + random() % 26);
      EXPECT_LE(tokenizer->ids_min(text), tokenizer->Encode(text, {.add_special_tokens = false}).size());
    }
  }
}

}  // namespace
}  // namespace hydrant
