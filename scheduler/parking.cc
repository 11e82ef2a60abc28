#include "scheduler/parking.h"

#include <cstddef>
#include <limits>
#include <new>
#include <utility>

namespace hydrant {

Parking::Parking(int64_t blocks_max, const TenantList& tenants, BlockManager& block_manager,
                 SchedulerCounters& counters)
    : blocks_max_(blocks_max),
      tenants_(tenants),
      block_manager_(block_manager),
      counters_(counters),
      sessions_(blocks_max) {}

Parking::~Parking() {
  // Tables must be empty when they go; what they hold goes with the pool.
  for (BlockTable& table : tables_) block_manager_.Release(table);
}

const ParkedCounts* Parking::Resumable(const Request& request) const {
  const ParkedCounts* parked = request.session == 0 ? nullptr : sessions_.Find(PastOf(request));
  // At least one token is left to compute.
  const bool fits = parked != nullptr && parked->tenant == request.tenant &&
                    parked->computed < static_cast<int32_t>(request.prompt.size());
  return fits ? parked : nullptr;
}

bool Parking::KeepsPast(const Request& request) const {
  if (Resumable(request) == nullptr) return false;
  const double share = tenants_.ShareOf(request.tenant);
  return sessions_.CanPin(PastOf(request), static_cast<int64_t>(share * static_cast<double>(blocks_max_)));
}

void Parking::PinPast(Sequence& sequence) {
  sequence.pins = KeepsPast(sequence.request);
  if (sequence.pins) {
    sessions_.Pin(PastOf(sequence.request));
  } else if (Resumable(sequence.request) == nullptr) {
    sequence.request.resumes = 0;
  }
}

void Parking::UnpinPast(Sequence& sequence) {
  if (std::exchange(sequence.pins, false)) sessions_.Unpin(PastOf(sequence.request));
}

void Parking::Park(int32_t index, Sequence& sequence) {
  const KvBudget& budget = sequence.request.budget;
  PlanPark park;
  park.id = {sequence.request.session, sequence.request.turn};
  park.sequence = index;
  park.live = sequence.live;
  park.computed = sequence.computed;
  // The last step of an exact budget chose the victim for a next token, but there is no next token.
  if (budget.limited() && !budget.periodic && sequence.live == budget.keep + 1) {
    park.cut_from = sequence.live;
    park.live = budget.keep;
  }
  const ParkedCounts kv = {park.id, sequence.request.tenant, park.computed, park.live};
  // What is parked for tenants that are gone makes room first.
  const auto weight_of = [this](int32_t tenant) {
    const TenantOptions& options = tenants_.at(tenant).options;
    return options.gone ? std::numeric_limits<double>::min() : options.weight;
  };
  try {
    park.block_table.assign(sequence.blocks.blocks().begin(), sequence.blocks.blocks().end());
    park.score_table.assign(sequence.blocks.score_blocks().begin(), sequence.blocks.score_blocks().end());
    parks_.reserve(parks_.size() + 1);
    tables_.reserve(tables_.size() + 1);
    if (!sessions_.Put(kv, weight_of)) return;
  } catch (const std::bad_alloc&) {
    return;  // as if there were no room for it
  }
  ReleaseTables(/*of_dropped_turns=*/true);
  parks_.push_back(std::move(park));
  tables_.push_back(std::move(sequence.blocks));
  ++counters_.parks;
}

void Parking::Finish(std::span<const TurnId> lost) {
  for (const TurnId& id : lost) sessions_.Lose(id);
  ReleaseTables(/*of_dropped_turns=*/false);
  sessions_.ClearDropped();
}

void Parking::Settle(const TurnId& id, bool keep) {
  sessions_.Settle(id, keep);
  ReleaseTables(/*of_dropped_turns=*/true);
}

void Parking::DropSession(uint64_t session) {
  sessions_.DropSession(session);
  ReleaseTables(/*of_dropped_turns=*/true);
}

// Returns to the pool the blocks of the KV on its way out: of all turns, because it is parked now, or of dropped
// turns, which need not be parked any more.
void Parking::ReleaseTables(bool of_dropped_turns) {
  for (size_t i = parks_.size(); i-- > 0;) {
    if (of_dropped_turns && sessions_.Find(parks_[i].id) != nullptr) continue;
    counters_.AddFreed(FreeCause::kFinish, block_manager_.Release(tables_[i]));
    tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(i));
    parks_.erase(parks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace hydrant
