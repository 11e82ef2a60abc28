#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_CUDA_ROPE_TABLE_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_CUDA_ROPE_TABLE_H_

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device.h"

namespace hydrant::cuda {

class CudaRopeTable final : public RopeTable {
 public:
  // Throws std::bad_alloc or CudaError.
  CudaRopeTable(const RopeSpec& spec, bool host_visible, cudaStream_t stream);

  RopeView view() const { return {static_cast<const float*>(buffer_.data()), dims_}; }

 private:
  const int32_t dims_;
  CudaBuffer buffer_;  // [spec.positions_max][2][dims / 2]
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_CUDA_ROPE_TABLE_H_
