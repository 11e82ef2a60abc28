// tokenizer.model: every refusal names the file, and every truncation is refused or harmless.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/vocabulary/sentencepiece.h"
#include "tests/model/vocabulary/sentencepiece_builder.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

TEST(SentencePieceModel, ReadsWhatTokenizingNeeds) {
  SentencePieceBuilder builder = TinySentencePiece();
  builder.removes_extra_spaces = true;
  const std::string bytes = builder.Build();
  const auto read = ReadSentencePieceModel(bytes, "tokenizer.model");
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->pieces.size(), 265u);
  EXPECT_EQ(read->pieces[262], "▁a");
  EXPECT_EQ(read->scores[262], -2.0f);
  EXPECT_EQ(read->types[1], PieceType::kControl);
  EXPECT_EQ(read->bos_id, 1);
  EXPECT_EQ(read->eos_id, 2);
  EXPECT_TRUE(read->prefix_space);
  EXPECT_TRUE(read->removes_extra_spaces);
}

// Like SentencePiece itself, which refuses every row of SentencePieceModelRefusal about bytes.
TEST(SentencePieceModel, NeedsNoBytesAndTakesTextThatLooksLikeThem) {
  SentencePieceBuilder builder = TinySentencePiece();
  builder.pieces.push_back({"<0x100>", -1});
  EXPECT_THAT(ReadSentencePieceModel(builder.Build(), "m"), IsOk());
  std::erase_if(builder.pieces, [](const auto& piece) { return piece.type == PieceType::kByte; });
  EXPECT_THAT(ReadSentencePieceModel(builder.Build(), "m"), IsOk());
}

struct BadPieces {
  const char* name;
  std::function<void(SentencePieceBuilder&)> spoil;
  const char* part;
};
class SentencePieceModelRefusal : public testing::TestWithParam<BadPieces> {};
TEST_P(SentencePieceModelRefusal, SaysWhatIsWrong) {
  SentencePieceBuilder builder = TinySentencePiece();
  GetParam().spoil(builder);
  EXPECT_THAT(ReadSentencePieceModel(builder.Build(), "m"), RefusedWith("m: ", GetParam().part));
}
using B = SentencePieceBuilder;
INSTANTIATE_TEST_SUITE_P(
    , SentencePieceModelRefusal,
    testing::Values(
        BadPieces{"Unigram", [](B& b) { b.model_type = 1; }, "model type 'unigram' is not supported"},
        BadPieces{"Word", [](B& b) { b.model_type = 3; }, "model type 'word'"},
        BadPieces{"Normalisation", [](B& b) { b.charsmap = "x"; }, "the normalisation 'identity' is not supported"},
        BadPieces{"Suffix", [](B& b) { b.suffix_spaces = true; }, "treat_whitespace_as_suffix"},
        BadPieces{"Unescaped", [](B& b) { b.escapes_spaces = false; }, "escape_whitespaces"},
        BadPieces{"EmptyPiece", [](B& b) { b.pieces[5].text = ""; }, "piece 5: '' is empty or not UTF-8"},
        BadPieces{"InvalidPiece", [](B& b) { b.pieces[5].text = "\xff"; }, "piece 5: "},
        BadPieces{"Type", [](B& b) { b.pieces[5].type = static_cast<PieceType>(7); }, "piece 5: has type 7"},
        BadPieces{"ByteBeyondFF",
                  [](B& b) {
                    b.pieces.push_back({"<0x100>", 0, PieceType::kByte});
                  },
                  "piece 265: '<0x100>' is a byte by its type and none of <0x00> to <0xFF>"},
        BadPieces{"ByteInSmallLetters",
                  [](B& b) {
                    b.pieces.push_back({"<0xff>", 0, PieceType::kByte});
                  },
                  "piece 265: '<0xff>' is a byte"},
        BadPieces{"ByteWithASign",
                  [](B& b) {
                    b.pieces.push_back({"<0x+1>", 0, PieceType::kByte});
                  },
                  "piece 265: '<0x+1>' is a byte"},
        BadPieces{"ByteOfAnotherText", [](B& b) { b.pieces[260].type = PieceType::kByte; }, "piece 260: 'a' is a byte"},
        BadPieces{"AByteMissing", [](B& b) { b.pieces[258].type = PieceType::kNormal; },
                  "pieces: 255 of the 256 bytes are there"},
        BadPieces{"NoPieces", [](B& b) { b.pieces.clear(); }, "is not a SentencePiece model"},
        BadPieces{"BosOutside", [](B& b) { b.pieces.resize(1); }, "bos_id 1"}),
    [](const auto& test) { return test.param.name; });

TEST(SentencePieceModel, AnyTruncationIsRefusedOrAPieceShort) {
  const std::string bytes = TinySentencePiece().Build();
  EXPECT_THAT(ReadSentencePieceModel(bytes, "m"), IsOk());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto read = ReadSentencePieceModel(bytes.substr(0, size), "m");
    // Without its last field, the normalizer's, the message is whole.
    if (read.ok()) {
      EXPECT_EQ(bytes[size], '\x1a');
    }
  }
  for (const char* junk : {"\xff", "\x0b", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x00", "{}"}) {
    EXPECT_THAT(ReadSentencePieceModel(junk, "m"), RefusedWith("m: is not a SentencePiece model"));
  }
}

}  // namespace
}  // namespace hydrant
