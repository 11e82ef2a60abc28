// Cosines and sines of every position, formed in fp64 and stored as fp32, from position 0 to the last one that anything
// has come to: the whole table of a long context may be larger than the model.
//
// Thread: the engine's. What Reach has filled is immutable.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

class CpuRopeTable final : public RopeTable {
 public:
  CpuRopeTable(const RopeSpec& spec, ThreadPool& pool);

  // Fills positions [0, end) where they are not filled yet. Before anything reads them. Const: it shows nowhere else.
  // REQUIRES: end <= positions_max; not within a loop of the pool.
  void Reach(int64_t end) const {
    if (end > reached_) Fill(end);
  }

  int32_t dims() const { return dims_; }
  int32_t positions_max() const { return positions_max_; }
  int64_t reached() const { return reached_; }                                       // positions below are filled
  const float* cosine(int64_t position) const { return table_ + position * dims_; }  // [dims / 2]
  const float* sine(int64_t position) const { return table_ + position * dims_ + dims_ / 2; }  // [dims / 2]
  RopeView view() const { return {table_, dims_}; }

 private:
  void Fill(int64_t end) const;

  const int32_t dims_;
  const int32_t positions_max_;
  const std::vector<double> inv_freq_;
  ThreadPool& pool_;
  // Made with the table, so that a step that comes to a new position takes no memory.
  std::vector<double> run_cosine_, run_sine_;            // [kRun][dims / 2], of positions within a run
  mutable std::vector<double> base_cosine_, base_sine_;  // [threads][dims / 2], of where a run begins
  mutable int64_t reached_ = 0;                          // a whole number of runs, or positions_max
  CpuBuffer buffer_;
  float* table_;  // [positions_max][2][dims / 2]
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ROPE_TABLE_H_
