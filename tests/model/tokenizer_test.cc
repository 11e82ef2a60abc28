#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "model/utf8.h"

namespace hydrant {
namespace {

// Ids 0 to 255 are the bytes; 256 is special and has text; 257 is two characters at once.
class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
    bytes_.push_back("<s>");
    bytes_.push_back("é\xE2\x82");
  }
  int32_t vocab_size() const override { return 258; }
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions&) const override {
    return {reinterpret_cast<const unsigned char*>(text.begin()), reinterpret_cast<const unsigned char*>(text.end())};
  }
  std::string_view TokenBytes(int32_t id) const override { return bytes_[static_cast<size_t>(id)]; }
  std::string_view TokenPiece(int32_t id) const override { return TokenBytes(id); }
  bool IsSpecial(int32_t id) const override { return id == 256; }
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override {
    std::string bytes, text;
    for (const int32_t id : ids) {
      if (!(skip_special_tokens && IsSpecial(id))) bytes += TokenBytes(id);
    }
    if (AppendUtf8Lossy(bytes, text) > 0) text += kReplacementCharacter;
    return text;
  }

 private:
  std::vector<std::string> bytes_;
};

TEST(Detokenizer, HoldsBackACharacterUntilItIsWhole) {
  const ByteTokenizer tokenizer;
  Detokenizer stream(tokenizer, true);
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Push(0x98), "");
  EXPECT_EQ(stream.Push(0x80), "😀");
  EXPECT_EQ(stream.Push('a'), "a");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Detokenizer, EndsAnUnfinishedCharacterWithOneReplacement) {
  const ByteTokenizer tokenizer;
  Detokenizer stream(tokenizer, true);
  EXPECT_EQ(stream.Push(257), "é");
  EXPECT_EQ(stream.Finish(), "\uFFFD");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Detokenizer, ReplacesWhatCanNoLongerBecomeACharacter) {
  const ByteTokenizer tokenizer;
  Detokenizer stream(tokenizer, true);
  EXPECT_EQ(stream.Push(0xE2), "");
  EXPECT_EQ(stream.Push('z'), "\uFFFDz");
}

TEST(Detokenizer, SkipsSpecialTokensWhenAsked) {
  const ByteTokenizer tokenizer;
  Detokenizer skipping(tokenizer, true), showing(tokenizer, false);
  EXPECT_EQ(skipping.Push(256), "");
  EXPECT_EQ(showing.Push(256), "<s>");
}

TEST(Detokenizer, EqualsDecodeAndEmitsWholeCharactersOnly) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const bool skip = round % 2 == 0;
    std::vector<int32_t> ids;
    for (int i = 0; i < round % 24; ++i) {
      // Mostly lead and continuation bytes, so that characters break in every way.
      ids.push_back(static_cast<int32_t>(random() % 3 == 0 ? random() % 258 : 0x80 + random() % 0x80));
    }
    Detokenizer stream(tokenizer, skip);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = stream.Push(id);
      ASSERT_EQ(ValidUtf8Prefix(piece), piece.size());
      streamed += piece;
    }
    streamed += stream.Finish();
    ASSERT_EQ(streamed, tokenizer.Decode(ids, skip));
  }
}

}  // namespace
}  // namespace hydrant
