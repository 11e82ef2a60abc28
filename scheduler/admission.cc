#include "scheduler/admission.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// Plans in which budgets may fall for a head of line that has waited long enough, before somebody steps aside for it.
constexpr uint64_t kBudgetPlans = 4;

// Nothing but its past would do, and others may push that out while it waits.
bool IsUnsure(const Sequence& sequence) { return sequence.request.needs_past && !sequence.pins; }

}  // namespace

Admission::Admission(SequenceTable& sequences, TenantList& tenants, BlockManager& block_manager, Parking& parking,
                     ElasticBudgets& elastic, Swapping& swapping, int32_t patience, SchedulerCounters& counters)
    : sequences_(sequences),
      tenants_(tenants),
      block_manager_(block_manager),
      parking_(parking),
      elastic_(elastic),
      swapping_(swapping),
      patience_(patience),
      counters_(counters) {
  head_of_ = [this](const Tenant& tenant) {
    Sequence& sequence = sequences_.at(tenant.queue.front());
    if (AwaitsPrefix(sequence.request)) return HeadOfLine{.arrival = sequence.arrival, .awaits_prefix = true};
    const int64_t blocks = BlocksNeeded(sequence, tenant);
    return HeadOfLine{.blocks = blocks,
                      .arrival = sequence.arrival,
                      .given_room = sequence.given_room,
                      .has_place = HasPlace(sequence, tenant, blocks)};
  };
  admitted_.reserve(static_cast<size_t>(sequences.free_rows()));
  match_.blocks.reserve(static_cast<size_t>(block_manager.pool().total()));
}

absl::Status Admission::CheckHistory(const Request& request) {
  if (request.history <= 0) return absl::OkStatus();
  const PrefixUse& use = request.prefix;
  const bool can_be = request.session != 0 && use.publishes && use.scores == ScoreNeed::kSnapshot;
  const bool fits = request.history < static_cast<int64_t>(request.prompt.size()) && request.budget.prompt_stride == 0;
  if (can_be && request.history % kBlockSlots == 0 && fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a history of ", request.history, " tokens cannot be left"));
}

void Admission::DropHistoryWithoutRoom(Request* request) const {
  if (request->history <= 0 || request->tenant < 0 || request->tenant >= tenants_.size()) return;
  const int64_t blocks_max = tenants_.BlocksMax(request->tenant);
  if (PrivateBlocks(*request) > blocks_max && BlocksForSlots(PeakSlots(*request)) <= blocks_max) request->history = 0;
}

absl::Status Admission::Check(const Request& request) const {
  const int64_t prompt_length = static_cast<int64_t>(request.prompt.size());
  if (request.tenant < 0 || request.tenant >= tenants_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no tenant ", request.tenant));
  }
  if (prompt_length == 0) return absl::InvalidArgumentError("the prompt is empty");
  if (request.max_tokens < 0 || request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return absl::InvalidArgumentError("max_tokens and min_tokens must satisfy 0 <= min_tokens <= max_tokens");
  }
  if (prompt_length + request.max_tokens > kInt32Max) return absl::InvalidArgumentError("positions would overflow");
  if (!request.budget.valid()) return absl::InvalidArgumentError("the KV budget is malformed");
  if (absl::Status status = CheckHistory(request); !status.ok()) return status;
  const int64_t blocks = PrivateBlocks(request);
  const int64_t blocks_max = tenants_.BlocksMax(request.tenant);
  if (blocks > blocks_max) {
    return absl::OutOfRangeError(absl::StrCat("the request needs ", blocks, " blocks of KV cache (", prompt_length,
                                              " prompt tokens, max_tokens ", request.max_tokens,
                                              "); its tenant can have ", blocks_max));
  }
  return CheckSlotsAtWorst(request, blocks_max * kBlockSlots);
}

int64_t Admission::PeakSlots(const Request& request, int32_t max_tokens) const {
  const ParkedCounts* parked = parking_.Resumable(request);
  const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
  if (parked == nullptr) return PeakSlotsFrom(0, 0, prompt_length, max_tokens, request.budget);
  return PeakSlotsResumed(parked->live, parked->computed, prompt_length, max_tokens, request.budget);
}

// What it leaves parked of its prompt is another's while it is copied out, so its first eviction is that of one that shares.
int64_t Admission::PrivateBlocks(const Request& request) const {
  const int64_t blocks = BlocksForSlots(PeakSlots(request));
  if (request.history <= 0) return blocks;
  return std::max(blocks,
                  PeakBlocksShared(static_cast<int32_t>(request.prompt.size()), request.max_tokens, request.budget));
}

int64_t Admission::AloneBlocks(const Request& request) const {
  const int64_t blocks = BlocksForSlots(PeakSlots(request, swapping_.TokensAhead(request.max_tokens)));
  return request.history > 0 ? std::max(blocks, SharedBlocks(request)) : blocks;
}

// Copies of what it shares have to find their blocks when the first token goes, so these are reserved from the beginning.
int64_t Admission::SharedBlocks(const Request& request) const {
  const int32_t tokens = request.budget.limited() ? request.max_tokens : swapping_.TokensAhead(request.max_tokens);
  return PeakBlocksShared(static_cast<int32_t>(request.prompt.size()), tokens, request.budget);
}

// The most that a request may come to hold that is admitted with `blocks`.
int64_t Admission::PeakOf(const Request& request, int64_t blocks) const {
  const int64_t peak = PrivateBlocks(request);
  return blocks < AloneBlocks(request) ? std::max(peak, SharedBlocks(request)) : peak;  // it fits only if it shares
}

bool Admission::HasPlace(const Sequence& sequence, const Tenant& tenant, int64_t blocks) const {
  return swapping_.HasPlace(tenant, PeakOf(sequence.request, blocks)) &&
         (sequence.given_room > 0 || swapping_.LeavesHeadroom(tenant, blocks));
}

absl::Status Admission::CheckSlotsAtWorst(const Request& request, int64_t slots_max) const {
  int64_t slots = PeakSlots(request);
  if (parking_.Resumable(request) != nullptr && !parking_.KeepsPast(request)) {
    const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
    slots = std::max(slots, PeakSlotsFrom(0, 0, prompt_length, request.max_tokens, request.budget));
  }
  if (slots <= slots_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "its tenant's queue counts on as much parked KV as its share, and it needs its own");
}

void Admission::Enqueue(int32_t index) {
  Sequence& sequence = sequences_.at(index);
  Tenant& tenant = tenants_.of(sequence);
  TakeHostMemory(sequence);
  tenant.queue.push_back(index);  // the last thing that may throw
  sequence.arrival = ++arrivals_;
  parking_.PinPast(sequence);
  if (IsUnsure(sequence)) ++unsure_;
  if (tenant.queue.size() == 1) Lift(tenant, tenants_.all(), tenants_.turns());
  const auto goes_before = [this](int32_t priority, int32_t other) {
    return sequences_.at(other).given_room == 0 && priority < sequences_.at(other).request.priority;
  };
  const auto last = tenant.queue.end() - 1;
  std::rotate(std::upper_bound(tenant.queue.begin(), last, sequence.request.priority, goes_before), last,
              tenant.queue.end());
  ++waiting_;
}

// Whatever it then finds: parked KV or none of it, a prefix or none.
void Admission::TakeHostMemory(Sequence& sequence) {
  const Request& request = sequence.request;
  const int64_t alone = PeakSlotsFrom(0, 0, sequence.prompt_length(), request.max_tokens, request.budget);
  int64_t blocks = std::max(BlocksForSlots(alone), PrivateBlocks(request));
  const bool may_share = request.prefix.publishes || request.prefix.looks_up;
  if (may_share) {
    blocks = std::max(blocks, PeakBlocksShared(sequence.prompt_length(), request.max_tokens, request.budget));
    // Needed until the first eviction only.
    sequence.output.reserve(static_cast<size_t>(std::min<int64_t>(alone, request.max_tokens)));
  }
  if (request.budget.elastic()) sequence.losses.reserve(static_cast<size_t>(LowerBudgetsOf(request.budget).count));
  if (request.session != 0) sequence.output.reserve(static_cast<size_t>(request.max_tokens));
  if (const ParkedCounts* parked = parking_.Resumable(request); parked != nullptr) {
    sequence.restore_table.reserve(static_cast<size_t>(BlocksForSlots(parked->live)));
  }
  const auto reserved = static_cast<int32_t>(std::min<int64_t>(blocks, block_manager_.pool().total()));
  block_manager_.Prepare(sequence.blocks, reserved, may_share && request.budget.limited(), request.tenant);
}

void Admission::Withdraw(int32_t index) {
  Tenant& tenant = tenants_.of(sequences_.at(index));
  if (tenant.queue.front() == index) tenant.SettleHeldUp();
  swapping_.KeepNothing();
  tenant.queue.erase(std::find(tenant.queue.begin(), tenant.queue.end(), index));
  if (IsUnsure(sequences_.at(index))) --unsure_;
  --waiting_;
}

int32_t Admission::FindWithoutPast() const {
  if (unsure_ == 0) return -1;
  for (const Tenant& tenant : tenants_.all()) {
    for (const int32_t index : tenant.queue) {
      const Sequence& sequence = sequences_.at(index);
      if (IsUnsure(sequence) && parking_.Resumable(sequence.request) == nullptr) return index;
    }
  }
  return -1;
}

void Admission::Begin() {
  // Where sequences step aside it may take some plans until there is room for whom it was made.
  promised_ = lowers_for() != 0 || swapping_.on();
  admitted_.clear();
  blocked_ = Blocked();
  holds_up_ = -1;
}

void Admission::Plan(int64_t now_us, StepPlan& plan) {
  AdmitWaiting(now_us, plan, /*promised_alone=*/false);
  swapping_.KeepNothing();
  elastic_.LowerNothing();
  if (const Blocked& grows = swapping_.awaits_budgets(); grows.tenant != nullptr) {
    elastic_.Plan(grows, swapping_.awaits_budgets_for(), plan.number);
    FindOverdue(plan.number);
    return;
  }
  if (Tenant* overdue = FindOverdue(plan.number); overdue != nullptr) {
    MakeRoom(*overdue, plan.number);
    return;
  }
  if (blocked_.tenant != nullptr && OthersHaveRoom(*blocked_.tenant)) return;
  CountMissing();
  Sequence* head = blocked_.tenant == nullptr ? nullptr : &sequences_.at(blocked_.tenant->queue.front());
  elastic_.Plan(blocked_, head == nullptr ? 0 : head->request.id, plan.number);
  if (lowers_for() != 0) head->given_room = plan.number;
}

bool Admission::MayAdmit(bool row_becomes_free, uint64_t plan) {
  holds_up_ = -1;
  if (waiting_ == 0 || paused_) return false;
  if (FindOverdue(plan) != nullptr) return true;
  if (swapping_.closed()) {
    return sequences_.free_rows() > 0 && (ChooseWithinFloor() != nullptr || ChooseWithinShare() != nullptr);
  }
  if (row_becomes_free) return true;
  if (sequences_.free_rows() == 0) return false;
  CountOverlaps();
  if (Choose() != nullptr) return true;
  CountMissing();
  return elastic_.CanGain(blocked_);
}

Tenant* Admission::Choose() {
  const BlockPool& pool = block_manager_.pool();
  const Room room = {pool.available() - block_manager_.promised(), sequences_.free_rows(), pool.total()};
  Tenant* chosen = ChooseTenant(tenants_.all(), tenants_.turns(), room, head_of_, &blocked_);
  if (blocked_.over_share) holds_up_ = static_cast<int32_t>(blocked_.tenant - tenants_.all().data());
  return chosen;
}

// The one for whom room was made with the last plans.
Tenant* Admission::ChoosePromised() {
  const auto was_given_room = [this](const Tenant& tenant) {
    return !tenant.queue.empty() && sequences_.at(tenant.queue.front()).given_room > 0;
  };
  const std::span<const Tenant> tenants = tenants_.all();
  if (!promised_ || std::none_of(tenants.begin(), tenants.end(), was_given_room)) return nullptr;
  Tenant* chosen = Choose();
  // Who else waits for blocks is seen when the others' turn comes.
  blocked_ = Blocked();
  holds_up_ = -1;
  if (chosen == nullptr || !was_given_room(*chosen)) return nullptr;
  // It goes before others also when by now it is the turn of one of them.
  const bool passes = std::any_of(tenants.begin(), tenants.end(),
                                  [&](const Tenant& other) { return other.waits() && other.turn() < chosen->turn(); });
  chosen->passes += passes ? 1 : 0;
  return chosen;
}

// Whoever takes nothing but what is kept for its tenant takes it from nobody who waits outside.
Tenant* Admission::ChooseWithinFloor() {
  Tenant* chosen = nullptr;
  for (Tenant& tenant : tenants_.all()) {
    if (tenant.queue.empty() || tenant.unused_rows() == 0 || tenant.unused_floor() == 0) continue;
    CountOverlaps();
    tenant.head = head_of_(tenant);
    const int64_t blocks = tenant.head.blocks;
    const bool fits = !tenant.HoldsBackItsHead() && tenant.head.has_place && blocks <= tenant.unused_floor() &&
                      block_manager_.CanAdmit(blocks);
    if (fits && (chosen == nullptr || tenant.turn() < chosen->turn())) chosen = &tenant;
  }
  return chosen;
}

// Blocks that are missing for `blocks` of the tenant, beside the floors of others.
int64_t Admission::Missing(const Tenant& tenant, int64_t blocks) const {
  int64_t others = 0;
  for (const Tenant& other : tenants_.all()) others += &other == &tenant ? 0 : other.unused_floor();
  return blocks + others - (block_manager_.pool().available() - block_manager_.promised());
}

// Whether there is a row for the tenant beside those that are kept for others.
bool Admission::FindsRow(const Tenant& tenant) const {
  int32_t others = 0;
  for (const Tenant& other : tenants_.all()) others += &other == &tenant ? 0 : other.unused_rows();
  return sequences_.free_rows() > others;
}

// Whether the tenant passes those outside, or has room made, for `blocks` more.
bool Admission::MayPassOutside(const Tenant& tenant, int64_t blocks) const {
  const int64_t total = block_manager_.pool().total();
  if (!tenants_.fair() || swapping_.HasOutside(static_cast<int32_t>(&tenant - tenants_.all().data())) ||
      !WithinShare(tenant, tenant.claimed() + blocks, WeightsInUse(tenants_.all()), total)) {
    return false;
  }
  return std::none_of(tenants_.all().begin(), tenants_.all().end(), [&](const Tenant& other) {
    return other.waits() && tenant.turn() > other.turn() + PassesAhead(tenant, total);
  });
}

// While somebody waits outside: of those that are not to wait for that, the one whose turn it is.
Tenant* Admission::ChooseWithinShare() {
  if (swapping_.somebody_misses() || !tenants_.fair()) return nullptr;
  CountOverlaps();
  Tenant* chosen = nullptr;
  Tenant* first = nullptr;
  for (Tenant& tenant : tenants_.all()) {
    if (tenant.queue.empty()) continue;
    tenant.head = head_of_(tenant);
    if (tenant.HoldsBackItsHead()) continue;
    if (first == nullptr || tenant.turn() < first->turn()) first = &tenant;
    if (!MayPassOutside(tenant, tenant.head.blocks)) continue;
    if (chosen == nullptr || tenant.turn() < chosen->turn()) chosen = &tenant;
  }
  if (chosen == nullptr) return nullptr;
  if (!chosen->head.has_place || Missing(*chosen, chosen->head.blocks) > 0 || !FindsRow(*chosen)) return nullptr;
  chosen->passes += chosen == first ? 0 : 1;
  return chosen;
}

// Whether the tenant's head of line waits for others above their share alone (invariant 5).
bool Admission::IsDue(const Tenant& tenant) {
  const Sequence& head = sequences_.at(tenant.queue.front());
  const HeadOfLine now = head_of_(tenant);
  if (now.awaits_prefix || tenant.CapHoldsBack(now.blocks)) return false;
  // Who has its share of the rows waits until one is free.
  const bool row_share = WithinRowShare(tenant, tenant.rows + 1, WeightsInUse(tenants_.all()), sequences_.rows());
  if (!row_share && !FindsRow(tenant)) return false;
  return swapping_.HasPlace(tenant, PeakOf(head.request, now.blocks)) && MayPassOutside(tenant, now.blocks);
}

// The tenant whose head of line has been due for long and may ask. Of several the one that was to ask first: who asked in vain just
// now comes after those that did not ask yet, however many have asked in vain. Null: there is none.
Tenant* Admission::FindOverdue(uint64_t plan) {
  if (!swapping_.on() || !tenants_.fair() || paused_) return nullptr;
  CountOverlaps();
  Tenant* overdue = nullptr;
  const auto order = [this](const Tenant& tenant) {
    return std::pair(sequences_.at(tenant.queue.front()).asks_at, tenant.turn());
  };
  for (Tenant& tenant : tenants_.all()) {
    if (tenant.queue.empty()) continue;
    Sequence& head = sequences_.at(tenant.queue.front());
    if (!IsDue(tenant)) {
      head.asks_at = 0;
      continue;
    }
    if (head.asks_at == 0) head.asks_at = plan + static_cast<uint64_t>(patience_);
    if (plan < head.asks_at) continue;
    if (overdue == nullptr || order(tenant) < order(*overdue)) overdue = &tenant;
  }
  return overdue;
}

int64_t Admission::patience() const {
  if (!swapping_.on()) return 0;
  // One asks in a plan, and budgets have some to fall for it.
  const std::span<const Tenant> tenants = tenants_.all();
  const int64_t lines =
      std::count_if(tenants.begin(), tenants.end(), [](const Tenant& tenant) { return !tenant.queue.empty(); });
  if (lines == 0 && !swapping_.anybody_outside()) return 0;
  return patience_ + static_cast<int64_t>(Swapping::kAskAgain) + static_cast<int64_t>(kBudgetPlans) * lines;
}

// Somebody else's head of line is to have what becomes free, so what budgets win would not be this one's. One that waits for its own
// tenant alone takes nothing, and may do so for as long as that one's streams run.
bool Admission::OthersHaveRoom(const Tenant& tenant) const {
  const std::span<const Tenant> tenants = tenants_.all();
  return swapping_.on() && std::any_of(tenants.begin(), tenants.end(), [&](const Tenant& other) {
           return &other != &tenant && other.waits() && sequences_.at(other.queue.front()).given_room > 0;
         });
}

void Admission::MakeRoom(Tenant& tenant, uint64_t plan) {
  Sequence& head = sequences_.at(tenant.queue.front());
  tenant.head = head_of_(tenant);
  const int64_t blocks = tenant.head.blocks;
  const int64_t missing = std::max<int64_t>(0, Missing(tenant, blocks));
  const bool row = !FindsRow(tenant);
  // Budgets win no row, and who leaves for that wins blocks as well.
  if (missing > 0 && !row) {
    blocked_ = {&tenant, missing, /*over_share=*/false, {}};
    CountMissing();
    // Budgets have this long to fall: one plan asks, the next cuts.
    const bool in_time = plan < head.asks_at + kBudgetPlans;
    if (in_time && !OthersHaveRoom(tenant) && elastic_.CanGain(blocked_)) {
      elastic_.Plan(blocked_, head.request.id, plan);
      if (lowers_for() != 0) head.given_room = plan;
      return;
    }
  }
  if ((missing > 0 || row) && !swapping_.MakeRoomForHead(head.request.tenant, blocks, missing, row)) {
    head.asks_at = plan + Swapping::kAskAgain;
    return;
  }
  head.given_room = plan;
}

// What is missing for the head of line, with the prefix that it is sure to find in the next step: budgets are lowered by no more,
// and by no less.
void Admission::CountMissing() {
  if (blocked_.tenant == nullptr || !elastic_.AnybodyMayLower()) return;
  Sequence& head = sequences_.at(blocked_.tenant->queue.front());
  const int64_t alone = AloneBlocks(head.request);
  int64_t needed = BlocksNeededExactly(head, *blocked_.tenant);
  if (needed < alone) {
    if (match_of_ != head.request.id || match_at_ != block_manager_.changes()) MatchPrefix(head.request);
    // A block that somebody uses is found no more when one before it, that nobody uses, is taken in this step.
    const size_t sure = block_manager_.InUseOf(head.request.prefix, match_);
    blocked_.shares = std::span(match_.blocks).first(sure);
    needed = std::min(alone, SharedBlocks(head.request) - static_cast<int64_t>(sure));
  }
  blocked_.blocks += needed - blocked_.tenant->head.blocks;
}

void Admission::AdmitWaiting(int64_t now_us, StepPlan& plan, bool promised_alone) {
  if (waiting_ > 0) CountOverlaps();
  while (sequences_.free_rows() > 0 && !paused_) {
    Tenant* tenant = nullptr;
    if (promised_alone || swapping_.closed()) tenant = ChoosePromised();
    if (tenant == nullptr && !promised_alone) {
      tenant = swapping_.closed() ? ChooseWithinFloor() : Choose();
      if (tenant == nullptr && swapping_.closed()) tenant = ChooseWithinShare();
    }
    if (tenant == nullptr) return;
    const int32_t index = tenant->queue.front();
    Sequence& sequence = sequences_.at(index);
    if (IsUnsure(sequence)) --unsure_;
    Reserve(index, plan);
    sequences_.Admit(index);
    sequence.times.admitted_us = now_us;
    tenant->queue.pop_front();
    tenant->SettleHeldUp();
    tenant->reserved += sequence.blocks.reserved();
    tenant->OwePrompt(sequence.prompt_length() - sequence.scheduled, tenants_.turns().prefill_now);
    ++tenant->running;
    ++tenant->rows;
    --waiting_;
    admitted_.push_back(sequence.request.id);
    ++counters_.admitted;
    if (sequence.shares) tenant->overlap = block_manager_.overlap(sequence.request.tenant);
  }
}

bool Admission::FitsAlone(int64_t private_blocks, const Tenant& tenant) const {
  return block_manager_.CanAdmit(private_blocks) && !tenant.CapHoldsBack(private_blocks);
}

// The prompt's tokens that may be taken over, the last of them not for nothing; 0: it does not share.
int32_t Admission::PrefixEnd(const Request& request) const {
  const PrefixUse& use = request.prefix;
  if ((!use.publishes && !use.looks_up) || parking_.Resumable(request) != nullptr) return 0;
  const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
  // After a cut inside the prompt nothing that is kept may be shared: at least one token before the first cut is
  // computed.
  const int32_t cut_at = request.budget.FirstCut(prompt_length);
  return cut_at == 0 ? prompt_length : std::min(prompt_length, cut_at - 1 + use.rows_computed_min);
}

// Whether the prompt has a block that it could find and that `leader` has yet to compute. With scores to start from, it finds what
// somebody leaves who needs the same.
bool Admission::WillPublishFor(const Request& head, const Sequence& leader) const {
  const Request& other = leader.request;
  const bool leaves_what_it_needs =
      head.prefix.scores != ScoreNeed::kSnapshot ||
      (other.prefix.scores == ScoreNeed::kSnapshot && other.prefix.score_kind == head.prefix.score_kind);
  // What came back from elsewhere is its session's alone.
  const bool publishes = leader.shares && leader.restored == 0 && other.prefix.publishes;
  const bool finds = head.prefix.takes_generated || !leader.blocks.generated();
  if (!publishes || !finds || leader.decodes() || leader.retired() || !leaves_what_it_needs ||
      other.tenant != head.tenant || other.prefix.salt != head.prefix.salt) {
    return false;
  }
  const int32_t published = block_manager_.Published(leader.blocks);
  const int32_t cut_at = other.budget.FirstCut(leader.prompt_length());
  const int32_t leader_end = cut_at == 0 ? leader.prompt_length() : std::min(cut_at, leader.prompt_length());
  const int32_t next_end = (published + 1) * kBlockSlots;
  if (published < 0 || next_end > std::min(leader_end, PrefixEnd(head) - head.prefix.rows_computed_min)) return false;
  return head.prompt.data() == other.prompt.data() ||
         std::equal(head.prompt.begin(), head.prompt.begin() + next_end, other.prompt.begin());
}

bool Admission::AwaitsPrefix(const Request& head) const {
  if (!head.prefix.looks_up) return false;
  const std::span<const int32_t> running = sequences_.running();
  return std::any_of(running.begin(), running.end(),
                     [&](int32_t index) { return WillPublishFor(head, sequences_.at(index)); });
}

// A request that does not fit into the pool or under its tenant's cap by itself may fit if it shares blocks that others
// hold already. Where it would not with the longest prefix either, nothing is matched, and what it needs alone is the
// answer.
int64_t Admission::BlocksNeeded(Sequence& sequence, const Tenant& tenant) {
  const Request& request = sequence.request;
  const int64_t alone = AloneBlocks(request);
  // Who was given room was so with what it finds: that it would fit alone now, but for floors, does not change what it needs.
  const int32_t end = FitsAlone(alone, tenant) && sequence.given_room == 0 ? 0 : PrefixEnd(request);
  if (end == 0) return alone;
  const int64_t least = SharedBlocks(request) - std::max(0, end - request.prefix.rows_computed_min) / kBlockSlots;
  const bool pool_holds_back = !block_manager_.CanAdmit(least) && !tenant.CapHoldsBack(alone);
  return pool_holds_back || tenant.CapHoldsBack(least) ? alone : BlocksNeededExactly(sequence, tenant);
}

// Matches once for every change of the blocks.
int64_t Admission::BlocksNeededExactly(Sequence& sequence, const Tenant& tenant) {
  const int64_t alone = AloneBlocks(sequence.request);
  if ((FitsAlone(alone, tenant) && sequence.given_room == 0) || PrefixEnd(sequence.request) == 0) return alone;
  if (sequence.matched_at != block_manager_.changes()) {
    sequence.matched_at = block_manager_.changes();
    const int64_t shared = MatchPrefix(sequence.request);
    sequence.blocks_beside = BlocksBeside(shared);
  }
  // Not CapHoldsBack, which lets a tenant pass of which nothing runs: what this one shares need not exceed its cap.
  return tenant.CapAllows(sequence.blocks_beside) ? std::min(alone, sequence.blocks_beside) : alone;
}

// What a request that shares has to reserve, with match_ what it finds. REQUIRES: PrefixEnd(request) > 0.
int64_t Admission::MatchPrefix(const Request& request) {
  const auto end = static_cast<size_t>(PrefixEnd(request));
  ++counters_.prefix_matches;
  match_of_ = request.id;
  match_at_ = block_manager_.changes();
  block_manager_.Match(request.prefix, std::span(request.prompt).first(end), &match_);
  return SharedBlocks(request);
}

// REQUIRES: ChooseTenant chose it, so there is room at least for what it needs without sharing.
void Admission::Reserve(int32_t index, StepPlan& plan) {
  Sequence& sequence = sequences_.at(index);
  if (const ParkedCounts* parked = parking_.Resumable(sequence.request); parked != nullptr) {
    ReserveResumed(index, *parked);
    return;
  }
  parking_.LetGo(index, sequence);
  if (sequence.request.prefix.looks_up) counters_.prefix_queries += sequence.request.prompt.size();
  const int64_t alone = AloneBlocks(sequence.request);
  if (ReserveShared(sequence, alone, plan)) return;
  block_manager_.Admit(sequence.blocks, static_cast<int32_t>(alone), sequence.request.tenant);
  swapping_.Admitted(sequence, PrivateBlocks(sequence.request));
  sequence.shares = sequence.request.history > 0;
}

void Admission::ReserveResumed(int32_t index, const ParkedCounts& parked) {
  Sequence& sequence = sequences_.at(index);
  const Request& request = sequence.request;
  block_manager_.Admit(sequence.blocks, static_cast<int32_t>(AloneBlocks(request)), request.tenant);
  swapping_.Admitted(sequence, PrivateBlocks(request));
  block_manager_.Extend(sequence.blocks, parked.live);
  sequence.shares = request.history > 0;
  parking_.Restore(index, sequence);
}

// Reserves for sharing if there is room for it beside the floors of other tenants and below the tenant's own cap.
// Returns false if not, and reserves nothing.
bool Admission::ReserveShared(Sequence& sequence, int64_t alone_blocks, StepPlan& plan) {
  const Request& request = sequence.request;
  const Tenant& tenant = tenants_.of(sequence);
  int64_t other_floors = 0;
  for (const Tenant& other : tenants_.all()) other_floors += &other == &tenant ? 0 : other.unused_floor();
  if (PrefixEnd(request) == 0) return false;
  const int64_t shared_blocks = MatchPrefix(request);
  const int64_t others = FitsAlone(alone_blocks, tenant) ? other_floors : 0;
  const int64_t peak = std::max(shared_blocks, PrivateBlocks(request));
  if (!swapping_.HasPlace(tenant, peak)) return false;
  const int64_t beside = BlocksBeside(shared_blocks);
  // It was chosen with so many, or it takes more than that from nobody who waits outside.
  const bool takes_more = beside > tenant.head.blocks && beside > tenant.unused_floor();
  if (swapping_.closed() && takes_more && !MayPassOutside(tenant, beside)) return false;
  if (!tenant.CapAllows(BlocksBeside(shared_blocks)) || !block_manager_.CanAdmit(shared_blocks + others, match_)) {
    return false;
  }
  block_manager_.Admit(sequence.blocks, static_cast<int32_t>(shared_blocks), match_, &plan.score_inits, request.tenant);
  swapping_.Admitted(sequence, peak);
  sequence.shares = true;
  sequence.cached = sequence.scheduled = sequence.computed = match_.tokens();
  sequence.live = sequence.held = sequence.cached;
  counters_.prefix_hits += static_cast<uint64_t>(sequence.cached);
  return true;
}

void Admission::ChargeMemory() {
  if (!tenants_.fair()) return;
  CountOverlaps();
  Tenant* holds_up = holds_up_ >= 0 && !tenants_.at(holds_up_).queue.empty() ? &tenants_.at(holds_up_) : nullptr;
  const BlockPool& pool = block_manager_.pool();
  hydrant::ChargeMemory(tenants_.all(), pool.total(), holds_up, pool.available() - block_manager_.promised());
}

// A block that several sequences hold takes memory once, and is in the reservation of each.
void Admission::CountOverlaps() {
  for (int32_t i = 0; i < tenants_.size(); ++i) tenants_.at(i).overlap = block_manager_.overlap(i);
}

}  // namespace hydrant
