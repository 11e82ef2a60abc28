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

}  // namespace
}  // namespace hydrant
