#include "model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "model/text/utf8.h"

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
  int32_t leading_specials() const override { return 0; }
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

// A vocabulary of whatever pieces it is given.
class PieceTokenizer final : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  int32_t leading_specials() const override { return 0; }
  std::vector<int32_t> Encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string_view TokenBytes(int32_t id) const override { return pieces_[static_cast<size_t>(id)]; }
  std::string_view TokenPiece(int32_t id) const override { return TokenBytes(id); }
  bool IsSpecial(int32_t) const override { return false; }
  std::string Decode(const std::vector<int32_t>&, bool) const override { return {}; }

 private:
  std::vector<std::string> pieces_;
};

// After every push the text so far is what the bytes so far decode to, less a character that is not whole: nothing is
// emitted too early, nothing is held back.
TEST(Detokenizer, AnySplitOfAnyBytesGivesTheSameTextAsSoonAsItIsCertain) {
  // Leads and continuations of every length and of every forbidden kind.
  constexpr std::string_view kBytes = "a\x80\x8f\x90\x9f\xa0\xbf\xc0\xc3\xe0\xe2\xed\xf0\xf1\xf4\xf5\xff";
  constexpr std::string_view kWhole[] = {"é", "€", "😀", "한"};
  std::mt19937 random(2);
  for (int round = 0; round < 1500; ++round) {
    std::string bytes;
    while (bytes.size() < 8) {
      const std::string_view whole = kWhole[random() % 4];
      bytes +=
          random() % 3 == 0 ? whole.substr(0, 1 + random() % whole.size()) : kBytes.substr(random() % kBytes.size(), 1);
    }
    bytes.resize(8);
    for (uint32_t cuts = 0; cuts < 128; ++cuts) {
      std::vector<std::string> pieces(1);
      for (size_t i = 0; i < bytes.size(); ++i) {
        pieces.back() += bytes[i];
        if (cuts >> i & 1) pieces.emplace_back();
      }
      const PieceTokenizer tokenizer(pieces);
      Detokenizer stream(tokenizer, true);
      std::string streamed, so_far;
      size_t incomplete = 0;
      for (size_t id = 0; id < pieces.size(); ++id) {
        so_far += pieces[id];
        streamed += stream.Push(static_cast<int32_t>(id));
        std::string expected;
        incomplete = AppendUtf8Lossy(so_far, expected);
        ASSERT_EQ(streamed, expected) << testing::PrintToString(bytes) << " cut " << cuts;
      }
      ASSERT_EQ(stream.Finish(), incomplete > 0 ? kReplacementCharacter : "");
    }
  }
}

}  // namespace
}  // namespace hydrant
