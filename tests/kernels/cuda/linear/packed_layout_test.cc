// The device's order of stored rows: every code and scale is where packed_layout.h says.
#include "kernels/cuda/linear/packed_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/reference/quantised_reference.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

TEST(PackedLayout, IsAsLargeAsTheFileButForScalesOfSixBits) {
  for (const WeightFormat format : kQuantisedFormats) {
    if (cuda::PackedLayoutOf(format).code_bits == 0) continue;
    const int64_t stored = 32 * RowBytes(format, 512), packed = cuda::PackedPanelBytes(format, 512);
    const bool six_bits = format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
    EXPECT_EQ(packed, stored + (six_bits ? 32 * 2 * 4 : 0)) << InfoOf(format).name;
    EXPECT_EQ(packed % 64, 0);
  }
  EXPECT_EQ(cuda::PackedPanels(1), 1);
  EXPECT_EQ(cuda::PackedPanels(32), 1);
  EXPECT_EQ(cuda::PackedPanels(33), 2);
}

uint32_t Word(const std::byte* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// The code of an element by the words of packed_layout.h.
int CodeOf(const cuda::PackedLayout& layout, const std::byte* tile, int64_t output, int64_t input) {
  const int64_t m = output / 16, h = input / 16, k = input % 4, lane = output % 8 * 4 + input % 16 / 4;
  const int64_t p = (output % 16 >= 8 ? 1 : 0) + (k >= 2 ? 2 : 0), second = k % 2;
  if (layout.code_bits == 8) {
    const uint32_t word = Word(tile + m * 512 + lane * 16 + h * 8 + p / 2 * 4);
    return static_cast<int8_t>(word >> (8 * (p % 2) + 16 * second) & 255);
  }
  auto code = static_cast<int>(Word(tile + lane * 16 + m * 8 + h * 4) >> (4 * p + 16 * second) & 15);
  if (layout.code_bits == 5) {
    code += static_cast<int>(Word(tile + 512 + lane * 4) >> (8 * m + 4 * h + p + 16 * second) & 1) * 16;
  }
  if (layout.code_bits == 6) {
    code += static_cast<int>(Word(tile + 512 + lane * 8 + m * 4) >> (2 * (4 * h + p) + 16 * second) & 3) * 16;
  }
  return code - layout.offset;
}

TEST(PackedLayout, EveryCodeIsInItsPlace) {
  for (const WeightFormat format : kQuantisedFormats) {
    const cuda::PackedLayout layout = cuda::PackedLayoutOf(format);
    if (layout.code_bits == 0) continue;
    const int64_t cols = 512;
    const std::vector<std::byte> rows = RandomStoredRows(format, 32, cols, 7);
    std::vector<std::byte> panel(static_cast<size_t>(cuda::PackedPanelBytes(format, cols)), std::byte{0xAA});
    cuda::PackPanel(format, rows.data(), cols, panel.data());
    for (int64_t output = 0; output < 32; ++output) {
      const auto elements = reference::ElementsOf(format, rows.data() + output * RowBytes(format, cols), cols);
      for (int64_t col = 0; col < cols; ++col) {
        const std::byte* tile = panel.data() + cuda::TileAt(layout, col / 32);
        ASSERT_EQ(CodeOf(layout, tile, output, col % 32), elements[static_cast<size_t>(col)].code)
            << InfoOf(format).name << ", output " << output << ", input " << col;
      }
    }
  }
}

// A row of zeros is what fills a panel: codes may be anything, scales are zero.
TEST(PackedLayout, RowsOfZerosStandForZeros) {
  for (const WeightFormat format : kQuantisedFormats) {
    const cuda::PackedLayout layout = cuda::PackedLayoutOf(format);
    if (layout.code_bits == 0) continue;
    const std::vector<std::byte> rows(static_cast<size_t>(32 * RowBytes(format, 256)), std::byte{0});
    std::vector<std::byte> panel(static_cast<size_t>(cuda::PackedPanelBytes(format, 256)), std::byte{0xAA});
    cuda::PackPanel(format, rows.data(), 256, panel.data());
    EXPECT_TRUE(std::all_of(panel.begin(), panel.end(), [](std::byte byte) { return byte == std::byte{0}; }))
        << InfoOf(format).name;
  }
}

}  // namespace
}  // namespace hydrant
