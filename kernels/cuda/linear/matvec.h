// The product for a row or two of x: a decode step of one or two sequences reads every weight once and computes little with
// it, so the kernel is made to keep reads in flight.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_MATVEC_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_MATVEC_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/epilogue.h"
#include "kernels/types.h"

namespace hydrant::cuda {

inline constexpr int64_t kMatvecRowsMax = 2;

// y = x W^T + bias, with `epilogue`; x [n, weight.cols] is of the weight's type, where weight.stride is weight.cols, or of
// fp32 and rounded to it first, as it is for the library's product. Both begin at multiples of 16 bytes. y [n, weight.rows], or
// [n, weight.rows / 2] for kGate; of fp32 unless a kActivate or kGate. 1 <= n <= kMatvecRowsMax.
//
//   kernel   a warp forms two outputs of all n rows (kGate: the two halves of one); lanes read 16 bytes of weight each, two
//            pieces of each output in flight, the first ones before the kernels before this one are done
//   grid     a block of 128 threads per eight outputs
//   bound    bytes of the weight / memory bandwidth
//   oracle   reference::Linear; |error| <= (cols + 1) * 2^-24 * reference::LinearMagnitude of the rounded operands
//   memory   40 to 48 registers (one row), nvcc 13.0, sm_90
//   measured H100 (a copy moves 3,012 GB/s), 26 November 2026, bf16: one row 2,523 (4096 x 4096), 2,678 (6144 x 4096), 2,834 (4096 x
//            14336) and 3,020 GB/s (28672 x 4096, gated); two rows 2,335 to 2,834
void LaunchMatvec(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation,
                  const Input& x, int64_t n, const Output& y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_MATVEC_H_
