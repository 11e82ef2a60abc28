// CudaLinear is a LinearWeight in device memory: rows of its dtype, each at a multiple of 16 bytes, or rows of quantised formats
// as packed_layout.h has them.
//
// Thread: built by one thread (which starts others to read rows), then immutable.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_

#include <span>
#include <vector>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device.h"

namespace hydrant::cuda {

class CudaLinear final : public LinearWeight {
 public:
  // Reads every row, rounds it to the weight's dtype or packs it on the host, and copies it over. Throws std::bad_alloc or
  // CudaError. REQUIRES: all rows are quantised (Device::MixesQuantised), or none is.
  CudaLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, bool host_visible,
             cudaStream_t stream);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& spec, bool biased);
  size_t bytes() const override { return data_.bytes() + bias_.bytes(); }
  bool packed() const { return !parts_.empty(); }
  const WeightView& view() const { return view_; }  // REQUIRES !packed()
  // One after the other; of a gated weight, the gate and the up projection. Empty unless packed().
  const std::vector<PackedView>& parts() const { return parts_; }
  const float* bias() const { return static_cast<const float*>(bias_.bytes() > 0 ? bias_.data() : nullptr); }  // [rows]

 private:
  void ReadDense(const WeightRows& rows, cudaStream_t stream);
  void ReadPacked(const WeightRows& rows, cudaStream_t stream);

  CudaBuffer data_, bias_;
  WeightView view_;
  std::vector<PackedView> parts_;
};

// Where an embedding table's rows are: in either form.
inline TableView TableOf(const CudaLinear& linear) {
  if (!linear.packed()) return {.dense = linear.view()};
  return {.packed = linear.parts().front()};
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_CUDA_LINEAR_H_
