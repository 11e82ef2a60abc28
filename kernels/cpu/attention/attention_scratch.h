// AttentionScratch is the memory that the attention of CpuDevice reuses from step to step.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_SCRATCH_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_SCRATCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/drafts.h"
#include "kernels/cpu/attention/pins.h"
#include "kernels/cpu/runtime/cpu_buffer.h"

namespace hydrant {

struct AttentionScratch {
  AttentionScratch(int threads, const StepBounds& bounds);
  // Bytes of the buffers of an AttentionScratch; its tables of rows are too small to count.
  static size_t Bytes(int threads, const StepBounds& bounds);

  // Capacities; ops assert them.
  const int32_t rows_max;
  const int32_t drafts_max;
  const int32_t slots_max;  // rounded up to whole blocks
  const int32_t query_heads;
  const int32_t head_dim;

  // --- prefill, per thread
  std::byte* PrefillOf(int thread) const;  // PrefillScratchBytes(slots_max, head_dim)
  float* ColumnSumsOf(int thread) const;   // [slots_max]
  float* PinSumsOf(int thread) const;      // [slots_max]
  PinScratch PinsOf(int thread) const;
  // Tiles whose column sums were added to the scores, per (row, KV head): [rows_max * query_heads]. Of decode rows, tokens that were
  // joined.
  std::unique_ptr<std::atomic<int32_t>[]> tiles_added;

  // --- decode: one place for each (row, KV head) whose splits are being worked on; see attention.cc
  struct DecodePlace {
    float* weights;  // [query_heads, slots_max]
    float* largest;  // [splits_max, query_heads]
    float* total;    // [splits_max, query_heads]
    float* out;      // [splits_max, query_heads, head_dim]
    // The unit that may use the place, and how many of its splits are done. Own cache line: threads poll it.
    alignas(64) std::atomic<int64_t> unit{0};
    std::atomic<int32_t> splits_done{0};
  };
  const int32_t places;
  std::unique_ptr<DecodePlace[]> decode;  // [places]

  // --- the rows of a step, laid out as work, each token of a decode row for itself: [rows_max + drafts_max + 1] each
  std::vector<int64_t> first_task;
  std::vector<int32_t> task_row;
  std::vector<int32_t> task_token;  // 0 of a prefill row

  DraftScratch drafts;

 private:
  struct PartBytes {  // of a thread or a place
    explicit PartBytes(const StepBounds& bounds);
    size_t prefill, place;
  };

  const PartBytes bytes_;
  CpuBuffer prefill_, places_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_SCRATCH_H_
