// The part of Scheduler that has to do with prefixes others computed, or will want.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "scheduler/scheduler.h"

namespace hydrant {
namespace {

// Where score snapshots are taken: four per octave from 64 tokens on (64, 80, 96, 112, 128, 160, …), so that a prefix loses
// at most a quarter of itself by being rounded down to one, and a prompt's snapshots together have fewer than seven times its
// side blocks.
int32_t NextSnapshot(int32_t tokens) {
  constexpr int32_t kFirst = 64;
  if (tokens < kFirst) return kFirst;
  int32_t octave = kFirst;
  while (octave <= tokens / 2) octave *= 2;
  return (tokens / (octave / 4) + 1) * (octave / 4);
}

}  // namespace

// Shares when there is room for that beside the floors of others and below the tenant's own cap; what a request needs alone
// is enough to let it in. REQUIRES: ChooseTenant let it in.
void Scheduler::Reserve(Sequence& sequence) {
  const Request& request = sequence.request;
  const Tenant& tenant = tenant_of(sequence);
  const int64_t private_blocks = PrivateBlocks(request);
  if (const ParkedKv* parked = Resumable(request); parked != nullptr) {
    block_manager_.Admit(sequence.blocks, static_cast<int32_t>(private_blocks));
    block_manager_.Extend(sequence.blocks, parked->live);
    const std::span<const int32_t> blocks = sequence.blocks.blocks();
    const int32_t rows = sequence.prompt_length() - parked->computed;
    const int32_t cut = request.budget.TurnCut(parked->live, rows);
    plan_->restores.push_back({request.session,
                               static_cast<int32_t>(&sequence - sequences_.data()),
                               parked->live,
                               cut,
                               parked->computed,
                               rows,
                               {blocks.begin(), blocks.end()}});
    sequence.restored = sequence.scheduled = sequence.computed = parked->computed;
    sequence.live = sequence.held = cut > 0 ? cut : parked->live;
    // Whoever takes these blocks in this step does so after the cut.
    if (cut > 0) {
      const int32_t freed = block_manager_.Shrink(sequence.blocks, cut, sequence.blocks.reserved());
      counters_.freed_blocks[static_cast<size_t>(FreeCause::kPrefill)] += static_cast<uint64_t>(freed);
      counters_.evicted_tokens += static_cast<uint64_t>(parked->live - cut);
    }
    parked_.Use(request.session);
    ++counters_.restores;
    counters_.restored_tokens += static_cast<uint64_t>(sequence.restored);
    return;
  }
  if (request.prefix.looks_up) counters_.prefix_queries += request.prompt.size();
  int64_t other_floors = 0;
  for (const Tenant& other : tenants_) other_floors += &other == &tenant ? 0 : other.unused_floor();
  const int64_t shared_blocks = SharedBlocks(request, tenant);
  const bool alone_fits = block_manager_.CanAdmit(private_blocks);
  if (shared_blocks > 0 && block_manager_.CanAdmit(shared_blocks + (alone_fits ? other_floors : 0), match_)) {
    block_manager_.Admit(sequence.blocks, static_cast<int32_t>(shared_blocks), match_, &plan_->side_starts);
    sequence.shares = true;
    // Needed until the first eviction only.
    const int64_t tokens = PeakSlotsFrom(0, 0, sequence.prompt_length(), request.max_tokens, request.budget);
    sequence.output.reserve(static_cast<size_t>(std::min<int64_t>(tokens, request.max_tokens)));
    sequence.cached = sequence.scheduled = sequence.computed = match_.tokens();
    sequence.live = sequence.held = sequence.cached;
    counters_.prefix_hits += static_cast<uint64_t>(sequence.cached);
    return;
  }
  block_manager_.Admit(sequence.blocks, static_cast<int32_t>(private_blocks));
}

// Without floors nobody needs to know.
bool Scheduler::counts_overlaps() const {
  return tenants_.size() > 1 && std::any_of(tenants_.begin(), tenants_.end(),
                                            [](const Tenant& tenant) { return tenant.options.floor_blocks > 0; });
}

// A block that several sequences hold takes memory once, and is in the reservation of each. With k holders each of them counts
// it (k - 1) / k times too often; they are of one tenant, as prefixes are. One more holder makes it one more.
void Scheduler::CountOverlaps() {
  for (Tenant& tenant : tenants_) tenant.overlap = 0;
  if (!counts_overlaps()) return;
  overlaps_.assign(tenants_.size(), 0.0);
  for (int32_t index : running_) {
    const Sequence& sequence = at(index);
    if (!sequence.shares) continue;
    for (int32_t block : sequence.blocks.blocks()) {
      const int32_t holders = block_manager_.pool().references(block);
      if (holders == 1) continue;
      overlaps_[static_cast<size_t>(sequence.request.tenant)] += static_cast<double>(holders - 1) / holders;
    }
  }
  for (size_t i = 0; i < tenants_.size(); ++i) tenants_[i].overlap = std::llround(overlaps_[i]);
}

// What a request that shares has to reserve, with match_ what it finds; 0 when it does not share or its tenant's cap
// leaves only room for what it needs alone.
int64_t Scheduler::SharedBlocks(const Request& request, const Tenant& tenant) {
  const PrefixUse& use = request.prefix;
  if ((!use.publishes && !use.looks_up) || Resumable(request) != nullptr) return 0;
  const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
  // What a prompt keeps after a cut inside it was never anybody else's: at least one token before the first is computed.
  const int32_t cut_at = request.budget.FirstCut(prompt_length);
  const int32_t end = cut_at == 0 ? prompt_length : std::min(prompt_length, cut_at - 1 + use.rows_computed_min);
  block_manager_.Match(use, std::span(request.prompt).first(static_cast<size_t>(end)), &match_);
  const int64_t blocks = PeakBlocksShared(prompt_length, request.max_tokens, request.budget);
  const int64_t cap = tenant.options.blocks_max;
  return cap > 0 && tenant.reserved + blocks > cap ? 0 : blocks;
}

void Scheduler::PlanSnapshots(const Sequence& sequence, PlanRow* row) {
  const PrefixUse& use = sequence.request.prefix;
  row->snapshot_begin = row->snapshot_end = static_cast<int32_t>(plan_->snapshots.size());
  if (!use.publishes || use.side != SideNeed::kSnapshot) return;
  const int32_t end = row->position + static_cast<int32_t>(row->tokens.size());
  // Besides the ladder, where the same prompt would be taken up again, and where one that continues it would.
  const int32_t again = (sequence.prompt_length() - 1) / kSlotsPerBlock * kSlotsPerBlock;
  const int32_t whole = sequence.prompt_length() / kSlotsPerBlock * kSlotsPerBlock;
  for (int32_t slots = row->position; slots < end;) {
    int32_t next = NextSnapshot(slots);
    if (slots < again) next = std::min(next, again);
    if (slots < whole) next = std::min(next, whole);
    slots = next;
    if (slots > end) break;
    PlanSnapshot snapshot{slots, {}};
    if (!block_manager_.BeginSnapshot(sequence.blocks, slots, use.score_kind, &snapshot.sides)) continue;
    plan_->snapshots.push_back(std::move(snapshot));
    ++row->snapshot_end;
  }
}

// What the step computed becomes findable, and the copies of a first eviction take the place of what was shared. What a
// failed row wrote is nobody's business.
void Scheduler::Share(Sequence& sequence, StepPlan& plan, const PlanRow& row, bool valid) {
  const PrefixUse& use = sequence.request.prefix;
  if (valid && use.publishes) {
    int32_t tokens[kSlotsPerBlock];
    block_manager_.Publish(sequence.blocks, use.salt, sequence.computed, [&](int32_t block) {
      for (int32_t i = 0; i < kSlotsPerBlock; ++i) tokens[i] = sequence.token(block * kSlotsPerBlock + i);
      return BlockTokens(tokens);
    });
  }
  for (int32_t i = row.snapshot_begin; i < row.snapshot_end; ++i) {
    PlanSnapshot& snapshot = plan.snapshots[static_cast<size_t>(i)];
    block_manager_.FinishSnapshot(sequence.blocks, snapshot.slots, use.score_kind, std::move(snapshot.sides));
  }
  if (!row.choose_victim && row.shrink_to == 0) return;
  const int32_t freed = block_manager_.FinishCopies(sequence.blocks);
  counters_.freed_blocks[static_cast<size_t>(FreeCause::kShared)] += static_cast<uint64_t>(freed);
  sequence.shares = false;
  if (row.shrink_to == 0) ShrinkTo(sequence, sequence.live, FreeCause::kShared);
}

}  // namespace hydrant
