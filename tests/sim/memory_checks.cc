#include "tests/sim/memory_checks.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hydrant::sim {

// Blocks of the pool that the tenant's sequences hold or were promised, and those that its parks still hold.
int64_t MemoryChecks::BlocksOf(const Scheduler& scheduler, int32_t tenant) {
  seen_.resize(static_cast<size_t>(workload_.core().scheduler.blocks));
  ++looks_;
  int64_t blocks = 0;
  const auto count_once = [&](std::span<const int32_t> table) {
    for (const int32_t block : table) {
      blocks -= std::exchange(seen_[static_cast<size_t>(block)], looks_) == looks_ ? 1 : 0;
    }
  };
  for (const int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    if (sequence.request.tenant != tenant) continue;
    blocks += sequence.blocks.reserved();
    count_once(sequence.blocks.blocks());
  }
  for (const PlanPark& park : scheduler.parks()) {
    if (park.tenant != tenant) continue;
    blocks += std::ssize(park.block_table);
    count_once(park.block_table);
  }
  return blocks;
}

void MemoryChecks::BeforeCharge(const Scheduler& scheduler) {
  if (workload_.core().scheduler.policy != SchedulingPolicy::kFair) return;
  accounts_.resize(workload_.tenants().size());
  uint64_t computed = 0;
  for (size_t i = 0; i < accounts_.size(); ++i) {
    const Tenant& tenant = scheduler.tenant(static_cast<int32_t>(i));
    accounts_[i].counting = tenant.prompt_tokens + 2 * tenant.generated_tokens;
    accounts_[i].charged = tenant.memory_charged;
    computed += accounts_[i].counting - accounts_[i].counted;
  }
  for (size_t i = 0; i < accounts_.size(); ++i) {
    Account& account = accounts_[i];
    const auto blocks = static_cast<double>(BlocksOf(scheduler, static_cast<int32_t>(i)));
    const double part = blocks / workload_.core().scheduler.blocks;
    const double more = part * static_cast<double>(computed) - static_cast<double>(account.counting - account.counted);
    account.due = std::max(0.0, more) / workload_.tenants()[i].weight;
  }
}

void MemoryChecks::AfterStep(const Scheduler& scheduler) {
  const bool exact = workload_.sessions() == 0 && workload_.core().scheduler.swap_blocks_max == 0;
  for (size_t i = 0; i < accounts_.size(); ++i) {
    Account& account = accounts_[i];
    account.counted = account.counting;
    checks_ += account.due > 0 ? 1 : 0;
    const double charged = scheduler.tenant(static_cast<int32_t>(i)).memory_charged;
    const double more = bug_ == PlantedBug::kMemoryIsFree ? 0 : charged - account.charged;
    // The difference of two sums of fractions.
    const double rounding = 1e-9 * (1 + charged);
    if (more < account.due - rounding || (exact && more > account.due + rounding)) {
      failure_.Set("tenant ", i, " is charged ", more, " for memory by a step, not ", account.due);
    }
  }
}

}  // namespace hydrant::sim
