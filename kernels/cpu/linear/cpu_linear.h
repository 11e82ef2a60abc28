// CpuLinear is a LinearWeight in the packed layout of kernels/cpu/linear/linear_kernels.h.
//
// Thread: built by one thread (which uses the pool), then immutable.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_
#define HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_

#include <span>

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

class CpuLinear final : public LinearWeight {
 public:
  // Reads and packs every row. Throws std::bad_alloc.
  CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, const LinearKernels& kernels,
            ThreadPool& pool);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& spec, bool biased);
  size_t bytes() const override { return data_.bytes() + bias_.bytes(); }

  const PackedWeight& packed() const { return packed_; }
  int64_t panels() const { return panels_; }
  const char* panel(int64_t index) const {
    return static_cast<const char*>(data_.data()) + index * packed_.panel_bytes;
  }

  // Row `row` of the weight as fp32 -> out [cols]. REQUIRES !spec().gated.
  void ReadRow(int64_t row, const LinearKernels& kernels, float* out) const;

 private:
  void PackPanels(const WeightRows& rows, const LinearKernels& kernels, int64_t begin, int64_t end);

  int64_t panels_;
  CpuBuffer data_;  // [panels][packed_.panel_bytes]
  CpuBuffer bias_;  // [panels][kPanelRows] fp32, or empty
  PackedWeight packed_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_
