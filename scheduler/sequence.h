// Sequence is one generation in progress: its request, four progress counters and its blocks. Every question about its
// state is answered from the counters.
//
// Thread: engine.
//
// Invariants
//  1. computed <= scheduled <= known, and scheduled < known when a step takes it: a step always has a token to compute. With two
//     exceptions: a row in flight may have drafts beyond `known`; and while the row that samples token `known` is in flight the row that computes it may be, too (PlanAhead). When
//     the sequence ends without the token, that row is counted nowhere.
//  2. computed == scheduled exactly when in_flight == 0, and in_flight <= 2.
//  3. In its life `known` goes from the prompt's length to at most that plus max_tokens; the last token is never
//     scheduled.
//
// Who changes what:
//   Admission       restore_table, arrival, given_room, asks_at, matched_at, blocks_beside, cached, restored; shares begins; scheduled,
//                   computed, live and held begin where those two end
//   Parking         pins, to_restore; live and held fall with the cut that ends a restore
//   ElasticBudgets  asks_losses and lower_to, which the next row obeys
//   StepBuilder     scheduled, live, in_flight, last_row, next_tokens; request.budget.keep falls
//   StepCommit      known, computed, held, last_token, output, finish, losses; in_flight falls; shares ends; scheduled falls by
//                   the drafts that were wrong, and so does live below the budget
//   Swapping        place, peak_blocks, guard, swaps; shares ends with what leaves the pool
//   SequenceTable   admitted, state_row
//   Scheduler       paused, abandoned, next_tokens
// The blocks are changed by all of them through the BlockManager.
#ifndef HYDRANT_SCHEDULER_SEQUENCE_H_
#define HYDRANT_SCHEDULER_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "block_manager/block_table.h"
#include "scheduler/request/request.h"
#include "scheduler/request/sequence_event.h"

namespace hydrant {

// Where the KV of an admitted sequence is (swapping.h).
enum class KvPlace : uint8_t {
  kPool,
  kLeaving,    // in the pool until the last slice of it is copied out
  kOutside,    // holds no blocks
  kReturning,  // its blocks are reserved and taken, and not all of them are filled
};

struct Sequence {
  Request request;
  uint64_t arrival = 0;  // counts the calls of Add

  int32_t known = 0;      // tokens whose ids are known: the prompt and what was sampled
  int32_t scheduled = 0;  // tokens handed to the executor
  int32_t computed = 0;   // tokens whose keys and values exist: the logical length
  int32_t live = 0;       // slots occupied once everything scheduled is done
  int32_t held = 0;       // slots occupied by what is computed

  int32_t in_flight = 0;   // steps that hold its blocks; it is released only at 0
  bool admitted = false;   // no longer in its tenant's queue
  int32_t state_row = -1;  // -1: it waits, or all of it is outside the pool
  int32_t last_token = -1;
  std::vector<int32_t>
      next_tokens;    // last_token and drafts of those after it, for its next row or one in flight; else empty
  bool pins = false;  // what its session has parked, until that is restored
  // While it waited, room was made for it, last with the plan of this number: budgets fell, others step aside, or nothing is missing.
  // It goes before others. 0: none was.
  uint64_t given_room = 0;
  // While it waits and is due (Admission): the number of the plan from which on it asks for room; 0: it is not due.
  uint64_t asks_at = 0;
  uint64_t matched_at = 0;    // while it waits: BlockManager::changes() when blocks_beside was counted; 0: never
  int64_t blocks_beside = 0;  // that it needs beside what it shares
  int32_t restored = 0;       // prompt tokens whose KV its session had parked
  int32_t to_restore = 0;     // blocks of these that are yet to be filled: until then it is not computed
  int32_t cached = 0;         // prompt tokens taken over from the prefix cache
  KvPlace place = KvPlace::kPool;
  int32_t peak_blocks = 0;  // the most it may come to hold, as far as it was admitted for that; 0 without swap space
  int32_t guard = 0;        // it does not step aside again before `scheduled` reaches this
  int32_t swaps = 0;        // times that it stepped aside
  bool shares = false;      // others may read its blocks, or it reads others', or they leave; until its first eviction
  std::vector<int32_t> restore_table;  // while it waits: memory for the table of its restore
  std::vector<int32_t> output;         // generated tokens, kept while `shares`; a session's turn keeps them to its end
  bool abandoned = false;              // a turn that its session does not go on from: it is not parked
  bool paused = false;                 // its reader is behind: no decode rows until it is resumed
  std::vector<int32_t> stop_ids;  // end it from its min_tokens-th token on: the EOS ids it obeys, then its stop tokens
  FinishReason finish = FinishReason::kNone;  // other than kNone: retired, waits for in_flight == 0
  int32_t stop_token = -1;
  uint64_t last_row = 0;      // which of all rows planned so far was its last one
  bool asks_losses = false;   // its next row asks what lower budgets would cost
  int32_t lower_to = 0;       // > 0: its next row lowers the budget to this
  uint64_t losses_step = 0;   // number of the step that answered
  std::vector<float> losses;  // the answer, one for each of LowerBudgetsOf(budget)
  RequestTimes times;
  BlockTable blocks;

  int32_t prompt_length() const { return static_cast<int32_t>(request.prompt.size()); }
  int32_t generated() const { return known - prompt_length(); }
  int32_t evicted() const { return scheduled - live; }
  // Token i of the prompt and what follows it. REQUIRES: i < known; generated ones only where `output` keeps them.
  int32_t token(int32_t i) const {
    const int32_t length = prompt_length();
    return i < length ? request.prompt[static_cast<size_t>(i)] : output[static_cast<size_t>(i - length)];
  }
  bool waiting() const { return !admitted; }
  bool retired() const { return finish != FinishReason::kNone; }
  // True if the sequence is retired and was not cancelled: its rows still in flight are discarded.
  bool ended() const { return retired() && finish != FinishReason::kAbort; }
  // The ids that end it when the token after its first `tokens` is one of them.
  std::span<const int32_t> StopIdsAfter(int32_t tokens) const {
    return tokens - prompt_length() + 1 >= request.min_tokens ? stop_ids : std::span<const int32_t>();
  }
  bool decodes() const { return scheduled >= prompt_length(); }
  bool in_pool() const { return place == KvPlace::kPool; }
  // Has a prompt that may be computed in the next step.
  bool prefills() const { return !decodes() && to_restore == 0 && in_pool(); }
  // Its next decode step finds its slot without asking for blocks. REQUIRES: decodes().
  bool has_slot() const { return BlocksForSlots(request.budget.Decode(live).live_after) <= blocks.reserved(); }
  // The number of decode steps after its next one. REQUIRES: decodes().
  int64_t steps_after_next() const { return DecodeSteps(request.max_tokens) - (scheduled - prompt_length()) - 1; }
  // Whoever reserves blocks as it grows (Swapping) asks for more when it has fewer slots than this for its next tokens, so that
  // somebody can step aside for it while it goes on.
  static constexpr int32_t kAskBefore = 4;
  // Its next decode row overwrites a victim. REQUIRES: decodes().
  bool at_budget() const { return request.budget.Decode(live).reuse_victim; }
  // Drafts that its next decode row has room for: at its budget any number, and below it those that evict nothing. None asks for
  // blocks. With as many slots as it asks with without drafts it asks behind them, too. `slots_max`: of a row with drafts. REQUIRES:
  // decodes().
  int32_t room_for_drafts(int32_t slots_max = std::numeric_limits<int32_t>::max()) const {
    int64_t most = steps_after_next();
    if (at_budget()) {
      if (live > slots_max) return 0;
    } else {
      const int64_t stay = peak_blocks > 0 ? kAskBefore - 1 : 0;
      const int64_t slots = std::min(int64_t{blocks.reserved()} * kBlockSlots - stay, int64_t{slots_max}) - live;
      most = std::min(most, std::min<int64_t>(slots, request.budget.StepsBeforeEviction(live)) - 1);
    }
    return static_cast<int32_t>(std::clamp<int64_t>(most, 0, std::numeric_limits<int32_t>::max()));
  }
  // Has tokens left to decode, as far as anybody knows, and somebody reads them: the last token is never fed back.
  bool would_continue() const {
    return decodes() && !paused && !retired() && scheduled - prompt_length() < DecodeSteps(request.max_tokens);
  }
  // Has a decode row in the next step.
  bool continues() const { return would_continue() && in_pool() && has_slot(); }
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SEQUENCE_H_
