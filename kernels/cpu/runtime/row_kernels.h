// Inner loops of the ops that work on one row at a time.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_ROW_KERNELS_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_ROW_KERNELS_H_

#include <cstdint>

#include "kernels/device.h"

namespace hydrant {

struct RowKernels {
  // x, y [rows, cols] at the given strides (elements); x may be y. Sums run over 16 lanes (column j in lane j % 16),
  // then over the lanes in a fixed order.
  void (*norm)(const NormWeight& norm, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
               int64_t cols);
  // values[i] = activation(values[i]).
  void (*activate)(Activation activation, float* values, int64_t count);
  // values[i] = e^values[i].
  void (*exp)(float* values, int64_t count);
  // values[i] = cap * tanh(values[i] / cap).
  void (*soft_cap)(float cap, float* values, int64_t count);
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_ROW_KERNELS_H_
