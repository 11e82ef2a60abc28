// SchedulerCounters count what a scheduler did since its start; they only grow. Each of its parts adds what it does itself.
#ifndef HYDRANT_SCHEDULER_SCHEDULER_COUNTERS_H_
#define HYDRANT_SCHEDULER_SCHEDULER_COUNTERS_H_

#include <cstddef>
#include <cstdint>

#include "scheduler/request/sequence_event.h"

namespace hydrant {

// kShared: a copy took the place of a block that others may read. kSwap: a sequence stepped aside. kDraft: a guess was wrong.
enum class FreeCause : uint8_t { kPrefill, kShrink, kPeriodic, kFinish, kCancel, kShared, kSwap, kDraft };
inline constexpr int32_t kFreeCauses = 8;

// Drafts that a row may have: as many as are counted by their places.
inline constexpr int32_t kDraftsPerRowMax = 16;

struct SchedulerCounters {
  uint64_t steps = 0;  // with at least one row
  uint64_t admitted = 0;
  uint64_t finished[kFinishReasons] = {};   // by FinishReason
  uint64_t freed_blocks[kFreeCauses] = {};  // by FreeCause
  uint64_t prompt_tokens = 0;               // computed
  uint64_t generated_tokens = 0;
  uint64_t evicted_tokens = 0;  // per layer and head
  uint64_t drafts = 0;          // rows that had any
  uint64_t draft_tokens = 0;
  uint64_t drafts_accepted = 0;                           // tokens
  uint64_t accepted_per_position[kDraftsPerRowMax] = {};  // of these, by their places in their rows
  uint64_t prefix_queries = 0;  // prompt tokens of admitted requests that looked for a cached prefix
  uint64_t prefix_hits = 0;     // prompt tokens found
  uint64_t prefix_matches = 0;  // times a prompt was looked up, of those that wait too
  uint64_t shrinks = 0;         // budgets lowered
  uint64_t parks = 0;
  uint64_t restores = 0;
  uint64_t moves_in_slices = 0;  // parks and restores that took more than one step
  uint64_t restored_tokens = 0;
  uint64_t swaps_out = 0;       // sequences that stepped aside, whole
  uint64_t swaps_in = 0;        // and came back
  uint64_t swapped_blocks = 0;  // moved for that, both ways
  uint64_t swaps_lost = 0;      // for which there was no memory: the sequence ended

  void AddFreed(FreeCause cause, int32_t blocks) {
    freed_blocks[static_cast<size_t>(cause)] += static_cast<uint64_t>(blocks);
  }
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_COUNTERS_H_
