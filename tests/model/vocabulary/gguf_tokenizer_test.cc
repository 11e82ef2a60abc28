#include "model/vocabulary/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/vocabulary/sentencepiece_builder.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

// A file and the tokenizer read from it, which points into its bytes.
struct Reading {
  explicit Reading(const GgufBuilder& builder) : bytes(builder.Build()), file(GgufFile::Parse(bytes, "x.gguf")) {
    spec = ReadGgufTokenizer(*file, warnings);
  }
  std::string bytes;
  absl::StatusOr<GgufFile> file;
  std::vector<std::string> warnings;
  absl::StatusOr<TokenizerSpec> spec;
};

struct ModelSplit {
  const char* pre;
  std::vector<std::string> words;  // of "I'LL 123\n\n x"
  bool nfc = false;
  bool ignore_merges = false;
};
class GgufPreTokenizer : public testing::TestWithParam<ModelSplit> {};
TEST_P(GgufPreTokenizer, SplitsAsItsModelDoes) {
  const Reading read(TinyGguf().SetText("tokenizer.ggml.pre", GetParam().pre));
  ASSERT_THAT(read.spec, IsOk());
  const auto splitter = TextSplitter::Create(read.spec->stages, "x.gguf");
  ASSERT_THAT(splitter, IsOk());
  TextSplitter::Scratch scratch(*splitter);
  const auto& words = splitter->Split("I'LL 123\n\n x", true, scratch);
  EXPECT_EQ(std::vector<std::string>(words.begin(), words.end()), GetParam().words);
  EXPECT_EQ(!read.spec->normalizer.empty(), GetParam().nfc);
  EXPECT_EQ(read.spec->ignore_merges, GetParam().ignore_merges);
  EXPECT_EQ(read.warnings.empty(), std::string(GetParam().pre) != "default");
}
const std::vector<std::string> kGpt2Words = {"I", "'", "LL", " 123", "\n\n", " x"};
const std::vector<std::string> kDigitWords = {"I", "'", "LL", " ", "1", "2", "3", "\n\n", " x"};
INSTANTIATE_TEST_SUITE_P(
    , GgufPreTokenizer,
    testing::Values(ModelSplit{"gpt-2", kGpt2Words}, ModelSplit{"default", kGpt2Words},
                    ModelSplit{"smollm", kDigitWords}, ModelSplit{"starcoder", kDigitWords},
                    ModelSplit{"llama-bpe", {"I", "'LL", " ", "123", "\n\n", " x"}, false, true},
                    ModelSplit{"tekken", {"I", "'LL", " ", "1", "2", "3", "\n\n", " x"}, false, true},
                    ModelSplit{"gpt-4o", {"I'LL", " ", "123", "\n\n", " x"}},
                    ModelSplit{"deepseek-coder", {"I", "'", "LL", " ", "1", "2", "3", "\n", "\n", " x"}},
                    ModelSplit{"olmo", kGpt2Words, true},
                    ModelSplit{"qwen2", {"I", "'LL", " ", "1", "2", "3", "\n\n", " x"}, true}),
    [](const auto& test) {
      std::string name = test.param.pre;
      std::erase(name, '-');
      return name;
    });

TEST(GgufTokenizer, AddsBosAndEosWhenTheFileSaysSo) {
  EXPECT_TRUE(Reading(TinyGguf()).spec->prefix_ids.empty());
  EXPECT_EQ(Reading(TinyGguf().SetText("tokenizer.ggml.pre", "llama-bpe")).spec->prefix_ids, std::vector<int32_t>{256});
  const Reading both(
      TinyGguf().SetBool("tokenizer.ggml.add_bos_token", true).SetBool("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(both.spec->prefix_ids, std::vector<int32_t>{256});
  EXPECT_EQ(both.spec->suffix_ids, std::vector<int32_t>{257});
}

TEST(GgufTokenizer, ControlTokensAreSpecialAndUserDefinedOnesAreNot) {
  GgufBuilder tiny = TinyGguf();
  std::vector<int32_t> types(258, 1);
  types[256] = 3;
  types[257] = 4;
  const Reading read(tiny.SetInts("tokenizer.ggml.token_type", types));
  ASSERT_THAT(read.spec, IsOk());
  ASSERT_EQ(read.spec->added.size(), 2u);
  EXPECT_TRUE(read.spec->added[0].special);
  EXPECT_EQ(read.spec->added[1].content, "</s>");
  EXPECT_FALSE(read.spec->added[1].special);
}

TEST(GgufTokenizer, AMergeMayBeginWithASpaceByteSpelledOut) {
  GgufBuilder tiny = TinyGguf();
  std::vector<std::string> tokens = ByteAlphabet();
  tokens.push_back("Ġa");
  tokens.push_back("</s>");
  tiny.SetTexts("tokenizer.ggml.tokens", tokens).SetTexts("tokenizer.ggml.merges", {"Ġ a"});
  tiny.Remove("tokenizer.ggml.token_type");
  const Reading read(tiny);
  ASSERT_THAT(read.spec, IsOk());
  const auto tokenizer = BpeTokenizer::Create(*read.spec, 0);
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_EQ((*tokenizer)->Encode(" a", {}), std::vector<int32_t>{256});
}

// A vocabulary as llama.cpp keeps it.
GgufBuilder ScoresGguf(const SentencePieceBuilder& vocabulary) {
  GgufBuilder tiny = TinyGguf();
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::string scores = Raw<uint32_t>(GgufBuilder::kFloat32) + Raw<uint64_t>(vocabulary.pieces.size());
  for (const auto& piece : vocabulary.pieces) {
    tokens.push_back(piece.text);
    types.push_back(static_cast<int32_t>(piece.type));
    scores += Raw(piece.score);
  }
  tiny.SetText("tokenizer.ggml.model", "llama").SetTexts("tokenizer.ggml.tokens", tokens);
  tiny.SetInts("tokenizer.ggml.token_type", types).SetRaw("tokenizer.ggml.scores", GgufBuilder::kArray, scores);
  tiny.Set("tokenizer.ggml.bos_token_id", 1);
  return tiny;
}

TEST(GgufTokenizer, SentencePieceIsMadeOfScores) {
  GgufBuilder tiny = ScoresGguf(TinySentencePiece());
  const auto encode = [](const GgufBuilder& from) {
    const Reading read(from);
    EXPECT_THAT(read.spec, IsOk());
    return (*BpeTokenizer::Create(*read.spec, 0))->Encode("ab</s>ab", {});
  };
  EXPECT_EQ(encode(tiny), (std::vector<int32_t>{1, 264, 2, 264}));
  EXPECT_EQ(encode(tiny.SetBool("tokenizer.ggml.add_space_prefix", false)), (std::vector<int32_t>{1, 263, 2, 263}));
  EXPECT_EQ(encode(tiny.SetBool("tokenizer.ggml.add_bos_token", false)), (std::vector<int32_t>{263, 2, 263}));
}

TEST(GgufTokenizer, BytesAreSpelledAsSuchAndTextThatLooksLikeThemIsText) {
  SentencePieceBuilder vocabulary = TinySentencePiece();
  vocabulary.pieces.push_back({"<0x100>", -1});  // id 265
  const Reading read(ScoresGguf(vocabulary));
  ASSERT_THAT(read.spec, IsOk());
  EXPECT_EQ((*BpeTokenizer::Create(*read.spec, 0))->Decode({260, 265, 3 + 0x41}, false), "a<0x100>A");
  for (const char* text : {"<0x100>", "<0xff>", "<0x+1>", "<0xG0>", "a", ""}) {
    vocabulary.pieces.back() = {text, 0, PieceType::kByte};
    EXPECT_THAT(Reading(ScoresGguf(vocabulary)).spec,
                RefusedWith("x.gguf: 'tokenizer.ggml.tokens': element 265 '", text, "' is a byte by its type"));
  }
}

struct Wrong {
  const char* name;
  std::function<void(GgufBuilder&)> spoil;
  const char* part;
};
class GgufTokenizerRefusal : public testing::TestWithParam<Wrong> {};
TEST_P(GgufTokenizerRefusal, NamesTheKey) {
  GgufBuilder tiny = TinyGguf();
  GetParam().spoil(tiny);
  EXPECT_THAT(Reading(tiny).spec, RefusedWith("x.gguf: ", GetParam().part));
}
using F = GgufBuilder;
INSTANTIATE_TEST_SUITE_P(
    , GgufTokenizerRefusal,
    testing::Values(
        Wrong{"ModelMissing", [](F& f) { f.Remove("tokenizer.ggml.model"); }, "'tokenizer.ggml.model': is missing"},
        Wrong{"Unigram", [](F& f) { f.SetText("tokenizer.ggml.model", "t5"); }, "'t5' is not supported"},
        Wrong{"NoScores", [](F& f) { f.SetText("tokenizer.ggml.model", "llama"); },
              "'tokenizer.ggml.scores': has 0 elements for 258 tokens"},
        Wrong{"PreUnknown", [](F& f) { f.SetText("tokenizer.ggml.pre", "viking"); }, "'tokenizer.ggml.pre': 'viking'"},
        Wrong{"NoTokens", [](F& f) { f.Remove("tokenizer.ggml.tokens"); }, "'tokenizer.ggml.tokens': is missing"},
        Wrong{"TokensOfIntegers", [](F& f) { f.SetInts("tokenizer.ggml.tokens", {1}); }, "is not an array of strings"},
        Wrong{"FewTypes", [](F& f) { f.SetInts("tokenizer.ggml.token_type", {1}); }, "has 1 elements for 258 tokens"},
        Wrong{"ManyTypes", [](F& f) { f.SetInts("tokenizer.ggml.token_type", std::vector<int32_t>(259, 1)); },
              "'tokenizer.ggml.token_type': has 259 elements"},
        Wrong{"TypeUnknown", [](F& f) { f.SetInts("tokenizer.ggml.token_type", std::vector<int32_t>(258, 9)); },
              "element 0 is 9"},
        Wrong{"NoMerges", [](F& f) { f.Remove("tokenizer.ggml.merges"); }, "'tokenizer.ggml.merges': is missing"},
        Wrong{"MergeOfOne", [](F& f) { f.SetTexts("tokenizer.ggml.merges", {"ab"}); }, "element 0 'ab' is not a pair"},
        Wrong{"MergeOfThree",
              [](F& f) {
                f.SetTexts("tokenizer.ggml.merges", {"a b", "a b c"});
              },
              "element 1 'a b c'"},
        Wrong{"MergeEmpty", [](F& f) { f.SetTexts("tokenizer.ggml.merges", {""}); }, "element 0 '' is not a pair"},
        Wrong{"EosOutside", [](F& f) { f.Set("tokenizer.ggml.eos_token_id", 258); }, "'tokenizer.ggml.eos_token_id'"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
