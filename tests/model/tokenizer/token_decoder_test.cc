// Checked against Hugging Face `tokenizers` 0.23; tests/hugging_face compares at random.
#include "model/tokenizer/token_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using TokenDecoderKind = DecoderStep::Kind;

const DecoderStep kReplace{.kind = TokenDecoderKind::kReplace, .pattern = "▁", .content = " "};
const DecoderStep kFallback{.kind = TokenDecoderKind::kByteFallback};
const DecoderStep kFuse{.kind = TokenDecoderKind::kFuse};
const DecoderStep kStripFirst{.kind = TokenDecoderKind::kStrip, .content = " ", .start = 1};
const DecoderStep kMetaspace{.kind = TokenDecoderKind::kMetaspace, .pattern = "▁", .drops_first = true};

std::string Bytes(const std::vector<DecoderStep>& steps, std::string_view piece, bool first = false) {
  const auto decoder = TokenDecoder::Create(steps, "t.json");
  EXPECT_THAT(decoder, IsOk());
  std::string bytes;
  if (decoder.ok()) decoder->AppendBytes(piece, first, bytes);
  return bytes;
}

TEST(TokenDecoder, ReadsThePieceOfAToken) {
  EXPECT_EQ(Bytes({}, "Ġa"), "Ġa");
  EXPECT_EQ(Bytes({{.kind = TokenDecoderKind::kByteLevel}}, "ĠaÃ©"), " aé");
  EXPECT_EQ(Bytes({{.kind = TokenDecoderKind::kByteLevel}}, "<中>"), "<中>");  // outside the alphabet: as it is
  EXPECT_EQ(Bytes({kReplace, kFallback, kFuse}, "▁a▁"), " a ");
  EXPECT_EQ(Bytes({kReplace, kFallback, kFuse}, "<0xE2>"), "\xE2");
  EXPECT_EQ(Bytes({kFallback}, "<0xZZ>"), "<0xZZ>");
  EXPECT_EQ(Bytes({{.kind = TokenDecoderKind::kStrip, .content = "-", .start = 1, .stop = 2}}, "--a---"), "-a-");
}

TEST(TokenDecoder, MetaspaceDropsTheMarksOfTheFirstToken) {
  EXPECT_EQ(Bytes({kMetaspace}, "▁▁a▁b"), "  a b");
  EXPECT_EQ(Bytes({kMetaspace}, "▁▁a▁b", /*first=*/true), "ab");
  EXPECT_TRUE(TokenDecoder::Create({kMetaspace}, "t")->first_differs());
  EXPECT_FALSE(TokenDecoder::Create({kReplace}, "t")->first_differs());
}

TEST(TokenDecoder, StripBehindFuseConcernsTheTextAsAWhole) {
  const auto decoder = TokenDecoder::Create({kReplace, kFallback, kFuse, kStripFirst}, "t");
  ASSERT_THAT(decoder, IsOk());
  EXPECT_EQ(decoder->text_rules().leading_dropped, 1);
  EXPECT_TRUE(decoder->text_rules().replaces_each_byte);
  EXPECT_EQ(Bytes({kReplace, kFallback, kFuse, kStripFirst}, "▁a"), " a");
}

TEST(TokenDecoder, RefusesOrdersInWhichATokenHasNoTextOfItsOwn) {
  const std::vector<DecoderStep> wrong[] = {
      {kFuse, kMetaspace},
      {kFuse, kFallback},
      {kFuse, {.kind = TokenDecoderKind::kByteLevel}},
      {{.kind = TokenDecoderKind::kByteLevel}, kReplace},
      {kFuse, {.kind = TokenDecoderKind::kReplace, .pattern = "ab", .content = "c"}},
      {kFuse, {.kind = TokenDecoderKind::kStrip, .content = " ", .stop = 1}},
      {{.kind = TokenDecoderKind::kReplace}},
      std::vector<DecoderStep>(17, kFuse),
  };
  for (const auto& steps : wrong) EXPECT_THAT(TokenDecoder::Create(steps, "t.json"), RefusedWith("t.json: decoder: "));
}

TEST(TokenDecoder, TellsHowMuchLongerItMakesPieces) {
  const DecoderStep four = {.kind = TokenDecoderKind::kReplace, .pattern = "a", .content = "aaaa"};
  EXPECT_EQ(TokenDecoder::Create({kReplace, kFallback, kFuse, kStripFirst}, "t")->growth(), 1);
  EXPECT_EQ(TokenDecoder::Create({four, kReplace, four}, "t")->growth(), 16);
}

TEST(ByteOfPiece, KnowsThe256AndNothingElse) {
  EXPECT_EQ(ByteOfPiece("<0x00>"), 0);
  EXPECT_EQ(ByteOfPiece("<0xFf>"), 255);
  for (const char* piece : {"", "<0x0>", "<0x000>", "<0xG0>", "(0x00>", "<0x00)"})
    EXPECT_EQ(ByteOfPiece(piece), -1) << piece;
}

TEST(IsBytePiece, KnowsTheSpellingInCapitalsAlone) {
  for (const char* piece : {"<0x00>", "<0x7F>", "<0xA0>", "<0xFF>"}) EXPECT_TRUE(IsBytePiece(piece)) << piece;
  for (const char* piece : {"<0xff>", "<0xfF>", "<0x100>", "<0xG0>", "<0x+1>", "<0X00>", "a", ""})
    EXPECT_FALSE(IsBytePiece(piece)) << piece;
}

}  // namespace
}  // namespace hydrant
