// SharedMemoryCollective is the Collective of ranks that are threads of one process and compute in its memory: each copies what the
// others have computed.
//
// Invariants
//  1. A part is written while others may still read the one before it, never that: a rank has two, which take turns, and nobody is in
//     an AllGather before all are out of the last but one.
#ifndef HYDRANT_KERNELS_PARALLEL_SHARED_MEMORY_COLLECTIVE_H_
#define HYDRANT_KERNELS_PARALLEL_SHARED_MEMORY_COLLECTIVE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/parallel/collective.h"

namespace hydrant {

class SharedMemoryCollective final : public Collective {
 public:
  explicit SharedMemoryCollective(int ranks);

  void Reserve(size_t part_bytes) override;
  int64_t ScratchBytes(size_t part_bytes) const override;
  void Begin() override;
  void Fail() override;
  void* Part(int rank, const Columns& columns) override;
  void TakePart(int rank, const Columns& columns, const void* whole) override;
  void AllGather(int rank, const Columns& columns, void* whole) override;

 private:
  // Own cache lines: each is written by its rank alone.
  struct alignas(64) Rank {
    std::array<std::unique_ptr<CpuBuffer>, 2> parts;
    std::array<Columns, 2> columns;  // of what the parts hold
    size_t turn = 0;                 // which of the two comes next
  };

  // Returns when all ranks have arrived. Throws RankLost.
  void Arrive();

  std::vector<Rank> ranks_;
  WaitableCounter passed_;  // advanced by the last one to arrive, and by who fails
  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_SHARED_MEMORY_COLLECTIVE_H_
