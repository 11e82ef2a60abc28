#include "tests/sim/plan_digest.h"

#include <bit>

#include "tests/sim/fake_model.h"

namespace hydrant::sim {

void PlanDigest::Add(uint64_t word) { value_ = Mix(value_ * 3 + word + 0x9e3779b97f4a7c15u); }

void PlanDigest::AddCost(double cost) { Add(std::bit_cast<uint64_t>(cost)); }

void PlanDigest::AddIds(std::span<const int32_t> ids) {
  Add(ids.size());
  for (int32_t id : ids) Add(static_cast<uint64_t>(id));
}

void PlanDigest::AddRow(const PlanRow& row) {
  AddAll(row.sequence, row.state_row, row.position, row.live, row.prompt_length, row.snapshot_begin, row.snapshot_end,
         row.prefill, row.reuse_victim, row.choose_victim, row.shrink_to, row.keep, row.lowered, row.loss_keep_max,
         row.loss_cuts, row.sample, row.evicted, row.copies.size());
  AddIds(row.tokens);
  AddIds(row.block_table);
  AddIds(row.score_table);
  AddIds(row.stop_ids);
  for (const BlockCopy& copy : row.copies) AddAll(copy.index, copy.from, copy.from_score_block, copy.to);
}

void PlanDigest::AddPlan(const StepPlan& plan) {
  ++plans_;
  AddAll(plan.number, plan.restores.size(), plan.score_inits.size(), plan.rows.size(), plan.snapshots.size(),
         plan.decode_tokens, plan.draft_tokens, plan.prefill_tokens, plan.several_tenants, plan.shared);
  AddCost(plan.decode_cost);
  AddCost(plan.prefill_cost);
  for (const PlanRestore& restore : plan.restores) {
    AddAll(restore.id.session, restore.id.turn, restore.sequence, restore.live, restore.cut_to, restore.computed,
           restore.rows, restore.slice.begin, restore.slice.end);
    AddIds(restore.block_table);
  }
  for (const ScoreInit& start : plan.score_inits) AddAll(start.from, start.to, start.position);
  for (const PlanRow& row : plan.rows) AddRow(row);
  for (const ScoreSnapshot& snapshot : plan.snapshots) {
    Add(static_cast<uint64_t>(snapshot.slots));
    AddIds(snapshot.score_blocks);
  }
  if (on_plan) on_plan(plan);
}

void PlanDigest::AddMoves(const Scheduler& scheduler) {
  AddAll(scheduler.drops().size(), scheduler.parks().size());
  for (const TurnId& turn : scheduler.drops()) AddAll(turn.session, turn.turn);
  for (const PlanPark& park : scheduler.parks()) {
    AddAll(park.id.session, park.id.turn, park.sequence, park.cut_from, park.live, park.computed, park.begins,
           park.slice.begin, park.slice.end);
    AddIds(park.block_table);
    AddIds(park.score_table);
  }
}

void PlanDigest::AddEvent(const EngineEvent& event) {
  const RequestTimes& times = event.times;
  AddAll(event.id, event.token, event.prompt_logprobs.size(), event.prompt_begin, event.finish, event.stop_token,
         event.generated, event.live, event.budget, event.evicted, event.blocks, event.prompt_computed, event.cached,
         event.restored, times.arrival_us, times.admitted_us, times.first_token_us, times.last_token_us);
}

void PlanDigest::AddTenant(const Tenant& tenant) {
  AddAll(tenant.queue.size(), tenant.running, tenant.reserved, tenant.prompt_due, tenant.held_back,
         tenant.prompt_tokens, tenant.generated_tokens);
  for (int32_t sequence : tenant.queue) Add(static_cast<uint64_t>(sequence));
  AddCost(tenant.service);
  AddCost(tenant.charged);
  AddCost(tenant.prefilled);
  AddCost(tenant.moved);
}

void PlanDigest::AddStep(std::span<const EngineEvent> events, const Scheduler& scheduler) {
  Add(events.size());
  for (const EngineEvent& event : events) AddEvent(event);
  Add(scheduler.admitted().size());
  for (uint64_t id : scheduler.admitted()) Add(id);
  AddIds(scheduler.running_sequences());
  for (const Tenant& tenant : scheduler.tenants()) AddTenant(tenant);
  const SchedulerCounters& counters = scheduler.counters();
  // The reasons behind these are not the scheduler's.
  for (size_t i = 0; i <= static_cast<size_t>(FinishReason::kNoMemory); ++i) Add(counters.finished[i]);
  for (uint64_t freed : counters.freed_blocks) Add(freed);
  const BlockManager& blocks = scheduler.block_manager();
  AddAll(scheduler.shrinks_for(), scheduler.waiting(), counters.steps, counters.admitted, counters.prompt_tokens,
         counters.generated_tokens, counters.evicted_tokens, counters.prefix_queries, counters.prefix_hits,
         counters.shrinks, counters.parks, counters.restores, counters.restored_tokens, blocks.promised(),
         blocks.pool().free(), blocks.pool().cached(), blocks.pool().operations(), blocks.score_blocks().free(),
         blocks.score_blocks().in_snapshots(), scheduler.parked().blocks(), scheduler.parked().size(),
         scheduler.parked().lost());
}

Executor::Ticket DigestingExecutor::Launch(const StepInput& input) {
  const bool is_plan = !input.rows.empty() || !input.restores.empty();
  if (digest_ != nullptr && is_plan) digest_->AddPlan(scheduler_->plan());
  if (digest_ != nullptr && !is_plan) digest_->AddMoves(*scheduler_);
  return inner().Launch(input);
}

}  // namespace hydrant::sim
