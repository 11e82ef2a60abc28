// What adapters (LoRA) add to a product: two small products per row, with the A and the B of the row's own adapter.
//
//   kernels  A x: a block per row and part, a warp per output, lanes take every 32nd column; B h: a thread per output
//   bound    bytes of A and B of the adapters in the step, once per row where the caches do not hold them
//   oracle   reference::Adapted; tests/kernels/adapter_weight_test.cc has the tolerance
//   memory   29 to 32 registers; adding 88 bytes of stack, for the ends of parts (nvcc 13.0, sm_80 and sm_90)
//   not yet measured on a device
//
// The slot of each row is read on the device, so that a recorded launch stays right when other adapters are in the batch.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_ADAPTERS_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_ADAPTERS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/adapter_weight.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/cuda/runtime/step_view.h"
#include "kernels/types.h"

namespace hydrant::cuda {

struct AdapterView {
  const void* a = nullptr;  // [slots][parts][rank_max][cols]
  const void* b =
      nullptr;  // [slots][parts][rows of the part][the part's rank], each part from rank_max times its first row on
  const int32_t* ranks = nullptr;  // [slots][parts]
  const float* scales = nullptr;   // [slots][parts]
  DType dtype = DType::kF32;       // of a and b
  int32_t parts = 0;
  int32_t rank_max = 0;
  int64_t rows = 0;  // of the weight
  int64_t cols = 0;
  int64_t part_ends[kAdapterPartsMax] = {};  // rows before the end of each part
};

// inner [n, parts * rank_max] = scale * (A x) for x [n, cols], the step's tokens from `first_token` on. Rows without an adapter are
// left as they are.
void LaunchAdapterInner(cudaStream_t stream, const StepView& step, const AdapterView& view, int64_t first_token,
                        const Input& x, int64_t n, float* inner);

// y [n, rows] += B inner, for the same tokens.
void LaunchAddAdapters(cudaStream_t stream, const StepView& step, const AdapterView& view, int64_t first_token,
                       const float* inner, int64_t n, float* y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_ADAPTERS_H_
