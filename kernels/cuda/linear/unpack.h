// Weights that are kept as they are stored (packed_layout.h), made into bf16 for products of many rows by the library
// (docs/decisions/0101-unpacked-for-prompts.md).
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_UNPACK_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_UNPACK_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/linear/packed_layout.h"

namespace hydrant::cuda {

// Products of so many rows and more are formed with unpacked weights: the kernel for stored weights takes 64 rows at a time, some
// 0.5 (Q4_0) to 0.74 ps (Q4_K) a weight for each 64 on an H100; unpacking takes 0.85 (2.56 bytes at 3 TB/s), and the library
// reads what is unpacked in another 0.67. So two times 64 rows stay, and the third changes sides.
inline constexpr int64_t kUnpackRows = 129;

// Room for unpacked rows. Of a smaller part of a weight the library has too few tiles for all multiprocessors, or a last round of
// tiles that leaves many of them idle: 4096 x 14336 fits as a whole.
inline constexpr int64_t kUnpackBytesMax = int64_t{128} << 20;

// Outputs of a slice, all but the last one's, are whole tiles of the library; of the packed weight where there is no room for one.
inline constexpr int64_t kUnpackOutputs = 256, kUnpackOutputsMin = 32;

// Bytes for slices of matrices of up to 2 * cols_max x cols_max, where a product has up to `product_rows`; none where no product is
// large enough, or where there are no such matrices (0).
constexpr int64_t UnpackBytes(int64_t product_rows, int64_t cols_max) {
  if (product_rows < kUnpackRows) return 0;
  return std::max(std::min(4 * cols_max * cols_max, kUnpackBytesMax), 2 * kUnpackOutputsMin * cols_max);
}

// Outputs of each slice of a weight [rows, cols] but the last: as few slices as `bytes` of room allow, of about one size.
// REQUIRES: room for kUnpackOutputsMin.
constexpr int64_t UnpackedRows(int64_t rows, int64_t cols, int64_t bytes) {
  const int64_t fitting = bytes / (2 * cols);
  const int64_t unit = fitting >= kUnpackOutputs ? kUnpackOutputs : kUnpackOutputsMin, room = fitting / unit * unit;
  const int64_t slices = (rows + room - 1) / room, even = (rows + slices - 1) / slices;
  return (even + unit - 1) / unit * unit;
}

// to [count, weight.cols] of bf16 = outputs [first, first + count) of `weight`: each element as the stored row expands to it
// (PackedElement), rounded once.
//
//   grid     (tiles / 32, panels), 256 threads: a warp has one tile of 32 outputs and 32 inputs after the other, the next one's
//            bytes on their way; pairs of lanes exchange halves, so that each stores 16 bytes, four lanes 64 in a row
//   bound    memory: the packed bytes and 2 per weight. Some 4 instructions a weight: 117M weights are 16 us of all issue slots
//   oracle   reference::ElementsOf, rounded to bf16: the same bits
//   measured H200 (4,263 GB/s), 26 November 2026: 28672 x 4096 1.9 TB/s, 4096 x 14336 1.4, 4096 x 4096 1.8
// REQUIRES: 0 <= first, first + count <= weight.rows; `to` begins at a multiple of 16 bytes.
void LaunchUnpack(cudaStream_t stream, const PackedView& weight, int64_t first, int64_t count, void* to);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_UNPACK_H_
