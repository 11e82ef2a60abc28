// Cosines and sines of every position, formed in fp64 and stored as fp32.
//
// Thread: built on the engine thread, then immutable.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_

#include <cstdint>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

class CpuRopeTable final : public RopeTable {
 public:
  CpuRopeTable(const RopeSpec& spec, ThreadPool& pool);

  int32_t dims() const { return dims_; }
  int32_t positions_max() const { return positions_max_; }
  const float* cosine(int64_t position) const { return table_ + position * dims_; }            // [dims / 2]
  const float* sine(int64_t position) const { return table_ + position * dims_ + dims_ / 2; }  // [dims / 2]
  RopeView view() const { return {table_, dims_}; }

 private:
  const int32_t dims_;
  const int32_t positions_max_;
  CpuBuffer buffer_;
  float* table_;  // [positions_max][2][dims / 2]
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_
