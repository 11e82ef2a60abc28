#include "server/process/random_id.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hydrant {
namespace {

TEST(RandomId, Is32HexadecimalDigitsAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = RandomId();
    ASSERT_EQ(id.size(), 32u);
    ASSERT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    ASSERT_TRUE(seen.insert(id).second);
  }
}

TEST(RandomSeed, EveryBitIsSometimesSetAndSometimesNot) {
  uint64_t ones = 0;
  uint64_t zeros = 0;
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = RandomSeed();
    ones |= seed;
    zeros |= ~seed;
  }
  EXPECT_EQ(ones, ~uint64_t{0});
  EXPECT_EQ(zeros, ~uint64_t{0});
}

}  // namespace
}  // namespace hydrant
