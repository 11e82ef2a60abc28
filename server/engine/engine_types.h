// What the engine reports: events of sequences, sessions whose KV left the pool, the time of a step, and the counters
// for metrics.
//
// Thread: any (plain data).
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_TYPES_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_TYPES_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"
#include "scheduler/park_plan.h"
#include "scheduler/request/sequence_event.h"
#include "scheduler/scheduler_counters.h"
#include "server/engine/sequence_request.h"

namespace hydrant {

// Spans and pointers are valid until the next Step.
struct EngineEvent : SequenceEvent {
  const SampleResult* sampled = nullptr;  // the token with its log-probabilities; null without a token
  // Results for prompt tokens [prompt_begin, prompt_begin + prompt_logprobs.size()), in prompt order from token 1 on;
  // only when the request asked for them.
  std::span<const SampleResult> prompt_logprobs;
  int32_t prompt_begin = 0;
};

// Ids [first, first + count).
struct IdRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// A turn of a session whose KV leaves the pool, as it has ended.
struct ParkedTurn {
  TurnId id;
  int32_t computed = 0;  // tokens it stands for
  int32_t live = 0;      // slots
};

// What the last step did, for histograms of steps. Without rows all but the moves is zero.
struct StepReport {
  int32_t rows = 0;
  int32_t decode_tokens = 0;
  int32_t prefill_tokens = 0;
  double decode_cost = 0.0;  // these three: as in StepPlan
  double prefill_cost = 0.0;
  int32_t accepted_tokens = 0;  // that came beside those of decode_tokens: drafts were right
  bool several_tenants = false;
  int64_t plan_us = 0;    // Plan and building the executor's input; with overlap perhaps while the device was busy
  int64_t device_us = 0;  // Launch, or the end of the step before it, to Await's return; without what the restores took
  int64_t commit_us = 0;  // Commit and building the events
  int64_t move_us = 0;    // restores of sessions' KV before the rows, and parks after them
  int64_t blocks_moved = 0;

  int32_t tokens() const { return decode_tokens + prefill_tokens + accepted_tokens; }
};

// One tenant's part of it.
struct TenantCounters {
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t waiting_deferred =
      0;               // of these: a larger pool would not let them in, but the operator, or the tenant's own cap
  int64_t blocks = 0;  // held
  int64_t reserved_blocks = 0;  // held or promised
  int64_t live_slots = 0;
  int64_t logical_tokens = 0;  // of its running sequences: what they would hold without eviction
  double service = 0;          // the counter that decides whose turn it is
  double charged = 0;          // grows by what was charged only
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
};

// A snapshot of everything metrics need; counters only grow. Plain values: copy it to publish it to another thread.
struct EngineCounters {
  SchedulerCounters scheduler;
  std::array<uint64_t, kPolicyLabelsMax> evicted_tokens = {};  // by policy_label
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t blocks_free = 0;
  int32_t blocks_used = 0;
  int32_t blocks_cached = 0;
  int32_t score_blocks_spare = 0;         // score blocks beyond the blocks' own
  int32_t score_blocks_in_snapshots = 0;  // of them in score snapshots
  int32_t snapshots = 0;
  int32_t parked_sessions = 0;
  int64_t parked_blocks = 0;
  uint64_t parked_lost = 0;                  // sessions whose parked KV had to make room, or found none
  int32_t swapped = 0;                       // sequences that stand aside, or a part of which does
  int64_t swapped_blocks = 0;                // that are filled outside the pool for them
  int64_t live_slots = 0;                    // of all running sequences
  uint64_t stalls = 0;                       // steps that took longer than the stall threshold; the engine's
  uint64_t steps_lost = 0;                   // that there was no memory for, or no weights
  uint64_t weights_read_bytes = 0;           // of those that are streamed
  int64_t weights_waited_us = 0;             // that steps waited for them
  std::vector<TenantCounters> tenants = {};  // by tenant index
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_TYPES_H_
