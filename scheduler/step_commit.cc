#include "scheduler/step_commit.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {
namespace {

bool Contains(std::span<const int32_t> ids, int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

FreeCause EndCause(FinishReason finish) {
  return finish == FinishReason::kAbort ? FreeCause::kCancel : FreeCause::kFinish;
}

FreeCause CauseOf(const PlanRow& row) {
  if (row.prefill) return FreeCause::kPrefill;
  return row.lowered ? FreeCause::kShrink : FreeCause::kPeriodic;
}

}  // namespace

StepCommit::StepCommit(std::span<const int32_t> eos_ids, SequenceTable& sequences, TenantList& tenants,
                       BlockManager& block_manager, Parking& parking, Swapping& swapping, int32_t drafts_max,
                       SchedulerCounters& counters)
    : eos_ids_(eos_ids),
      sequences_(sequences),
      tenants_(tenants),
      block_manager_(block_manager),
      parking_(parking),
      swapping_(swapping),
      counters_(counters) {
  events_.reserve(static_cast<size_t>(sequences.size()) + static_cast<size_t>(drafts_max));
  pending_.reserve(events_.capacity());
}

std::span<const SequenceEvent> StepCommit::Take(StepPlan& plan, std::span<const RowResult> results, bool more_in_flight,
                                                int64_t now_us) {
  assert(results.size() == plan.rows.size());
  more_in_flight_ = more_in_flight;
  events_.clear();
  events_.swap(pending_);
  for (size_t i = 0; i < results.size(); ++i) TakeRow(plan, static_cast<int32_t>(i), results[i], now_us);
  sequences_.Sweep();
  return events_;
}

void StepCommit::End(int32_t index) {
  const SequenceEvent event = MakeEvent(index, -1, -1);
  pending_.push_back(event);
  Retire(index, event);
  sequences_.Sweep();
}

void StepCommit::TakeRow(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us) {
  const PlanRow& row = plan.rows[static_cast<size_t>(row_index)];
  Sequence& sequence = sequences_.at(row.sequence);
  assert(sequence.in_flight > 0);
  --sequence.in_flight;
  if (sequence.ended()) {
    DropRowAfterFinish(sequence, row, row_index);
    return;
  }
  if (row.drafts() > 0) Reject(sequence, row, result);
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()) - row.drafts();
  sequence.computed += tokens;
  sequence.held = row.shrink_to > 0 ? row.shrink_to : row.slots_with(tokens);
  assert(sequence.computed <= sequence.scheduled &&
         sequence.scheduled <=
             sequence.known + (sequence.retired() ? 1 : sequence.in_flight) + std::ssize(result.more));
  if (row.prefill) counters_.prompt_tokens += static_cast<uint64_t>(tokens);
  counters_.evicted_tokens += static_cast<uint64_t>(row.evicted_with(result.more.size()));

  int32_t token = -1;
  if (sequence.retired()) {
    // Cancelled in flight: this step's result is discarded.
  } else if (result.failure != FinishReason::kNone) {
    sequence.finish = result.failure;
  } else if (row.sample) {
    token = result.token;
    TakeToken(sequence, token, result.more.empty() ? result.end : FinishReason::kNone, now_us);
  } else if (sequence.computed == sequence.prompt_length() && sequence.request.max_tokens == 0) {
    sequence.finish = FinishReason::kLength;
  }
  TakeResult(plan, row, result, sequence);
  // The end of a sequence with another row in flight is reported when that row is committed, together with the last
  // token.
  if (sequence.retired() ? sequence.in_flight > 0 : token < 0) return;
  events_.push_back(MakeEvent(row.sequence, row_index, token));
  if (row.drafts() > 0) TakeMore(plan, row_index, result, now_us);
  if (sequence.retired()) Retire(row.sequence, events_.back());
}

// The drafts that turned out wrong leave the sequence's counts, and with them the blocks that were taken for them. Who was
// cancelled or failed meanwhile has none that are right.
void StepCommit::Reject(Sequence& sequence, const PlanRow& row, const RowResult& result) {
  const bool counts = !sequence.retired() && result.failure == FinishReason::kNone;
  const int32_t accepted = counts ? static_cast<int32_t>(result.more.size()) : 0, rejected = row.drafts() - accepted;
  assert(rejected >= 0 && (counts || result.more.empty()));
  ++counters_.drafts;
  counters_.draft_tokens += static_cast<uint64_t>(row.drafts());
  counters_.drafts_accepted += static_cast<uint64_t>(accepted);
  for (int32_t i = 0; i < std::min(accepted, kDraftsPerRowMax); ++i) ++counters_.accepted_per_position[i];
  if (rejected == 0) return;
  sequence.scheduled -= rejected;
  if (row.reuse_victim) return;
  sequence.live -= rejected;
  const int32_t freed = block_manager_.Shrink(sequence.blocks, sequence.live, sequence.blocks.reserved());
  counters_.AddFreed(FreeCause::kDraft, freed);
}

// The tokens behind the drafts that were right, each as if it had had a step of its own.
void StepCommit::TakeMore(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us) {
  const PlanRow& row = plan.rows[static_cast<size_t>(row_index)];
  Sequence& sequence = sequences_.at(row.sequence);
  for (size_t i = 0; i < result.more.size(); ++i) {
    assert(!sequence.retired() && row.tokens[i + 1] == sequence.last_token);
    ++sequence.computed;
    sequence.held += row.reuse_victim ? 0 : 1;
    const bool is_last = i + 1 == result.more.size();
    TakeToken(sequence, result.more[i], is_last ? result.end : FinishReason::kNone, now_us);
    if (sequence.shares) Share(sequence, plan, row, /*valid=*/true);
    events_.push_back(MakeEvent(row.sequence, row_index, result.more[i]));
  }
  sequence.next_tokens.clear();
}

// The sequence finished one step ago: discards this row, then delivers the final event, whose token waited for it.
void StepCommit::DropRowAfterFinish(Sequence& sequence, const PlanRow& row, int32_t row_index) {
  sequence.scheduled = sequence.computed;
  sequence.live = sequence.held;
  const int32_t token = EndsByItself(sequence.finish) ? sequence.last_token : -1;
  events_.push_back(MakeEvent(row.sequence, row_index, token));
  Retire(row.sequence, events_.back());
}

// What the row did besides its token.
void StepCommit::TakeResult(StepPlan& plan, const PlanRow& row, const RowResult& result, Sequence& sequence) {
  // After a cancel, a row planned ahead may have computed with a token that was never sampled.
  const bool failed = result.failure != FinishReason::kNone;
  const bool valid = !failed && sequence.computed <= sequence.known;
  if (sequence.shares) Share(sequence, plan, row, valid);
  // The device has made the cut even if the sequence ended. A lower budget lowers the reservation, even if nothing was
  // cut.
  if (row.shrink_to > 0 || row.lowered) {
    ShrinkTo(sequence, row.shrink_to > 0 ? row.shrink_to : sequence.live, CauseOf(row));
  }
  counters_.shrinks += row.lowered ? 1 : 0;
  if (row.loss_cuts > 0 && !failed) {
    assert(std::ssize(result.losses) == row.loss_cuts);
    sequence.losses.assign(result.losses.begin(), result.losses.end());
    sequence.losses_step = plan.number;
  }
}

// What the step computed becomes findable, and the copies of a first eviction take the place of what was shared. Blocks
// that a failed row wrote are not published.
void StepCommit::Share(Sequence& sequence, StepPlan& plan, const PlanRow& row, bool valid) {
  const PrefixUse& use = sequence.request.prefix;
  // What came back from elsewhere is its session's alone.
  if (valid && use.publishes && sequence.restored == 0) {
    int32_t tokens[kBlockSlots];
    block_manager_.Publish(sequence.blocks, use.salt, sequence.prompt_length(), sequence.computed, [&](int32_t block) {
      for (int32_t i = 0; i < kBlockSlots; ++i) tokens[i] = sequence.token(block * kBlockSlots + i);
      return BlockTokens(tokens);
    });
  }
  for (int32_t i = row.snapshot_begin; i < row.snapshot_end; ++i) {
    ScoreSnapshot& snapshot = plan.snapshots[static_cast<size_t>(i)];
    const bool may_leave = valid && !sequence.abandoned && (!sequence.retired() || EndsByItself(sequence.finish));
    const bool leaves = may_leave && snapshot.slots == sequence.request.history;
    if (leaves && parking_.Leave(row.sequence, sequence, snapshot.score_blocks)) continue;
    block_manager_.FinishSnapshot(sequence.blocks, snapshot.slots, use.score_kind, std::move(snapshot.score_blocks));
  }
  if (!row.choose_victim && row.shrink_to == 0) return;
  counters_.AddFreed(FreeCause::kShared, block_manager_.FinishCopies(sequence.blocks));
  sequence.shares = false;
  if (row.shrink_to == 0) ShrinkTo(sequence, sequence.live, FreeCause::kShared);
}

void StepCommit::ShrinkTo(Sequence& sequence, int32_t slots, FreeCause cause) {
  const Request& request = sequence.request;
  const int32_t tokens_left = request.max_tokens - std::max(0, sequence.computed - sequence.prompt_length());
  const int64_t peak =
      sequence.shares ? SharedDecodeBlocks(slots, DecodeSteps(tokens_left), request.budget)
                      : PeakBlocksFrom(slots, sequence.computed, sequence.prompt_length(), tokens_left, request.budget);
  swapping_.LowerPeak(sequence, peak);
  const bool grows = swapping_.on() && !sequence.shares;
  const int64_t reserved = grows ? swapping_.ReservationAfterCut(sequence, slots) : peak;
  const int32_t reserved_before = sequence.blocks.reserved();
  const int32_t freed = block_manager_.Shrink(
      sequence.blocks, slots, static_cast<int32_t>(std::min<int64_t>(reserved, sequence.blocks.reserved())));
  tenants_.of(sequence).reserved -= reserved_before - sequence.blocks.reserved();
  counters_.AddFreed(cause, freed);
}

void StepCommit::TakeToken(Sequence& sequence, int32_t token, FinishReason end, int64_t now_us) {
  const Request& request = sequence.request;
  sequence.last_token = token;
  if (sequence.shares || request.session != 0) sequence.output.push_back(token);
  ++sequence.known;
  if (sequence.times.first_token_us < 0) sequence.times.first_token_us = now_us;
  sequence.times.last_token_us = now_us;
  ++counters_.generated_tokens;
  tenants_.of(sequence).ChargeOutput();

  // An end that is also the last token allowed is a stop: the text is complete.
  if (Contains(sequence.StopIdsAfter(sequence.known - 1), token)) {
    sequence.finish = FinishReason::kStop;
    const bool eos = !request.ignore_eos && Contains(eos_ids_, token);
    if (!eos) sequence.stop_token = token;
    return;
  }
  if (end != FinishReason::kNone) {
    sequence.finish = end;
    return;
  }
  if (sequence.generated() == request.max_tokens) sequence.finish = FinishReason::kLength;
}

SequenceEvent StepCommit::MakeEvent(int32_t index, int32_t row_index, int32_t token) const {
  const Sequence& from = sequences_.at(index);
  SequenceEvent event;
  event.id = from.request.id;
  event.sequence = index;
  event.row = row_index;
  event.token = token;
  event.finish = from.finish;
  event.stop_token = from.stop_token;
  event.generated = from.generated();
  event.live = from.held;
  event.budget = from.request.budget.keep;
  event.evicted = from.computed - from.held;
  event.cached = from.cached;
  event.restored = from.restored;
  // Blocks that a row planned ahead has taken do not count, nor those of tokens of the same row that come after this one.
  const bool has_all = from.in_flight == 0 && from.computed == from.scheduled;
  event.blocks = has_all ? from.blocks.size() : static_cast<int32_t>(BlocksForSlots(from.held));
  event.prompt_computed = std::max(0, std::min(from.computed, from.prompt_length()) - from.cached - from.restored);
  event.times = from.times;
  return event;
}

void StepCommit::Retire(int32_t index, const SequenceEvent& last) {
  Sequence& sequence = sequences_.at(index);
  Tenant& tenant = tenants_.of(sequence);
  assert(sequence.retired() && sequence.in_flight == 0 && sequence.computed == sequence.scheduled);
  ++counters_.finished[static_cast<size_t>(last.finish)];
  tenant.reserved -= sequence.blocks.reserved();
  parking_.LetGo(index, sequence);
  swapping_.LetGo(index, sequence);
  if (sequence.request.parks_at_end() && EndsByItself(last.finish) && !sequence.abandoned) {
    assert(!more_in_flight_);
    parking_.Park(index, sequence);
  }
  counters_.AddFreed(EndCause(last.finish), block_manager_.Release(sequence.blocks));
  if (!sequence.waiting()) {
    --tenant.running;
    tenant.rows -= sequence.state_row >= 0 ? 1 : 0;
    const int32_t left = sequence.prompt_length() - sequence.scheduled;
    if (left > 0) ForgivePrompt(tenant, left, tenants_.all(), tenants_.turns());
  }
  sequences_.Release(index);
}

}  // namespace hydrant
