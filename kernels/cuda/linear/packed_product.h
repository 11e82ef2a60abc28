// Products with weights that are kept as they are stored (packed_layout.h): a row of x gets the same bits whatever rows are beside
// it and however many, as packed_panel.cuh says.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/epilogue.h"
#include "kernels/types.h"

namespace hydrant::cuda {

// What decides which kernel is the sooner one.
struct Multiprocessors {
  int32_t count = 0;
  bool warpgroups = false;  // of compute capability 9.0
};

// y = x W^T + bias, with `epilogue`, any but kGate. x [n, weight.cols] of bf16 begins at a multiple of 16 bytes. y [n] rows of
// weight.rows, `y_stride` apart; of fp32 unless a kActivate. n >= 1.
//
//   kernels  a block of eight warps has one or two panels of 32 outputs and 8, 16 or 32 rows of x; each warp reads an eighth of the
//            columns, codes and x straight into registers. Two panels share what is read of x: of formats with headers (K) from 17
//            rows on, of all but Q4_K and Q5_K from 9 to 16, where enough blocks are left. Where it is the sooner one, a block of four
//            warps has four panels and 64 rows of x, which come to shared memory by cp.async; on Hopper packed_product_warpgroup.h
//   grid     (rows of x / 8, 16 or 32, panels or pairs of them), 256 threads; (rows of x / 64, panels / 4), 128 threads
//   bound    bytes of the packed weight / memory bandwidth: 0.56 of a byte per weight for 4 bits, 1.06 for 8. 32 x 32 weights of
//            4 bits are 576 bytes and, of 8 rows of x, some 65 instructions of a warp, 80 with minima: 132 multiprocessors of
//            1.7 GHz issue those for 8 TB/s. Many rows: operations, 2 * rows * cols * n
//   oracle   reference::ElementOf and sums in fp64; |error| <= (108 + cols / 16) * 2^-24 * the sum of |x| (|step * code| +
//            |minimum|): tensor cores cut off what they add
//   memory   up to 16 rows 94 to 127 registers (pairs 125 to 163), up to 32 127 to 172 (pairs 167 to 254), and 18 KB; many rows 246
//            to 255 (of which up to 8 bytes spill) and 16 KB (nvcc 13.0, sm_90)
//   measured H100 (3,015 GB/s, 709 TFLOP/s), 26 November 2026, of 28672 x 4096: one row 2,151 GB/s in Q4_0, 1,612 in Q4_K, 1,959 in
//            Q6_K, 2,658 in Q8_0, eight rows nearly the same. H200 (4,263 GB/s), the same day, gate and up of 28672 x 4096, us: 16 rows 34,
//            55, 49 and 44; 32 rows 62, 74, 81 and 68; 64 rows 106, 126, 138 and 115; 128 rows 184, 246, 235 and 193
//   rejected blocks of eight warps with 64 rows, x and codes in a ring of shared memory, runs shared out to blocks where these are few: 64
//            rows of 4096 x 14336 44 us against 50, of 28672 x 4096 200 against 106. Barriers and the copies' addresses cost more
void LaunchPackedProduct(cudaStream_t stream, const PackedView& weight, Epilogue epilogue, Activation activation,
                         const void* x, int64_t n, const Multiprocessors& multiprocessors, const Output& y,
                         int64_t y_stride);

// True: LaunchPackedGate has a kernel for it, and LaunchPackedProduct no faster one.
bool TakesPackedGate(const PackedView& gate, const PackedView& up, int64_t n, const Multiprocessors& multiprocessors);

// y [n, gate.rows] = activation(x G^T + bias) * (x U^T + bias): a block has a panel of either. REQUIRES: TakesPackedGate. The bits
// are those of both products by LaunchPackedProduct, finished by LaunchGate.
void LaunchPackedGate(cudaStream_t stream, const PackedView& gate, const PackedView& up, Activation activation,
                      const void* x, int64_t n, const Multiprocessors& multiprocessors, const Output& y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_H_
