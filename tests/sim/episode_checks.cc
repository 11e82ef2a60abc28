// The part of Episode that holds what comes back against what must.
#include <algorithm>
#include <span>
#include <utility>

#include "tests/sim/episode.h"

namespace hydrant::sim {

// Nothing is taken from one sequence but for another that is let in with the next step, whoever comes meanwhile.
void Episode::CheckPromise(bool due, int64_t planned_us) {
  const Scheduler& scheduler = core_->scheduler();
  const std::span<const uint64_t> admitted = scheduler.admitted();
  if (promised_ != 0 && requests_[promised_ - 1]->cancelled) promised_ = 0;
  // Where sequences step aside, those that run have what was won while nobody may be let in: an operator pauses admission for what
  // runs to end soon.
  if (options_.swaps && admission_paused_) promised_ = 0;
  if (due && promised_ != 0) {
    if (std::find(admitted.begin(), admitted.end(), promised_) == admitted.end()) {
      failure_.Set("step ", step_, ": budgets fell for request ", promised_, ", which is not let in");
    }
    promised_ = 0;
    ++result_.promises;
  }
  // Those that run are promised nothing: they only would have others step aside instead (swap_checks.h).
  if (scheduler.shrinks_for() == 0 || requests_[scheduler.shrinks_for() - 1]->started) return;
  promised_ = scheduler.shrinks_for();
  // Once chosen it stays the first of its line, also where budgets have to fall for it again, as after a reload.
  if (requests_[promised_ - 1]->chosen_us < 0) requests_[promised_ - 1]->chosen_us = planned_us;
}

// Whether all went on as they did, and will.
bool Episode::IsCalm(std::span<const EngineEvent> events) const {
  const Scheduler& scheduler = core_->scheduler();
  if (scheduler.waiting() == 0 || !scheduler.admitted().empty() || scheduler.shrinks_for() != 0) return false;
  if (scheduler.running() == 0 || scheduler.moving() || core_->report().prefill_tokens > 0) return false;
  const std::span<const int32_t> running = scheduler.running_sequences();
  return std::all_of(events.begin(), events.end(),
                     [](const EngineEvent& event) { return event.finish == FinishReason::kNone; }) &&
         std::all_of(running.begin(), running.end(), [&](int32_t index) {
           const Sequence& sequence = scheduler.sequence(index);
           // Nothing is planned ahead of a row with drafts.
           if (requests_[sequence.request.id - 1]->request.drafter != nullptr) return false;
           return sequence.decodes() && !sequence.paused && !sequence.retired() && sequence.request.session == 0 &&
                  !sequence.request.budget.limited() && sequence.steps_after_next() > 2;
         });
}

// Who waits and cannot be let in as things stand keeps no step from being planned ahead. Twice in a row, for the first time the
// turns may have changed, which lets somebody in with the next step.
void Episode::CheckAhead(bool calm) {
  calm_steps_ = calm && overlap_ && !options_.swaps && !executor_.shares_steps ? calm_steps_ + 1 : 0;
  alone_steps_ = calm_steps_ > 0 && !core_->in_flight() ? alone_steps_ + 1 : 0;
  ahead_waiting_ += calm_steps_ > 0 && core_->in_flight() ? 1 : 0;
  if (alone_steps_ < 3) return;
  failure_.Set("step ", step_, ": somebody waits, nothing changes, and no step is planned ahead");
}

// Between two tokens no more KV of sessions moves than may, whatever sessions begin and end.
void Episode::CheckMoves() {
  const int64_t moved = executor_.TakeMoved();
  if (moved > blocks_moved_max_) failure_.Set("step ", step_, " moves ", moved, " blocks, at most ", blocks_moved_max_);
  if (moved != core_->report().blocks_moved) {
    failure_.Set("step ", step_, " moves ", moved, " blocks, and ", core_->report().blocks_moved, " are reported");
  }
}

// Nobody is let in to compute a block that another sequence is about to make findable for it. Of those without a budget, whose
// hits depend on nothing else.
void Episode::CheckTwins(const Sequence& admitted) {
  const SimRequest& twin = *requests_[admitted.request.id - 1];
  const Request& asked = twin.request.request;
  if (!admitted.shares || !asked.prefix.looks_up || asked.budget.limited()) return;
  const int32_t next_end = (admitted.cached / kBlockSlots + 1) * kBlockSlots;
  if (next_end > twin.prompt_length() - asked.prefix.rows_computed_min) return;
  const Scheduler& scheduler = core_->scheduler();
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    if (&sequence == &admitted) return;  // the others came later
    const SimRequest& first = *requests_[sequence.request.id - 1];
    const Request& other = first.request.request;
    const bool computes = sequence.shares && sequence.restored == 0 && !sequence.retired() &&
                          sequence.computed < next_end &&
                          (asked.prefix.takes_generated || !sequence.blocks.generated());
    if (!computes || !other.prefix.publishes || other.budget.limited() || first.begun_after != resets_ ||
        other.prefix.salt != asked.prefix.salt || first.prompt_length() < next_end) {
      continue;
    }
    ++twin_checks_;
    if (std::equal(asked.prompt.begin(), asked.prompt.begin() + next_end, other.prompt.begin())) {
      failure_.Set("request ", twin.id(), " computes a block that request ", first.id(), " computes");
    }
  }
}

// Where nobody may step aside, whoever is let in has all reserved that it will need.
void Episode::CheckReserved(const Sequence& admitted) {
  const bool alone = !admitted.shares && admitted.restored == 0;
  const SimRequest& request = *requests_[admitted.request.id - 1];
  if (options_.swaps || !alone || admitted.blocks.reserved() == request.blocks_alone) return;
  failure_.Set("request ", request.id(), " is let in with ", admitted.blocks.reserved(), " of ", request.blocks_alone,
               " blocks, and nobody may step aside");
}

// `later`: events of the same request that the step brings after this one, as drafts were right.
void Episode::CheckEvent(const EngineEvent& event, int32_t later) {
  if (event.id == 0 || event.id > requests_.size()) {
    failure_.Set("an event of request ", event.id);
    return;
  }
  SimRequest& request = *requests_[event.id - 1];
  if (request.ended) {
    failure_.Set("request ", event.id, ": an event after its end");
    return;
  }
  if (request.paused && event.token >= 0 && request.late-- <= 0) {
    failure_.Set("request ", event.id, " goes on although its reader is behind");
    return;
  }
  // A cancelled one whose blocks went before this step reports what it held then.
  const bool gone_before = request.gone;
  if (!gone_before) {
    const int32_t budget = request.policy.evicts ? request.policy.keep() : 0;
    if (event.budget != budget) failure_.Set("request ", event.id, " reports budget ", event.budget, ", not ", budget);
    const int32_t computed = request.computed - later;
    const auto row = static_cast<size_t>(computed - 1 - request.prompt_length());
    if (later > 0 && (computed <= request.prompt_length() || row >= request.solo.decodes.size())) {
      failure_.Set("request ", event.id, ": ", later, " events too many");
      return;
    }
    // Beside drafts nothing is cut.
    const int32_t live = later == 0 ? request.live : request.solo.decodes[row].live_in;
    if (event.live != live || event.evicted != computed - live ||
        event.blocks != (later > 0 ? BlocksForSlots(event.live) : std::ssize(request.blocks))) {
      failure_.Set("request ", event.id, " reports live ", event.live, ", evicted ", event.evicted, ", blocks ",
                   event.blocks, "; it has live ", request.live, ", computed ", request.computed, ", blocks ",
                   request.blocks.size());
      return;
    }
  }
  CheckTokens(event, request);
  if (event.finish != FinishReason::kNone) {
    CheckEnd(event, request);
  } else if (request.cancelled) {
    failure_.Set("request ", event.id, ": an event after Cancel that is not its end");
  } else {
    SeeReader(event, later, request);
  }
}

void Episode::CheckTokens(const EngineEvent& event, SimRequest& request) {
  const uint64_t id = request.id();
  if (!event.prompt_logprobs.empty()) {
    if (request.request.prompt_logprobs < 0 || event.prompt_begin != request.prompt_seen) {
      failure_.Set("request ", id, ": prompt log-probabilities from ", event.prompt_begin, ", expected from ",
                   request.prompt_seen);
      return;
    }
    for (const SampleResult& result : event.prompt_logprobs) {
      const int32_t position = request.prompt_seen++;
      if (result.id != request.solo.text[static_cast<size_t>(position)] ||
          result.logprob != FakeLogprob(id, position)) {
        failure_.Set("request ", id, ": wrong log-probability of prompt token ", position);
      }
    }
  }
  if ((event.token >= 0) != (event.sampled != nullptr)) failure_.Set("request ", id, ": a token without its result");
  if (event.token < 0) {
    if (event.generated != request.tokens_seen) failure_.Set("request ", id, " reports ", event.generated, " tokens");
    return;
  }
  const int32_t position = request.prompt_length() + request.tokens_seen++;
  if (position >= static_cast<int32_t>(request.solo.text.size()) ||
      event.token != request.solo.text[static_cast<size_t>(position)]) {
    failure_.Set("request ", id, ": token ", event.token, " at ", position, " is not what it says alone");
  } else if (event.generated != request.tokens_seen || event.sampled->id != event.token ||
             event.sampled->logprob != FakeLogprob(id, position)) {
    failure_.Set("request ", id, ": token ", position, " comes with another's numbers");
  }
}

void Episode::CheckEnd(const EngineEvent& event, SimRequest& request) {
  const uint64_t id = request.id();
  if (!request.cancelled && event.finish == FinishReason::kPastMoved && request.may_miss_past()) {
    const Request& asked = request.request.request;
    request.past_moved = core_->scheduler().parked().Find({asked.session, asked.resumes}) == nullptr;
    ++result_.pasts_missed;
  }
  if (!request.cancelled && !request.started && !request.past_moved) {
    failure_.Set("request ", id, " ends with ", static_cast<int>(event.finish), " before it is admitted");
    return;
  }
  const FinishReason expected = request.cancelled     ? FinishReason::kAbort
                                : request.swap_failed ? FinishReason::kNoMemory
                                : request.past_moved  ? FinishReason::kPastMoved
                                                      : request.solo.finish;
  if (event.finish != expected) {
    failure_.Set("request ", id, " ends with ", static_cast<int>(event.finish), ", expected ",
                 static_cast<int>(expected));
    return;
  }
  if (!request.cancelled && !request.swap_failed && !request.past_moved) {
    if (request.tokens_seen != request.solo.generated() || event.stop_token != request.solo.stop_token) {
      failure_.Set("request ", id, " ends after ", request.tokens_seen, " tokens, expected ", request.solo.generated());
    }
    const bool whole_prompt = event.finish != FinishReason::kError && request.request.prompt_logprobs >= 0;
    if (whole_prompt && request.prompt_seen != request.prompt_length()) {
      failure_.Set("request ", id, ": log-probabilities of ", request.prompt_seen, " prompt tokens");
    }
  }
  CheckTimes(event.times, request);
  request.ended = true;
  request.times = event.times;
  ++ends_;
  outstanding_steps_ -= request.cost_steps;
  if (!request.gone) executor_.Forget(request);
  EndTurn(request);
  result_.failed += event.finish == FinishReason::kError ? 1 : 0;
  result_.stopped += event.finish == FinishReason::kStop || event.finish == FinishReason::kText ? 1 : 0;
  // A step takes the clock a few ticks ahead: more means it was not admitted at the first opportunity.
  result_.waited += event.times.admitted_us - event.times.arrival_us > 4 ? 1 : 0;
}

void Episode::CheckTimes(const RequestTimes& times, const SimRequest& request) {
  const bool ordered =
      times.arrival_us == request.request.request.arrival_us &&
      (times.admitted_us == -1 || times.admitted_us >= times.arrival_us) &&
      (request.tokens_seen == 0 ? times.first_token_us == -1 && times.last_token_us == -1
                                : times.first_token_us > times.admitted_us &&
                                      times.last_token_us >= times.first_token_us && times.last_token_us <= now_us_);
  if (!ordered) failure_.Set("request ", request.id(), ": its times are not in order");
  // With several tenants, or priorities, a later request may go first, and the bound is another.
  const bool in_order = !options_.swaps && workload_.tenants().size() == 1 && !workload_.has_priorities();
  if (in_order && free_steps_ > request.deadline_step) {
    failure_.Set("request ", request.id(), " waited until step ", free_steps_, ", at most ", request.deadline_step,
                 " was possible");
  }
}

// A reader that is further behind than its mailbox is large holds its own request up, and nobody else's.
void Episode::SeeReader(const EngineEvent& event, int32_t later, SimRequest& request) {
  if (event.token < 0 || request.fate.unread_max == 0 || ++request.unread <= request.fate.unread_max) return;
  if (request.paused) return;
  SetPaused(request, true);
  request.late += later;
  ++result_.pauses;
}

void Episode::CheckState() {
  const Scheduler& scheduler = core_->scheduler();
  executor_.SeeDrops(scheduler.parked());
  const int32_t used = scheduler.block_manager().pool().used();
  int64_t live_slots = 0, held_slots = 0;
  for (int32_t index : scheduler.running_sequences()) {
    if (scheduler.sequence(index).place != KvPlace::kOutside) live_slots += scheduler.sequence(index).live;
    held_slots += scheduler.sequence(index).held;
  }
  if (used != executor_.held_blocks() || held_slots != executor_.live_slots()) {
    failure_.Set("step ", step_, ": ", used, " blocks used for ", held_slots, " slots; the live sequences hold ",
                 executor_.held_blocks(), " for ", executor_.live_slots());
    return;
  }
  // Counts everything again. What is wrong stays wrong: seen a few steps later it is seen as well.
  if (step_ % workload_.integrity_every() != 0) return;
  if (const absl::Status status = scheduler.CheckIntegrity(); !status.ok()) {
    failure_.Set("step ", step_, ": ", status.message());
  }
  const EngineCounters counters = core_->counters();
  if (counters.blocks_used != used || counters.live_slots != live_slots ||
      counters.blocks_free + counters.blocks_used + counters.blocks_cached != workload_.core().scheduler.blocks) {
    failure_.Set("step ", step_, ": the counters of blocks do not add up");
  }
}

void Episode::CheckFinal() {
  if (failure_.any()) return;
  const EngineCounters counters = core_->counters();
  if (ends_ != added_) failure_.Set(added_, " requests, ", ends_, " ends");
  if (core_->scheduler().block_manager().score_blocks().handed_out() != 0)
    failure_.Set("idle with score blocks handed out");
  if (counters.scheduler.restored_tokens != executor_.restored_tokens()) {
    failure_.Set(counters.scheduler.restored_tokens, " tokens were restored, ", executor_.restored_tokens(), " seen");
  }
  if (counters.scheduler.shrinks != executor_.shrinkings()) {
    failure_.Set(counters.scheduler.shrinks, " budgets fell, ", executor_.shrinkings(), " seen");
  }
  if (counters.scheduler.prefix_hits != executor_.cached_tokens()) {
    failure_.Set(counters.scheduler.prefix_hits, " tokens were found, ", executor_.cached_tokens(), " taken over");
  }
  if (counters.blocks_used != 0 || core_->scheduler().block_manager().promised() != 0) {
    failure_.Set("idle with ", counters.blocks_used, " blocks in use");
  }
  if (executor_.swapped_blocks() != 0) failure_.Set("idle with ", executor_.swapped_blocks(), " blocks outside");
  CheckSums(counters);
  if (const absl::Status status = core_->scheduler().CheckIntegrity(); !status.ok()) failure_.Set(status.message());
  tenants_.AtEnd(core_->scheduler());
}

void Episode::CheckSums(const EngineCounters& counters) {
  uint64_t evicted = 0;
  for (uint64_t by_label : counters.evicted_tokens) evicted += by_label;
  uint64_t ended = 0;
  for (uint64_t by_reason : counters.scheduler.finished) ended += by_reason;
  uint64_t freed = 0;
  for (uint64_t by_cause : counters.scheduler.freed_blocks) freed += by_cause;
  uint64_t tokens = 0;
  for (const std::unique_ptr<SimRequest>& request : requests_) tokens += static_cast<uint64_t>(request->tokens_seen);
  if (evicted != counters.scheduler.evicted_tokens || ended != added_ ||
      tokens != counters.scheduler.generated_tokens ||
      2 * freed != core_->scheduler().block_manager().pool().operations()) {
    failure_.Set("the counters do not add up: evicted ", evicted, ", ended ", ended, ", freed ", freed, ", tokens ",
                 tokens);
  }
}

}  // namespace hydrant::sim
