#include "scheduler/scheduler.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

bool Contains(std::span<const int32_t> ids, int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

// Tokens of the next chunk of a prompt with `tokens` left until it ends or is cut, at most `tokens_left` of the step: to
// there, or to the last block edge within reach. The first of them goes into slot `live`.
int32_t ChunkTokens(int32_t live, int32_t tokens, int32_t tokens_left) {
  if (tokens <= tokens_left) return tokens;
  const int32_t end = (live + tokens_left) / kSlotsPerBlock * kSlotsPerBlock;
  return std::max(0, end - live);
}

FreeCause EndCause(FinishReason finish) {
  return finish == FinishReason::kAbort ? FreeCause::kCancel : FreeCause::kFinish;
}

FreeCause CauseOf(const PlanRow& row) {
  if (row.prefill) return FreeCause::kPrefill;
  return row.lowered ? FreeCause::kShrink : FreeCause::kPeriodic;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      block_manager_(options.blocks, options.spare_sides, options.prefix_hash_mask),
      sequences_(static_cast<size_t>(options.sequences_max + options.waiting_max)),
      prefill_cost_(options.attention_slots_per_token),
      parked_(options.parked_blocks_max) {
  assert(options.Validate().ok());
  SetTenants(options.tenants);
  turns_.policy = options.policy;
  head_of_ = [this](const Tenant& tenant) {
    const Sequence& sequence = at(tenant.queue.front());
    return HeadOfLine{BlocksNeeded(sequence, tenant), sequence.arrival};
  };
  free_sequences_.reserve(sequences_.size());
  for (int32_t index = sequence_indices() - 1; index >= 0; --index) free_sequences_.push_back(index);
  const size_t rows = static_cast<size_t>(options.sequences_max);
  free_state_rows_.reserve(rows);
  for (int32_t row = options.sequences_max - 1; row >= 0; --row) free_state_rows_.push_back(row);
  running_.reserve(rows);
  prefilling_.reserve(rows);
  decoding_.reserve(rows);
  admitted_.reserve(rows);
  for (StepPlan& plan : plans_) plan.rows.reserve(rows);
  events_.reserve(sequences_.size());
  pending_events_.reserve(sequences_.size());
  index_of_.reserve(sequences_.size());
}

Scheduler::~Scheduler() {
  // Tables must be empty when they go; what they hold goes with the pool.
  for (BlockTable& table : parking_tables_) block_manager_.Release(table);
  for (int32_t index : running_) block_manager_.Release(at(index).blocks);
}

absl::Status Scheduler::Check(const Request& request) const {
  const int64_t prompt_length = static_cast<int64_t>(request.prompt.size());
  if (request.tenant < 0 || request.tenant >= static_cast<int32_t>(tenants_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("there is no tenant ", request.tenant));
  }
  if (prompt_length == 0) return absl::InvalidArgumentError("the prompt is empty");
  if (request.max_tokens < 0 || request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return absl::InvalidArgumentError("max_tokens and min_tokens must satisfy 0 <= min_tokens <= max_tokens");
  }
  if (prompt_length + request.max_tokens > kInt32Max) return absl::InvalidArgumentError("positions would overflow");
  if (!request.budget.valid()) return absl::InvalidArgumentError("the KV budget is malformed");
  const int64_t blocks = PrivateBlocks(request);
  const int64_t blocks_max = BlocksMaxOf(options_.tenants, static_cast<size_t>(request.tenant), options_.blocks);
  if (blocks > blocks_max) {
    return absl::OutOfRangeError(absl::StrCat("the request needs ", blocks, " blocks of KV cache (", prompt_length,
                                              " prompt tokens, max_tokens ", request.max_tokens,
                                              "); its tenant can have ", blocks_max));
  }
  return CheckSlotsAtWorst(request, blocks_max * kSlotsPerBlock);
}

absl::StatusOr<int32_t> Scheduler::Add(Request request) {
  if (absl::Status status = Check(request); !status.ok()) return status;
  if (free_sequences_.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", waiting_, " requests wait"));
  }
  const int32_t index = free_sequences_.back();
  if (!index_of_.emplace(request.id, index).second) {
    return absl::AlreadyExistsError(absl::StrCat("request ", request.id, " is in progress"));
  }
  free_sequences_.pop_back();
  Sequence& sequence = at(index);
  assert(sequence.waiting() && sequence.blocks.idle());
  sequence.request = std::move(request);
  sequence.known = sequence.prompt_length();
  if (!sequence.request.ignore_eos) sequence.end_ids = options_.eos_ids;
  const std::vector<int32_t>& stop_ids = sequence.request.stop_token_ids;
  sequence.end_ids.insert(sequence.end_ids.end(), stop_ids.begin(), stop_ids.end());
  sequence.times.arrival_us = sequence.request.arrival_us;
  sequence.arrival = ++arrivals_;
  // What it was found to need has to stay true while it waits: its session's KV stays, or it can do without.
  sequence.pins = KeepsPast(sequence.request);
  if (sequence.pins) {
    parked_.Pin(sequence.request.session);
  } else if (Resumable(sequence.request) == nullptr) {
    sequence.request.resumes = 0;
  }
  Tenant& tenant = tenant_of(sequence);
  if (tenant.queue.empty()) Lift(tenant, tenants_, turns_);
  const auto goes_before = [this](int32_t priority, int32_t other) { return priority < at(other).request.priority; };
  tenant.queue.insert(
      std::upper_bound(tenant.queue.begin(), tenant.queue.end(), sequence.request.priority, goes_before), index);
  ++waiting_;
  return index;
}

void Scheduler::SetTenants(std::span<const TenantOptions> tenants) {
  assert(ValidateTenants(tenants, options_.blocks, options_.sequences_max).ok() && tenants.size() >= tenants_.size());
  options_.tenants.assign(tenants.begin(), tenants.end());
  tenants_.resize(tenants.size());
  for (size_t i = 0; i < tenants.size(); ++i) {
    tenants_[i].options = options_.tenants[i];
    tenants_[i].floor_rows = FloorRows(options_.tenants[i].floor_blocks, options_.blocks, options_.sequences_max);
  }
}

int64_t Scheduler::PeakSlots(const Request& request) const {
  const ParkedKv* parked = Resumable(request);
  const int32_t prompt_length = static_cast<int32_t>(request.prompt.size());
  if (parked == nullptr) return PeakSlotsFrom(0, 0, prompt_length, request.max_tokens, request.budget);
  return PeakSlotsResumed(parked->live, parked->computed, prompt_length, request.max_tokens, request.budget);
}

int64_t Scheduler::PrivateBlocks(const Request& request) const { return BlocksForSlots(PeakSlots(request)); }

// A request that does not fit alone may fit with what others hold already.
int64_t Scheduler::BlocksNeeded(const Sequence& sequence, const Tenant& tenant) {
  const int64_t alone = PrivateBlocks(sequence.request);
  if (block_manager_.CanAdmit(alone)) return alone;
  const int64_t shared = SharedBlocks(sequence.request, tenant);
  return shared == 0 ? alone : std::min(alone, shared - std::ssize(match_.blocks) + match_.revived);
}

bool Scheduler::Cancel(uint64_t id) {
  const auto found = index_of_.find(id);
  if (found == index_of_.end()) return false;
  const int32_t index = found->second;
  Sequence& sequence = at(index);
  if (sequence.retired()) return false;
  sequence.finish = FinishReason::kAbort;
  if (sequence.in_flight > 0) return true;  // Commit ends it

  if (sequence.waiting()) {
    std::deque<int32_t>& queue = tenant_of(sequence).queue;
    queue.erase(std::find(queue.begin(), queue.end(), index));
    --waiting_;
  } else {
    running_.erase(std::find(running_.begin(), running_.end(), index));
  }
  const SchedulerEvent event = MakeEvent(index, -1, -1);
  pending_events_.push_back(event);
  Retire(index, event);
  return true;
}

void Scheduler::AdmitWaiting(int64_t now_us) {
  admitted_.clear();
  blocked_ = Blocked();
  if (waiting_ > 0) CountOverlaps();
  while (!free_state_rows_.empty() && !admission_paused_) {
    const Room room = {block_manager_.pool().available() - block_manager_.promised(),
                       static_cast<int32_t>(free_state_rows_.size()), options_.blocks};
    Tenant* tenant = ChooseTenant(tenants_, turns_, room, head_of_, &blocked_);
    if (tenant == nullptr) return;
    const int32_t index = tenant->queue.front();
    Sequence& sequence = at(index);
    Reserve(sequence);
    sequence.state_row = free_state_rows_.back();
    free_state_rows_.pop_back();
    sequence.times.admitted_us = now_us;
    Unpin(sequence);
    tenant->queue.pop_front();
    tenant->reserved += sequence.blocks.reserved();
    tenant->OwePrompt(sequence.prompt_length() - sequence.scheduled, turns_.prefill_now);
    ++tenant->running;
    --waiting_;
    running_.push_back(index);
    admitted_.push_back(sequence.request.id);
    ++counters_.admitted;
    if (sequence.shares && counts_overlaps()) tenant->overlap += BlocksOthersUse(sequence);
  }
}

void Scheduler::SetPaused(uint64_t id, bool paused) {
  const auto found = index_of_.find(id);
  if (found != index_of_.end()) at(found->second).paused = paused;
}

void Scheduler::LimitSteps(const StepLimits& limits) {
  assert(std::min(limits.alone, limits.beside_decodes) >= kSlotsPerBlock && limits.shared > 0 &&
         limits.shared_lag >= 1);
  limits_ = limits;
}

const StepPlan& Scheduler::Plan(int64_t now_us) {
  assert(planned_ == 0 && parks_.empty());
  BeginPlan();
  AdmitWaiting(now_us);
  PlanShrinks();

  ShareStep();
  plan_->shared = step_shares_.bounded();
  plan_->several_tenants = step_shares_.several();
  PlanDecodes();
  PlanPrompts();
  assert((plan_->side_starts.empty() && plan_->restores.empty()) || !plan_->rows.empty());
  if (!plan_->rows.empty()) ++counters_.steps;
  return *plan_;
}

StepPlan& Scheduler::BeginPlan() {
  const uint64_t number = plan_->number + 1;
  ++planned_;
  plan_ = &plans_[number % plans_.size()];
  plan_->number = number;
  plan_->rows.clear();
  plan_->restores.clear();
  plan_->side_starts.clear();
  plan_->snapshots.clear();
  plan_->decode_tokens = 0;
  plan_->prefill_tokens = 0;
  plan_->decode_cost = 0.0;
  plan_->prefill_cost = 0.0;
  return *plan_;
}

void Scheduler::PlanDecode(int32_t index) {
  Sequence& sequence = at(index);
  const bool ahead = sequence.in_flight > 0;
  assert(sequence.in_flight <= 1 && sequence.scheduled + (ahead ? 0 : 1) == sequence.known);
  KvBudget& budget = sequence.request.budget;
  const int32_t lower_to = std::exchange(sequence.lower_to, 0);
  const DecodeCounts counts =
      lower_to > 0 ? budget.DecodeAndLower(sequence.live, lower_to) : budget.Decode(sequence.live);
  block_manager_.Extend(sequence.blocks, counts.live_after);

  PlanRow& row = plan_->rows.emplace_back();
  row.sequence = index;
  row.state_row = sequence.state_row;
  row.tokens = std::span<const int32_t>(ahead ? &kTokenInFlight : &sequence.last_token, 1);
  row.position = sequence.scheduled;
  row.live = sequence.live;
  row.prompt_length = sequence.prompt_length();
  row.block_table = sequence.blocks.blocks();
  row.side_table = sequence.blocks.sides();
  if (sequence.shares && (counts.choose_victim || counts.shrink_to > 0)) {
    const int32_t kept = counts.shrink_to > 0 ? counts.shrink_to : counts.live_after;
    block_manager_.PlanCopies(sequence.blocks, kept, counts.live_after);
    row.copies = sequence.blocks.copies();
  }
  row.reuse_victim = counts.reuse_victim;
  row.choose_victim = counts.choose_victim;
  row.shrink_to = counts.shrink_to;
  if (std::exchange(sequence.asks_losses, false)) {
    const Cuts cuts = CutsOf(budget);
    row.loss_keep_max = cuts.keep_max;
    row.loss_cuts = cuts.count;
  }
  row.lowered = lower_to > 0;
  if (row.lowered) budget.keep = lower_to;
  row.keep = budget.keep;
  row.sample = true;

  const int32_t evicted_before = sequence.evicted();
  ++sequence.scheduled;
  if (sequence.request.session != 0) row.ends = sequence.EndsBehind(sequence.scheduled);
  sequence.live = counts.shrink_to > 0 ? counts.shrink_to : counts.live_after;
  row.evicted = sequence.evicted() - evicted_before;
  ++sequence.in_flight;
  sequence.last_row = ++rows_;
  ++plan_->decode_tokens;
}

int32_t Scheduler::PlanPrefill(int32_t index, int32_t tokens_left) {
  Sequence& sequence = at(index);
  assert(sequence.in_flight == 0);
  const int32_t prompt_length = sequence.prompt_length();
  const KvBudget& budget = sequence.request.budget;
  const int32_t stop = budget.PromptStop(sequence.scheduled, prompt_length);
  const int32_t tokens = ChunkTokens(sequence.live, stop - sequence.scheduled, tokens_left);
  if (tokens == 0) return 0;
  const bool stops = sequence.scheduled + tokens == stop;
  const double cost = prefill_cost_.Of(sequence.live, tokens);
  block_manager_.Extend(sequence.blocks, sequence.live + tokens);

  PlanRow& row = plan_->rows.emplace_back();
  row.sequence = index;
  row.state_row = sequence.state_row;
  row.tokens = std::span<const int32_t>(sequence.request.prompt)
                   .subspan(static_cast<size_t>(sequence.scheduled), static_cast<size_t>(tokens));
  row.position = sequence.scheduled;
  row.live = sequence.live;
  row.prompt_length = prompt_length;
  row.block_table = sequence.blocks.blocks();
  row.side_table = sequence.blocks.sides();
  row.prefill = true;
  row.keep = budget.keep;
  row.shrink_to = stops ? budget.PromptCut(sequence.live + tokens) : 0;
  if (sequence.shares) {
    PlanSnapshots(sequence, &row);
    if (row.shrink_to > 0) {
      block_manager_.PlanCopies(sequence.blocks, row.shrink_to, sequence.live + tokens);
      row.copies = sequence.blocks.copies();
    }
  }
  row.sample = stop == prompt_length && stops && sequence.request.max_tokens > 0;

  const int32_t evicted_before = sequence.evicted();
  sequence.scheduled += tokens;
  if (row.sample && sequence.request.session != 0) row.ends = sequence.EndsBehind(sequence.scheduled);
  sequence.live = row.shrink_to > 0 ? row.shrink_to : sequence.live + tokens;
  row.evicted = sequence.evicted() - evicted_before;
  ++sequence.in_flight;
  plan_->prefill_tokens += tokens;
  plan_->prefill_cost += cost;
  sequence.last_row = ++rows_;
  step_shares_.TakePrompt(sequence.request.tenant, cost);
  tenant_of(sequence).ChargePrompt(tokens, cost);
  return tokens;
}

std::span<const SchedulerEvent> Scheduler::Commit(const StepPlan& plan, std::span<const RowResult> results,
                                                  int64_t now_us) {
  StepPlan& oldest = plans_[(plan_->number + (planned_ == 2 ? 1 : 0)) % plans_.size()];
  assert(planned_ > 0 && &plan == &oldest && results.size() == plan.rows.size());
  --planned_;
  events_.clear();
  events_.swap(pending_events_);
  for (size_t i = 0; i < results.size(); ++i) CommitRow(oldest, static_cast<int32_t>(i), results[i], now_us);
  std::erase_if(running_, [this](int32_t index) { return at(index).waiting(); });
  return events_;
}

void Scheduler::CommitRow(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us) {
  const PlanRow& row = plan.rows[static_cast<size_t>(row_index)];
  Sequence& sequence = at(row.sequence);
  assert(sequence.in_flight > 0);
  --sequence.in_flight;
  if (sequence.ended()) {
    EndBehind(sequence, row, row_index);
    return;
  }
  const int32_t tokens = static_cast<int32_t>(row.tokens.size());
  sequence.computed += tokens;
  sequence.held = row.shrink_to > 0 ? row.shrink_to : row.reuse_victim ? row.live : row.live + tokens;
  assert(sequence.computed <= sequence.scheduled &&
         sequence.scheduled <= sequence.known + (sequence.retired() ? 1 : sequence.in_flight));
  if (row.prefill) counters_.prompt_tokens += static_cast<uint64_t>(tokens);
  counters_.evicted_tokens += static_cast<uint64_t>(row.evicted);

  int32_t token = -1;
  if (sequence.retired()) {
    // Cancelled in flight: nobody wants what this step found out.
  } else if (result.failure != RowFailure::kNone) {
    sequence.finish = result.failure == RowFailure::kNumbers ? FinishReason::kError : FinishReason::kNoMemory;
  } else if (row.sample) {
    token = result.token;
    TakeToken(sequence, result, now_us);
  } else if (sequence.computed == sequence.prompt_length() && sequence.request.max_tokens == 0) {
    sequence.finish = FinishReason::kLength;
  }
  TakeResult(plan, row, result, sequence);
  // An end waits for the row ahead, and comes with its token.
  if (sequence.retired() ? sequence.in_flight > 0 : token < 0) return;
  events_.push_back(MakeEvent(row.sequence, row_index, token));
  if (sequence.retired()) Retire(row.sequence, events_.back());
}

// Of a sequence that ended in the step before: the row might as well not have been there. The last token waited for it.
void Scheduler::EndBehind(Sequence& sequence, const PlanRow& row, int32_t row_index) {
  sequence.scheduled = sequence.computed;
  sequence.live = sequence.held;
  const int32_t token = EndsByItself(sequence.finish) ? sequence.last_token : -1;
  events_.push_back(MakeEvent(row.sequence, row_index, token));
  Retire(row.sequence, events_.back());
}

// What the row did besides its token.
void Scheduler::TakeResult(StepPlan& plan, const PlanRow& row, const RowResult& result, Sequence& sequence) {
  // A row behind a cancelled one may have computed a token that never came to be.
  const bool failed = result.failure != RowFailure::kNone;
  const bool valid = !failed && sequence.computed <= sequence.known;
  if (sequence.shares) Share(sequence, plan, row, valid);
  // The device made the cut whatever became of the sequence. A lower budget is a lower promise, also when nothing is cut.
  if (row.shrink_to > 0 || row.lowered) {
    ShrinkTo(sequence, row.shrink_to > 0 ? row.shrink_to : sequence.live, CauseOf(row));
  }
  counters_.shrinks += row.lowered ? 1 : 0;
  if (row.loss_cuts > 0 && !failed) {
    assert(std::ssize(result.losses) == row.loss_cuts);
    sequence.losses.assign(result.losses.begin(), result.losses.end());
    sequence.losses_step = plan.number;
  }
}

void Scheduler::ShrinkTo(Sequence& sequence, int32_t slots, FreeCause cause) {
  const Request& request = sequence.request;
  const int32_t tokens_left = request.max_tokens - std::max(0, sequence.computed - sequence.prompt_length());
  const int64_t reserved =
      sequence.shares ? SharedDecodeBlocks(slots, DecodeSteps(tokens_left), request.budget)
                      : PeakBlocksFrom(slots, sequence.computed, sequence.prompt_length(), tokens_left, request.budget);
  const int32_t reserved_before = sequence.blocks.reserved();
  const int32_t freed = block_manager_.Shrink(
      sequence.blocks, slots, static_cast<int32_t>(std::min<int64_t>(reserved, sequence.blocks.reserved())));
  tenant_of(sequence).reserved -= reserved_before - sequence.blocks.reserved();
  counters_.freed_blocks[static_cast<size_t>(cause)] += static_cast<uint64_t>(freed);
}

void Scheduler::TakeToken(Sequence& sequence, const RowResult& result, int64_t now_us) {
  const Request& request = sequence.request;
  const int32_t token = result.token;
  sequence.last_token = token;
  if (sequence.shares || request.session != 0) sequence.output.push_back(token);
  ++sequence.known;
  if (sequence.times.first_token_us < 0) sequence.times.first_token_us = now_us;
  sequence.times.last_token_us = now_us;
  ++counters_.generated_tokens;
  tenant_of(sequence).ChargeOutput();

  // An end that is also the last token allowed is a stop: the text is complete.
  if (Contains(sequence.EndsBehind(sequence.known - 1), token)) {
    sequence.finish = FinishReason::kStop;
    const bool eos = !request.ignore_eos && Contains(options_.eos_ids, token);
    if (!eos) sequence.stop_token = token;
    return;
  }
  if (result.ends) {
    sequence.finish = FinishReason::kText;
    return;
  }
  if (sequence.generated() == request.max_tokens) sequence.finish = FinishReason::kLength;
}

SchedulerEvent Scheduler::EventOf(int32_t index) const { return MakeEvent(index, -1, -1); }

SchedulerEvent Scheduler::MakeEvent(int32_t index, int32_t row_index, int32_t token) const {
  const Sequence& from = sequence(index);
  SchedulerEvent event;
  event.request_id = from.request.id;
  event.sequence = index;
  event.row = row_index;
  event.token = token;
  event.finish = from.finish;
  event.stop_token = from.stop_token;
  event.generated = from.generated();
  event.live = from.held;
  event.budget = from.request.budget.keep;
  event.evicted = from.computed - from.held;
  event.cached = from.cached;
  event.restored = from.restored;
  // Without what a row ahead has taken.
  event.blocks = from.in_flight == 0 ? from.blocks.size() : static_cast<int32_t>(BlocksForSlots(from.held));
  event.prompt_computed = std::max(0, std::min(from.computed, from.prompt_length()) - from.cached - from.restored);
  event.times = from.times;
  return event;
}

void Scheduler::Retire(int32_t index, const SchedulerEvent& last) {
  Sequence& sequence = at(index);
  assert(sequence.retired() && sequence.in_flight == 0 && sequence.computed == sequence.scheduled);
  ++counters_.finished[static_cast<size_t>(last.finish)];
  tenant_of(sequence).reserved -= sequence.blocks.reserved();
  Unpin(sequence);
  if (sequence.request.session != 0 && EndsByItself(last.finish)) {
    assert(planned_ == 0);
    Park(index);
  }
  const int32_t freed = block_manager_.Release(sequence.blocks);
  counters_.freed_blocks[static_cast<size_t>(EndCause(last.finish))] += static_cast<uint64_t>(freed);
  if (!sequence.waiting()) {
    free_state_rows_.push_back(sequence.state_row);
    --tenant_of(sequence).running;
    tenant_of(sequence).prompt_due -= std::max(0, sequence.prompt_length() - sequence.scheduled);
  }
  index_of_.erase(sequence.request.id);
  // The table goes on with its memory: the next sequence here allocates nothing.
  BlockTable blocks = std::move(sequence.blocks);
  std::vector<int32_t> output = std::move(sequence.output);
  sequence = Sequence();
  sequence.blocks = std::move(blocks);
  sequence.output = std::move(output);
  sequence.output.clear();
  free_sequences_.push_back(index);
}

absl::Status Scheduler::CheckIntegrity() const {
  std::vector<const BlockTable*> tables;
  std::vector<bool> row_taken(static_cast<size_t>(options_.sequences_max), false);
  for (int32_t index : running_) {
    const Sequence& sequence = sequences_[static_cast<size_t>(index)];
    tables.push_back(&sequence.blocks);
    const int32_t row = sequence.state_row;
    if (row < 0 || row >= options_.sequences_max || row_taken[static_cast<size_t>(row)]) {
      return absl::InternalError(absl::StrCat("sequence ", index, " has state row ", row));
    }
    row_taken[static_cast<size_t>(row)] = true;
    const int32_t ahead = sequence.retired() ? 1 : std::max(0, sequence.in_flight - 1);
    if (sequence.computed > sequence.scheduled || sequence.scheduled > sequence.known + ahead ||
        (sequence.in_flight == 0) != (sequence.computed == sequence.scheduled)) {
      return absl::InternalError(absl::StrCat("sequence ", index, ": known ", sequence.known, ", scheduled ",
                                              sequence.scheduled, ", computed ", sequence.computed, ", in flight ",
                                              sequence.in_flight));
    }
    if (sequence.in_flight == 0 && sequence.blocks.size() != BlocksForSlots(sequence.live)) {
      return absl::InternalError(
          absl::StrCat("sequence ", index, " holds ", sequence.blocks.size(), " blocks for ", sequence.live, " slots"));
    }
  }
  for (const BlockTable& parking : parking_tables_) tables.push_back(&parking);
  if (absl::Status status = CheckTenants(); !status.ok()) return status;
  if (free_state_rows_.size() + running_.size() != static_cast<size_t>(options_.sequences_max) ||
      index_of_.size() != running_.size() + static_cast<size_t>(waiting_) ||
      free_sequences_.size() + index_of_.size() != sequences_.size()) {
    return absl::InternalError(absl::StrCat("counts disagree: ", waiting_, " waiting, ", running_.size(), " running"));
  }
  return block_manager_.CheckIntegrity(tables);
}

absl::Status Scheduler::CheckTenants() const {
  int64_t queued = 0;
  for (size_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& tenant = tenants_[i];
    queued += static_cast<int64_t>(tenant.queue.size());
    int32_t running = 0;
    int64_t reserved = 0;
    int64_t prompt_due = 0;
    for (int32_t index : running_) {
      if (sequence(index).request.tenant != static_cast<int32_t>(i)) continue;
      ++running;
      reserved += sequence(index).blocks.reserved();
      prompt_due += std::max(0, sequence(index).prompt_length() - sequence(index).scheduled);
    }
    if (running != tenant.running || reserved != tenant.reserved || prompt_due != tenant.prompt_due) {
      return absl::InternalError(absl::StrCat("tenant ", tenant.options.name, ": ", tenant.running, " running, ",
                                              tenant.reserved, " blocks reserved; counted ", running, " and ",
                                              reserved));
    }
  }
  if (queued != waiting_) return absl::InternalError(absl::StrCat(queued, " queued, ", waiting_, " waiting"));
  return absl::OkStatus();
}

}  // namespace hydrant
