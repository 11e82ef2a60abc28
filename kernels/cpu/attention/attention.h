// One layer's attention over a step's batch, shared out among the threads of a pool.
//
// Work is handed out in order from one counter: 16-row tiles of prefill rows, then splits of decode rows, each for one KV
// head. What is in a piece of work, and the order in which pieces are joined, follow from the row alone; which thread
// does it, and when, change nothing.
//
// Thread: engine; the pool's threads inside.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <span>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/attention_scratch.h"
#include "kernels/cpu/attention/rope_table.h"
#include "kernels/cpu/runtime/row_kernels.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

struct AttentionCall {
  const AttentionKernels& kernels;
  std::span<const BatchRow> rows;
  const CpuRopeTable* rope;  // null: nothing is rotated
  int32_t layer;
  Matrix qkv;  // [tokens, (query_heads + 2 kv_heads) * head_dim]
  const KvCacheView& kv;
};

// Device::RopeAndWriteKv.
void RopeAndWriteKv(const AttentionCall& call, const HeadNorms& norms, const RowKernels& row_kernels, ThreadPool& pool);

// Device::Attention; out [tokens, query_heads * head_dim].
void Attend(const AttentionCall& call, const AttentionSpec& spec, Matrix out, ThreadPool& pool,
            AttentionScratch& scratch);

// Decode splits of a row that attends to `live` slots: split i is [256 i, 256 (i + 1)), the last one to the end.
int32_t DecodeSplits(int32_t live);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_H_
