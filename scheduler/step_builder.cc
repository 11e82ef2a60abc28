#include "scheduler/step_builder.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// Tokens of the next chunk of a prompt with `tokens` left until it ends or is cut, at most `tokens_left` of the step: to
// there, or to the last block edge within reach and before the last `tail` of them. The first of them goes into slot `live`.
int32_t ChunkTokens(int32_t live, int32_t tokens, int32_t tokens_left, int32_t tail) {
  if (tokens <= tokens_left) return tokens;
  const int32_t end = (live + std::min(tokens_left, tokens - tail)) / kBlockSlots * kBlockSlots;
  return std::max(0, end - live);
}

// The smallest chunk that the sequence's prompt can go on with, but for one that ends or cuts it.
int32_t LeastChunk(const Sequence& sequence) {
  const int32_t tail = sequence.request.tail_tokens, tokens = sequence.prompt_length() - sequence.scheduled;
  return tail > 0 && ChunkTokens(sequence.live, tokens, tokens - 1, tail) == 0 ? tokens : kBlockSlots;
}

// Where score snapshots are taken: four per octave from 64 tokens on (64, 80, 96, 112, 128, 160, …), so that a prefix loses
// at most a quarter of itself by being rounded down to one, and a prompt's snapshots together have fewer than seven times its
// score blocks.
int32_t NextSnapshot(int32_t tokens) {
  constexpr int32_t kFirst = 64;
  if (tokens < kFirst) return kFirst;
  int32_t octave = kFirst;
  while (octave <= tokens / 2) octave *= 2;
  return (tokens / (octave / 4) + 1) * (octave / 4);
}

}  // namespace

StepBuilder::StepBuilder(const SchedulerOptions& options, SequenceTable& sequences, TenantList& tenants,
                         BlockManager& block_manager)
    : tokens_max_(options.tokens_max),
      tail_tokens_max_(options.tokens_max - options.sequences_max - (kBlockSlots - 1)),
      prefill_tokens_max_(options.prefill_tokens_max),
      drafts_max_(options.drafts_max),
      prefill_cost_(options.attention_slots_per_token),
      sequences_(sequences),
      tenants_(tenants),
      block_manager_(block_manager) {
  const size_t rows = static_cast<size_t>(options.sequences_max);
  prefilling_.reserve(rows);
  decoding_.reserve(rows);
  for (StepPlan& plan : plans_) {
    plan.rows.reserve(rows);
    plan.restores.reserve(rows);
    if (options.swap_blocks_max > 0) plan.swap_ins.reserve(rows);
    plan.score_inits.reserve(static_cast<size_t>(options.spare_score_blocks));
  }
}

absl::Status StepBuilder::CheckTail(const Request& request) const {
  if (request.tail_tokens == 0) return absl::OkStatus();
  if (request.tail_tokens > 0 && request.tail_tokens <= tail_tokens_max_ && request.budget.prompt_stride == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the last ", request.tail_tokens, " tokens of the prompt cannot be computed in one step"));
}

void StepBuilder::Limit(const StepLimits& limits) {
  assert(std::min(limits.alone, limits.beside_decodes) >= kBlockSlots && limits.shared > 0 && limits.shared_lag >= 1 &&
         limits.block_moved >= 0 && limits.blocks_moved_max >= 2);
  limits_ = limits;
}

StepPlan& StepBuilder::NextPlan() {
  const uint64_t number = plan_->number + 1;
  ++in_flight_;
  plan_ = &plans_[number % plans_.size()];
  plan_->number = number;
  plan_->rows.clear();
  plan_->restores.clear();
  plan_->swap_ins.clear();
  plan_->score_inits.clear();
  plan_->snapshots.clear();
  plan_->decode_tokens = 0;
  plan_->draft_tokens = 0;
  plan_->prefill_tokens = 0;
  plan_->decode_cost = 0.0;
  plan_->prefill_cost = 0.0;
  return *plan_;
}

StepPlan& StepBuilder::Begin() {
  assert(in_flight_ == 0);
  return NextPlan();
}

void StepBuilder::AddRows(bool somebody_is_blocked) {
  ShareStep();
  plan_->shared = step_shares_.bounded();
  plan_->several_tenants = step_shares_.several();
  for (const PlanRestore& restore : plan_->restores) {
    ChargeMove(sequences_.at(restore.sequence).request.tenant, restore.slice.size());
  }
  for (const PlanSwapIn& in : plan_->swap_ins) ChargeMove(in.payer, in.slice.size());
  PlanDecodes(somebody_is_blocked);
  PlanPrompts();
  assert(plan_->score_inits.empty() || !plan_->rows.empty());
}

void StepBuilder::ChargeMove(int32_t tenant, int64_t blocks) {
  if (!tenants_.fair()) return;
  const double cost = limits_.block_moved * static_cast<double>(blocks);
  tenants_.at(tenant).ChargeMemory(Tenant::kPromptCharge * cost);
  step_shares_.TakeMove(tenant, cost);
}

const StepPlan* StepBuilder::PlanAhead() {
  assert(in_flight_ == 1);
  ShareStep();
  if (step_shares_.bounded()) return nullptr;
  StepPlan& plan = NextPlan();
  plan.shared = false;
  plan.several_tenants = step_shares_.several();
  PlanDecodes(/*somebody_is_blocked=*/false);
  return &plan;
}

StepPlan& StepBuilder::Finish(const StepPlan& plan) {
  StepPlan& oldest = plans_[(plan_->number + (in_flight_ == 2 ? 1 : 0)) % plans_.size()];
  assert(in_flight_ > 0 && &plan == &oldest);
  --in_flight_;
  return oldest;
}

void StepBuilder::ShareStep() {
  step_shares_.Begin(static_cast<size_t>(tenants_.size()));
  if (!tenants_.fair()) return;
  for (int32_t i = 0; i < tenants_.size(); ++i) step_shares_.SetWeight(i, tenants_.at(i).options.weight);
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    const int32_t tenant = sequence.request.tenant;
    if (sequence.prefills()) {
      const int32_t stop = sequence.request.budget.PromptStop(sequence.scheduled, sequence.prompt_length());
      step_shares_.AddPrompt(tenant, prefill_cost_.Of(sequence.live, stop - sequence.scheduled));
    } else if (sequence.continues()) {
      step_shares_.AddDecode(tenant, prefill_cost_.Of(sequence.live, 1));
    }
  }
  step_shares_.Divide(limits_.shared, limits_.shared_lag * limits_.shared);
}

void StepBuilder::PlanDecodes(bool somebody_is_blocked) {
  decoding_.clear();
  for (int32_t index : sequences_.running()) {
    if (sequences_.at(index).continues()) decoding_.push_back(index);
  }
  if (plan_->shared) {
    std::sort(decoding_.begin(), decoding_.end(),
              [this](int32_t a, int32_t b) { return sequences_.at(a).last_row < sequences_.at(b).last_row; });
  }
  const bool may_draft = drafts_max_ > 0 && sequences_.RowsForDrafts() > 0;
  for (int32_t index : decoding_) {
    const Sequence& sequence = sequences_.at(index);
    const int32_t tenant = sequence.request.tenant;
    const int32_t drafts = may_draft ? DraftsOf(sequence) : 0;
    const double cost = prefill_cost_.Of(sequence.live, 1 + drafts);
    // A sequence whose budget is lowered, or that ends, for the sake of a waiting request is not deferred.
    const bool last = somebody_is_blocked && sequence.steps_after_next() <= 0;
    const bool due = sequence.asks_losses || sequence.lower_to > 0 || last;
    if (plan_->shared && !due && !step_shares_.HasRoomForDecode(tenant, cost)) continue;
    step_shares_.TakeDecode(tenant, cost);
    plan_->decode_cost += cost;
    PlanDecode(index, drafts);
  }
}

// How many of the drafts that the sequence was given its next row has. Where work is left for a later step nobody computes on a
// guess, nor beside prompts, which wait for the step, nor where the row is to do something else.
int32_t StepBuilder::DraftsOf(const Sequence& sequence) const {
  if (sequence.next_tokens.empty() || plan_->shared || sequence.in_flight > 0) return 0;
  if (sequence.asks_losses || sequence.lower_to > 0) return 0;
  const int32_t given = static_cast<int32_t>(sequence.next_tokens.size()) - 1;
  return std::min({given, sequence.room_for_drafts(), drafts_max_ - plan_->draft_tokens});
}

void StepBuilder::PlanDecode(int32_t index, int32_t drafts) {
  Sequence& sequence = sequences_.at(index);
  const bool ahead = sequence.in_flight > 0;
  assert(sequence.in_flight <= 1 && sequence.scheduled + (ahead ? 0 : 1) == sequence.known);
  KvBudget& budget = sequence.request.budget;
  const int32_t lower_to = std::exchange(sequence.lower_to, 0);
  const DecodeCounts counts =
      lower_to > 0 ? budget.DecodeAndLower(sequence.live, lower_to) : budget.Decode(sequence.live);
  assert(drafts == 0 || (!ahead && counts.reuse_victim == counts.choose_victim && counts.shrink_to == 0));
  // At the budget drafts overwrite victims as other tokens do.
  const int32_t live_after = counts.live_after + (counts.reuse_victim ? 0 : drafts);
  block_manager_.Extend(sequence.blocks, live_after);

  PlanRow& row = plan_->rows.emplace_back();
  row.sequence = index;
  row.state_row = sequence.state_row;
  row.tokens = std::span<const int32_t>(ahead ? &kSampledId : &sequence.last_token, 1);
  // Those that it has no use for are not of the token after this one.
  if (drafts == 0) sequence.next_tokens.clear();
  if (drafts > 0) row.tokens = std::span<const int32_t>(sequence.next_tokens).first(1 + static_cast<size_t>(drafts));
  row.position = sequence.scheduled;
  row.live = sequence.live;
  row.prompt_length = sequence.prompt_length();
  row.block_table = sequence.blocks.blocks();
  row.score_table = sequence.blocks.score_blocks();
  if (sequence.shares && (counts.choose_victim || counts.shrink_to > 0)) {
    const int32_t kept = counts.shrink_to > 0 ? counts.shrink_to : counts.live_after;
    block_manager_.PlanCopies(sequence.blocks, kept, counts.live_after);
    row.copies = sequence.blocks.copies();
  }
  row.reuse_victim = counts.reuse_victim;
  row.choose_victim = counts.choose_victim;
  row.shrink_to = counts.shrink_to;
  if (std::exchange(sequence.asks_losses, false)) {
    const LowerBudgets lower = LowerBudgetsOf(budget);
    row.loss_keep_max = lower.keep_max;
    row.loss_cuts = lower.count;
  }
  row.lowered = lower_to > 0;
  if (row.lowered) budget.keep = lower_to;
  row.keep = budget.keep;
  row.sample = true;

  const int32_t evicted_before = sequence.evicted();
  sequence.scheduled += 1 + drafts;
  if (sequence.request.session != 0) row.stop_ids = sequence.StopIdsAfter(sequence.scheduled);
  sequence.live = counts.shrink_to > 0 ? counts.shrink_to : live_after;
  row.evicted = sequence.evicted() - evicted_before;
  ++sequence.in_flight;
  sequence.last_row = ++rows_;
  ++plan_->decode_tokens;
  plan_->draft_tokens += drafts;
}

std::span<const int32_t> StepBuilder::PrefillOrder() {
  prefilling_.clear();
  for (int32_t index : sequences_.running()) {
    if (sequences_.at(index).prefills()) prefilling_.push_back(index);
  }
  if (!tenants_.fair()) return prefilling_;
  // Not a stable sort, which would allocate; between sequences of a tenant it is first admitted, first computed.
  std::sort(prefilling_.begin(), prefilling_.end(), [this](int32_t a, int32_t b) {
    const Sequence& first = sequences_.at(a);
    const Sequence& second = sequences_.at(b);
    const Tenant& tenant = tenants_.of(first);
    const Tenant& other = tenants_.of(second);
    if (&tenant == &other) {
      return std::pair(first.times.admitted_us, first.arrival) < std::pair(second.times.admitted_us, second.arrival);
    }
    if (tenant.prefilled != other.prefilled) return tenant.prefilled < other.prefilled;
    return tenant.prompt_due != other.prompt_due ? tenant.prompt_due < other.prompt_due : &tenant < &other;
  });
  if (!prefilling_.empty()) {
    double& prefill_now = tenants_.turns().prefill_now;
    prefill_now = std::max(prefill_now, tenants_.of(sequences_.at(prefilling_.front())).prefilled);
  }
  return prefilling_;
}

// Prompts are bounded twice: in tokens by a step's capacity, and in cost by the time that a step may take.
void StepBuilder::PlanPrompts() {
  const bool beside_decodes = plan_->decode_tokens > 0;
  const double cost_max = beside_decodes ? limits_.beside_decodes : limits_.alone;
  int32_t tokens_left = tokens_max_ - plan_->decode_tokens;
  if (beside_decodes) tokens_left = std::min(tokens_left, prefill_tokens_max_);
  for (int32_t index : PrefillOrder()) {
    if (tokens_left == 0) break;
    const double cost_left = plan_->shared ? step_shares_.left(sequences_.at(index).request.tenant)
                                           : std::max(0.0, cost_max - plan_->prefill_cost);
    int32_t tokens = prefill_cost_.TokensFor(sequences_.at(index).live, cost_left);
    // A chunk ends with a block, so it may exceed the share by part of a block; the next step makes up for it.
    if (plan_->shared && tokens > 0) tokens += kBlockSlots - 1;
    const int32_t least = plan_->prefill_tokens == 0 ? LeastChunk(sequences_.at(index)) : 0;
    tokens = std::max(std::min(tokens, tokens_left), least);
    if (tokens > 0) tokens_left = std::max(0, tokens_left - PlanPrefill(index, tokens));
  }
}

int32_t StepBuilder::PlanPrefill(int32_t index, int32_t tokens_left) {
  Sequence& sequence = sequences_.at(index);
  assert(sequence.in_flight == 0);
  const int32_t prompt_length = sequence.prompt_length();
  const KvBudget& budget = sequence.request.budget;
  const int32_t stop = budget.PromptStop(sequence.scheduled, prompt_length);
  const int32_t tokens =
      ChunkTokens(sequence.live, stop - sequence.scheduled, tokens_left, sequence.request.tail_tokens);
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
  row.score_table = sequence.blocks.score_blocks();
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
  if (row.sample && sequence.request.session != 0) row.stop_ids = sequence.StopIdsAfter(sequence.scheduled);
  sequence.live = row.shrink_to > 0 ? row.shrink_to : sequence.live + tokens;
  row.evicted = sequence.evicted() - evicted_before;
  ++sequence.in_flight;
  plan_->prefill_tokens += tokens;
  plan_->prefill_cost += cost;
  sequence.last_row = ++rows_;
  step_shares_.TakePrompt(sequence.request.tenant, cost);
  tenants_.of(sequence).ChargePrompt(tokens, cost);
  return tokens;
}

void StepBuilder::PlanSnapshots(const Sequence& sequence, PlanRow* row) {
  const PrefixUse& use = sequence.request.prefix;
  row->snapshot_begin = row->snapshot_end = static_cast<int32_t>(plan_->snapshots.size());
  if (!use.publishes || use.scores != ScoreNeed::kSnapshot) return;
  const int32_t end = row->position + static_cast<int32_t>(row->tokens.size());
  // Two lengths beside NextSnapshot's: where the same prompt sent again would resume, and where a prompt that continues
  // this one would.
  const int32_t again = std::max(0, sequence.prompt_length() - use.rows_computed_min) / kBlockSlots * kBlockSlots;
  const int32_t whole = sequence.prompt_length() / kBlockSlots * kBlockSlots;
  const int32_t history = sequence.request.history;
  const bool findable = sequence.restored == 0;
  // What the session's next turn starts from comes before what somebody may find.
  std::vector<int32_t> left;
  if (row->position < history && history <= end) left = TakeHistoryScores(history);
  for (int32_t slots = row->position; slots < end;) {
    int32_t next = NextSnapshot(slots);
    if (slots < again) next = std::min(next, again);
    if (slots < whole) next = std::min(next, whole);
    if (slots < history) next = std::min(next, history);
    slots = next;
    if (slots > end) break;
    const bool planned = slots == history ? KeepHistoryScores(slots, &left) : findable && PlanSnapshot(sequence, slots);
    if (planned) ++row->snapshot_end;
  }
}

// Score blocks for the first `slots` slots, which leave the pool; empty: there is no room for them.
std::vector<int32_t> StepBuilder::TakeHistoryScores(int32_t slots) {
  std::vector<int32_t> score_blocks;
  try {
    block_manager_.TakeScoreBlocks(slots / kBlockSlots, &score_blocks);
  } catch (const std::bad_alloc&) {
    // The session's next turn computes its history.
  }
  return score_blocks;
}

bool StepBuilder::KeepHistoryScores(int32_t slots, std::vector<int32_t>* score_blocks) {
  if (score_blocks->empty()) return false;
  try {
    plan_->snapshots.emplace_back(ScoreSnapshot{slots, {}});
  } catch (const std::bad_alloc&) {
    block_manager_.GiveBackScoreBlocks(*score_blocks);
    return false;
  }
  // What leaves has positions beside its scores.
  int32_t position = 0;
  for (int32_t score_block : *score_blocks) {
    plan_->score_inits.push_back({-1, score_block, position});
    position += kBlockSlots;
  }
  plan_->snapshots.back().score_blocks = std::move(*score_blocks);
  return true;
}

bool StepBuilder::PlanSnapshot(const Sequence& sequence, int32_t slots) {
  const size_t before = plan_->snapshots.size();
  bool begun = false;
  try {
    ScoreSnapshot& snapshot = plan_->snapshots.emplace_back(ScoreSnapshot{slots, {}});
    const ScoreKind kind = sequence.request.prefix.score_kind;
    begun = block_manager_.BeginSnapshot(sequence.blocks, slots, kind, &snapshot.score_blocks);
  } catch (const std::bad_alloc&) {
    // Later prompts start from an earlier snapshot.
  }
  if (!begun) plan_->snapshots.resize(before);
  return begun;
}

}  // namespace hydrant
