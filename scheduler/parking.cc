// The part of Scheduler that has to do with sessions: KV that leaves the pool when a turn ends and comes back for the next.
#include <algorithm>
#include <cassert>
#include <utility>

#include "scheduler/scheduler.h"

namespace hydrant {

const ParkedKv* Scheduler::Resumable(const Request& request) const {
  const ParkedKv* parked = request.session == 0 ? nullptr : parked_.Find(request.session);
  // At least one token is left to compute.
  const bool fits = parked != nullptr && parked->turn == request.resumes && parked->tenant == request.tenant &&
                    parked->computed < static_cast<int32_t>(request.prompt.size());
  return fits ? parked : nullptr;
}

// Its tenant's part of what can be parked, by weight.
bool Scheduler::KeepsPast(const Request& request) const {
  if (Resumable(request) == nullptr) return false;
  double weights = 0;
  for (const Tenant& tenant : tenants_) weights += tenant.options.weight;
  const double share = tenants_[static_cast<size_t>(request.tenant)].options.weight / weights;
  return parked_.CanPin(request.session, static_cast<int64_t>(share * static_cast<double>(options_.parked_blocks_max)));
}

absl::Status Scheduler::CheckSlotsAtWorst(const Request& request, int64_t slots_max) const {
  int64_t slots = PeakSlots(request);
  if (Resumable(request) != nullptr && !KeepsPast(request)) {
    const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
    slots = std::max(slots, PeakSlotsFrom(0, 0, prompt_length, request.max_tokens, request.budget));
  }
  if (slots <= slots_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "its tenant's queue counts on as much parked KV as its share, and it needs its own");
}

void Scheduler::Unpin(Sequence& sequence) {
  if (std::exchange(sequence.pins, false)) parked_.Unpin(sequence.request.session);
}

// What the sequence holds leaves with its table, if there can be room for it. If not, what the turn before left goes all the
// same: the session has gone on from there, and nobody will ask for it.
void Scheduler::Park(int32_t index) {
  Sequence& sequence = at(index);
  const KvBudget& budget = sequence.request.budget;
  PlanPark park;
  park.session = sequence.request.session;
  park.sequence = index;
  park.turn = sequence.request.turn;
  park.live = sequence.live;
  park.computed = sequence.computed;
  // An exact budget's last step chose the slot the next token was to overwrite; no token comes.
  if (budget.limited() && !budget.periodic && sequence.live == budget.keep + 1) {
    park.cut_from = sequence.live;
    park.live = budget.keep;
  }
  const ParkedKv kv = {sequence.request.turn, sequence.request.tenant, park.computed, park.live};
  const auto weight_of = [this](int32_t tenant) { return tenants_[static_cast<size_t>(tenant)].options.weight; };
  if (!parked_.Put(park.session, kv, weight_of)) {
    parked_.Drop(park.session);
    return;
  }
  ReleaseParks(/*of_dropped_sessions=*/true);
  park.block_table.assign(sequence.blocks.blocks().begin(), sequence.blocks.blocks().end());
  park.side_table.assign(sequence.blocks.sides().begin(), sequence.blocks.sides().end());
  parks_.push_back(std::move(park));
  parking_tables_.push_back(std::move(sequence.blocks));
  ++counters_.parks;
}

void Scheduler::FinishParks(std::span<const uint64_t> lost) {
  for (const uint64_t session : lost) parked_.Lose(session);
  ReleaseParks(/*of_dropped_sessions=*/false);
  parked_.ClearDropped();
}

void Scheduler::DropSession(uint64_t session) {
  parked_.Drop(session);
  ReleaseParks(/*of_dropped_sessions=*/true);
}

// Gives back the blocks of sequences that left: of all, for they are parked, or of those that need not be parked any more.
void Scheduler::ReleaseParks(bool of_dropped_sessions) {
  for (size_t i = parks_.size(); i-- > 0;) {
    if (of_dropped_sessions && parked_.Find(parks_[i].session) != nullptr) continue;
    const int32_t freed = block_manager_.Release(parking_tables_[i]);
    counters_.freed_blocks[static_cast<size_t>(FreeCause::kFinish)] += static_cast<uint64_t>(freed);
    parking_tables_.erase(parking_tables_.begin() + static_cast<std::ptrdiff_t>(i));
    parks_.erase(parks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace hydrant
