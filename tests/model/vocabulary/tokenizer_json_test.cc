// tokenizer.json: rows E19 to E23 of the table of bad model files.
#include "model/vocabulary/tokenizer_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tokenizer/bpe_tokenizer.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

// A document and the spec read from it, which points into it.
struct JsonReading {
  explicit JsonReading(const json& from) : document(*JsonDocument::Parse(from.dump(), kTokenizerJsonLimits, "t.json")) {
    spec = ReadTokenizerJson(document, "t.json");
  }
  JsonDocument document;
  absl::StatusOr<TokenizerSpec> spec;
};

TEST(TokenizerJson, ReadsEveryPart) {
  json from = GrowingTokenizerJson();
  from["model"]["vocab"]["ab"] = 258;
  from["model"]["vocab"]["bc"] = 259;
  from["model"]["merges"] = {"a b", {"b", "c"}};
  from["model"]["unk_token"] = "!";
  from["model"]["fuse_unk"] = true;
  from["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  from["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", "Removed"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  const JsonReading read(from);
  ASSERT_THAT(read.spec, IsOk());
  const TokenizerSpec& spec = *read.spec;
  EXPECT_EQ(spec.pieces.size(), 260u);
  EXPECT_EQ(spec.pieces[258], "ab");
  EXPECT_EQ(spec.merges, (decltype(spec.merges){{"a", "b"}, {"b", "c"}}));
  EXPECT_EQ(spec.unknown_id, '!');
  EXPECT_TRUE(spec.fuse_unknown);
  ASSERT_EQ(spec.normalizer.size(), 1u);
  EXPECT_EQ(spec.normalizer[0].kind, NormalizerStep::Kind::kNfc);
  EXPECT_TRUE(spec.byte_level);
  ASSERT_EQ(spec.stages.size(), 3u);
  EXPECT_EQ(spec.stages[0].kind, SplitStage::Kind::kDigits);
  EXPECT_EQ(spec.stages[1].kind, SplitStage::Kind::kLiteral);
  EXPECT_EQ(spec.stages[1].behavior, SplitStage::Behavior::kRemoved);
  EXPECT_EQ(spec.stages[2].kind, SplitStage::Kind::kPrefixSpace);
  ASSERT_EQ(spec.added.size(), 2u);
  EXPECT_EQ(spec.added[1].content, "</s>");
  EXPECT_TRUE(spec.added[1].special);
  EXPECT_EQ(spec.prefix_ids, std::vector<int32_t>{256});
  EXPECT_TRUE(spec.suffix_ids.empty());
}

// What Hugging Face makes of these was tried with its tokenizers: tests/hugging_face/compare_tokenizers.py compares more.
TEST(TokenizerJson, PassesOverEmptyAddedTokens) {
  json from = TinyTokenizerJson();
  const json empty = {{"id", 65}, {"content", ""}, {"special", true}};
  from["added_tokens"].insert(from["added_tokens"].begin(), empty);  // takes no id, though this one is behind it
  from["added_tokens"].push_back(empty);
  const JsonReading read(from);
  ASSERT_THAT(read.spec, IsOk());
  ASSERT_EQ(read.spec->added.size(), 2u);
  EXPECT_EQ(read.spec->added[0].id, 256);
  const auto tokenizer = *BpeTokenizer::Create(*read.spec, 0);
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  const std::vector<int32_t> ids = tokenizer->Encode("A", {.add_special_tokens = false});
  EXPECT_EQ(tokenizer->Decode(ids, true), "A");
  EXPECT_FALSE(tokenizer->IsSpecial(65));
}

TEST(TokenizerJson, TakesAddedTokensOfTheVocabularyAtTheirIdsAndOthersBehindIt) {
  json from = TinyTokenizerJson();
  from["model"]["vocab"]["<s>"] = 257;
  from["model"]["vocab"]["ab"] = 256;
  from["added_tokens"][0]["id"] = 257;
  from["added_tokens"][1]["id"] = 258;
  from["added_tokens"].push_back({{"id", 33}, {"content", "!"}, {"special", false}});
  from["added_tokens"].push_back({{"id", 259}, {"content", "<x>"}, {"special", true}});
  from["added_tokens"].push_back({{"id", 258}, {"content", "</s>"}, {"special", true}});  // once more
  from["post_processor"]["special_tokens"]["<s>"]["ids"] = {257};
  const JsonReading read(from);
  ASSERT_THAT(read.spec, IsOk());
  const auto tokenizer = *BpeTokenizer::Create(*read.spec, 0);
  EXPECT_EQ(tokenizer->Encode("</s>!<x>", {}), (std::vector<int32_t>{257, 258, 33, 259}));
}

struct BadJson {
  const char* name;
  std::function<void(json&)> spoil;
  const char* part;
};
class TokenizerJsonRefusal : public testing::TestWithParam<BadJson> {};
TEST_P(TokenizerJsonRefusal, NamesTheField) {
  json from = TinyTokenizerJson();
  GetParam().spoil(from);
  const JsonReading read(from);
  absl::Status status = read.spec.status();
  if (status.ok()) status = BpeTokenizer::Create(*read.spec, 0).status();
  EXPECT_THAT(status, RefusedWith("t.json: ", GetParam().part));
}
constexpr auto kName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(
    AddedTokens, TokenizerJsonRefusal,
    testing::Values(BadJson{"AddedAtTheIdOfAnother", [](json& j) { j["added_tokens"][1]["id"] = 33; },
                            "'added_tokens[1]': '</s>' has id 33; Hugging Face would give it the next free one, 257"},
                    BadJson{"AddedBehindAGap", [](json& j) { j["added_tokens"][1]["id"] = 258; },
                            "'added_tokens[1]': '</s>' has id 258; Hugging Face would give it the next free one, 257"},
                    BadJson{"AddedTwoOfOneId", [](json& j) { j["added_tokens"][1]["id"] = 256; },
                            "'added_tokens[1]': '</s>' has id 256; Hugging Face would give it the next free one, 257"},
                    BadJson{"AddedOutOfOrder",
                            [](json& j) {
                              j["added_tokens"][0]["id"] = 257;
                              j["added_tokens"][1]["id"] = 256;
                            },
                            "'added_tokens[0]': '<s>' has id 257; Hugging Face would give it the next free one, 256"},
                    BadJson{"AddedInAHole", [](json& j) { j["model"]["vocab"]["ab"] = 258; },
                            "'added_tokens[0]': '<s>' has id 256; Hugging Face would give it the next free one, 257"},
                    BadJson{"AddedAtTheCountOfAVocabularyWithAHole",
                            [](json& j) {
                              j["model"]["vocab"]["ab"] = 257;
                              j["added_tokens"][0]["id"] = 257;
                            },
                            "'added_tokens[0]': '<s>' has id 257, which 'ab' has as well"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    LongTexts, TokenizerJsonRefusal,
    testing::Values(BadJson{"LongAddedToken",
                            [](json& j) {
                              j["added_tokens"] = {{{"id", 0}, {"content", std::string(513, 'a')}}};
                            },
                            "'added_tokens[0].content': is longer than 512 bytes"},
                    BadJson{"LongLiteral",
                            [](json& j) {
                              j["pre_tokenizer"] = {{"type", "Split"},
                                                    {"pattern", {{"String", std::string(513, 'a')}}},
                                                    {"behavior", "Isolated"}};
                            },
                            "'pre_tokenizer.pattern.String': is longer than 512 bytes"}),
    kName);

json Split(const char* pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
            {{"type", "ByteLevel"}, {"use_regex", false}}}}};
}

INSTANTIATE_TEST_SUITE_P(
    E19Parts, TokenizerJsonRefusal,
    testing::Values(
        BadJson{"NoObject", [](json& j) { j = json::array(); }, "is not an object"},
        BadJson{"Version", [](json& j) { j["version"] = "2.0"; }, "'version': '2.0' is not supported"},
        BadJson{"Model", [](json& j) { j["model"]["type"] = "WordPiece"; }, "'model': type 'WordPiece'"},
        BadJson{"ModelMissing", [](json& j) { j.erase("model"); }, "'model': is missing"},
        BadJson{"Normalizer",
                [](json& j) {
                  j["normalizer"] = {{"type", "Precompiled"}};
                },
                "'normalizer': type 'Precompiled'"},
        BadJson{"NormalizerPattern",
                [](json& j) {
                  j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Glob", "*"}}}, {"content", ""}};
                },
                "'normalizer.pattern': is neither a Regex nor a String"},
        BadJson{"PreTokenizer",
                [](json& j) {
                  j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
                },
                "'pre_tokenizer': type 'UnicodeScripts'"},
        BadJson{"PrependScheme",
                [](json& j) {
                  j["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "often"}};
                },
                "'pre_tokenizer.prepend_scheme': 'often' is not supported"},
        BadJson{"MetaspaceReplacement",
                [](json& j) {
                  j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}};
                },
                "'ab' is not one character"},
        BadJson{"SplitAfterByteLevel",
                [](json& j) {
                  j["pre_tokenizer"] = {{"type", "Sequence"},
                                        {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
                },
                "after ByteLevel"},
        BadJson{"Decoder",
                [](json& j) {
                  j["decoder"] = {{"type", "WordPiece"}};
                },
                "'decoder': type 'WordPiece'"},
        BadJson{"DecoderMissing", [](json& j) { j["decoder"] = nullptr; }, "'decoder': is missing"},
        BadJson{"DecoderOrder",
                [](json& j) {
                  j["decoder"] = {{"type", "Sequence"},
                                  {"decoders", {{{"type", "Fuse"}}, {{"type", "Metaspace"}, {"replacement", "▁"}}}}};
                },
                "decoder: Metaspace after Fuse is not supported"},
        BadJson{"PostProcessor",
                [](json& j) {
                  j["post_processor"] = {{"type", "Pairwise"}};
                },
                "'post_processor': type 'Pairwise'"},
        BadJson{"PostProcessorPair",
                [](json& j) {
                  j["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", 7}, {"sep", {"</s>", 257}}};
                },
                "'post_processor.cls': is not a pair"},
        BadJson{"SequenceNoArray",
                [](json& j) {
                  j["normalizer"] = {{"type", "Sequence"}, {"normalizers", 7}};
                },
                "'normalizer.normalizers': is not an array"},
        BadJson{"Dropout", [](json& j) { j["model"]["dropout"] = 0.1; }, "dropout 0.1 is not supported"},
        BadJson{"Prefix", [](json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, "'##' is not supported"},
        BadJson{"Suffix", [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "'</w>' is not supported"},
        BadJson{"Behavior",
                [](json& j) {
                  j["pre_tokenizer"] = Split("a");
                  j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Sideways";
                },
                "'Sideways' is not supported"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    E19Ids, TokenizerJsonRefusal,
    testing::Values(
        BadJson{"VocabularyNoObject", [](json& j) { j["model"]["vocab"] = json::array(); },
                "'model.vocab': is not an object"},
        BadJson{"Negative", [](json& j) { j["model"]["vocab"]["!"] = -1; }, "'model.vocab.!': -1 is out of range"},
        BadJson{"Far", [](json& j) { j["model"]["vocab"]["!"] = 2'000'000'000; }, "2000000000 is out of range"},
        BadJson{"Float", [](json& j) { j["model"]["vocab"]["!"] = 1.5; }, "is not an integer"},
        BadJson{"Twice", [](json& j) { j["model"]["vocab"]["!"] = 7; }, "id 7 is also that of"},
        BadJson{"AddedFar", [](json& j) { j["added_tokens"][0]["id"] = 2'000'000'000; }, "'added_tokens[0].id'"},
        BadJson{"AddedWithoutContent", [](json& j) { j["added_tokens"][0].erase("content"); }, "content': is missing"},
        BadJson{"AddedWithTwoIds", [](json& j) { j["added_tokens"][1]["content"] = "<s>"; }, "'<s>' has two ids"},
        BadJson{"AddedAndOther", [](json& j) { j["added_tokens"][1]["content"] = "!"; }, "'!' has id 257, and 33"},
        BadJson{"TemplateTokenUnknown", [](json& j) { j["post_processor"]["special_tokens"] = json::object(); },
                "'<s>' is not in special_tokens"},
        BadJson{"TemplateIdFar", [](json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = {70000}; },
                "70000 is out of range"},
        BadJson{"TemplateIdOfNoToken", [](json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = {600}; },
                "special token: an id is not in the vocabulary"},
        BadJson{"TemplateWithoutText", [](json& j) { j["post_processor"]["single"].erase(1); }, "has no text"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    E21Merges, TokenizerJsonRefusal,
    testing::Values(
        BadJson{"NoArray", [](json& j) { j["model"]["merges"] = 7; }, "'model.merges': is not an array"},
        BadJson{"One", [](json& j) { j["model"]["merges"] = {"a"}; }, "'model.merges[0]': 'a' is not a pair"},
        BadJson{"Three", [](json& j) { j["model"]["merges"] = {"a b c"}; }, "'a b c' is not a pair"},
        BadJson{"EmptyLeft",
                [](json& j) {
                  j["model"]["merges"] = json::array({json::array({"", "a"})});
                },
                "is not a pair"},
        BadJson{"Number", [](json& j) { j["model"]["merges"] = {7}; }, "'model.merges[0]': is not a string"},
        BadJson{"Unknown", [](json& j) { j["model"]["merges"] = {"a b"}; }, "merge 0: 'ab' is not in the vocabulary"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    E23Regex, TokenizerJsonRefusal,
    testing::Values(BadJson{"Invalid", [](json& j) { j["pre_tokenizer"] = Split("("); }, "t.json: "},
                    BadJson{"Catastrophic", [](json& j) { j["pre_tokenizer"] = Split("(a+)+b"); }, "t.json: "},
                    BadJson{"VariableLookbehind", [](json& j) { j["pre_tokenizer"] = Split("(?<=a+)b"); }, "t.json: "}),
    kName);

}  // namespace
}  // namespace hydrant
