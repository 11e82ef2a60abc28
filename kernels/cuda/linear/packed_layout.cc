#include "kernels/cuda/linear/packed_layout.h"

#include <cassert>
#include <cstring>

#include "kernels/stored_codes.h"

namespace hydrant::cuda {
namespace {

// 32 inputs of one output.
struct StoredGroup {
  uint8_t codes[kTileInputs];
  uint8_t scales[2];      // kStepsAndMinima: s, m; kHalves: s of either half
  const uint8_t* halves;  // fp16 d, and behind it m or n where there is one
};

StoredGroup ReadGroup(WeightFormat format, const std::byte* row, int64_t tile) {
  const WeightFormatInfo& info = InfoOf(format);
  const int64_t groups = info.block_elements / kTileInputs;
  const auto* block = reinterpret_cast<const uint8_t*>(row) + tile / groups * info.block_bytes;
  const int number = static_cast<int>(tile % groups);
  StoredGroup group;
  const stored_codes::BlockCodes codes = stored_codes::ReadCodes(format, block, number);
  std::memcpy(group.codes, codes.words, sizeof(group.codes));
  if (format == WeightFormat::kQ8_0) {  // as signed as in the file
    for (uint8_t& code : group.codes) code ^= 0x80;
  }
  const PackedScales scales = PackedLayoutOf(format).scales;
  if (scales == PackedScales::kStepsAndMinima) {
    stored_codes::ReadSixBitScales(block + 4, number, &group.scales[0], &group.scales[1]);
  } else if (scales == PackedScales::kHalves) {
    std::memcpy(group.scales, block + 192 + number * 2, sizeof(group.scales));
  }
  group.halves = block + stored_codes::PlacesOf(format).d;
  return group;
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
      const StoredGroup group = ReadGroup(format, rows + output * row_bytes, tile);
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
