#include "kernels/parallel/cpu_ranks.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(CpuRanks, ShareTheThreadsOutAndHaveOneEach) {
  const std::string one = CpuDevice::Create({.threads = 1}).value()->name();
  EXPECT_EQ(MakeCpuRanks(2, {.threads = 2}).value()->name(), "2 ranks of " + one);
  EXPECT_EQ(MakeCpuRanks(3, {.threads = 2}).value()->name(), "3 ranks of " + one);
  EXPECT_EQ(MakeCpuRanks(2, {.threads = 5}).value()->name(),
            "2 ranks of " + CpuDevice::Create({.threads = 2}).value()->name());
}

TEST(CpuRanks, WriteKvInTheFormatOfOne) {
  const auto one = CpuDevice::Create({.threads = 1}).value();
  const auto ranks = MakeCpuRanks(2, {.threads = 2}).value();
  EXPECT_EQ(ranks->kv_format(), one->kv_format());
  EXPECT_EQ(ranks->copies(), 2);
  EXPECT_TRUE(ranks->weight_layout().empty()) << "weights cannot be streamed";
}

}  // namespace
}  // namespace hydrant
