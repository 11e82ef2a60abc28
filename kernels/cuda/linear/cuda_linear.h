// CudaLinear is a LinearWeight as rows of its dtype in device memory, each row at a multiple of 16 bytes.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_

#include <span>

#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device.h"

namespace hydrant::cuda {

class CudaLinear final : public LinearWeight {
 public:
  // Reads every row, rounds it to the weight's dtype on the host and copies it over. Throws std::bad_alloc or CudaError.
  CudaLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, bool host_visible,
             cudaStream_t stream);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& spec, bool biased);
  size_t bytes() const override { return data_.bytes() + bias_.bytes(); }
  const WeightView& view() const { return view_; }

 private:
  CudaBuffer data_, bias_;
  WeightView view_;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_
