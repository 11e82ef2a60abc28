#include "model/vocabulary/sentencepiece.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/tokenizer/bpe_tokenizer.h"
#include "tests/model/vocabulary/sentencepiece_builder.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using Ids = std::vector<int32_t>;

struct Made {
  explicit Made(const SentencePieceBuilder& builder, bool first_only = false) : bytes(builder.Build()) {
    auto vocabulary = ReadSentencePieceModel(bytes, "tokenizer.model");
    EXPECT_THAT(vocabulary, IsOk());
    vocabulary->prefix_first_only = first_only;
    EXPECT_THAT(FillSentencePieceSpec(*vocabulary, spec), IsOk());
    tokenizer = *BpeTokenizer::Create(spec, 0);
  }
  std::string bytes;
  TokenizerSpec spec;
  std::shared_ptr<const Tokenizer> tokenizer;
};

TEST(SentencePiece, MergesByScoreTheLongestLeftPartFirst) {
  const Made made(TinySentencePiece());
  const std::vector<std::pair<std::string_view, std::string_view>> merges = {
      {"a", "b"}, {"▁", "a"}, {"▁a", "b"}, {"▁", "ab"}};
  EXPECT_EQ(made.spec.merges, merges);
}

TEST(SentencePiece, PutsAMarkBeforeTextAndBytesWhereAPieceIsMissing) {
  const Made made(TinySentencePiece());
  EXPECT_EQ(made.tokenizer->Encode("ab", {}), Ids{264});
  EXPECT_EQ(made.tokenizer->Encode("a ab", {}), (Ids{262, 264}));
  EXPECT_EQ(made.tokenizer->Encode("aé", {}), (Ids{262, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(made.tokenizer->Encode("</s>ab", {}), (Ids{2, 264}));
  EXPECT_EQ(made.tokenizer->Encode("a\xff", {}), (Ids{262, 3 + 0xFF}));
  EXPECT_EQ(made.tokenizer->Encode("", {}), Ids{});
}

TEST(SentencePiece, TheMarkMayBeForTheBeginningOnlyOrNotAtAll) {
  const Made first(TinySentencePiece(), /*first_only=*/true);
  EXPECT_EQ(first.tokenizer->Encode("ab</s>ab", {}), (Ids{264, 2, 263}));
  EXPECT_EQ(first.tokenizer->Encode("</s>ab", {}), (Ids{2, 263}));
  SentencePieceBuilder builder = TinySentencePiece();
  builder.prefix_space = false;
  EXPECT_EQ(Made(builder).tokenizer->Encode("ab ab", {}), (Ids{263, 264}));
  EXPECT_EQ(Made(builder).tokenizer->Decode({264}, true), " ab");
}

TEST(SentencePiece, MayRemoveExtraSpaces) {
  SentencePieceBuilder builder = TinySentencePiece();
  EXPECT_EQ(Made(builder).tokenizer->Encode("a  a", {}), (Ids{262, 259, 262}));
  builder.removes_extra_spaces = true;
  EXPECT_EQ(Made(builder).tokenizer->Encode(" a  a ", {}), (Ids{262, 262}));
}

TEST(SentencePiece, DecodingDropsOneSpaceAtTheFrontOfAText) {
  const Made made(TinySentencePiece());
  EXPECT_EQ(made.tokenizer->Decode({1, 264, 262}, true), "ab a");
  EXPECT_EQ(made.tokenizer->Decode({259, 264}, true), " ab");
  EXPECT_EQ(made.tokenizer->Decode({1, 264}, false), "<s> ab");
  // What goes on from other tokens keeps it.
  Detokenizer going_on(*made.tokenizer, true, /*first=*/false);
  EXPECT_EQ(going_on.Push(264), " ab");
}

TEST(SentencePiece, BytesBecomeTextAsSoonAsACharacterIsWhole) {
  const Made made(TinySentencePiece());
  Detokenizer stream(*made.tokenizer, true);
  EXPECT_EQ(stream.Push(3 + 0xC3), "");
  EXPECT_EQ(stream.Push(3 + 0xA9), "é");
  EXPECT_EQ(stream.Push(3 + 0xE2), "");
  EXPECT_EQ(stream.Push(3 + 0x82), "");
  EXPECT_EQ(stream.Push(260), "\uFFFD\uFFFDa");  // one for each byte
  EXPECT_EQ(stream.Push(3 + 0xFF), "\uFFFD");
  EXPECT_EQ(stream.Push(3 + 0xF0), "");
  EXPECT_EQ(stream.Push(3 + 0x9F), "");
  EXPECT_EQ(stream.Finish(), "\uFFFD\uFFFD");
  EXPECT_EQ(made.tokenizer->Decode({3 + 0xF0, 3 + 0x9F}, true), "\uFFFD\uFFFD");
}

TEST(SentencePiece, ScoresMustBeNumbers) {
  SentencePieceBuilder builder = TinySentencePiece();
  builder.pieces[260].score = std::nanf("");
  const std::string bytes = builder.Build();
  TokenizerSpec spec;
  EXPECT_THAT(FillSentencePieceSpec(*ReadSentencePieceModel(bytes, "t"), spec), RefusedWith("a score is not a number"));
}

// Row D1 over characters: words of a megabyte, and a megabyte of words.
TEST(SentencePiece, AMegabyteOfOneCharacterEnds) {
  const Made made(TinySentencePiece());
  for (const char c : {'a', ' ', 'z', '\n'}) {
    const std::string text(1 << 20, c);
    EXPECT_EQ(made.tokenizer->Decode(made.tokenizer->Encode(text, {}), true), text) << c;
  }
}

}  // namespace
}  // namespace hydrant
