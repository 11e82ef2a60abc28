#include "scheduler/parking.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <utility>

namespace hydrant {

Parking::Parking(int64_t blocks_max, SequenceTable& sequences, TenantList& tenants, BlockManager& block_manager,
                 SchedulerCounters& counters)
    : blocks_max_(blocks_max),
      sequences_(sequences),
      tenants_(tenants),
      block_manager_(block_manager),
      counters_(counters),
      sessions_(blocks_max) {
  // Those that a plan has just ended are still in it when others begin.
  restoring_.reserve(2 * static_cast<size_t>(sequences.free_rows()));
}

Parking::~Parking() {
  // Tables must be empty when they go; what they hold goes with the pool.
  for (BlockTable& table : tables_) block_manager_.Release(table);
}

const ParkedCounts* Parking::Resumable(const Request& request) const {
  const ParkedCounts* parked = request.session == 0 ? nullptr : sessions_.Find(PastOf(request));
  if (parked == nullptr || parked->tenant != request.tenant) return nullptr;
  // Who recalls goes on from what holds every token, and has yet to compute what it leaves.
  const bool holds_all = parked->live == parked->computed;
  if (request.history >= 0 && !holds_all) return nullptr;
  if (request.history > 0 && parked->computed > request.history) return nullptr;
  // At least one token is left to compute.
  return parked->computed < static_cast<int32_t>(request.prompt.size()) ? parked : nullptr;
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

void Parking::Unpin(Sequence& sequence) {
  if (!std::exchange(sequence.pins, false)) return;
  sessions_.Unpin(PastOf(sequence.request));
  ReleaseDropped();  // somebody may have dropped it meanwhile
}

void Parking::LetGo(int32_t index, Sequence& sequence) {
  for (Restoring& each : restoring_) {
    if (each.sequence == index) each.sequence = -1;
  }
  sequence.to_restore = 0;
  Unpin(sequence);
}

void Parking::Restore(int32_t index, Sequence& sequence) {
  const Request& request = sequence.request;
  const ParkedCounts& parked = *Resumable(request);
  // It stays until all of it is restored, also where the tenant's share was used up while the request waited.
  if (!std::exchange(sequence.pins, true)) sessions_.Pin(parked.id);
  sessions_.Use(parked.id);
  const std::span<const int32_t> blocks = sequence.blocks.blocks();
  sequence.restore_table.assign(blocks.begin(), blocks.end());
  sequence.to_restore = sequence.blocks.size();
  sequence.restored = sequence.scheduled = sequence.computed = parked.computed;
  sequence.live = sequence.held = parked.live;
  const int32_t rows = sequence.prompt_length() - parked.computed;
  const SessionRestore restore = {parked.id, parked.live, {}, /*cut_to=*/0, parked.computed, rows};
  LiftMoves(request.tenant);
  restoring_.push_back({restore, index, request.tenant, /*is_whole=*/false, std::move(sequence.restore_table)});
  ++counters_.restores;
  counters_.restored_tokens += static_cast<uint64_t>(sequence.restored);
}

// Whether something of the tenant's waits to be moved.
bool Parking::HasMoves(int32_t tenant) const {
  const auto of_tenant = [tenant](const auto& move) { return move.tenant == tenant; };
  return std::any_of(parks_.begin(), parks_.end(), of_tenant) ||
         std::any_of(restoring_.begin(), restoring_.end(),
                     [&](const Restoring& each) { return each.sequence >= 0 && of_tenant(each); });
}

// Before the tenant's first move after a while: it does not bring the time in which it had nothing to move.
void Parking::LiftMoves(int32_t tenant) {
  if (HasMoves(tenant)) return;
  double& moved = tenants_.at(tenant).moved;
  moved = std::max(moved, tenants_.turns().move_now);
}

// Whose turn it is of `count` moves; `count` if it is nobody's. `tenant_of` gives a move's tenant, or -1 where nothing
// can be moved now.
size_t Parking::NextMove(size_t count, absl::FunctionRef<int32_t(size_t)> tenant_of) const {
  size_t next = count;
  double least = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t tenant = tenant_of(i);
    if (tenant < 0) continue;
    const double moved = tenants_.fair() ? tenants_.at(tenant).moved : 0.0;
    if (next < count && moved >= least) continue;
    next = i;
    least = moved;
  }
  return next;
}

void Parking::CountMove(int32_t tenant, int32_t blocks) {
  Tenant& of = tenants_.at(tenant);
  double& now = tenants_.turns().move_now;
  now = std::max(now, of.moved);
  of.moved += blocks / of.options.weight;
}

void Parking::PlanRestores(std::vector<PlanRestore>* to) {
  std::erase_if(restoring_, [](const Restoring& each) { return each.sequence < 0; });
  // Where KV waits to leave the pool, too, each way has its half.
  const int64_t most = parks_.empty() ? blocks_moved_max_ : blocks_moved_max_ - blocks_moved_max_ / 2;
  blocks_restored_ = 0;
  for (Restoring& each : restoring_) each.is_whole = FindPark(each.restore.id) == nullptr;
  const auto tenant_of = [this](size_t i) {
    const Restoring& each = restoring_[i];
    return each.sequence >= 0 && each.is_whole ? each.tenant : -1;
  };
  while (blocks_restored_ < most) {
    const size_t next = NextMove(restoring_.size(), tenant_of);
    if (next == restoring_.size()) break;
    Restoring& each = restoring_[next];
    const int32_t index = each.sequence;
    PlanSlice(each, most - blocks_restored_);
    blocks_restored_ += each.restore.slice.size();
    to->push_back({each.restore, index, each.table});
  }
}

void Parking::PlanSlice(Restoring& each, int64_t blocks_max) {
  Sequence& sequence = sequences_.at(each.sequence);
  const auto blocks = static_cast<int32_t>(std::min<int64_t>(sequence.to_restore, blocks_max));
  each.restore.slice = {each.restore.slice.end, each.restore.slice.end + blocks};
  sequence.to_restore -= blocks;
  CountMove(each.tenant, blocks);
  if (sequence.to_restore > 0) return;
  each.sequence = -1;
  EndRestore(sequence, each.restore);
}

// Makes room for what the sequence computes.
void Parking::EndRestore(Sequence& sequence, SessionRestore& restore) {
  counters_.moves_in_slices += restore.slice.begin > 0 ? 1 : 0;
  restore.cut_to = sequence.request.budget.TurnCut(restore.live, restore.rows);
  // Whoever gets the blocks behind the cut in this step uses them only after it.
  if (restore.cut_to > 0) {
    sequence.live = sequence.held = restore.cut_to;
    counters_.AddFreed(FreeCause::kPrefill,
                       block_manager_.Shrink(sequence.blocks, restore.cut_to, sequence.blocks.reserved()));
    counters_.evicted_tokens += static_cast<uint64_t>(restore.live - restore.cut_to);
  }
  Unpin(sequence);
}

// A park of the sequence's turn, yet without what is parked.
PlanPark Parking::NewPark(int32_t index, const Sequence& sequence) {
  PlanPark park;
  park.id = {sequence.request.session, sequence.request.turn};
  park.begins = true;
  park.sequence = index;
  park.tenant = sequence.request.tenant;
  return park;
}

void Parking::Park(int32_t index, Sequence& sequence) {
  const KvBudget& budget = sequence.request.budget;
  PlanPark park = NewPark(index, sequence);
  park.live = sequence.live;
  park.computed = sequence.computed;
  // The last step of an exact budget chose the victim for a next token, but there is no next token.
  if (budget.limited() && !budget.periodic && sequence.live == budget.keep + 1) {
    park.cut_from = sequence.live;
    park.live = budget.keep;
  }
  // A row behind the end may have taken a block more.
  const auto blocks = static_cast<size_t>(BlocksForSlots(sequence.live));
  try {
    const std::span<const int32_t> table = sequence.blocks.blocks().first(blocks);
    const std::span<const int32_t> score_table = sequence.blocks.score_blocks().first(blocks);
    park.block_table.assign(table.begin(), table.end());
    park.score_table.assign(score_table.begin(), score_table.end());
    if (!MakeRoomFor(park)) return;
  } catch (const std::bad_alloc&) {
    return;  // as if there were no room for it
  }
  // It grows no more.
  counters_.AddFreed(FreeCause::kFinish,
                     block_manager_.Shrink(sequence.blocks, sequence.live, static_cast<int32_t>(blocks)));
  Begin(std::move(park), std::move(sequence.blocks));
}

bool Parking::Leave(int32_t index, const Sequence& sequence, std::span<const int32_t> score_blocks) {
  PlanPark park = NewPark(index, sequence);
  park.live = park.computed = sequence.request.history;
  BlockTable table;
  try {
    const std::span<const int32_t> blocks = sequence.blocks.blocks().first(score_blocks.size());
    park.block_table.assign(blocks.begin(), blocks.end());
    park.score_table.assign(score_blocks.begin(), score_blocks.end());
    block_manager_.Prepare(table, static_cast<int32_t>(blocks.size()), /*copies=*/false, park.tenant);
    if (!MakeRoomFor(park)) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  block_manager_.Hold(sequence.blocks, score_blocks, &table);
  Begin(std::move(park), std::move(table));
  return true;
}

// Whether there is room for what the park brings; then what gave way is gone. Throws std::bad_alloc, and nothing has happened.
bool Parking::MakeRoomFor(const PlanPark& park) {
  parks_.reserve(parks_.size() + 1);
  tables_.reserve(tables_.size() + 1);
  const ParkedCounts kv = {park.id, park.tenant, park.computed, park.live};
  if (!sessions_.Put(kv, [this](int32_t of) { return WeightOf(of); })) return false;
  ReleaseDropped();
  return true;
}

// REQUIRES: MakeRoomFor.
void Parking::Begin(PlanPark park, BlockTable table) {
  LiftMoves(park.tenant);
  tenants_.at(park.tenant).reserved += table.reserved();
  parks_.push_back(std::move(park));
  tables_.push_back(std::move(table));
  ++counters_.parks;
}

// What is parked for tenants that are gone makes room first.
double Parking::WeightOf(int32_t tenant) const {
  const TenantOptions& options = tenants_.at(tenant).options;
  return options.gone ? std::numeric_limits<double>::min() : options.weight;
}

bool Parking::Adopt(const ParkedCounts& kv) {
  if (!sessions_.Adopt(kv, [this](int32_t of) { return WeightOf(of); })) return false;
  ReleaseDropped();
  return true;
}

void Parking::PlanParks() {
  for (PlanPark& park : parks_) park.slice.end = park.slice.begin;
  const auto blocks_left = [](const PlanPark& park) {
    return static_cast<int32_t>(BlocksForSlots(park.live)) - park.slice.end;
  };
  const auto tenant_of = [&](size_t i) { return blocks_left(parks_[i]) == 0 ? -1 : parks_[i].tenant; };
  for (int64_t left = blocks_moved_max_ - blocks_restored_; left > 0;) {
    const size_t next = NextMove(parks_.size(), tenant_of);
    if (next == parks_.size()) break;
    PlanPark& park = parks_[next];
    const auto blocks = static_cast<int32_t>(std::min<int64_t>(blocks_left(park), left));
    park.slice.end += blocks;
    left -= blocks;
    CountMove(park.tenant, blocks);
  }
}

void Parking::Finish(std::span<const TurnId> lost) {
  for (const TurnId& id : lost) sessions_.Lose(id);
  for (PlanPark& park : parks_) {
    const bool whole = park.slice.end == BlocksForSlots(park.live);
    counters_.moves_in_slices += whole && park.slice.begin > 0 ? 1 : 0;
    park.begins = false;
    park.cut_from = 0;
    park.slice.begin = park.slice.end;
  }
  ReleaseTables([this](const PlanPark& park) {
    return park.slice.end == BlocksForSlots(park.live) || sessions_.Find(park.id) == nullptr;
  });
  sessions_.ClearDropped();
}

void Parking::Fail() {
  for (PlanPark& park : parks_) {
    if (park.begins) sessions_.Lose(park.id);
    park.slice.end = park.slice.begin;
  }
  ReleaseDropped();
  sessions_.ClearDropped();
}

bool Parking::moving() const {
  return !parks_.empty() ||
         std::any_of(restoring_.begin(), restoring_.end(), [](const Restoring& each) { return each.sequence >= 0; });
}

const PlanPark* Parking::FindPark(const TurnId& id) const {
  const auto found = std::find_if(parks_.begin(), parks_.end(), [&id](const PlanPark& park) { return park.id == id; });
  return found == parks_.end() ? nullptr : &*found;
}

int64_t Parking::ReservedOf(int32_t tenant) const {
  int64_t blocks = 0;
  for (size_t i = 0; i < parks_.size(); ++i) blocks += parks_[i].tenant == tenant ? tables_[i].reserved() : 0;
  return blocks;
}

void Parking::Settle(const TurnId& id, bool keep) {
  sessions_.Settle(id, keep);
  ReleaseDropped();
}

void Parking::DropSession(uint64_t session) {
  sessions_.DropSession(session);
  ReleaseDropped();
}

// Returns to the pool the blocks of KV on its way out.
void Parking::ReleaseTables(absl::FunctionRef<bool(const PlanPark&)> which) {
  for (size_t i = parks_.size(); i-- > 0;) {
    if (!which(parks_[i])) continue;
    tenants_.at(parks_[i].tenant).reserved -= tables_[i].reserved();
    counters_.AddFreed(FreeCause::kFinish, block_manager_.Release(tables_[i]));
    tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(i));
    parks_.erase(parks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// What dropped turns left need not be parked any more.
void Parking::ReleaseDropped() {
  ReleaseTables([this](const PlanPark& park) { return sessions_.Find(park.id) == nullptr; });
}

}  // namespace hydrant
