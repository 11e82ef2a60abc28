// Embedding, norms, row copies and what follows a product: the kernels that read and write rows of fp32 once. All are
// bound by memory; their bytes are those of their operands.
//
//   grid     a block of 256 threads per row; norms of up to 8,192 columns one of up to 512, which keeps the row in registers
//   oracle   reference::Embed, Norm, SoftCap, RoundTo and Activate; tests/kernels/cuda/cuda_device_test.cc has the tolerances
//   memory   20 to 61 registers; norms 128 bytes of shared memory (nvcc 13.0, sm_90)
//   rejected norms that read the row two or three times, one float a thread: 38 us for 2,048 x 4,096, 7.3 us for 32 x 4,096
//   H100     26 November 2026, rows of 4,096, 2,048 of them and (in a graph) 32: RMS norm 26 and 2.3 us, 87 % of what a copy moves; layer
//            norm 26 and 2.5; embedding 22 and 2.5; rounded to bf16 19 and 2.1; 32 gathered 2.2; gate of 2,048 x 14,336 136 us
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_ROW_KERNELS_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_ROW_KERNELS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/cuda/runtime/step_view.h"
#include "kernels/device.h"

namespace hydrant::cuda {

// A weight matrix on the device: rows of `cols` elements, `stride` apart.
struct WeightView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;           // a multiple of 16 bytes
  const float* bias = nullptr;  // [rows] or null
};

// The rows of an embedding table, in one of two forms; without either: no table.
struct TableView {
  WeightView dense = {};
  PackedView packed = {};
};

// x [tokens, cols]: Device::Embed. No table adds nothing.
void LaunchEmbed(cudaStream_t stream, const StepView& step, const TableView& tokens, float scale,
                 const TableView& positions, int64_t token_count, int64_t cols, float* x);

// Device::Norm.
void LaunchNorm(cudaStream_t stream, const NormWeight& norm, const float* x, const Output& y, int64_t rows,
                int64_t cols);

// Device::AddNormed. Leaves x as it is.
void LaunchAddNormed(cudaStream_t stream, const NormWeight& norm, const float* x, float* y, int64_t rows, int64_t cols);

// Device::SoftCap.
void LaunchSoftCap(cudaStream_t stream, float cap, float* x, int64_t rows, int64_t cols);

// y[i] = x[indices[i]]; `indices` in device memory.
void LaunchGatherRows(cudaStream_t stream, const float* x, const int32_t* indices, float* y, int64_t rows,
                      int64_t cols);

// y [rows, stride] of `dtype` = x [rows, cols] rounded, then zeros.
void LaunchRound(cudaStream_t stream, const float* x, DType dtype, void* y, int64_t rows, int64_t cols, int64_t stride);

// y [rows, cols] = x + bias (or null), then the activation where `activates`; y may be x.
void LaunchFinishProduct(cudaStream_t stream, const float* bias, bool activates, Activation activation, const float* x,
                         const Output& y, int64_t rows, int64_t cols);

// y [rows, cols] = activation(xg + bias) * (xu + bias): x [rows, 2 cols], the gate first.
void LaunchGate(cudaStream_t stream, const float* bias, Activation activation, const float* x, const Output& y,
                int64_t rows, int64_t cols);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_ROW_KERNELS_H_
