// Inner loops of y = x W^T on packed weights, and the packing itself.
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
#ifndef HYDRANT_KERNELS_CPU_LINEAR_KERNELS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_KERNELS_H_

#include <cstdint>

#include "kernels/device.h"

namespace hydrant {

inline constexpr int64_t kPanelRows = 32;

// What happens to the sums before they are stored.
enum class Epilogue : uint8_t {
  kStore,       // y = s + bias
  kAccumulate,  // y += s + bias
  kActivate,    // y = activation(s + bias)
  kGate,        // y = activation(gate + bias) * (up + bias)
};

// A packed weight, as the kernels see it.
struct PackedWeight {
  const void* data = nullptr;   // [panels] of panel_bytes
  const float* bias = nullptr;  // [panels][32] in panel order, or null
  DType dtype = DType::kF32;
  int64_t inputs = 0;         // k
  int64_t outputs = 0;        // columns of y: rows of the weight, rows / 2 when gated
  int64_t panel_outputs = 0;  // columns of y a panel produces: 32, or 16 when gated
  int64_t panel_bytes = 0;
};

struct LinearCall {
  PackedWeight weight;
  Epilogue epilogue = Epilogue::kStore;
  Activation activation = Activation::kSilu;
  const void* x =
      nullptr;           // [rows, x_stride]: fp32, or bf16 padded with zeros to an even count when InputIsBf16(dtype)
  int64_t x_stride = 0;  // elements
  float* y = nullptr;    // [rows, y_stride]
  int64_t y_stride = 0;  // elements
};

struct LinearKernels {
  // True when x must be handed over as bf16 for weights of this dtype.
  bool (*input_is_bf16)(DType dtype);
  // x [rows, cols] fp32 at stride x_stride -> out [rows, out_stride] bf16, the columns from cols to out_stride zero.
  void (*round_to_bf16)(const float* x, int64_t rows, int64_t cols, int64_t x_stride, uint16_t* out,
                        int64_t out_stride);
  // Rows [row_begin, row_end) of x times panels [panel_begin, panel_end).
  void (*multiply)(const LinearCall& call, int64_t row_begin, int64_t row_end, int64_t panel_begin, int64_t panel_end);
  // One panel: rows [32, cols] fp32, zero where the weight has no such row -> panel.
  void (*pack_panel)(const float* rows, int64_t cols, DType dtype, void* panel);
  // Output `lane` of one panel as fp32 -> out [cols].
  void (*unpack_row)(const void* panel, int64_t lane, int64_t cols, DType dtype, float* out);
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_KERNELS_H_
