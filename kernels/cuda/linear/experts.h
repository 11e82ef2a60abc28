// The experts of a layer: which ones a row chooses, and their products. A row reads the weights of its experts by itself, so no
// kernel needs to know how many rows an expert has, and a step with experts can be recorded like any other. What rows have in
// common they read again, through the second-level cache: right for steps of a few rows, slow for prompts.
//
//   grid     choice: a warp per row; products: a warp per output and row (down: all experts of the row, one after the other)
//   oracle   reference::Experts
//   not yet measured on a device
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/device.h"

namespace hydrant::cuda {

// Experts whose weights kernels find by number.
class CudaExperts final : public Experts {
 public:
  // REQUIRES: CudaLinear weights of one type. Throws std::bad_alloc or CudaError.
  CudaExperts(Matrices up, Matrices down, bool host_visible, cudaStream_t stream);

  const WeightView* up_views() const { return static_cast<const WeightView*>(views_.data()); }  // [experts]
  const WeightView* down_views() const { return up_views() + up().size(); }                     // [experts]

 private:
  CudaBuffer views_;
};

struct ExpertShare {
  int32_t expert = 0;
  float weight = 0;
};

// logits [rows, experts] -> chosen [rows][routing.per_row], the experts of a row by ascending number.
void LaunchChooseExperts(cudaStream_t stream, const float* logits, int64_t rows, int64_t experts,
                         const ExpertRouting& routing, ExpertShare* chosen);

// x [rows, hidden] -> inner [rows * per_row, ffn]: activation(gate) * up of each chosen expert. `shape`: of any expert's weight.
void LaunchExpertsUp(cudaStream_t stream, const WeightView* up, const WeightView& shape, const ExpertShare* chosen,
                     int32_t per_row, Activation activation, const Input& x, int64_t rows, const Output& inner);

// y [rows, hidden] += the sum over a row's chosen experts, in their order, of weight * (down(inner) + bias).
void LaunchExpertsDown(cudaStream_t stream, const WeightView* down, const WeightView& shape, const ExpertShare* chosen,
                       int32_t per_row, const Input& inner, int64_t rows, float* y);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_
