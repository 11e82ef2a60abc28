// The choice of pins by itself; tests/kernels/h2o_test.cc has it with the sums that it goes by, beside the oracle.
#include "kernels/cpu/attention/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;

// Slots of one (layer, KV head) in two blocks, of which the second comes first in memory.
class PinsTest : public testing::Test {
 protected:
  static constexpr int32_t kSlots = 20;

  PinsTest() : position_(2 * kBlockSlots), score_(2 * kBlockSlots, 1.0f), sums_(kSlots, 0.0f) {
    row_.live = kSlots;
    row_.prefill = true;
    row_.prompt_length = row_.position = kSlots;
    row_.policy = {.evicts = true, .heavy = 8, .recent = 2, .pin_rows = 8, .pins_min = 64};
    for (int32_t slot = 0; slot < kSlots; ++slot) position_[At(slot)] = slot;
  }

  size_t At(int32_t slot) const {
    return static_cast<size_t>((slot < kBlockSlots ? kBlockSlots : 0) + slot % kBlockSlots);
  }

  // A token that every row gave as much as any other.
  float UsualScore(int32_t slot) const { return static_cast<float>(row_.prompt_length - position_[At(slot)]); }

  // The positions that are pinned, ascending. `other_scores` by slot; the other tokens are usual ones.
  std::vector<int32_t> Choose(std::vector<uint64_t> starts, int32_t first_seen = 0,
                              const std::map<int32_t, float>& other_scores = {}) {
    row_.segment_starts = starts;
    for (int32_t slot = 0; slot < kSlots; ++slot) score_[At(slot)] = UsualScore(slot);
    for (const auto& [slot, score] : other_scores) score_[At(slot)] = score;
    const std::vector<float> before = score_;
    const ScoreView scores{score_.data(), position_.data(), kBlockSlots, table_};
    std::vector<uint64_t> keys(kSlots);
    std::vector<int32_t> slots(kSlots);
    ChoosePins(row_, scores, first_seen, sums_.data(), {keys.data(), slots.data()});
    std::vector<int32_t> pinned;
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      EXPECT_EQ(std::abs(score_[At(slot)]), before[At(slot)]);
      if (std::signbit(score_[At(slot)])) pinned.push_back(position_[At(slot)]);
    }
    std::sort(pinned.begin(), pinned.end());
    return pinned;
  }

  static std::vector<uint64_t> Bits(const std::vector<int32_t>& positions) {
    std::vector<uint64_t> words(16);
    for (int32_t position : positions) words[static_cast<size_t>(position / 64)] |= uint64_t{1} << (position % 64);
    return words;
  }

  BatchRow row_;
  const int32_t table_[2] = {1, 0};
  std::vector<int32_t> position_;
  std::vector<float> score_;
  std::vector<float> sums_;  // by slot
};

TEST_F(PinsTest, TheSegmentThatIsPointedAtIsPinnedWhole) {
  sums_[9] = 3.0f;
  EXPECT_THAT(Choose(Bits({0, 8, 12})), ElementsAre(8, 9, 10, 11));
}

TEST_F(PinsTest, TheSegmentBehindItCountsThreeQuartersAndTiesKeepTheLowerPositions) {
  sums_[2] = 4.0f;
  sums_[12] = 3.1f;
  row_.policy.heavy = 10;
  EXPECT_THAT(Choose(Bits({0, 4, 8, 11, 15})), ElementsAre(0, 1, 2, 3, 11, 12));
}

TEST_F(PinsTest, ThreeQuartersOfTheOneBeforeAreMoreThanLittleOfItsOwn) {
  sums_[2] = 4.0f;
  sums_[9] = 2.9f;
  row_.policy.heavy = 10;
  EXPECT_THAT(Choose(Bits({0, 4, 8, 11, 15})), ElementsAre(0, 1, 2, 3, 4, 5));
}

// Slot 2 gets most, but not more of it than from every row; slot 9 gets little, and five times what it had of others.
TEST_F(PinsTest, WhatEveryRowLooksAtIsNotPointedAt) {
  sums_[2] = 4.0f;
  sums_[9] = 1.0f;
  const std::vector<uint64_t> starts = Bits({0, 4, 8, 12});
  EXPECT_THAT(Choose(starts), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Choose(starts, 0, {{2, 10 * UsualScore(2)}, {9, UsualScore(9) / 5}}), ElementsAre(8, 9, 10, 11));
}

// The older of two tokens with the same score was passed by more rows.
TEST_F(PinsTest, WhatStandsNearGetsMoreAnyway) {
  sums_[2] = 1.0f;
  sums_[13] = 2.0f;
  const std::vector<uint64_t> starts = Bits({0, 4, 8, 12, 16});
  EXPECT_THAT(Choose(starts), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(Choose(starts, 0, {{2, 5.0f}, {13, 5.0f}}), ElementsAre(0, 1, 2, 3));
}

// The score of an earlier turn's token decays to nothing while answers are generated. A usual one has score 1 a row, and here 1 is
// 80 times as much as is taken for such a token.
TEST_F(PinsTest, WithoutAScoreATokenIsMeasuredByTheLeastThatThereIs) {
  const std::vector<uint64_t> starts = Bits({0, 4, 8, 12, 16});
  sums_[13] = 1.0f;
  sums_[2] = 1.0f / 90;
  EXPECT_THAT(Choose(starts, 0, {{2, 0.0f}}), ElementsAre(12, 13, 14, 15));
  sums_[2] = 1.0f / 70;
  EXPECT_THAT(Choose(starts, 0, {{2, 0.0f}}), ElementsAre(0, 1, 2, 3));
}

TEST_F(PinsTest, RecentTokensAndThoseThatNobodySeesAreNone) {
  sums_[18] = sums_[19] = 9.0f;
  sums_[1] = 5.0f;
  EXPECT_THAT(Choose(Bits({0, 4}), 2), ElementsAre(2, 3, 4, 5)) << "nothing points anywhere";
}

TEST_F(PinsTest, FewCandidatesAreAllPinned) {
  row_.policy.recent = 17;
  EXPECT_THAT(Choose(Bits({0})), ElementsAre(0, 1, 2));
}

// A session that goes on: victims were overwritten, and what is left lies far apart.
TEST_F(PinsTest, SlotsInAnyOrderOfPositionsFindTheirSegments) {
  for (int32_t slot = 0; slot < kSlots; ++slot) position_[At(slot)] = 10 * (slot * 7 % kSlots);
  row_.prompt_length = row_.position = 10 * kSlots;
  sums_[3] = 2.0f;  // position 10
  sums_[9] = 4.0f;  // position 30
  EXPECT_THAT(Choose(Bits({0, 5, 25, 128, 129})), ElementsAre(30, 40, 50, 60));
}

TEST_F(PinsTest, ASumThatIsNoNumberIsTakenForSomething) {
  sums_[5] = -std::numeric_limits<float>::quiet_NaN();
  sums_[6] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Choose(Bits({0})).size(), 4u);
}

}  // namespace
}  // namespace hydrant
