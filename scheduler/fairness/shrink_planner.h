// ShrinkPlanner chooses which budgets are lowered, and how far, so that a request that waits for blocks is admitted.
//
// Thread: engine. Pure. Keeps its memory from plan to plan.
//
// The order of giving way: sequences of tenants that hold more than their weighted share of the pool first, then those whose
// dropped slots hold the least score per block gained.
// For a tenant that would come above its own share, those within theirs give nothing. What a tenant gives up within its own floor wins nothing, for that stays
// reserved for it. A budget is lowered step by step as long as more is missing, so each pays as little as possible; when all
// of them together cannot pay, nobody does.
#ifndef HYDRANT_SCHEDULER_FAIRNESS_SHRINK_PLANNER_H_
#define HYDRANT_SCHEDULER_FAIRNESS_SHRINK_PLANNER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/fairness/tenant.h"

namespace hydrant {

// One budget to which a sequence's may be lowered.
struct ShrinkOption {
  int32_t keep = 0;
  int32_t returned = 0;  // blocks by which its reservation falls
  int32_t in_use = 0;    // of what it holds, others go on using: their room is not won
  double loss = 0.0;     // share of its score mass that goes
};

class ShrinkPlanner {
 public:
  struct Choice {
    int32_t sequence = 0;
    int32_t keep = 0;
  };

  // `tenants` and `waiting`, one of them, outlive the plan. `blocks`: of the pool. `over_share`: with what it waits for it would claim
  // more than its share.
  void Begin(std::span<const Tenant> tenants, const Tenant& waiting, int32_t blocks, bool over_share = false);
  // Adds a sequence that ends with this step in any case: `returned` and `in_use` as in ShrinkOption.
  void AddEnd(int32_t tenant, int32_t returned, int32_t in_use);
  // Blocks gained by the ends added so far.
  int64_t gained_by_ends() const { return gained_by_ends_; }
  void AddSequence(int32_t sequence, int32_t tenant);
  // Adds an option to the sequence added last. REQUIRES: options come by descending `keep`; neither `returned` nor
  // `loss` falls.
  void AddOption(const ShrinkOption& option);

  // True if the last options of all candidates and the ends together gain `blocks` blocks for the waiting tenant.
  bool CanGain(int64_t blocks);
  // The budgets to lower so that `blocks` blocks are gained; empty if that is not possible. Valid until the next Begin.
  std::span<const Choice> PlanFor(int64_t blocks);

 private:
  struct Candidate {
    int32_t sequence = 0;
    int32_t tenant = 0;
    int32_t begin = 0;  // [begin, end) of options_
    int32_t end = 0;
    int32_t chosen = -1;  // of options_
  };
  // The next option of a candidate that gains a block.
  struct Step {
    int32_t option = -1;
    double loss_per_block = 0.0;
  };

  const ShrinkOption* chosen(const Candidate& candidate) const {
    return candidate.chosen < 0 ? nullptr : &options_[static_cast<size_t>(candidate.chosen)];
  }
  int64_t GainFrom(int32_t tenant, int64_t returned, int64_t in_use) const;
  int64_t Gain(const Candidate& candidate, int32_t option) const;
  std::optional<Step> NextStep(const Candidate& candidate) const;
  void Choose(Candidate& candidate, int32_t option);
  bool OverShare(int32_t tenant) const;
  void Reset();

  std::span<const Tenant> tenants_;
  const Tenant* waiting_ = nullptr;
  bool waiting_over_share_ = false;
  int32_t blocks_ = 0;
  double weights_ = 0.0;  // of the tenants that have or want anything
  std::vector<Candidate> candidates_;
  std::vector<ShrinkOption> options_;
  std::vector<int64_t> returned_by_ends_;  // by tenant
  int64_t gained_by_ends_ = 0;
  std::vector<int64_t> returned_;  // by tenant, by the ends and as chosen so far
  int64_t gain_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_FAIRNESS_SHRINK_PLANNER_H_
