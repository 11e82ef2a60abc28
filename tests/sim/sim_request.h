// A request in the simulator: what was asked, what must come of it, and what was seen so far.
#ifndef HYDRANT_TESTS_SIM_SIM_REQUEST_H_
#define HYDRANT_TESTS_SIM_SIM_REQUEST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim/fake_model.h"
#include "tests/sim/solo_run.h"

namespace hydrant::sim {

struct SimRequest {
  SequenceRequest request;  // as it was added; without its prompt once it has ended
  int32_t prompt_tokens = 0;
  int64_t blocks_alone = 0;  // it needs at most when it starts from nothing
  Fate fate;
  FakeRanks ranks;

  // From admission on: only then it is known whether it goes on from its session.
  bool started = false;
  SoloRun solo;
  // What must be in the slot of the token at each position, and what the scores say once its row is added: an identity of
  // everything that went into it. Up to the first eviction that is the salt and the tokens so far, and may be anybody's;
  // after it, it is this request's alone.
  std::vector<uint64_t> keys;
  uint64_t state_before = 0;  // what the scores were sums over when its session was parked
  int32_t begin = 0;          // prompt tokens its session had computed
  int32_t begun_after = 0;    // how many times cached prefixes had been forgotten by then

  // What the executor was told to do to its budget, within what it agreed to.
  std::vector<Shrinking> shrinkings;
  EvictionPolicy policy;  // in force

  // A turn of a session may go on from what is parked or compute everything.
  bool may_resume = false;   // it was parked when the request came
  bool must_resume = false;  // … and is sure to stay until then
  bool past_moved = false;   // it needed that, and did not find it: so it has ended
  // It may come to that.
  bool may_miss_past() const { return request.request.needs_past && may_resume && !must_resume && !started; }
  const SimRequest* past = nullptr;    // the turn it may go on from
  const SimRequest* before = nullptr;  // … and does, but for one that recalls: that goes by the tokens alone
  bool seen_history = false;           // it has computed what it leaves of its prompt
  bool has_history = false;            // … and the scores with it

  // What the scores are when the row at `position` was added last, and pins were chosen if they were to be.
  uint64_t ScoreState(int32_t position) const {
    const int32_t rows = request.policy.pin_rows;
    if (rows == 0 || position != prompt_tokens - 1 || solo.StopAfter(prompt_tokens).cut_to == 0) {
      return SumState(position);
    }
    return PinState(request.segment_starts, std::max(prompt_tokens - rows, begin));
  }
  // The same with pins of these segments, by the prompt's rows from `first` on.
  uint64_t PinState(std::span<const uint64_t> segment_starts, int32_t first) const {
    uint64_t state = Mix(SumState(prompt_tokens - 1) + static_cast<uint64_t>(first));
    for (uint64_t word : segment_starts) state = Mix(state ^ word);
    return state;
  }
  // What the scores are sums over: 0 while nothing counts.
  uint64_t SumState(int32_t position) const {
    const EvictionPolicy& asked = request.policy;
    if (position < 0 || !asked.scores()) return 0;
    if (position < begin) return state_before;
    if (asked.score_rows > 0 && position < prompt_tokens - asked.score_rows) return state_before;
    return Mix(keys[static_cast<size_t>(position)] + static_cast<uint64_t>(asked.score_rows));
  }

  // The device's side, by the fake executor.
  int32_t computed = 0;
  int32_t cached = 0;    // of these, what somebody else computed
  int32_t restored = 0;  // … and what its session had parked
  int32_t live = 0;
  uint64_t row_step = 0;  // the last step that had a row of it, or its resumption
  int32_t state_row = -1;
  bool paused = false;
  int32_t late = 0;             // tokens of it were on their way when it was paused
  std::vector<int32_t> blocks;  // it may read and write
  bool aside = false;           // its slots are outside, all of them or some
  bool came_back = false;       // it has had no row since
  bool swap_failed = false;     // there was no memory for it outside, so it ends
  uint64_t order = 0;           // of what was in its slots when it stepped aside
  bool gone = false;            // its blocks were freed

  // What it found in its blocks when it looked last: while the versions are the same there is nothing new to find.
  struct Versions {
    uint64_t block = 0;
    uint64_t score_block = 0;
  };
  std::vector<Versions> seen;  // [blocks.size()]
  bool sums_known = false;
  PairSums sums = {};                            // of the shares in its slots
  std::array<int32_t, kPairsMax> unseen_slot{};  // written by its last decode row, in each pair; -1: none

  // The client's side, by the simulator.
  bool cancelled = false;  // Cancel said yes
  bool left = false;       // its client is gone: its session goes on from the turn before
  bool settled = false;    // the engine was told
  bool ended = false;
  int32_t tokens_seen = 0;
  int32_t prompt_seen = 1;  // next prompt token whose log-probability is due
  int32_t unread = 0;
  int64_t deadline_step = 0;
  int64_t cost_steps = 0;
  int64_t chosen_us = -1;  // when budgets fell for it: what came later does not go before it
  RequestTimes times;

  uint64_t id() const { return request.request.id; }
  int32_t prompt_length() const { return prompt_tokens; }
  bool decodes() const { return computed >= prompt_length(); }
  // Something was evicted before the token at `position` was computed: slots are no longer in the order of positions.
  bool Pruned(int32_t position) const { return solo.first_pruned >= 0 && position >= solo.first_pruned; }
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SIM_REQUEST_H_
