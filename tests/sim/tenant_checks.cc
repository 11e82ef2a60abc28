#include "tests/sim/tenant_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace hydrant::sim {

TenantChecks::TenantChecks(const Workload& workload, const SimRequests& requests, PlantedBug bug, Failure& failure)
    : workload_(workload), requests_(requests), bug_(bug), failure_(failure) {
  OnReload();
}

int64_t TenantChecks::BlocksMax(int32_t tenant) const {
  const TenantOptions& own = workload_.tenants()[static_cast<size_t>(tenant)];
  int64_t most = int64_t{workload_.core().scheduler.blocks} + own.floor_blocks;
  for (const TenantOptions& each : workload_.tenants()) most -= each.floor_blocks;
  return own.blocks_max > 0 ? std::min<int64_t>(most, own.blocks_max) : most;
}

void TenantChecks::OnReload() {
  const size_t count = workload_.tenants().size();
  cap_max_.resize(count, 0);
  cost_max_.resize(count, 0);
  cost_running_.resize(count, 0);
  memory_at_.resize(count, 0);
  memory_now_.resize(count, 0);
  lead_at_.resize(count, 0);
  lead_now_.resize(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const int32_t cap = workload_.tenants()[i].blocks_max;
    cap_max_[i] = std::max<int64_t>(cap_max_[i], cap > 0 ? cap : std::numeric_limits<int32_t>::max());
  }
}

double TenantChecks::CostOf(const SimRequest& request) const {
  const Request& asked = request.request.request;
  return (request.prompt_length() + 2.0 * asked.max_tokens) /
         workload_.tenants()[static_cast<size_t>(asked.tenant)].weight;
}

void TenantChecks::BeforeStep(const Scheduler& scheduler, bool admits) {
  std::fill(cost_running_.begin(), cost_running_.end(), 0.0);
  for (size_t i = 0; i < memory_now_.size(); ++i) {
    memory_now_[i] = scheduler.tenant(static_cast<int32_t>(i)).memory_charged;
  }
  for (int32_t index : scheduler.running_sequences()) {
    const SimRequest& request = *requests_[scheduler.sequence(index).request.id - 1];
    cost_running_[static_cast<size_t>(request.request.request.tenant)] += CostOf(request);
  }
  SeeLeads(scheduler);
  due_.clear();
  if (workload_.reloads() || !admits) return;
  for (size_t i = 0; i < workload_.tenants().size(); ++i) {
    const Tenant& tenant = scheduler.tenant(static_cast<int32_t>(i));
    if (tenant.queue.empty()) continue;
    const SimRequest& head = *requests_[scheduler.sequence(tenant.queue.front()).request.id - 1];
    const TenantOptions& options = workload_.tenants()[i];
    const SchedulerOptions& all = workload_.core().scheduler;
    const int32_t rows = FloorRows(options.floor_blocks, all.blocks, all.sequences_max);
    // Where sequences may step aside, what those in progress may come to hold counts, too.
    const int64_t has = std::max(ClaimedBlocks(scheduler, tenant), tenant.peaks);
    if (has + head.blocks_alone > options.floor_blocks || tenant.running >= rows) continue;
    if (MayAwaitPrefix(scheduler, head.request.request)) continue;
    due_.push_back(head.id());
    ++floor_checks_;
  }
}

// Whether a prompt of its tenant is being computed that begins with the same block.
bool MayAwaitPrefix(const Scheduler& scheduler, const Request& asked) {
  const std::span<const int32_t> running = scheduler.running_sequences();
  return asked.prefix.looks_up && std::any_of(running.begin(), running.end(), [&](int32_t index) {
           const Sequence& sequence = scheduler.sequence(index);
           const Request& other = sequence.request;
           return !sequence.decodes() && other.tenant == asked.tenant && other.prompt.size() >= kBlockSlots &&
                  asked.prompt.size() >= kBlockSlots &&
                  std::equal(asked.prompt.begin(), asked.prompt.begin() + kBlockSlots, other.prompt.begin());
         });
}

int64_t ClaimedBlocks(const Scheduler& scheduler, const Tenant& tenant) {
  std::set<int32_t> seen;
  int64_t again = 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    if (&scheduler.tenant(sequence.request.tenant) != &tenant) continue;
    for (int32_t block : sequence.blocks.blocks()) again += seen.insert(block).second ? 0 : 1;
  }
  for (const PlanPark& park : scheduler.parks()) {
    if (&scheduler.tenant(park.tenant) != &tenant) continue;
    for (int32_t block : park.block_table) again += seen.insert(block).second ? 0 : 1;
  }
  return tenant.reserved - again;
}

bool WithinShareOfPool(const Workload& workload, const Scheduler& scheduler, int32_t tenant, int64_t more_blocks) {
  double weights = 0;
  for (size_t i = 0; i < workload.tenants().size(); ++i) {
    const Tenant& each = scheduler.tenant(static_cast<int32_t>(i));
    if (each.running > 0 || !each.queue.empty()) weights += workload.tenants()[i].weight;
  }
  const double weight = workload.tenants()[static_cast<size_t>(tenant)].weight;
  const auto blocks = static_cast<double>(ClaimedBlocks(scheduler, scheduler.tenant(tenant)) + more_blocks);
  return blocks * weights <= workload.core().scheduler.blocks * weight;
}

void TenantChecks::CheckGivers(const Scheduler& scheduler) {
  const bool fair = workload_.core().scheduler.policy == SchedulingPolicy::kFair;
  if (scheduler.shrinks_for() == 0 || !fair) return;
  const SimRequest& taker = *requests_[scheduler.shrinks_for() - 1];
  const Request& asked = taker.request.request;
  // What one needs that finds a prefix, or goes on from its session, is not known here.
  if (!taker.started && (asked.prefix.looks_up || asked.session != 0)) return;
  // Where sequences may step aside it is let in with less than it may come to hold.
  const bool all_at_once = workload_.core().scheduler.swap_blocks_max == 0;
  // And what one that runs asks for is not known here: a block at least.
  const int64_t asks = taker.started ? 1
                       : all_at_once ? taker.blocks_alone
                                     : scheduler.tenant(asked.tenant).head.blocks;
  const bool taker_stays_within = WithinShareOfPool(workload_, scheduler, asked.tenant, asks);
  for (const PlanRow& row : scheduler.plan().rows) {
    if (!row.lowered) continue;
    const int32_t giver = scheduler.sequence(row.sequence).request.tenant;
    if (giver == asked.tenant) continue;
    ++giver_checks_;
    if (taker_stays_within || !WithinShareOfPool(workload_, scheduler, giver, 0)) continue;
    failure_.Set("a budget of tenant ", giver, ", within its share, falls for tenant ", asked.tenant, " above its own");
  }
}

void TenantChecks::AfterStep(const Scheduler& scheduler) {
  const std::span<const uint64_t> admitted = scheduler.admitted();
  for (uint64_t id : due_) {
    // Its place may be another's already: one that was admitted and cancelled in the same step leaves it at once.
    if (requests_[id - 1]->cancelled || std::find(admitted.begin(), admitted.end(), id) != admitted.end()) continue;
    failure_.Set("request ", id, " waits within the floor of its tenant");
  }
  for (uint64_t id : admitted) {
    const SimRequest& request = *requests_[id - 1];
    const auto tenant = static_cast<size_t>(request.request.request.tenant);
    cost_running_[tenant] += CostOf(request);
    memory_at_[tenant] = memory_now_[tenant];
    lead_at_[tenant] = lead_now_[tenant];
  }
  for (size_t i = 0; i < cost_max_.size(); ++i) cost_max_[i] = std::max(cost_max_[i], cost_running_[i]);
  CheckCaps(scheduler);
  const bool fair = workload_.core().scheduler.policy == SchedulingPolicy::kFair;
  if (fair && !workload_.reloads() && !workload_.has_floors()) CheckFairness(scheduler);
}

void TenantChecks::BeforeEnds(const Scheduler& scheduler) {
  turns_.clear();
  for (const Tenant& tenant : scheduler.tenants()) turns_.push_back({tenant.turn(), tenant.service});
}

double TenantChecks::TurnAfter(const Tenant& tenant, const Turn& before) const {
  const bool given_back = bug_ == PlantedBug::kWithdrawnGivenBack;
  return tenant.turn() - (given_back ? tenant.service - before.service : 0.0);
}

void TenantChecks::AfterEnds(const Scheduler& scheduler) {
  const std::span<const Tenant> tenants = scheduler.tenants();
  for (size_t i = 0; i < turns_.size(); ++i) {
    const double turn = TurnAfter(tenants[i], turns_[i]);
    if (turn >= turns_[i].turn) continue;
    double least = turns_[i].turn;
    bool somebody_waits = false;
    for (size_t j = 0; j < turns_.size(); ++j) {
      if (j == i || !tenants[j].waits()) continue;
      somebody_waits = true;
      least = std::min({least, turns_[j].turn, tenants[j].turn()});
    }
    withdrawn_checks_ += somebody_waits ? 1 : 0;
    if (somebody_waits && turn < least - 1e-9 * std::abs(least)) {
      failure_.Set("a withdrawn prompt brings tenant ", i, " from ", turns_[i].turn, " to ", turn,
                   ", before those who wait, the first of them at ", least);
    }
  }
}

void TenantChecks::CheckCaps(const Scheduler& scheduler) {
  for (size_t i = 0; i < cap_max_.size(); ++i) {
    const int64_t claimed = ClaimedBlocks(scheduler, scheduler.tenant(static_cast<int32_t>(i)));
    if (claimed > cap_max_[i]) failure_.Set("tenant ", i, " claims ", claimed, " blocks; its cap is ", cap_max_[i]);
  }
}

// Whoever has all that it has in progress outside keeps one state row, whatever its counter says: else it would lose the last to those
// within their share, who give none back. Until something of it comes back its head of line may have the row, so it is let in ahead of
// others by as much as memory was charged for what it had let in before.
void TenantChecks::SeeLeads(const Scheduler& scheduler) {
  const std::span<const int32_t> running = scheduler.running_sequences();
  for (size_t i = 0; i < lead_now_.size(); ++i) {
    const Tenant& tenant = scheduler.tenant(static_cast<int32_t>(i));
    const bool has_row = std::any_of(running.begin(), running.end(), [&](int32_t index) {
      const Sequence& sequence = scheduler.sequence(index);
      return sequence.request.tenant == static_cast<int32_t>(i) && sequence.place != KvPlace::kOutside;
    });
    lead_now_[i] = 0;
    if (has_row || tenant.running == 0) continue;
    for (const Tenant& other : scheduler.tenants()) {
      if (other.waits()) lead_now_[i] = std::max(lead_now_[i], tenant.turn() - other.turn());
    }
  }
}

// How far a tenant's counter may be above that of another one that waits: what its sequences in progress may cost, what memory was
// charged since it was let in, how far it was ahead then if it had a row kept, and the tokens of a full pool once it has passed a head
// above its tenant's share.
double TenantChecks::MayBeAhead(size_t index, const Tenant& tenant) const {
  const double pool = 2.0 * workload_.core().scheduler.blocks * kBlockSlots / tenant.options.weight;
  return cost_max_[index] + tenant.memory_charged - memory_at_[index] + lead_at_[index] +
         (tenant.passes > 0 ? pool : 0.0);
}

void TenantChecks::CheckFairness(const Scheduler& scheduler) {
  const std::span<const Tenant> tenants = scheduler.tenants();
  for (size_t i = 0; i < tenants.size(); ++i) {
    for (size_t j = i + 1; j < tenants.size(); ++j) {
      if (!tenants[i].waits() || !tenants[j].waits()) continue;
      ++fairness_checks_;
      const double drift = std::abs(tenants[i].service - tenants[j].service);
      const double bound = MayBeAhead(i, tenants[i]) + MayBeAhead(j, tenants[j]);
      // Counters are sums of fractions, and rounding is not unfairness.
      if (drift > bound * (1 + 1e-9) + 1e-9 * tenants[i].service) {
        failure_.Set("the counters of tenants ", i, " and ", j, " differ by ", drift, ", more than ", bound);
      }
    }
  }
}

void TenantChecks::CheckOrder() {
  std::vector<const SimRequest*> admitted;
  for (const std::unique_ptr<SimRequest>& request : requests_) {
    if (request->times.admitted_us >= 0) admitted.push_back(request.get());
  }
  // As they go, if all are there from the beginning.
  const auto line = [](const SimRequest* one) {
    const Request& asked = one->request.request;
    return std::tuple(asked.tenant, asked.priority, asked.id);
  };
  std::sort(admitted.begin(), admitted.end(),
            [&](const SimRequest* a, const SimRequest* b) { return line(a) < line(b); });
  size_t begin = 0;
  int64_t last_us = 0;  // the latest admission before this one's place in line
  for (size_t later = 0; later < admitted.size(); ++later) {
    const Request& b = admitted[later]->request.request;
    const int64_t admitted_us = admitted[later]->times.admitted_us;
    if (b.tenant != admitted[begin]->request.request.tenant) {
      begin = later;
      last_us = 0;
    }
    for (size_t i = begin; last_us > admitted_us && i < later; ++i) {
      const Request& a = admitted[i]->request.request;
      const int64_t chosen_us = admitted[later]->chosen_us >= 0 ? admitted[later]->chosen_us : admitted_us;
      if (admitted[i]->times.admitted_us > admitted_us && a.arrival_us < chosen_us) {
        failure_.Set("request ", b.id, " overtook request ", a.id);
      }
    }
    last_us = std::max(last_us, admitted_us);
  }
}

void TenantChecks::AtEnd(const Scheduler& scheduler) {
  CheckOrder();
  std::vector<uint64_t> prompt(workload_.tenants().size(), 0);
  std::vector<uint64_t> generated(workload_.tenants().size(), 0);
  for (const std::unique_ptr<SimRequest>& request : requests_) {
    const auto tenant = static_cast<size_t>(request->request.request.tenant);
    prompt[tenant] += static_cast<uint64_t>(std::min(request->computed, request->prompt_length()) - request->cached -
                                            request->restored);
    generated[tenant] += static_cast<uint64_t>(request->tokens_seen);
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    const Tenant& tenant = scheduler.tenant(static_cast<int32_t>(i));
    const double due = static_cast<double>(prompt[i] + 2 * generated[i]) / workload_.tenants()[i].weight;
    if (!workload_.reloads() && std::abs(tenant.charged - due) > 1e-9 * due) {
      failure_.Set("tenant ", i, " is charged ", tenant.charged, ", not ", due);
    }
    if (tenant.prompt_tokens != prompt[i] || tenant.generated_tokens != generated[i]) {
      failure_.Set("tenant ", i, " is charged for ", tenant.prompt_tokens, " + ", tenant.generated_tokens,
                   " tokens; its requests had ", prompt[i], " + ", generated[i]);
    }
  }
}

}  // namespace hydrant::sim
