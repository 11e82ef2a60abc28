// Kernels of packed_product.h on Hopper's products of warpgroups: LaunchPackedProduct and LaunchPackedGate choose them.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_WARPGROUP_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_WARPGROUP_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/epilogue.h"
#include "kernels/types.h"

namespace hydrant::cuda {

// Whether the code for sm_90a is there.
bool HasWarpgroupProducts();

// Blocks of a launch for `panels` panels, of gate and up together, and n rows of x.
uint32_t PackedWarpgroupBlocks(int64_t panels, int64_t n);

// As LaunchPackedProduct. REQUIRES: HasWarpgroupProducts, on a device of 9.0.
//
//   kernel   a block of two warpgroups has eight panels and 64 rows of x. A warp's tiles come to shared memory by cp.async, seven on
//            their way, and become codes in registers; x comes through registers, in the order in which codes are
//   grid     (rows of x / 64, panels / 8), 256 threads, 99 KB (Q4_0) to 152 KB (Q8_0) of shared memory, 147 to 202 registers: one
//            block on a multiprocessor
//   bound    operations. A tile of 32 x 32 weights and 64 rows takes the tensor cores 128 cycles, more with minima (192), and a
//            warp as many instructions for sums as for codes
//   measured H200, 28 November 2026, gate and up of 28672 x 4096, us, before in brackets: 64 rows 83 (106) in Q4_0, 106 (127) in
//            Q4_K, 115 (139) in Q6_K, 91 (116) in Q8_0; 128 rows 162 (185), 210 (247), 226 (235), 179 (194); 96 rows 162 (161).
//            One block alone takes 0.45 us a tile: 4096 x 4096 58 us (16), so that it is for weights that fill the device
void LaunchPackedWarpgroup(cudaStream_t stream, const PackedView& weight, Epilogue epilogue, Activation activation,
                           const void* x, int64_t n, const Output& y, int64_t y_stride);
// As LaunchPackedGate: one warpgroup of a block has panels of the gate, the other the same of `up`.
void LaunchPackedGateWarpgroup(cudaStream_t stream, const PackedView& gate, const PackedView& up, Activation activation,
                               const void* x, int64_t n, const Output& y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PRODUCT_WARPGROUP_H_
