#include "model/weights/key_balance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrant {
namespace {

TEST(KeyBalanceTest, AFactorIsThePairsLargerSizeByTheGeometricMean) {
  // One head of 6: elements 0 and 2, 1 and 3 rotate together, 4 and 5 do not. The mean is 2^2.
  EXPECT_EQ(KeyBalance(std::vector<float>{64, 1, 3, 0.5f, 1, 1}, 6, 4),
            (std::vector<float>{16, 0.25f, 16, 0.25f, 0.25f, 0.25f}));
}

TEST(KeyBalanceTest, EachHeadHasItsOwn) {
  EXPECT_EQ(KeyBalance(std::vector<float>{1, 1, 4, 4, 100, 100, 100, 100}, 4, 0),
            (std::vector<float>{0.5f, 0.5f, 2, 2, 1, 1, 1, 1}));
}

TEST(KeyBalanceTest, SizesThatAreNoneKeepTheirScale) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(KeyBalance(std::vector<float>{0, 0, 0, 0}, 4, 4), std::vector<float>(4, 1.0f));
  EXPECT_EQ(KeyBalance(std::vector<float>{nan, 64, 1, 1, 1, infinity, 3, 5}, 4, 4), std::vector<float>(8, 1.0f));
  // A pair of zeros is no part of the mean.
  EXPECT_EQ(KeyBalance(std::vector<float>{0, 16, 0, 4}, 4, 4), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(KeyBalance(std::vector<float>{1e-30f, 1e30f}, 2, 0), (std::vector<float>{1.0f / 256, 256}));
}

TEST(KeyBalanceTest, SizesFollowFromWeightsBiasAndNorm) {
  const std::vector<float> rows = {3, 4, 0, 1}, bias = {0, -2}, weight = {1, 0.5f}, norm_bias = {10, 0};
  KeyProduct product = {.rows = rows, .cols = 2};
  EXPECT_EQ(KeySizes(product), (std::vector<float>{3 * 5, 3 * 1}));
  product.bias = bias;
  product.norm_weight = weight;
  EXPECT_FLOAT_EQ(KeySizes(product)[0], 3 * std::sqrt(9.0f + 4.0f));
  EXPECT_FLOAT_EQ(KeySizes(product)[1], 2 + 3 * 0.5f);
  product.norm_bias = norm_bias;
  EXPECT_FLOAT_EQ(KeySizes(product)[0], 30 + 3 * std::sqrt(9.0f + 4.0f));
}

TEST(KeyBalanceTest, NormsOfHeadsDecideBetweenTheirElements) {
  const std::vector<float> rows = {1, 3, 30, 10}, each = {2, -6}, together = {1, 1, 1, 4};
  KeyProduct product = {.rows = rows, .cols = 1, .head_norm = each};
  const float first = std::sqrt(5.0f), second = std::sqrt(500.0f);  // root mean squares
  const std::vector<float> sizes = KeySizes(product);
  const std::vector<float> expected = {3 / first * 2, 9 / first * 6, 90 / second * 2, 30 / second * 6};
  for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(sizes[i], expected[i]) << i;
  product.head_norm = together;
  EXPECT_FLOAT_EQ(KeySizes(product)[3], 30 / std::sqrt(1010.0f / 4) * 4);
}

}  // namespace
}  // namespace hydrant
