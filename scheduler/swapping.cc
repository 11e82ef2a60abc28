#include "scheduler/swapping.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr int32_t kLostGuard = Victims::kLostGuard;

// The part of the pool that admission leaves to those that run and may grow, one of so many: without it every admission would be followed by a
// sequence that steps aside.
constexpr int64_t kHeadroomParts = 50;

// Plans in which one that has left does not ask for its return, however short the patience is: in the one after the move whoever it left
// for takes its blocks, and in the next who asked beside that one.
constexpr uint64_t kGivesFor = 3;

// What the sequence may come to hold within `steps` decode steps, with `slots` slots of its first `computed` tokens.
int64_t BlocksWithin(const Sequence& sequence, int32_t slots, int32_t computed, int64_t steps) {
  const Request& request = sequence.request;
  const int32_t tokens_left = request.max_tokens - std::max(0, computed - sequence.prompt_length());
  return BlocksForSlots(SlotsWithin(slots, computed, sequence.prompt_length(), tokens_left, steps, request.budget));
}

}  // namespace

Swapping::Swapping(int64_t blocks_max, int32_t patience, SequenceTable& sequences, TenantList& tenants,
                   BlockManager& block_manager, const Parking& parking, ElasticBudgets& elastic,
                   SchedulerCounters& counters)
    : blocks_max_(blocks_max),
      patience_(static_cast<uint64_t>(patience)),
      sequences_(sequences),
      tenants_(tenants),
      block_manager_(block_manager),
      parking_(parking),
      elastic_(elastic),
      counters_(counters),
      victims_(sequences, tenants, block_manager) {
  if (!on()) return;
  // Those that have come back with the last plan are still in it when others leave.
  const auto sequences_most = static_cast<size_t>(sequences.size());
  asides_.reserve(2 * sequences_most);
  outs_.reserve(sequences_most);
  drops_.reserve(2 * sequences_most);
  lost_.reserve(sequences_most);
  askers_.reserve(sequences_most);
}

int32_t Swapping::TokensAhead(int32_t max_tokens) const {
  return on() ? std::min(max_tokens, kHorizon + 1) : max_tokens;
}

bool Swapping::HasPlace(const Tenant& tenant, int64_t peak) const {
  if (!on()) return true;
  int64_t peaks = 0;
  int64_t sum = 0;
  int64_t largest = std::max(largest_, peak);
  int32_t rows = 0;
  for (const Tenant& each : tenants_.all()) {
    const int64_t own = each.peaks + (&each == &tenant ? peak : 0);
    rows += std::max(each.running + (&each == &tenant ? 1 : 0), each.floor_rows);
    peaks += each.peaks;
    sum += std::max<int64_t>(own, each.options.floor_blocks);
    largest = std::max<int64_t>(largest, each.options.floor_blocks);
  }
  if (peaks == 0) return true;
  if (rows > sequences_.rows() && sum > blocks_max_) return false;
  const int64_t cap = tenant.options.blocks_max;
  return Fits(sum, largest, block_manager_.pool().total()) &&
         (cap == 0 || Fits(tenant.peaks + peak, std::max(peak, LargestOf(tenant)), cap));
}

// Whether sequences that may come to hold `peaks` blocks, one of them `largest`, do with `blocks` in the pool.
bool Swapping::Fits(int64_t peaks, int64_t largest, int64_t blocks) const {
  return peaks <= blocks || peaks + largest - 1 <= blocks + blocks_max_;
}

int64_t Swapping::LargestOf(const Tenant& tenant) const {
  int64_t largest = 0;
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    if (&tenants_.of(sequence) == &tenant) largest = std::max<int64_t>(largest, sequence.peak_blocks);
  }
  return largest;
}

bool Swapping::LeavesHeadroom(const Tenant& tenant, int64_t blocks) const {
  if (!on() || blocks <= tenant.unused_floor() || growing() == 0) return true;
  const BlockPool& pool = block_manager_.pool();
  return blocks + pool.total() / kHeadroomParts <= pool.available() - block_manager_.promised();
}

void Swapping::Admitted(Sequence& sequence, int64_t peak) {
  if (!on()) return;
  if (sequence.request.tenant == kept_tenant_) KeepNothing();
  sequence.peak_blocks = static_cast<int32_t>(peak);
  Tenant& tenant = tenants_.of(sequence);
  const int64_t cap = tenant.options.blocks_max > 0 ? tenant.options.blocks_max : block_manager_.pool().total();
  tenant.let_in_cap = std::max(tenant.peaks == 0 ? 0 : tenant.let_in_cap, cap);
  tenant.peaks += peak;
  largest_ = std::max(largest_, peak);
}

bool Swapping::Waits(const Sequence& sequence) {
  return sequence.place != KvPlace::kPool && sequence.place != KvPlace::kReturning && !sequence.paused;
}

bool Swapping::closed() const {
  return short_ || std::any_of(asides_.begin(), asides_.end(),
                               [this](const Aside& aside) { return aside.sequence >= 0 && Waits(of(aside)); });
}

bool Swapping::HasOutside(int32_t tenant) const {
  return std::any_of(asides_.begin(), asides_.end(), [&](const Aside& aside) {
    return aside.sequence >= 0 && of(aside).request.tenant == tenant && Waits(of(aside));
  });
}

// Sequences that may still ask for blocks.
int32_t Swapping::growing() const {
  const std::span<const int32_t> running = sequences_.running();
  return static_cast<int32_t>(std::count_if(running.begin(), running.end(), [this](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    return sequence.in_pool() && !sequence.retired() && sequence.blocks.reserved() < sequence.peak_blocks;
  }));
}

void Swapping::Begin(uint64_t plan) {
  if (!on()) return;
  plan_ = plan;
  std::erase_if(asides_, [](const Aside& aside) { return aside.sequence < 0; });
  short_ = false;
  // Whose reader is behind need not come back.
  for (Aside& aside : asides_) {
    if (of(aside).paused) aside.asks_at = plan + patience_;
  }
  largest_ = 0;
  for (int32_t index : sequences_.running()) {
    largest_ = std::max<int64_t>(largest_, sequences_.at(index).peak_blocks);
  }
  CountOverlaps();
  int64_t sum = 0;
  for (int32_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& tenant = tenants_.at(i);
    sum += std::max<int64_t>(tenant.peaks, tenant.options.floor_blocks);
  }
  floors_hold_ = Fits(sum, largest_, block_manager_.pool().total());
  anchor_ = FindAnchor();
  const uint64_t id = anchor_ < 0 ? 0 : sequences_.at(anchor_).request.id;
  if (id != anchor_id_) anchor_since_ = id == 0 ? 0 : sequences_.at(anchor_).scheduled;
  anchor_id_ = id;
}

void Swapping::CountOverlaps() {
  for (int32_t i = 0; i < tenants_.size(); ++i) tenants_.at(i).overlap = block_manager_.overlap(i);
}

bool Swapping::CapHoldsBack(const Sequence& sequence, int64_t blocks) const {
  const Tenant& tenant = tenants_.of(sequence);
  if (tenant.CapAllows(blocks) || tenant.reserved == sequence.blocks.reserved()) return false;
  // Those that were let in before the cap was lowered, and cannot keep to it, keep to the one with which they found a place.
  return Fits(tenant.peaks, LargestOf(tenant), tenant.options.blocks_max) ||
         tenant.claimed() + blocks > tenant.let_in_cap;
}

// Whether there are so many blocks more for the sequence, beside the floors of other tenants and within its own cap.
bool Swapping::MayTake(const Sequence& sequence, int64_t blocks) const {
  const Tenant& tenant = tenants_.of(sequence);
  int64_t others_floors = 0;
  int64_t beside_floors = block_manager_.pool().total();
  int64_t others_reserved = -int64_t{sequence.blocks.reserved()};
  for (const Tenant& each : tenants_.all()) {
    others_floors += &each == &tenant ? 0 : each.unused_floor();
    beside_floors -= &each == &tenant ? 0 : each.options.floor_blocks;
    others_reserved += each.reserved;
  }
  // With nothing else in the pool it would wait for nobody. And where floors were raised so far that what it was let in for has no
  // room beside them, it would wait for as long as anybody is let in within them (invariant 8).
  if (!floors_hold_ || others_reserved == 0 || sequence.peak_blocks > beside_floors) others_floors = 0;
  const bool kept = kept_tenant_ >= 0 && kept_tenant_ != sequence.request.tenant && others_reserved > 0 &&
                    sequences_.IndexOf(sequence) != anchor_;
  if (kept) others_floors += kept_blocks_;
  return block_manager_.CanAdmit(blocks + others_floors) && !CapHoldsBack(sequence, blocks);
}

bool Swapping::Reserve(Sequence& sequence, int64_t blocks) {
  const int64_t more = blocks - sequence.blocks.reserved();
  if (!MayTake(sequence, more) || !block_manager_.Grow(sequence.blocks, static_cast<int32_t>(blocks))) return false;
  tenants_.of(sequence).reserved += more;
  return true;
}

// Whether there is a state row for one that is outside, beside those that are kept for others.
bool Swapping::FindsRow(const Sequence& sequence) const {
  const int32_t index = sequences_.IndexOf(sequence);
  const bool kept = kept_row_ && kept_tenant_ != sequence.request.tenant && index != anchor_;
  int32_t others = kept ? 1 : 0;
  int32_t all = sequences_.rows() - sequences_.free_rows();
  for (const Tenant& each : tenants_.all()) {
    all += each.unused_rows();
    others += &each == &tenants_.of(sequence) ? 0 : each.unused_rows();
  }
  // Floors were raised so far that rows cannot be kept for all: then none is, or those that are outside might wait for nobody.
  if (all > sequences_.rows()) others = 0;
  return sequences_.free_rows() > others;
}

int64_t Swapping::ReturnNeed(const Sequence& sequence) const {
  return BlocksWithin(sequence, sequence.live, sequence.scheduled, kGuard);
}

// What the sequence should have reserved by the next step; as much as it has if that will do for a while.
int64_t Swapping::Wish(const Sequence& sequence) const {
  const int64_t reserved = sequence.blocks.reserved();
  const KvBudget& budget = sequence.request.budget;
  // What it may need at its first eviction was reserved when it was admitted.
  if (sequence.shares && budget.limited()) return reserved;
  const int64_t steps = sequence.steps_after_next() + 1;
  if (BlocksForSlots(budget.PeakSlots(sequence.live, std::min<int64_t>(steps, kAskBefore))) <= reserved)
    return reserved;
  return std::max(reserved, BlocksForSlots(budget.PeakSlots(sequence.live, std::min<int64_t>(steps, kHorizon))));
}

int64_t Swapping::ReservationAfterCut(const Sequence& sequence, int32_t slots) const {
  const int64_t steps = std::max(kHorizon, sequence.guard == kLostGuard ? 0 : sequence.guard - sequence.scheduled);
  return BlocksWithin(sequence, slots, sequence.computed, steps);
}

void Swapping::LowerPeak(Sequence& sequence, int64_t peak) {
  const int64_t less = sequence.peak_blocks - peak;
  if (!on() || less <= 0) return;
  sequence.peak_blocks -= static_cast<int32_t>(less);
  tenants_.of(sequence).peaks -= less;
}

// False: the host has no memory for that.
bool Swapping::SetAside(int32_t index, const Asker& asker) {
  Sequence& sequence = sequences_.at(index);
  assert(index != anchor_ && sequence.in_flight == 0);
  Aside aside;
  aside.sequence = index;
  aside.id = sequence.request.id;
  aside.payer = asker.tenant;
  aside.live = sequence.live;
  aside.gain = static_cast<int32_t>(victims_.GainFrom(sequence, asker.tenant));
  try {
    aside.table.reserve(static_cast<size_t>(aside.blocks()));
    asides_.push_back(std::move(aside));
  } catch (const std::bad_alloc&) {
    return false;
  }
  blocks_ += asides_.back().blocks();
  sequence.place = KvPlace::kLeaving;
  ++sequence.swaps;
  sequence.asks_losses = false;
  sequence.lower_to = 0;
  return true;
}

Swapping::Aside* Swapping::FindAside(int32_t index) {
  const auto found =
      std::find_if(asides_.begin(), asides_.end(), [index](const Aside& aside) { return aside.sequence == index; });
  return found == asides_.end() ? nullptr : &*found;
}

// False: there are too few blocks for it, or no row.
bool Swapping::Return(int32_t index) {
  Sequence& sequence = sequences_.at(index);
  const int64_t need = ReturnNeed(sequence);
  if (!FindsRow(sequence) || !MayTake(sequence, need)) return false;
  sequences_.TakeRow(index);
  ++tenants_.of(sequence).rows;
  block_manager_.Admit(sequence.blocks, static_cast<int32_t>(need), sequence.request.tenant);
  block_manager_.Extend(sequence.blocks, sequence.live);
  tenants_.of(sequence).reserved += need;
  sequence.place = KvPlace::kReturning;
  sequence.guard = sequence.scheduled + kGuard;
  Aside& aside = *FindAside(index);
  const std::span<const int32_t> blocks = sequence.blocks.blocks();
  aside.table.assign(blocks.begin(), blocks.end());
  aside.moved = 0;
  return true;
}

// Chooses of each tenant the one that was admitted first, between tenants in the order of their turns. Those that run have asked
// before: what a sequence took that they need would at once be taken from it again. For the same reason it leaves a block
// to each of them.
void Swapping::ChooseReturns() {
  passed_.assign(static_cast<size_t>(tenants_.size()), 0);
  const auto waits = [this](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    return sequence.place == KvPlace::kOutside && !sequence.paused && !sequence.retired();
  };
  for (;;) {
    int32_t first = -1;
    for (int32_t index : sequences_.running()) {
      const Sequence& sequence = sequences_.at(index);
      if (!waits(index) || passed_[static_cast<size_t>(sequence.request.tenant)] != 0) continue;
      if (first < 0 || tenants_.of(sequence).turn() < tenants_.of(sequences_.at(first)).turn()) first = index;
    }
    if (first < 0) return;
    const Sequence& sequence = sequences_.at(first);
    const bool leaves_some = MayTake(sequence, ReturnNeed(sequence) + growing());
    if (!leaves_some || !Return(first)) passed_[static_cast<size_t>(sequence.request.tenant)] = 1;
  }
}

void Swapping::PlanReturns(int64_t blocks_max, std::vector<PlanSwapIn>* to) {
  if (asides_.empty()) return;
  if (!short_) ChooseReturns();
  // First those leave that have to, for somebody waits for their blocks.
  const bool somebody_leaves = std::any_of(asides_.begin(), asides_.end(), [this](const Aside& aside) {
    return aside.sequence >= 0 && of(aside).place == KvPlace::kLeaving;
  });
  if (somebody_leaves) return;
  for (Aside& aside : asides_) {
    if (blocks_max == 0) return;
    if (aside.sequence < 0 || of(aside).place != KvPlace::kReturning) continue;
    const int32_t index = aside.sequence;
    Sequence& sequence = of(aside);
    const auto blocks = static_cast<int32_t>(std::min<int64_t>(aside.blocks() - aside.moved, blocks_max));
    PlanSwapIn& in = to->emplace_back();
    in.id = aside.id;
    in.live = aside.live;
    in.state_row = sequence.state_row;
    in.slice = {aside.moved, aside.moved + blocks};
    in.sequence = index;
    in.payer = aside.payer;
    in.block_table = aside.table;
    aside.moved += blocks;
    blocks_max -= blocks;
    counters_.swapped_blocks += static_cast<uint64_t>(blocks);
    if (!in.ends()) continue;
    ++counters_.swaps_in;
    sequence.place = KvPlace::kPool;
    Forget(aside);
  }
}

// It is over; its table may still be in a plan.
void Swapping::Forget(Aside& aside) {
  blocks_ -= aside.blocks();
  aside.sequence = -1;
}

void Swapping::PlanOuts(int64_t blocks_max) {
  outs_.clear();
  for (Aside& aside : asides_) {
    if (blocks_max == 0) return;
    if (aside.sequence < 0 || of(aside).place != KvPlace::kLeaving) continue;
    const Sequence& sequence = of(aside);
    const auto blocks = static_cast<int32_t>(std::min<int64_t>(aside.blocks() - aside.moved, blocks_max));
    blocks_max -= blocks;
    PlanSwapOut& out = outs_.emplace_back();
    out.id = aside.id;
    out.begins = !aside.begun;
    out.live = aside.live;
    out.state_row = sequence.state_row;
    out.slice = {aside.moved, aside.moved + blocks};
    out.sequence = aside.sequence;
    out.payer = aside.payer;
    out.block_table = sequence.blocks.blocks();
    out.score_table = sequence.blocks.score_blocks();
  }
}

void Swapping::Finish(std::span<const uint64_t> lost) {
  for (const PlanSwapOut& out : outs_) {
    Aside& aside = *FindAside(out.sequence);
    if (std::find(lost.begin(), lost.end(), out.id) != lost.end()) continue;
    counters_.swapped_blocks += static_cast<uint64_t>(out.slice.size());
    aside.begun = true;
    aside.moved = out.slice.end;
    if (aside.moved == aside.blocks()) Leave(aside);
  }
  outs_.clear();
  drops_.clear();
}

std::span<const uint64_t> Swapping::Fail() {
  lost_.clear();
  for (const PlanSwapOut& out : outs_) {
    if (out.begins) lost_.push_back(out.id);
  }
  outs_.clear();
  drops_.clear();
  return lost_;
}

// All of it is outside.
void Swapping::Leave(Aside& aside) {
  Sequence& sequence = of(aside);
  tenants_.of(sequence).reserved -= sequence.blocks.reserved();
  counters_.AddFreed(FreeCause::kSwap, block_manager_.Release(sequence.blocks));
  sequence.place = KvPlace::kOutside;
  sequences_.GiveRow(aside.sequence);
  --tenants_.of(sequence).rows;
  aside.asks_at = plan_ + std::max(patience_, kGivesFor);
  // What comes back is its own.
  sequence.shares = false;
  LowerPeak(sequence, BlocksWithin(sequence, sequence.live, sequence.scheduled, sequence.request.max_tokens));
  ++counters_.swaps_out;
}

void Swapping::LoseReturn(int32_t index) {
  Sequence& sequence = sequences_.at(index);
  sequence.guard = kLostGuard;
  if (sequence.place != KvPlace::kReturning) return;  // the last slice was in the step
  sequence.place = KvPlace::kPool;
  Forget(*FindAside(index));
}

void Swapping::LetGo(int32_t index, Sequence& sequence) {
  if (!on()) return;
  Aside* aside = FindAside(index);
  const bool is_outside = aside != nullptr && (aside->begun || sequence.place != KvPlace::kLeaving);
  if (is_outside || sequence.guard == kLostGuard) drops_.push_back(sequence.request.id);
  if (aside != nullptr) Forget(*aside);
  if (index == anchor_) anchor_ = -1;
  tenants_.of(sequence).peaks -= std::exchange(sequence.peak_blocks, 0);
}

bool Swapping::moving() const {
  return std::any_of(asides_.begin(), asides_.end(), [this](const Aside& aside) {
    return aside.sequence >= 0 && of(aside).place != KvPlace::kOutside;
  });
}

int32_t Swapping::aside() const {
  return static_cast<int32_t>(
      std::count_if(asides_.begin(), asides_.end(), [](const Aside& aside) { return aside.sequence >= 0; }));
}

absl::Status Swapping::CheckIntegrity() const {
  int64_t blocks = 0;
  int32_t in_pool = 0;
  for (const Aside& aside : asides_) {
    if (aside.sequence < 0) continue;
    blocks += aside.blocks();
    const Sequence& sequence = of(aside);
    if (sequence.request.id != aside.id || sequence.live != aside.live || sequence.in_pool()) ++in_pool;
  }
  if (in_pool > 0) return absl::InternalError(absl::StrCat(in_pool, " sequences that are aside are in the pool"));
  if (blocks != blocks_ || blocks > blocks_max_) {
    return absl::InternalError(absl::StrCat(blocks, " blocks are aside, counted ", blocks_, " of ", blocks_max_));
  }
  int64_t peaks = 0;
  int64_t largest = 0;
  int64_t count = 0;
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    count += sequence.in_pool() ? 0 : 1;
    peaks += sequence.peak_blocks;
    largest = std::max<int64_t>(largest, sequence.peak_blocks);
  }
  if (count != aside()) return absl::InternalError(absl::StrCat(count, " sequences are aside, ", aside(), " known"));
  const int64_t total = block_manager_.pool().total();
  if (on() && std::ssize(sequences_.running()) > sequences_.rows() && peaks > blocks_max_) {
    return absl::InternalError(absl::StrCat(sequences_.running().size(), " sequences that may come to hold ", peaks,
                                            " blocks are in progress, ", sequences_.rows(), " have a row and ",
                                            blocks_max_, " blocks are outside"));
  }
  if (on() && !Fits(peaks, largest, total)) {
    return absl::InternalError(absl::StrCat("those that run may come to hold ", peaks, " blocks, one of them ", largest,
                                            "; there are ", total, " and ", blocks_max_, " outside"));
  }
  return absl::OkStatus();
}

}  // namespace hydrant
