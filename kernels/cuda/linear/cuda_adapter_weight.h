// CudaAdapterWeight is an AdapterWeight in device memory, as adapters.h reads it.
//
// Thread: engine; Set any, for a slot that no product reads.
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
  // No slot has an adapter. `uploads` is the stream of Set, which no step uses. Throws std::bad_alloc or CudaError.
  CudaAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec, bool host_visible, cudaStream_t uploads);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& weight, const AdapterSpec& spec);
  size_t bytes() const override { return data_.bytes(); }

  // Uploads what the adapter has, and waits for that alone. Throws std::bad_alloc or CudaError.
  void Set(int32_t slot, std::span<const AdapterFactors> parts);

  const AdapterView& view() const { return view_; }

 private:
  const int64_t a_slot_bytes_, b_slot_bytes_;
  CudaBuffer data_;  // A, B, scales and ranks of all slots
  cudaStream_t uploads_;
  AdapterView view_;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_CUDA_ADAPTER_WEIGHT_H_
