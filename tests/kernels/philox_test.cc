#include "kernels/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrant {
namespace {

using testing::ElementsAre;

// The known answers that Random123 publishes with the generator (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox4x32({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(PhiloxTest, UniformIsInTheHalfOpenUnitIntervalWithMeanOneHalf) {
  double sum = 0.0;
  for (int64_t position = 0; position < 100000; ++position) {
    const double u = PhiloxUniform(42, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.004);  // 4 standard deviations
}

TEST(PhiloxTest, SeedAndPositionBothMatterInAllTheirBits) {
  const double u = PhiloxUniform(1, 1);
  EXPECT_NE(PhiloxUniform(2, 1), u);
  EXPECT_NE(PhiloxUniform(1, 2), u);
  EXPECT_NE(PhiloxUniform(1 | uint64_t{1} << 63, 1), u);
  EXPECT_NE(PhiloxUniform(1, 1 | int64_t{1} << 40), u);
}

}  // namespace
}  // namespace hydrant
