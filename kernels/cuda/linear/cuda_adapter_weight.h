// CudaAdapterWeight is an AdapterWeight in device memory, as adapters.h reads it.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_CUDA_ADAPTER_WEIGHT_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_CUDA_ADAPTER_WEIGHT_H_

#include <cstdint>
#include <span>

#include "kernels/adapter_weight.h"
#include "kernels/cuda/linear/adapters.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device.h"

namespace hydrant::cuda {

class CudaAdapterWeight final : public AdapterWeight {
 public:
  // No slot has an adapter. Throws std::bad_alloc or CudaError.
  CudaAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec, bool host_visible, cudaStream_t stream);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& weight, const AdapterSpec& spec);
  size_t bytes() const override { return data_.bytes(); }

  // Waits for what the stream has.
  void Set(int32_t slot, std::span<const AdapterFactors> parts);

  const AdapterView& view() const { return view_; }

 private:
  const int64_t a_slot_bytes_, b_slot_bytes_;
  CudaBuffer data_;  // A, B, scales and ranks of all slots
  cudaStream_t stream_;
  AdapterView view_;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_CUDA_ADAPTER_WEIGHT_H_
