#include "model/tokenizer/sentence_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;

// Its tokens are these words; the last two are special.
class MarkedWords : public Tokenizer {
 public:
  static inline const std::vector<std::string> kWords = {" a",   ".",    "!\"", "?",  " b\n",  "\u3002", "\uff01",
                                                         "\xe3", "3.14", "c",   "\n", "<end>", "<s>"};
  int32_t vocab_size() const override { return static_cast<int32_t>(kWords.size()); }
  int32_t leading_specials() const override { return 0; }
  std::vector<int32_t> Encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string_view TokenBytes(int32_t id) const override { return kWords[static_cast<size_t>(id)]; }
  std::string_view TokenPiece(int32_t id) const override { return TokenBytes(id); }
  bool IsSpecial(int32_t id) const override { return id >= vocab_size() - 2; }
  std::string Decode(const std::vector<int32_t>&, bool) const override { return ""; }
};

std::vector<int32_t> Starts(const SentenceEnds& ends, const std::vector<int32_t>& ids) {
  const std::vector<uint64_t> words = ends.SegmentStarts(ids);
  EXPECT_EQ(words.size(), (ids.size() + 63) / 64);
  std::vector<int32_t> starts;
  for (int32_t i = 0; i < static_cast<int32_t>(words.size()) * 64; ++i) {
    if ((words[static_cast<size_t>(i / 64)] >> (i % 64) & 1) != 0) starts.push_back(i);
  }
  return starts;
}

TEST(SentenceEnds, AreTokensWithAMarkOrALineFeedAndSpecialOnes) {
  const SentenceEnds ends{MarkedWords()};
  std::vector<int32_t> found;
  for (int32_t id = 0; id < MarkedWords().vocab_size(); ++id) {
    if (ends.Ends(id)) found.push_back(id);
  }
  EXPECT_THAT(found, ElementsAre(1, 2, 3, 4, 5, 6, 8, 10, 11, 12));
  EXPECT_FALSE(ends.Ends(MarkedWords().vocab_size())) << "the model may know more ids";
}

TEST(SentenceEnds, ASegmentBeginsBehindAnEndAndNotBetweenEnds) {
  const SentenceEnds ends{MarkedWords()};
  EXPECT_THAT(Starts(ends, {}), ElementsAre());
  EXPECT_THAT(Starts(ends, {1}), ElementsAre(0));
  EXPECT_THAT(Starts(ends, {0, 1, 0, 0, 1, 10, 0}), ElementsAre(0, 2, 6));
  EXPECT_THAT(Starts(ends, {10, 10, 0, 0}), ElementsAre(0, 2));
}

TEST(SentenceEnds, NoSegmentIsLongerThanTheMost) {
  const SentenceEnds ends{MarkedWords()};
  std::vector<int32_t> ids(130, 0);
  EXPECT_THAT(Starts(ends, ids), ElementsAre(0, 48, 96));
  ids[60] = 1;
  EXPECT_THAT(Starts(ends, ids), ElementsAre(0, 48, 61, 109));
  EXPECT_THAT(Starts(ends, std::vector<int32_t>(100, 1)), ElementsAre(0, 48, 96));
}

// What came later changes nothing: a session's next turn finds the segments of the one before.
TEST(SentenceEnds, FollowFromWhatStandsBefore) {
  const SentenceEnds ends{MarkedWords()};
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 300; ++i) ids.push_back(i * 7 % 5 == 0 ? 1 : i % 3 == 0 ? 10 : 0);
  const std::vector<int32_t> whole = Starts(ends, ids);
  for (size_t length : {1, 63, 64, 65, 200}) {
    std::vector<int32_t> starts = Starts(ends, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)});
    ASSERT_LE(starts.size(), whole.size());
    EXPECT_TRUE(std::equal(starts.begin(), starts.end(), whole.begin()));
  }
}

}  // namespace
}  // namespace hydrant
