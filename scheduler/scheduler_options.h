// SchedulerOptions are the capacities of a scheduler.
#ifndef HYDRANT_SCHEDULER_SCHEDULER_OPTIONS_H_
#define HYDRANT_SCHEDULER_SCHEDULER_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/fairness/tenant.h"

namespace hydrant {

struct SchedulerOptions {
  int32_t blocks = 0;  // in the KV pool
  int32_t spare_score_blocks =
      0;  // score blocks beyond the blocks' own (block_manager/score_pool.h); 0: only dense requests hit
  int64_t parked_blocks_max = 0;  // blocks' worth of parked KV, in whole sessions; the least recently used goes first
  // Blocks' worth of KV of sequences that may step aside; 0: nobody does, and admission reserves all that a sequence may need.
  int64_t swap_blocks_max = 0;
  // Plans that a head of line within its tenant's share waits before somebody steps aside for it, and that a sequence is outside
  // before it asks for its return; >= 1. A second at 30 tokens a second, the speed of a reader.
  int32_t swap_patience = 32;
  uint64_t prefix_hash_mask = ~uint64_t{0};  // PrefixIndex: for tests that want collisions
  int32_t sequences_max = 256;               // in progress at once
  int32_t waiting_max = 4096;                // held beyond those, in all queues
  int32_t tokens_max =
      512;  // in one step; >= sequences_max + 15 (invariant 3: one block of prefill beside all decodes)
  // Prefill tokens in a step that also decodes: bounds how long running streams wait for their next token. >= 16. The end of a
  // prompt with Request::tail_tokens is one chunk all the same, of fewer than tail_tokens + 16 tokens, if it is a step's first.
  int32_t prefill_tokens_max = 128;
  int32_t drafts_max = 0;  // in one step, beside tokens_max (Scheduler::Draft)
  // Slots to which a token's attention costs as much as everything else of it (prefill_cost.h); 0: attention is free.
  int32_t attention_slots_per_token = 0;
  std::vector<int32_t> eos_ids;  // any of them ends a sequence that does not ignore them
  std::vector<TenantOptions> tenants = {TenantOptions()};
  SchedulingPolicy policy = SchedulingPolicy::kFair;

  // INVALID_ARGUMENT if a scheduler could not keep its invariants with these options.
  absl::Status Validate() const;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_OPTIONS_H_
