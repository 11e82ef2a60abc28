// Panels of quantised rows: nothing is lost, and they are no larger than the file allows.
#include "kernels/cpu/linear/quantised_layout.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/quantised_reference.h"
#include "model/files/dequantize.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

class QuantisedLayoutTest : public testing::TestWithParam<WeightFormat> {
 protected:
  // Packs 32 rows, and compares every lane with the row that it came from.
  void ExpectLossless(const std::vector<std::byte>& rows, int64_t cols) {
    const WeightFormat format = GetParam();
    // Not zeroed: packing has to write every byte.
    std::vector<std::byte> panel(static_cast<size_t>(QuantisedPanelBytes(format, cols)), std::byte{0xA5});
    PackQuantisedPanel(format, rows.data(), cols, panel.data());
    std::vector<float> unpacked(static_cast<size_t>(cols)), expanded(static_cast<size_t>(cols));
    for (int64_t lane = 0; lane < 32; ++lane) {
      const std::byte* row = rows.data() + lane * RowBytes(format, cols);
      UnpackQuantisedRow(format, panel.data(), lane, cols, unpacked.data());
      DequantizeRow(format, row, cols, expanded.data());
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_EQ(std::bit_cast<uint32_t>(unpacked[at]), std::bit_cast<uint32_t>(expanded[at])) << lane << ", " << i;
        // The oracle of products reads the stored bytes on its own.
        const reference::StoredElement element = reference::ElementOf(format, row, i);
        ASSERT_EQ(element.step * static_cast<float>(element.code) + element.minimum, expanded[at]) << lane << ", " << i;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(EveryFormat, QuantisedLayoutTest, testing::ValuesIn(kQuantisedFormats),
                         [](const auto& test) { return std::string(InfoOf(test.param).name); });

TEST_P(QuantisedLayoutTest, RandomRowsComeBackBitByBit) {
  for (const int64_t blocks : {1, 2, 3, 7, 18}) {
    const int64_t cols = blocks * InfoOf(GetParam()).block_elements;
    ExpectLossless(RandomStoredRows(GetParam(), 32, cols, static_cast<uint32_t>(blocks)), cols);
  }
}

TEST_P(QuantisedLayoutTest, ExtremesComeBackBitByBit) {
  const int64_t cols = 2 * InfoOf(GetParam()).block_elements;
  // Zero, -0, the smallest and the largest scale.
  for (const uint16_t half : {0x0000, 0x8000, 0x0001, 0x7BFF, 0xFBFF}) {
    for (const int codes : {0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0, 0x55, 0xAA}) {
      ExpectLossless(UniformStoredRows(GetParam(), 32, cols, static_cast<uint8_t>(codes), half), cols);
    }
  }
}

// Another bit of a stored row moves another bit of the panel: as many bits are set in the panel as in the rows, but for the
// 6-bit scales, which get bytes, and the sign of 8-bit codes, which is flipped.
TEST_P(QuantisedLayoutTest, NoBitIsLost) {
  const WeightFormat format = GetParam();
  const int64_t cols = InfoOf(format).block_elements;
  std::vector<std::byte> rows(static_cast<size_t>(32 * RowBytes(format, cols)));
  const auto panel_of = [&] {
    std::vector<std::byte> panel(static_cast<size_t>(QuantisedPanelBytes(format, cols)));
    PackQuantisedPanel(format, rows.data(), cols, panel.data());
    return panel;
  };
  const std::vector<std::byte> zero = panel_of();
  const auto row_bytes = static_cast<size_t>(RowBytes(format, cols));
  std::vector<int> flipped(zero.size() * 8, 0);
  for (size_t bit = 0; bit < row_bytes * 8; ++bit) {
    const size_t at = 5 * row_bytes + bit / 8;
    rows[at] = static_cast<std::byte>(1 << bit % 8);
    const std::vector<std::byte> panel = panel_of();
    rows[at] = std::byte{0};
    int changed = 0;
    for (size_t i = 0; i < panel.size() * 8; ++i) {
      if (((panel[i / 8] ^ zero[i / 8]) & static_cast<std::byte>(1 << i % 8)) == std::byte{0}) continue;
      ++changed;
      ++flipped[i];
    }
    ASSERT_EQ(changed, 1) << "bit " << bit;
  }
  for (const int count : flipped) ASSERT_LE(count, 1);
}

// A Q3_K takes up to four: its scales of six bits get a byte each.
TEST_P(QuantisedLayoutTest, TakesAtMostThreeHundredthsMoreThanTheFile) {
  const int64_t cols = 1536;
  const double stored = static_cast<double>(32 * RowBytes(GetParam(), cols));
  const double most = GetParam() == WeightFormat::kQ3_K ? 1.04 : 1.03;
  EXPECT_LE(static_cast<double>(QuantisedPanelBytes(GetParam(), cols)), most * stored);
  EXPECT_EQ(QuantisedPanelBytes(GetParam(), cols) % 64, 0);
}

TEST(QuantisedLayout, OtherFormatsHaveNone) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    EXPECT_EQ(LayoutOf(format).code_bits, 0) << InfoOf(format).name;
  }
}

}  // namespace
}  // namespace hydrant
