// What CpuDevice's attention is made of.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/rope_table.h"
#include "kernels/cpu/runtime/thread_pool.h"

namespace hydrant {
namespace {

TEST(DecodeSplits, SplitsCoverTheSlotsOnce) {
  for (int32_t live = 1; live < 3000; ++live) {
    const int32_t splits = DecodeSplits(live);
    ASSERT_GE(splits, 1);
    const int32_t last = live - (splits - 1) * kDecodeSplitSlots;
    ASSERT_GE(last, 1) << live;
    ASSERT_LE(last, kDecodeSplitSlots + kDecodeTailSlots) << live;
  }
}

TEST(RopeTableTest, IsTheRoundedDoubleAtEveryPosition) {
  constexpr int32_t kPositions = 131072;
  const std::vector<double> inv_freq = {1.0, 0.3, 0.01, 5e-6};
  ThreadPool pool(2);
  const CpuRopeTable table({.dims = 8, .inv_freq = inv_freq, .positions_max = kPositions}, pool);
  for (int32_t position = 0; position < kPositions; position += 7) {
    table.Reach(position + 1);
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      const double angle = position * inv_freq[i];
      // Half an ulp of fp32 below 1, and the fp64 rounding of angle and products.
      ASSERT_NEAR(table.cosine(position)[i], std::cos(angle), 0x1p-25 + 1e-10);
      ASSERT_NEAR(table.sine(position)[i], std::sin(angle), 0x1p-25 + 1e-10);
    }
  }
}

TEST(RopeTableTest, IsTheSameInHoweverManyStepsItIsFilled) {
  constexpr int32_t kPositions = 5000;
  const std::vector<double> inv_freq = {1.0, 0.3, 0.01, 5e-6};
  ThreadPool pool(3);
  const RopeSpec spec = {.dims = 8, .inv_freq = inv_freq, .positions_max = kPositions};
  const CpuRopeTable at_once(spec, pool), in_two(spec, pool);
  at_once.Reach(kPositions);
  in_two.Reach(300);
  EXPECT_GE(in_two.reached(), 300);
  EXPECT_LT(in_two.reached(), kPositions);
  in_two.Reach(kPositions);
  EXPECT_EQ(in_two.reached(), kPositions);
  for (int64_t i = 0; i < int64_t{kPositions} * 8; ++i) ASSERT_EQ(at_once.cosine(0)[i], in_two.cosine(0)[i]) << i;
  EXPECT_NE(at_once.sine(kPositions - 1)[0], 0.0f);
}

}  // namespace
}  // namespace hydrant
