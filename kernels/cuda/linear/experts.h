// The experts of a layer: which ones a row chooses, and their products. A row reads the weights of its experts by itself, so no
// kernel needs to know how many rows an expert has, and a step with experts can be recorded like any other. What rows have in
// common they read again, through the second-level cache: right for steps of a few rows, slow for prompts.
//
//   grid     choice: a warp per row; products: a warp per output and row, of weights kept as they are stored a block of eight warps
//            per 32 outputs and row (down: all experts of the row, one after the other)
//   oracle   reference::Experts
//   not yet measured on a device
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/output.h"
#include "kernels/device.h"

namespace hydrant::cuda {

// A matrix of an expert: rows of a dtype, or the parts that are kept as they are stored, of which a gated one has two.
struct ExpertMatrix {
  WeightView dense;
  PackedView packed[2];  // packed[0].data is null if it is dense
};

// Experts whose weights kernels find by number.
class CudaExperts final : public Experts {
 public:
  // REQUIRES: CudaLinear weights; a gated one that is kept as it is stored is so in one format. Throws std::bad_alloc or CudaError.
  CudaExperts(Matrices up, Matrices down, bool host_visible, cudaStream_t stream);

  const ExpertMatrix* up_matrices() const { return static_cast<const ExpertMatrix*>(matrices_.data()); }  // [experts]
  const ExpertMatrix* down_matrices() const { return up_matrices() + up().size(); }                       // [experts]
  // All formats that there are, each once.
  const std::vector<WeightFormat>& up_formats() const { return up_formats_; }
  const std::vector<WeightFormat>& down_formats() const { return down_formats_; }

 private:
  CudaBuffer matrices_;
  std::vector<WeightFormat> up_formats_, down_formats_;
};

struct ExpertShare {
  int32_t expert = 0;
  float weight = 0;
};

// logits [rows, experts] -> chosen [rows][routing.per_row], the experts of a row by ascending number.
void LaunchChooseExperts(cudaStream_t stream, const float* logits, int64_t rows, int64_t experts,
                         const ExpertRouting& routing, ExpertShare* chosen);

// x [rows, hidden] -> inner [rows * per_row, ffn]: activation(gate) * up of each chosen expert of that format. x is of fp32 or of the
// format's type, bf16 of a quantised one's.
void LaunchExpertsUp(cudaStream_t stream, const ExpertMatrix* up, WeightFormat format, const ExpertShare* chosen,
                     int32_t per_row, Activation activation, const Input& x, int64_t rows, const Output& inner,
                     int64_t ffn);

// y [rows, hidden] += the sum over a row's chosen experts of that format, in their order, of weight * (down(inner) + bias).
void LaunchExpertsDown(cudaStream_t stream, const ExpertMatrix* down, WeightFormat format, const ExpertShare* chosen,
                       int32_t per_row, const Input& inner, int64_t rows, float* y, int64_t hidden);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_EXPERTS_H_
