#include "scheduler/fairness/shrink_planner.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {

void ShrinkPlanner::Begin(std::span<const Tenant> tenants, const Tenant& waiting, int32_t blocks, bool over_share) {
  tenants_ = tenants;
  waiting_ = &waiting;
  blocks_ = blocks;
  waiting_over_share_ = over_share;
  weights_ = WeightsInUse(tenants);
  candidates_.clear();
  options_.clear();
  returned_by_ends_.assign(tenants.size(), 0);
  gained_by_ends_ = 0;
  Reset();
}

void ShrinkPlanner::AddEnd(int32_t tenant, int32_t returned, int32_t in_use) {
  gained_by_ends_ += GainFrom(tenant, returned, in_use);
  returned_by_ends_[static_cast<size_t>(tenant)] += returned;
  Reset();
}

void ShrinkPlanner::Reset() {
  for (Candidate& candidate : candidates_) candidate.chosen = -1;
  returned_ = returned_by_ends_;
  gain_ = gained_by_ends_;
  choices_.clear();
}

void ShrinkPlanner::AddSequence(int32_t sequence, int32_t tenant) {
  const int32_t end = static_cast<int32_t>(options_.size());
  candidates_.push_back({sequence, tenant, end, end, -1});
}

void ShrinkPlanner::AddOption(const ShrinkOption& option) {
  assert(!candidates_.empty() && option.keep >= 1);
  options_.push_back(option);
  ++candidates_.back().end;
}

// Blocks that the waiting tenant gains if a tenant returns `returned` more than is chosen already.
int64_t ShrinkPlanner::GainFrom(int32_t index, int64_t returned, int64_t in_use) const {
  const Tenant& tenant = tenants_[static_cast<size_t>(index)];
  if (&tenant == waiting_) return returned - in_use;
  // Blocks below its floor stay for a tenant, reserved or not.
  const int64_t before = tenant.claimed() - returned_[static_cast<size_t>(index)];
  const auto unused_floor = [&](int64_t reserved) {
    return std::max<int64_t>(0, tenant.options.floor_blocks - reserved);
  };
  return returned - in_use - (unused_floor(before - returned) - unused_floor(before));
}

// Blocks gained if the candidate moves from its chosen option to `option`.
int64_t ShrinkPlanner::Gain(const Candidate& candidate, int32_t option) const {
  const ShrinkOption& to = options_[static_cast<size_t>(option)];
  const ShrinkOption* from = chosen(candidate);
  return GainFrom(candidate.tenant, to.returned - (from == nullptr ? 0 : from->returned),
                  to.in_use - (from == nullptr ? 0 : from->in_use));
}

std::optional<ShrinkPlanner::Step> ShrinkPlanner::NextStep(const Candidate& candidate) const {
  const bool own = &tenants_[static_cast<size_t>(candidate.tenant)] == waiting_;
  if (waiting_over_share_ && !own && !OverShare(candidate.tenant)) return std::nullopt;
  for (int32_t option = std::max(candidate.begin, candidate.chosen + 1); option < candidate.end; ++option) {
    const int64_t gain = Gain(candidate, option);
    if (gain <= 0) continue;
    const ShrinkOption* from = chosen(candidate);
    const double loss = options_[static_cast<size_t>(option)].loss - (from == nullptr ? 0.0 : from->loss);
    return Step{option, loss / static_cast<double>(gain)};
  }
  return std::nullopt;
}

void ShrinkPlanner::Choose(Candidate& candidate, int32_t option) {
  gain_ += Gain(candidate, option);
  const ShrinkOption* from = chosen(candidate);
  returned_[static_cast<size_t>(candidate.tenant)] +=
      options_[static_cast<size_t>(option)].returned - (from == nullptr ? 0 : from->returned);
  candidate.chosen = option;
}

bool ShrinkPlanner::OverShare(int32_t tenant) const {
  const Tenant& one = tenants_[static_cast<size_t>(tenant)];
  const int64_t claimed = one.claimed() - returned_[static_cast<size_t>(tenant)];
  return one.options.gone || !WithinShare(one, claimed, weights_, blocks_);
}

bool ShrinkPlanner::CanGain(int64_t blocks) {
  Reset();
  for (Candidate& candidate : candidates_) {
    while (const std::optional<Step> step = NextStep(candidate)) Choose(candidate, step->option);
  }
  return gain_ >= blocks;
}

std::span<const ShrinkPlanner::Choice> ShrinkPlanner::PlanFor(int64_t blocks) {
  Reset();
  while (gain_ < blocks) {
    Candidate* best = nullptr;
    Step best_step;
    std::pair<bool, double> best_rank;
    for (Candidate& candidate : candidates_) {
      const std::optional<Step> step = NextStep(candidate);
      if (!step.has_value()) continue;
      // Between equals the one that was admitted first.
      const std::pair<bool, double> rank = {!OverShare(candidate.tenant), step->loss_per_block};
      if (best != nullptr && !(rank < best_rank)) continue;
      best = &candidate;
      best_step = *step;
      best_rank = rank;
    }
    if (best == nullptr) return {};
    Choose(*best, best_step.option);
  }
  for (const Candidate& candidate : candidates_) {
    if (const ShrinkOption* option = chosen(candidate)) choices_.push_back({candidate.sequence, option->keep});
  }
  return choices_;
}

}  // namespace hydrant
