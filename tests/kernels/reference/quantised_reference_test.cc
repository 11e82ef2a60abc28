#include "kernels/reference/quantised_reference.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

using reference::QuantisedRow;
using reference::QuantiseRow;

TEST(QuantiseRow, TheLargestIs32512AndTheOthersAreNearest) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Floats x = Random(96, seed, std::ldexp(1.0f, static_cast<int>(seed % 60) - 30));
    const QuantisedRow row = QuantiseRow(x);
    ASSERT_EQ(row.scale.size(), 3u);
    for (size_t block = 0; block < 3; ++block) {
      int largest = 0;
      for (size_t i = block * 32; i < block * 32 + 32; ++i) {
        largest = std::max(largest, std::abs(row.q[i]));
        // Half a step, a step more where the low byte would be -128, and what fp32 makes of it.
        const bool moved = (row.q[i] + 32768) % 256 == 129;
        ASSERT_LE(std::abs(x[i] - row.scale[block] * static_cast<float>(row.q[i])),
                  (moved ? 1.51f : 0.51f) * row.scale[block]);
        ASSERT_NE((row.q[i] + 32768) % 256, 128);
      }
      ASSERT_EQ(largest, 32512);
    }
  }
}

TEST(QuantiseRow, KeepsWholeNumbersExactly) {
  Floats x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i == 0 ? -127.0f : static_cast<float>(i) * 3;
  const QuantisedRow row = QuantiseRow(x);
  EXPECT_EQ(row.scale[0], 1.0f / 256);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(row.q[i], 256 * static_cast<int>(x[i]));
}

TEST(QuantiseRow, SpecialBlocks) {
  Floats x(128, 1.0f);
  for (size_t i = 0; i < 32; ++i) x[i] = 0.0f;
  for (size_t i = 32; i < 64; ++i) x[i] = 0x1p-101f;
  x[70] = std::numeric_limits<float>::infinity();
  x[100] = std::numeric_limits<float>::max();
  const QuantisedRow row = QuantiseRow(x);
  EXPECT_EQ(row.scale[0], 0.0f);
  EXPECT_EQ(row.scale[1], 0.0f) << "too small to count";
  EXPECT_TRUE(std::isnan(row.scale[2]));
  EXPECT_TRUE(std::isfinite(row.scale[3]));
  EXPECT_EQ(row.q[100], 32512);
  EXPECT_EQ(row.q[0], 0);
}

// In fp64, of the weights as they expand and of x as it was quantised: what is left is the rounding of two fp32 sums per block.
TEST(QuantisedProduct, IsTheProductOfWhatTheCodesStandFor) {
  for (const WeightFormat format : kQuantisedFormats) {
    const int64_t cols = 768;
    for (uint32_t seed = 0; seed < 10; ++seed) {
      const std::vector<std::byte> row = RandomStoredRows(format, 1, cols, seed);
      const QuantisedRow x = QuantiseRow(Random(cols, seed + 100));
      const std::vector<reference::StoredElement> elements = reference::ElementsOf(format, row.data(), cols);
      double expected = 0, magnitude = 0;
      for (int64_t i = 0; i < cols; ++i) {
        const reference::StoredElement& element = elements[static_cast<size_t>(i)];
        const double value = static_cast<double>(x.scale[static_cast<size_t>(i / 32)]) * x.q[static_cast<size_t>(i)];
        const double product = static_cast<double>(element.step) * element.code * value;
        const double minimum = static_cast<double>(element.minimum) * value;
        expected += product + minimum;
        magnitude += std::abs(product) + std::abs(minimum);
      }
      // Each addition rounds at most the largest partial sum; a product's factors are rounded twice.
      const double bound = (2.0 * static_cast<double>(cols) / 16 + 4) * std::ldexp(1.0, -24) * magnitude;
      EXPECT_NEAR(reference::QuantisedProduct(format, elements, x), expected, bound) << InfoOf(format).name;
    }
  }
}

}  // namespace
}  // namespace hydrant
