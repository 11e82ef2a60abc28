// The product for the rows of a decode step's batch: more than matvec.h is made for, and few enough that reading the weights
// still takes longer than multiplying. Tensor cores multiply, with the weight as the tall operand, and reads are kept in flight.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_SKINNY_GEMM_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_SKINNY_GEMM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/linear/matvec.h"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/types.h"

namespace hydrant::cuda {

inline constexpr int64_t kSkinnyRowsMax = 64;

// How a product is divided: `tiles` of 128 weight rows, each between `splits` blocks that have a part of the columns.
struct SkinnySplit {
  int32_t tiles = 0;
  int32_t splits = 1;
};
// By the weight and the device alone: a row's result does not depend on how many there are. `gated` weights (Epilogue::kGate)
// have tiles of 64 rows of either half.
SkinnySplit SplitSkinny(int64_t rows, int64_t cols, bool gated, int32_t multiprocessors);

// Device memory for what blocks of one tile tell each other, zeroed once; a launch leaves it so.
size_t SkinnyScratchBytes(int32_t multiprocessors);

// y = x W^T + bias, with `epilogue`. x [n, weight.stride] of the weight's type, zeros after weight.cols; y [n,
// weight.rows], or [n, weight.rows / 2] for kGate; of fp32 unless a kActivate or kGate. The weight is of 16 bits; it, x and scratch
// begin at multiples of 16 bytes.
// 1 <= n <= kSkinnyRowsMax. Launches that share a scratch follow one another.
//
//   kernel   a block of four warps has 128 weight rows, a warp 32 of them, in steps of 32 columns that three to five stages of
//            cp.async bring to shared memory (45 KB at most). n is padded to 16, 32 or 64. The last block of a tile to arrive
//            adds the others' sums, always in the order of columns
//   grid     tiles x splits: about two blocks per multiprocessor where the tiles alone are fewer
//   bound    bytes of the weight / memory bandwidth; or, of 64 rows, those and x, once per tile, from L2: 1 + n / 128 of the
//            weight's bytes. Splits write and read 512 bytes per tile and padded row each, which stay in L2
//   oracle   reference::Linear; |error| <= (2 * cols + 2) * 2^-24 * reference::LinearMagnitude of the rounded operands: tensor
//            cores cut off what they add
//   memory   100, 96 and 126 registers and 46, 41 and 37 KB at 16, 32 and 64 rows (nvcc 13.0, sm_90)
//   rejected one warp per 16 weight rows: every warp reads all of x from shared memory, twice as much for each weight;
//            tiles of 64 weight rows: x costs as much of L2 as the weight does of the memory at 64 rows;
//            x rounded in the kernel: four bytes of L2 instead of two, for every tile
//   not yet measured on a device
void LaunchSkinnyGemm(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation,
                      const void* x, int64_t n, int32_t multiprocessors, void* scratch, const Output& y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_SKINNY_GEMM_H_
