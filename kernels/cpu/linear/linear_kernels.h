// Inner loops of y = x W^T on packed weights, and the packing of those that are not quantised. quantised_layout.h and
// quantised_kernels.h have the others.
//
// Packed layout. A panel is 32 outputs (kPanelRows); panels follow each other. In a gated weight, outputs [0, 16) of
// panel p are gate rows [16p, 16p + 16) and outputs [16, 32) the up rows of the same numbers; both halves of the matrix
// are padded to whole panels with zero rows. Within a panel, by dtype:
//   kF32   [k][32]         one fp32 per input and output
//   kF16   [k][32]         one fp16
//   kBF16  [k / 2][32][2]  pairs along k, which is what vdpbf16ps reads; an odd count is padded with zero
//
// Order of the sum: each output has one accumulator that starts at 0 and takes k = 0, 1, 2, … (kBF16 with AVX512-BF16:
// the pairs (0, 1), (2, 3), …) in turn. That, and nothing else, is computed for every x row, whatever rows are beside
// it.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_LINEAR_KERNELS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_LINEAR_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear/adapter_kernels.h"
#include "kernels/epilogue.h"
#include "kernels/types.h"

namespace hydrant {

inline constexpr int64_t kPanelRows = 32;

// A packed weight, as the kernels see it.
struct PackedWeight {
  const void* data = nullptr;   // [panels] of panel_bytes
  const float* bias = nullptr;  // [panels][32] in panel order, or null
  WeightFormat format = WeightFormat::kF32;
  int64_t inputs = 0;         // k
  int64_t outputs = 0;        // columns of y: rows of the weight, rows / 2 when gated
  int64_t panel_outputs = 0;  // columns of y a panel produces: 32, or 16 when gated
  int64_t panel_bytes = 0;
};

// One product. Rows of x are worked on in tiles of nearly equal height, at most as many as the registers hold sums for:
// 16 rows are 8 + 8, not 14 + 2.
struct LinearCall {
  PackedWeight weight;
  Epilogue epilogue = Epilogue::kStore;
  Activation activation = Activation::kSilu;
  int64_t rows = 0;
  const void* x = nullptr;             // prepared: see LinearKernels::prepare
  float* y = nullptr;                  // [rows, y_stride]
  int64_t y_stride = 0;                // elements
  const int32_t* y_rows = nullptr;     // [rows]: row i of x goes to row y_rows[i] of y; null: to row i
  const float* factors = nullptr;      // [rows]: what kAccumulate multiplies a row by before it adds it; null: 1
  const AdapterRows* added = nullptr;  // what rows get besides, in front of the bias; null: nothing
  const void* next = nullptr;          // where this thread's next product begins: pulled into the cache, never read
};

// A product in two stages. A weight's format says whose tables they are: LinearKernels' or the quantised ones.
struct ProductKernels {
  int64_t (*tile_count)(int64_t rows);
  // Bytes that `prepare` fills for `rows` rows of `cols` inputs.
  size_t (*prepared_bytes)(int64_t rows, int64_t cols);
  // Tiles [tile_begin, tile_end) of x [rows, cols] -> prepared [tiles][steps][rows of the tile]: what one step of the sum
  // takes from a row is next to what it takes from the next row. Not quantised: a step is one fp32, or for kBF16 a pair along
  // k, rounded to bf16 where `native`, else fp32; an odd count is padded with zero. quantised_kernels.h has the other form,
  // which is the same for all quantised formats.
  void (*prepare)(WeightFormat format, const float* x, int64_t rows, int64_t cols, int64_t tile_begin, int64_t tile_end,
                  void* prepared);
  // Tiles [tile_begin, tile_end) of x times panels [panel_begin, panel_end).
  void (*multiply)(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin,
                   int64_t panel_end);
};

struct LinearKernels {
  ProductKernels product;
  // True when products of this dtype run on native instructions, x rounded to that dtype.
  bool (*native)(DType dtype);
  // One panel: rows [32, cols] fp32, zero where the weight has no such row -> panel.
  void (*pack_panel)(const float* rows, int64_t cols, DType dtype, void* panel);
  // Output `lane` of one panel as fp32 -> out [cols].
  void (*unpack_row)(const void* panel, int64_t lane, int64_t cols, DType dtype, float* out);
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_LINEAR_KERNELS_H_
