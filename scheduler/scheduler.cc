#include "scheduler/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/plan_ahead.h"

namespace hydrant {

Scheduler::Scheduler(const SchedulerOptions& options)
    : eos_ids_(options.eos_ids),
      block_manager_(options.blocks, options.spare_score_blocks, options.prefix_hash_mask),
      sequences_(options.sequences_max, options.waiting_max),
      tenants_(options.policy, options.blocks, options.sequences_max),
      parking_(options.parked_blocks_max, sequences_, tenants_, block_manager_, counters_),
      elastic_(sequences_, tenants_, block_manager_, parking_),
      swapping_(options.swap_blocks_max, options.swap_patience, sequences_, tenants_, block_manager_, parking_,
                elastic_, counters_),
      admission_(sequences_, tenants_, block_manager_, parking_, elastic_, swapping_, options.swap_patience, counters_),
      builder_(options, sequences_, tenants_, block_manager_),
      commit_(eos_ids_, sequences_, tenants_, block_manager_, parking_, swapping_, options.drafts_max, counters_) {
  assert(options.Validate().ok());
  SetTenants(options.tenants);
}

Scheduler::~Scheduler() {
  // Tables must be empty when they go; what they hold goes with the pool.
  for (int32_t index : sequences_.running()) block_manager_.Release(sequences_.at(index).blocks);
}

absl::StatusOr<int32_t> Scheduler::Add(Request request) {
  admission_.DropHistoryWithoutRoom(&request);
  if (absl::Status status = admission_.Check(request); !status.ok()) return status;
  if (absl::Status status = builder_.CheckTail(request); !status.ok()) return status;
  if (request.needs_past && parking_.Resumable(request) == nullptr) {
    return absl::UnavailableError("what its session had parked is gone, and it needs that");
  }
  if (sequences_.full()) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", waiting(), " requests wait"));
  }
  if (sequences_.Find(request.id) >= 0) {
    return absl::AlreadyExistsError(absl::StrCat("request ", request.id, " is in progress"));
  }
  const std::vector<int32_t>& asked = request.stop_token_ids;
  std::vector<int32_t> stop_ids;
  stop_ids.reserve(eos_ids_.size() + asked.size());
  if (!request.ignore_eos) stop_ids = eos_ids_;
  stop_ids.insert(stop_ids.end(), asked.begin(), asked.end());
  const int32_t index = sequences_.Take(request.id);
  Sequence& sequence = sequences_.at(index);
  sequence.request = std::move(request);
  sequence.known = sequence.prompt_length();
  sequence.stop_ids = std::move(stop_ids);
  sequence.times.arrival_us = sequence.request.arrival_us;
  try {
    admission_.Enqueue(index);
  } catch (...) {
    sequences_.Release(index);
    throw;
  }
  return index;
}

void Scheduler::SetTenants(std::span<const TenantOptions> tenants) {
  builder_.ReserveTenants(tenants.size());
  tenants_.Set(tenants);
}

bool Scheduler::Cancel(uint64_t id) {
  const int32_t index = sequences_.Find(id);
  if (index < 0) return false;
  Sequence& sequence = sequences_.at(index);
  if (sequence.retired()) return false;
  sequence.finish = FinishReason::kAbort;
  if (sequence.in_flight > 0) return true;  // Commit ends it

  if (sequence.waiting()) admission_.Withdraw(index);
  commit_.End(index);
  return true;
}

void Scheduler::SettleTurn(const TurnId& id, bool keep) {
  parking_.Settle(id, keep);
  if (keep) return;
  for (int32_t index : sequences_.running()) {
    Sequence& sequence = sequences_.at(index);
    if (TurnId{sequence.request.session, sequence.request.turn} == id) sequence.abandoned = true;
  }
}

void Scheduler::FinishParks(std::span<const TurnId> lost) {
  for (const PlanPark& park : parks()) builder_.ChargeMove(park.tenant, park.slice.size());
  parking_.Finish(lost);
}

void Scheduler::FinishSwaps(std::span<const uint64_t> lost) {
  for (const PlanSwapOut& out : swap_outs()) builder_.ChargeMove(out.payer, out.slice.size());
  swapping_.Finish(lost);
  for (uint64_t id : lost) EndWithoutMemory(id);
}

void Scheduler::FailSwaps() {
  for (uint64_t id : swapping_.Fail()) EndWithoutMemory(id);
}

void Scheduler::EndWithoutMemory(uint64_t id) {
  const int32_t index = sequences_.Find(id);
  sequences_.at(index).finish = FinishReason::kNoMemory;
  ++counters_.swaps_lost;
  commit_.End(index);
}

void Scheduler::EndWithoutPast() {
  for (int32_t index = admission_.FindWithoutPast(); index >= 0; index = admission_.FindWithoutPast()) {
    sequences_.at(index).finish = FinishReason::kPastMoved;
    admission_.Withdraw(index);
    commit_.End(index);
  }
}

void Scheduler::SetPaused(uint64_t id, bool paused) {
  if (const int32_t index = sequences_.Find(id); index >= 0) sequences_.at(index).paused = paused;
}

void Scheduler::Draft(int32_t index, std::span<const int32_t> tokens) {
  Sequence& sequence = sequences_.at(index);
  assert(builder_.in_flight() == 0);
  sequence.next_tokens.clear();
  if (tokens.empty()) return;
  sequence.next_tokens.reserve(tokens.size() + 1);
  sequence.next_tokens.push_back(sequence.last_token);
  sequence.next_tokens.insert(sequence.next_tokens.end(), tokens.begin(), tokens.end());
}

const StepPlan& Scheduler::Plan(int64_t now_us) {
  StepPlan& plan = builder_.Begin();
  EndWithoutPast();
  admission_.Begin();
  swapping_.Begin(plan.number);
  // Who was given room takes it before anybody who grows.
  if (swapping_.on()) admission_.KeepPromise(now_us, plan);
  swapping_.PlanGrowth();
  // Where sessions' KV moves, too, they take turns.
  const bool swaps = swapping_.on() && (!parking_.moving() || plan.number % 2 == 0);
  swapping_.PlanReturns(swaps ? blocks_moved_max_ : 0, &plan.swap_ins);
  admission_.Plan(now_us, plan);  // for which somebody may step aside, too
  swaps_ = swaps && (swapping_.moving() || !plan.swap_ins.empty());
  parking_.LimitMoves(swaps_ ? 0 : blocks_moved_max_);
  parking_.PlanRestores(&plan.restores);
  builder_.AddRows(admission_.somebody_is_blocked());
  if (!plan.rows.empty()) ++counters_.steps;
  return plan;
}

const StepPlan* Scheduler::PlanAhead(absl::FunctionRef<bool(int32_t sequence)> can_plan_ahead) {
  assert(builder_.in_flight() == 1);
  // KV moves only when no plan is in flight.
  if (!drops().empty() || !parks().empty() || !swap_drops().empty()) return nullptr;
  // What budgets fall for is not taken by those that run.
  if (shrinks_for() != 0 || !swapping_.GrowAhead(builder_.plan().number + 1)) return nullptr;
  const StepAhead ahead = LookAhead(builder_.plan(), sequences_, can_plan_ahead);
  if (!ahead.plain || admission_.MayAdmit(ahead.row_becomes_free, builder_.plan().number + 1)) return nullptr;
  const StepPlan* plan = builder_.PlanAhead();
  if (plan == nullptr) return nullptr;
  assert(admitted().empty() && shrinks_for() == 0);
  ++counters_.steps;
  return plan;
}

std::span<const SequenceEvent> Scheduler::Commit(const StepPlan& plan, std::span<const RowResult> results,
                                                 int64_t now_us) {
  StepPlan& oldest = builder_.Finish(plan);
  admission_.ChargeMemory();
  const std::span<const SequenceEvent> events = commit_.Take(oldest, results, builder_.in_flight() > 0, now_us);
  if (builder_.in_flight() > 0) return events;
  if (!swaps_) parking_.LimitMoves(blocks_moved_max_);
  parking_.PlanParks();
  int64_t blocks_returned = 0;
  for (const PlanSwapIn& in : oldest.swap_ins) blocks_returned += in.slice.size();
  swapping_.PlanOuts(swaps_ ? std::max<int64_t>(0, blocks_moved_max_ - blocks_returned) : 0);
  return events;
}

absl::Status Scheduler::CheckIntegrity() const {
  if (absl::Status status = sequences_.CheckIntegrity(waiting()); !status.ok()) return status;
  const auto parks_claim = [this](int32_t tenant) { return parking_.ReservedOf(tenant); };
  if (absl::Status status = tenants_.CheckIntegrity(sequences_, waiting(), parks_claim); !status.ok()) return status;
  std::vector<const BlockTable*> tables;
  for (int32_t index : sequences_.running()) tables.push_back(&sequences_.at(index).blocks);
  for (const BlockTable& table : parking_.tables()) tables.push_back(&table);
  if (absl::Status status = swapping_.CheckIntegrity(); !status.ok()) return status;
  return block_manager_.CheckIntegrity(tables);
}

}  // namespace hydrant
