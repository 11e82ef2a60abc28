#include "kernels/cuda/linear/packed_layout.h"

#include <cassert>
#include <cstring>

namespace hydrant::cuda {
namespace {

// 32 inputs of one output.
struct StoredGroup {
  uint8_t codes[kTileInputs];
  uint8_t scales[2];        // kStepsAndMinima: s, m; kHalves: s of either half
  const std::byte* halves;  // fp16 d, and behind it m or n where there is one
};

uint8_t Byte(const std::byte* at) { return std::to_integer<uint8_t>(*at); }

// Low halves of 16 bytes, then the high halves.
void ReadNibbles(const std::byte* from, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = Byte(from + i) & 15;
    codes[i + 16] = Byte(from + i) >> 4;
  }
}

// Blocks of 32. After the scales Q5_0 and Q5_1 have four bytes of fifth bits.
void ReadBlockOf32(WeightFormat format, const std::byte* block, StoredGroup& group) {
  const PackedLayout layout = PackedLayoutOf(format);
  group.halves = block;
  const std::byte* codes = block + (HasMinimum(layout.scales) ? 4 : 2);
  if (layout.code_bits == 8) {
    std::memcpy(group.codes, codes, sizeof(group.codes));
    return;
  }
  if (layout.code_bits == 4) return ReadNibbles(codes, group.codes);
  ReadNibbles(codes + 4, group.codes);
  for (int i = 0; i < kTileInputs; ++i) {
    group.codes[i] = static_cast<uint8_t>(group.codes[i] | (Byte(codes + i / 8) >> i % 8 & 1) << 4);
  }
}

// Group `number` of eight in a block of Q4_K or Q5_K: two groups are in the halves of 32 bytes.
void ReadGroupOfK(WeightFormat format, const std::byte* block, int64_t number, StoredGroup& group) {
  const std::byte* packed = block + 4;
  const int first = Byte(packed + number % 4), second = Byte(packed + 4 + number % 4),
            third = Byte(packed + 8 + number % 4);
  group.scales[0] = static_cast<uint8_t>(number < 4 ? first & 63 : (third & 15) | first >> 6 << 4);
  group.scales[1] = static_cast<uint8_t>(number < 4 ? second & 63 : third >> 4 | second >> 6 << 4);
  group.halves = block;
  const bool fifth = format == WeightFormat::kQ5_K;
  const std::byte* codes = block + (fifth ? 48 : 16) + number / 2 * 32;
  for (int i = 0; i < kTileInputs; ++i) {
    int code = number % 2 == 0 ? Byte(codes + i) & 15 : Byte(codes + i) >> 4;
    if (fifth) code |= (Byte(block + 16 + i) >> number & 1) << 4;
    group.codes[i] = static_cast<uint8_t>(code);
  }
}

// Group `number` of eight in a block of Q6_K: of each four, low bits of the first two in the low halves of 64 bytes, of the others
// in the high halves; high bits of all four in 32 bytes.
void ReadGroupOfQ6_K(const std::byte* block, int64_t number, StoredGroup& group) {
  const int64_t half = number / 4, quarter = number % 4;
  const std::byte* low = block + half * 64 + quarter % 2 * 32;
  const std::byte* high = block + 128 + half * 32;
  for (int i = 0; i < kTileInputs; ++i) {
    const int four = quarter < 2 ? Byte(low + i) & 15 : Byte(low + i) >> 4;
    group.codes[i] = static_cast<uint8_t>(four | (Byte(high + i) >> 2 * quarter & 3) << 4);
  }
  for (int i = 0; i < 2; ++i) group.scales[i] = Byte(block + 192 + number * 2 + i);
  group.halves = block + 208;
}

void ReadGroup(WeightFormat format, const std::byte* row, int64_t tile, StoredGroup& group) {
  const WeightFormatInfo& info = InfoOf(format);
  const std::byte* block = row + tile * kTileInputs / info.block_elements * info.block_bytes;
  if (info.block_elements == kTileInputs) return ReadBlockOf32(format, block, group);
  if (format == WeightFormat::kQ6_K) return ReadGroupOfQ6_K(block, tile % 8, group);
  ReadGroupOfK(format, block, tile % 8, group);
}

void OrWord(std::byte* at, uint32_t bits) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  word |= bits;
  std::memcpy(at, &word, sizeof(word));
}

// The codes of output `output` into a tile of zeros.
void PutCodes(int bits, const uint8_t* codes, int64_t output, std::byte* tile) {
  const int64_t m = output / 16, g = output % 8;
  const int odd = static_cast<int>(output % 16 / 8);  // p % 2
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t t = 0; t < 4; ++t) {
      const uint8_t* k = codes + h * 16 + t * 4;
      const int64_t lane = g * 4 + t;
      // The bits `mask` << `from` of the four elements, `width` of them for a pair: pairs `odd` and 2 + `odd`.
      const auto four = [&](int from, int width, int mask, int at) {
        const auto of = [&](int i) { return static_cast<uint32_t>(k[i] >> from & mask); };
        const int p0 = at + width * odd, p2 = at + width * (2 + odd);
        return of(0) << p0 | of(1) << (16 + p0) | of(2) << p2 | of(3) << (16 + p2);
      };
      if (bits == 8) {
        for (int64_t i = 0; i < 2; ++i) {
          const uint32_t pair = uint32_t{k[2 * i]} | uint32_t{k[2 * i + 1]} << 16;
          OrWord(tile + m * 512 + lane * 16 + (h * 2 + i) * 4, pair << 8 * odd);
        }
        continue;
      }
      OrWord(tile + lane * 16 + (m * 2 + h) * 4, four(0, 4, 15, 0));
      const int place = static_cast<int>(m * 8 + h * 4);
      if (bits == 5) OrWord(tile + 512 + lane * 4, four(4, 1, 1, place));
      if (bits == 6) OrWord(tile + 512 + lane * 8 + m * 4, four(4, 2, 3, static_cast<int>(h * 8)));
    }
  }
}

// fp16 d, and m or n four places behind it.
void PutHalves(const StoredGroup& group, bool both, int64_t output, std::byte* to) {
  std::byte* of_lane = to + output % 8 * (both ? 16 : 8) + output / 8 * 2;
  std::memcpy(of_lane, group.halves, 2);
  if (both) std::memcpy(of_lane + 8, group.halves + 2, 2);
}

}  // namespace

void PackPanel(WeightFormat format, const std::byte* rows, int64_t cols, std::byte* panel) {
  const PackedLayout layout = PackedLayoutOf(format);
  assert(layout.code_bits > 0 && cols % InfoOf(format).block_elements == 0);
  std::memset(panel, 0, static_cast<size_t>(PackedPanelBytes(format, cols)));
  const int64_t row_bytes = RowBytes(format, cols);
  const bool has_header = HeaderTiles(layout.scales) > 1;
  for (int64_t tile = 0; tile < cols / kTileInputs; ++tile) {
    std::byte* to = panel + TileAt(layout, tile);
    for (int64_t output = 0; output < kPackedOutputs; ++output) {
      StoredGroup group;
      ReadGroup(format, rows + output * row_bytes, tile, group);
      PutCodes(layout.code_bits, group.codes, output, to);
      PutHalves(group, HasMinimum(layout.scales), output,
                has_header ? panel + HeaderAt(layout, tile) : to + CodeBytes(layout));
      if (!has_header) continue;
      for (int64_t i = 0; i < 2; ++i) {
        to[CodeBytes(layout) + output % 8 * 8 + i * 4 + output / 8] = std::byte{group.scales[i]};
      }
    }
  }
}

}  // namespace hydrant::cuda
