#include "kernels/cpu/linear/quantised_kernels.h"

#include <cassert>

#include "kernels/cpu/linear/linear_epilogue.h"
#include "kernels/cpu/linear/quantised_decode.h"
#include "kernels/cpu/linear/quantised_layout.h"
#include "kernels/cpu/linear/quantised_prepare.h"
#include "kernels/cpu/linear/quantised_vectors.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// A tile is as high as decoding it once is worth: it is cut into strips of nearly equal height. A strip is as high as there are
// registers for sums of codes of two slices. A few rows alone have little to share what is decoded with: it stays in registers.
constexpr int kTileRows = 32;
constexpr int kStripSlices = 2;
#ifdef __AVXVNNI__
constexpr int kStripRows = 2;  // two sums of codes for each output
constexpr int kFewRows = 2;
#else
constexpr int kStripRows = 4;
constexpr int kFewRows = 3;
#endif
constexpr int kStripPasses = kPanelSlices / kStripSlices;
// Blocks that are decoded at once: up to 10 KiB, which stay in the first-level cache.
constexpr int64_t kChunkBlocks = 4;

// What a format has, so that products are compiled once for all formats that have the same.
struct ProductShape {
  bool halves;  // each half of a block has a step of its own
  bool minima;  // otherwise an offset may have to be taken off
};

constexpr ProductShape ShapeOf(QuantisedLayout layout) { return {HasHalves(layout.scales), HasMinimum(layout.scales)}; }

// A strip's block in the prepared x.
template <int kRows>
struct XBlock {
  const char* at;
#ifdef HYDRANT_BYTE_PRODUCTS
  const char* low(int row) const { return at + row * 32; }
  const char* high(int row) const { return at + (kRows + row) * 32; }
#else
  const char* pairs(int row) const { return at + row * 64; }
#endif
  const float* scale(int row) const { return reinterpret_cast<const float*>(at + kRows * 64) + row; }
  const float* sum(int row) const { return scale(kRows + row); }
  // part 0: of the block, 1 and 2: of its halves.
  const char* minus(int part, int row) const { return at + kRows * (72 + part * 4) + row * 4; }
};

// --- sums of codes --------------------------------------------------------------------------------------------------

// wholes = Σ code * q over inputs [4 * begin, 4 * end) of a block, for all rows of a strip and kSlices slices.
#ifdef HYDRANT_BYTE_PRODUCTS

template <int kRows, int kSlices>
HYDRANT_SIMD void SumCodes(const DecodedSlice* slices, XBlock<kRows> x, int begin, int end,
                           Ints (&wholes)[kRows][kSlices]) {
  Ints low[kRows][kSlices], high[kRows][kSlices];
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    HYDRANT_UNROLL(2)
    for (int slice = 0; slice < kSlices; ++slice) low[row][slice] = high[row][slice] = NoInts();
  }
  HYDRANT_UNROLL(8)
  for (int j = begin; j < end; ++j) {
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      const Ints q_low = Broadcast(x.low(row) + 4 * j), q_high = Broadcast(x.high(row) + 4 * j);
      HYDRANT_UNROLL(2)
      for (int slice = 0; slice < kSlices; ++slice) {
        low[row][slice] = AddByteProducts(low[row][slice], slices[slice].codes[j], q_low);
        high[row][slice] = AddByteProducts(high[row][slice], slices[slice].codes[j], q_high);
      }
    }
  }
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    HYDRANT_UNROLL(2)
    for (int slice = 0; slice < kSlices; ++slice) {
      wholes[row][slice] = AddInts(low[row][slice], ShiftLeft(high[row][slice], 8));
    }
  }
}

#else

template <int kRows, int kSlices>
HYDRANT_SIMD void SumCodes(const DecodedSlice* slices, XBlock<kRows> x, int begin, int end,
                           Ints (&wholes)[kRows][kSlices]) {
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    HYDRANT_UNROLL(2)
    for (int slice = 0; slice < kSlices; ++slice) wholes[row][slice] = NoInts();
  }
  HYDRANT_UNROLL(16)
  for (int j = 2 * begin; j < 2 * end; ++j) {
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      const Ints q = Broadcast(x.pairs(row) + 4 * j);
      HYDRANT_UNROLL(2)
      for (int slice = 0; slice < kSlices; ++slice) {
        wholes[row][slice] = AddPairProducts(wholes[row][slice], slices[slice].codes[j], q);
      }
    }
  }
}

#endif

// Adds one block to the sums of a strip. offset_bits: a code's offset is 2 to the power of it, unless there are minima.
template <ProductShape kShape, int kRows, int kSlices>
HYDRANT_SIMD void AddBlock(const DecodedSlice* slices, XBlock<kRows> x, __m128i offset_bits,
                           Reals (&sums)[kRows][kSlices]) {
  constexpr int kGroups = kShape.halves ? 2 : 1;
  // Part 0 of the sums of q is that of the block, parts 1 and 2 are those of its halves.
  constexpr int kFirstPart = kGroups - 1;
  HYDRANT_UNROLL(2)
  for (int group = 0; group < kGroups; ++group) {
    Ints wholes[kRows][kSlices];
    SumCodes<kRows, kSlices>(slices, x, group * 8 / kGroups, (group + 1) * 8 / kGroups, wholes);
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      const Reals scale = Broadcast(x.scale(row));
      const Ints minus = Broadcast(x.minus(kFirstPart + group, row));
      const Ints offset = ShiftLeftBy(minus, offset_bits);
      const Reals q_sum = kShape.halves ? Times(scale, ToReals(SubInts(NoInts(), minus))) : Broadcast(x.sum(row));
      HYDRANT_UNROLL(2)
      for (int slice = 0; slice < kSlices; ++slice) {
        const Ints whole = kShape.minima ? wholes[row][slice] : AddInts(wholes[row][slice], offset);
        Reals& sum = sums[row][slice];
        sum = Add(ToReals(whole), Times(slices[slice].steps[group], scale), sum);
        if constexpr (kShape.minima) sum = Add(slices[slice].minima[group], q_sum, sum);
      }
    }
  }
}

// --- tiles ----------------------------------------------------------------------------------------------------------

HYDRANT_SIMD void Pull(Ahead& ahead) {
  for (int64_t byte = 0; byte < ahead.stride; byte += 64) _mm_prefetch(ahead.next + byte, _MM_HINT_T1);
  ahead.next += ahead.stride;
}

// Adds `blocks` decoded blocks to a strip's sums [kRows][kPanelRows].
template <ProductShape kShape, int kRows>
void AddStrip(const DecodedSlice* decoded, int64_t blocks, const char* x, int offset_bits, Ahead& ahead, float* sums) {
  const __m128i shift = _mm_cvtsi32_si128(offset_bits);
  Ahead own = ahead;
  for (int first = 0; first < kPanelSlices; first += kStripSlices) {
    float* at = sums + first * kWidth;
    Reals sum[kRows][kStripSlices];
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      sum[row][0] = LoadReals(at + row * kPanelRows);
      sum[row][1] = LoadReals(at + row * kPanelRows + kWidth);
    }
    XBlock<kRows> block = {x};
    for (int64_t b = 0; b < blocks; ++b, block.at += kRows * kPreparedBlockBytes) {
      AddBlock<kShape, kRows, kStripSlices>(decoded + b * kPanelSlices + first, block, shift, sum);
      Pull(own);
    }
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      StoreReals(at + row * kPanelRows, sum[row][0]);
      StoreReals(at + row * kPanelRows + kWidth, sum[row][1]);
    }
  }
  ahead = own;
}

// sums [kRows][kPanelRows] of the whole panel.
template <WeightFormat kFormat, int kRows>
void MultiplyFew(const char* panel, int64_t blocks, const char* x, Ahead ahead, float* sums) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  const __m128i shift = _mm_cvtsi32_si128(OffsetBits(kLayout));
  Reals sum[kPanelSlices][kRows][1];
  HYDRANT_UNROLL(4)
  for (int slice = 0; slice < kPanelSlices; ++slice) {
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) sum[slice][row][0] = NoReals();
  }
  XBlock<kRows> at = {x};
  for (int64_t block = 0; block < blocks; ++block, at.at += kRows * kPreparedBlockBytes) {
    HYDRANT_UNROLL(4)
    for (int slice = 0; slice < kPanelSlices; ++slice) {
      DecodedSlice decoded;
      DecodeSlice<kFormat>(panel, block, slice, decoded);
      AddBlock<ShapeOf(kLayout), kRows, 1>(&decoded, at, shift, sum[slice]);
    }
    Pull(ahead);
  }
  HYDRANT_UNROLL(4)
  for (int slice = 0; slice < kPanelSlices; ++slice) {
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) StoreReals(sums + row * kPanelRows + slice * kWidth, sum[slice][row][0]);
  }
}

using StripFunction = void (*)(const DecodedSlice*, int64_t, const char*, int, Ahead&, float*);

using FewFunction = void (*)(const char*, int64_t, const char*, Ahead, float*);

struct FormatKernels {
  void (*decode_blocks)(const char* panel, int64_t begin, int64_t end, DecodedSlice* out);
  const FewFunction* multiply_few;  // [rows - 1]
  const StripFunction* add_strip;   // [rows - 1]
  int offset_bits;
  int64_t block_bytes;
};

#ifdef __AVXVNNI__
template <ProductShape kShape>
constexpr StripFunction kAddStrip[kStripRows] = {AddStrip<kShape, 1>, AddStrip<kShape, 2>};
template <WeightFormat kFormat>
constexpr FewFunction kMultiplyFew[kFewRows] = {MultiplyFew<kFormat, 1>, MultiplyFew<kFormat, 2>};
#else
template <ProductShape kShape>
constexpr StripFunction kAddStrip[kStripRows] = {AddStrip<kShape, 1>, AddStrip<kShape, 2>, AddStrip<kShape, 3>,
                                                 AddStrip<kShape, 4>};
template <WeightFormat kFormat>
constexpr FewFunction kMultiplyFew[kFewRows] = {MultiplyFew<kFormat, 1>, MultiplyFew<kFormat, 2>,
                                                MultiplyFew<kFormat, 3>};
#endif

template <WeightFormat kFormat>
constexpr FormatKernels KernelsFor() {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  return {DecodeBlocks<kFormat>, kMultiplyFew<kFormat>, kAddStrip<ShapeOf(kLayout)>, OffsetBits(kLayout),
          BlockBytes(kLayout)};
}

FormatKernels KernelsOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return KernelsFor<WeightFormat::kQ8_0>();
    case WeightFormat::kQ4_0:
      return KernelsFor<WeightFormat::kQ4_0>();
    case WeightFormat::kQ4_1:
      return KernelsFor<WeightFormat::kQ4_1>();
    case WeightFormat::kQ5_0:
      return KernelsFor<WeightFormat::kQ5_0>();
    case WeightFormat::kQ5_1:
      return KernelsFor<WeightFormat::kQ5_1>();
    case WeightFormat::kQ2_K:
      return KernelsFor<WeightFormat::kQ2_K>();
    case WeightFormat::kQ3_K:
      return KernelsFor<WeightFormat::kQ3_K>();
    case WeightFormat::kQ4_K:
      return KernelsFor<WeightFormat::kQ4_K>();
    case WeightFormat::kQ5_K:
      return KernelsFor<WeightFormat::kQ5_K>();
    case WeightFormat::kQ6_K:
      return KernelsFor<WeightFormat::kQ6_K>();
    case WeightFormat::kIQ4_NL:
      return KernelsFor<WeightFormat::kIQ4_NL>();
    case WeightFormat::kIQ4_XS:
      return KernelsFor<WeightFormat::kIQ4_XS>();
    default:
      assert(format == WeightFormat::kMXFP4);
      return KernelsFor<WeightFormat::kMXFP4>();
  }
}

constexpr auto TileCount = TilesOf<kTileRows>;
constexpr auto TileBegin = TileBeginOf<kTileRows>;
constexpr auto StripCount = TilesOf<kStripRows>;
constexpr auto StripBegin = TileBeginOf<kStripRows>;

// x [blocks of a row], prepared, of `rows` rows; sums [rows][kPanelRows].
void MultiplyTile(const FormatKernels& kernels, int64_t rows, const char* x, const char* panel, int64_t blocks,
                  Ahead ahead, float* sums) {
  if (rows <= kFewRows) return kernels.multiply_few[rows - 1](panel, blocks, x, ahead, sums);
  const int64_t strips = StripCount(rows);
  ahead.stride /= strips * kStripPasses;
  for (int64_t i = 0; i < rows * kPanelRows; i += kWidth) StoreReals(sums + i, NoReals());
  for (int64_t block = 0; block < blocks; block += kChunkBlocks) {
    const int64_t end = block + kChunkBlocks < blocks ? block + kChunkBlocks : blocks;
    DecodedSlice decoded[kChunkBlocks * kPanelSlices];
    kernels.decode_blocks(panel, block, end, decoded);
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t first = StripBegin(rows, strip), height = StripBegin(rows, strip + 1) - first;
      const char* at = x + (first * blocks + height * block) * kPreparedBlockBytes;
      kernels.add_strip[height - 1](decoded, end - block, at, kernels.offset_bits, ahead, sums + first * kPanelRows);
    }
  }
}

void Multiply(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin, int64_t panel_end) {
  const FormatKernels kernels = KernelsOf(call.weight.format);
  const int64_t blocks = call.weight.inputs / kQuantisedBlock;
  const auto* x = static_cast<const char*>(call.x);
  MultiplyPanels<kTileRows>(
      call, tile_begin, tile_end, panel_begin, panel_end, kernels.block_bytes / (tile_end - tile_begin), blocks,
      [&](int64_t begin, int64_t end, const char* panel, Ahead ahead, float* sums) {
        MultiplyTile(kernels, end - begin, x + begin * blocks * kPreparedBlockBytes, panel, blocks, ahead, sums);
      });
}

size_t PreparedBytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(rows * ((cols + kQuantisedBlock - 1) / kQuantisedBlock) * kPreparedBlockBytes);
}

void Prepare(WeightFormat, const float* x, int64_t rows, int64_t cols, int64_t tile_begin, int64_t tile_end,
             void* prepared) {
  assert(cols % kQuantisedBlock == 0);
  const int64_t row_bytes = cols / kQuantisedBlock * kPreparedBlockBytes;
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const int64_t begin = TileBegin(rows, tile), height = TileBegin(rows, tile + 1) - begin;
    for (int64_t strip = 0; strip < StripCount(height); ++strip) {
      const int64_t first = begin + StripBegin(height, strip), end = begin + StripBegin(height, strip + 1);
      PrepareStrip(x + first * cols, end - first, cols, static_cast<char*>(prepared) + first * row_bytes);
    }
  }
}

}  // namespace

extern const ProductKernels kQuantisedKernels;
const ProductKernels kQuantisedKernels = {TileCount, PreparedBytes, Prepare, Multiply};

}  // namespace hydrant::HYDRANT_ISA
