#include "server/engine/engine_core.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/kv_cache_view.h"
#include "kernels/step_batch.h"
#include "kernels/weight_pieces.h"

namespace hydrant {
namespace {

// Room for EngineCore::loss(), which is taken at the start.
constexpr size_t kLossBytes = 1024;

// Scores go with what the sequence's session keeps.
bool ParksScores(const Request& request) { return request.parks_at_end() && request.budget.limited(); }

// What the device takes for granted of a policy that pins.
absl::Status CheckPins(const SequenceRequest& request) {
  const EvictionPolicy& policy = request.policy;
  if (policy.pin_rows == 0) return absl::OkStatus();
  const bool fits = policy.scores() && !policy.rolling && policy.pin_rows > 0 && policy.pool_width == 1 &&
                    request.segment_starts.size() * 64 >= request.request.prompt.size();
  return fits ? absl::OkStatus()
              : absl::InvalidArgumentError("the request does not say what its policy needs for pins");
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineCore>> EngineCore::Create(const EngineCoreOptions& options, Executor& executor,
                                                               EngineClock clock) {
  if (absl::Status status = options.scheduler.Validate(); !status.ok()) return status;
  if (options.vocab < 1 || options.context < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary (", options.vocab, ") and context (", options.context, ") must be positive"));
  }
  return std::unique_ptr<EngineCore>(new EngineCore(options, executor, std::move(clock)));
}

EngineCore::EngineCore(const EngineCoreOptions& options, Executor& executor, EngineClock clock)
    : options_(options),
      executor_(executor),
      clock_(std::move(clock)),
      scheduler_(options.scheduler),
      extras_(static_cast<size_t>(scheduler_.sequence_indices())),
      mover_(
          scheduler_, executor, options.layer_heads,
          [this](int32_t sequence) {
            const Extras& extras = extras_[static_cast<size_t>(sequence)];
            return SessionMover::PolicyInForce{&extras.policy, extras.options.policy_label};
          },
          [this] {
            if (in_flight_ > 0) Answer(flight(0));
          },
          options.on_loss),
      replay_(executor, {.first = options.scheduler.blocks,
                         .count = options.replay_blocks,
                         .first_score = options.scheduler.blocks + options.scheduler.spare_score_blocks}) {
  const size_t rows = static_cast<size_t>(options.scheduler.sequences_max);
  for (InFlightStep& flight : flights_) {
    flight.blank.resize(rows);
    flight.input.rows.reserve(rows);
    flight.adjustments.reserve(rows);
    flight.input.restores.reserve(rows);
    if (options.scheduler.swap_blocks_max > 0) flight.input.swap_ins.reserve(rows);
    flight.restore_policies.reserve(rows);
    flight.input.score_inits.reserve(static_cast<size_t>(options.scheduler.spare_score_blocks));
  }
  loss_.reserve(kLossBytes);
  asked_.reserve(rows);
  results_.reserve(rows);
  kept_.reserve(rows);
  more_.reserve(static_cast<size_t>(options.scheduler.drafts_max));
  // Those of rows, with drafts, and those of Cancel.
  events_.reserve(rows + more_.capacity() + extras_.size());
}

int64_t EngineCore::PositionsNeeded(const SequenceRequest& request) const {
  if (request.policy.rolling) return scheduler_.PeakSlots(request.request);
  return static_cast<int64_t>(request.request.prompt.size()) + request.request.max_tokens;
}

absl::Status EngineCore::Check(const SequenceRequest& request) const {
  for (int32_t id : request.request.prompt) {
    if (!IsToken(id)) return absl::InvalidArgumentError("a prompt token is outside the vocabulary");
  }
  for (int32_t id : request.forced_ids) {
    if (!IsToken(id)) return absl::InvalidArgumentError("a forced token is outside the vocabulary");
  }
  if (request.shaper != nullptr && !request.shaper->rules().IdsBelow(options_.vocab)) {
    return absl::InvalidArgumentError("a rule for logits speaks of a token outside the vocabulary");
  }
  const EvictionPolicy& policy = request.policy;
  if (const int64_t positions = PositionsNeeded(request); positions > options_.context) {
    return absl::InvalidArgumentError(
        absl::StrCat(policy.rolling ? "the request holds up to " : "prompt and max_tokens make ", positions, " tokens",
                     policy.rolling ? " at once" : "", "; the context has ", options_.context));
  }
  if (policy.rolling) {
    if (absl::Status status = scheduler_.CheckSlotsAtWorst(request.request, options_.context); !status.ok())
      return status;
  }
  if (policy.evicts != request.request.budget.limited() ||
      (policy.evicts && (policy.heavy < 0 || policy.recent < 1 || policy.keep() != request.request.budget.keep))) {
    return absl::InvalidArgumentError("the eviction policy contradicts the KV budget");
  }
  if (absl::Status status = CheckPins(request); !status.ok()) return status;
  if (request.policy_label < 0 || request.policy_label >= kPolicyLabelsMax) {
    return absl::InvalidArgumentError(absl::StrCat("policy label ", request.policy_label, " is out of range"));
  }
  return absl::OkStatus();
}

absl::Status EngineCore::Add(SequenceRequest request) {
  if (absl::Status status = Check(request); !status.ok()) return status;
  std::shared_ptr<AnswerMask> mask;
  if (request.shape != nullptr) mask = std::make_shared<AnswerMask>(std::move(request.shape), options_.vocab);
  absl::StatusOr<int32_t> index = scheduler_.Add(std::move(request.request));
  if (!index.ok()) return index.status();
  Extras& extras = extras_[static_cast<size_t>(*index)];
  extras = Extras();
  extras.options = std::move(request);
  extras.policy = extras.options.policy;
  extras.mask = std::move(mask);
  return absl::OkStatus();
}

bool EngineCore::Cancel(uint64_t id) {
  const int32_t index = scheduler_.Find(id);
  const bool cancelled = scheduler_.Cancel(id);
  // Where it has ended with that, its index may be another one's when its event comes.
  if (cancelled && scheduler_.Find(id) < 0) extras_[static_cast<size_t>(index)].Release();
  return cancelled;
}

std::span<const EngineEvent> EngineCore::Step() {
  if (in_flight_ == 0) {
    const int64_t begin_us = clock_();
    if (options_.scheduler.drafts_max > 0) Draft();
    Launch(scheduler_.Plan(begin_us), begin_us);
  }
  if (flight(0).waits) Sample(flight(0));
  // A step after a lost one would read what the lost one did not write.
  if (options_.overlap && !flight(0).is_lost()) {
    const int64_t begin_us = clock_();
    const StepPlan* next = scheduler_.PlanAhead([this](int32_t sequence) { return CanPlanAhead(sequence); });
    if (next != nullptr) Launch(*next, begin_us);
  }
  InFlightStep& oldest = flight(0);
  Answer(oldest);
  BuildResults(oldest);
  if (oldest.plan->draft_tokens > 0 && !oldest.is_lost()) executor_.KeepDrafts(kept_);
  const std::span<const SequenceEvent> events = scheduler_.Commit(*oldest.plan, results_, oldest.done_us);
  oldest_ = (oldest_ + 1) % flights_.size();
  --in_flight_;
  if (in_flight_ > 0 && flight(0).waits) AskForMasks(flight(0));
  BuildEvents(oldest, events);
  const int64_t committed_us = clock_();
  const int64_t blocks_left = mover_.Move(in_flight_ > 0) + mover_.Swap(in_flight_ > 0);
  Report(oldest, committed_us, blocks_left);
  return events_;
}

// Has the tokens guessed that may come with the next step.
void EngineCore::Draft() {
  const int32_t rows = scheduler_.RowsForDrafts();
  int32_t left = rows == 0 ? 0 : options_.scheduler.drafts_max;
  for (const int32_t index : scheduler_.running_sequences()) {
    Extras& extras = extras_[static_cast<size_t>(index)];
    const int32_t most = extras.options.drafter == nullptr ? 0 : std::min(left, DraftsMax(index));
    if (most <= 0) continue;
    try {
      const std::span<const int32_t> drafts = extras.options.drafter->Propose(most, rows);
      size_t count = 0;
      while (count < std::min(drafts.size(), static_cast<size_t>(most)) && IsToken(drafts[count])) ++count;
      scheduler_.Draft(index, drafts.first(count));
      left -= static_cast<int32_t>(count);
    } catch (const std::bad_alloc&) {
      extras.options.drafter.reset();
    }
  }
}

// None where what is asked of a token depends on those before it, or they are given.
int32_t EngineCore::DraftsMax(int32_t index) const {
  const Sequence& sequence = scheduler_.sequence(index);
  const Extras& extras = extras_[static_cast<size_t>(index)];
  const DecodeOptions& asked = extras.options;
  const bool is_free = asked.shaper == nullptr && extras.mask == nullptr && asked.forced_ids.empty();
  if (!is_free || !sequence.continues() || extras.failure != FinishReason::kNone) return 0;
  return sequence.room_for_drafts(extras.policy.scores() ? kDraftScoreSlots : std::numeric_limits<int32_t>::max());
}

// True if the sequence's next row can be planned before the token of its row in flight is known.
bool EngineCore::CanPlanAhead(int32_t sequence) const {
  const Extras& extras = extras_[static_cast<size_t>(sequence)];
  const Request& request = scheduler_.sequence(sequence).request;
  if (extras.options.shaper != nullptr && !extras.options.shaper->only_counts()) return false;
  if (!ParksScores(request)) return true;
  if (extras.mask != nullptr && extras.mask->is_promised() && !EndsByToken(scheduler_.sequence(sequence))) return false;
  // The device does not know that a text ended with a stop string. The next row would change scores and the victim, and
  // nothing could undo that before they are parked.
  return extras.options.end_finder == nullptr;
}

// What is said above holds for the end of a shape as well. But there the end can be had as a token, which the device knows: a row
// more. True if that is how the sequence ends when its shape is complete with its next token.
bool EngineCore::EndsByToken(const Sequence& sequence) const {
  const Request& request = sequence.request;
  return ParksScores(request) && !request.ignore_eos && !options_.scheduler.eos_ids.empty() &&
         sequence.generated() + 1 >= request.min_tokens && sequence.generated() + 1 < request.max_tokens;
}

void EngineCore::Launch(const StepPlan& plan, int64_t begin_us) {
  const bool ahead = in_flight_ > 0;
  InFlightStep& next = flight(in_flight_++);
  next.plan = &plan;
  next.begin_us = begin_us;
  next.answered = next.waits = false;
  next.lost = FinishReason::kNone;
  next.output.rows.clear();
  BuildInput(plan, &next);
  next.launch_us = clock_();
  if (plan.empty()) return;
  // Before the layers, so that both are done at the same time.
  if (next.has_masks && !ahead) AskForMasks(next);
  try {
    next.ticket = executor_.Launch(next.input);
  } catch (const std::bad_alloc& why) {
    return Lose(next, why);
  }
  // What may follow a token is known when the token is.
  next.waits = next.has_masks && ahead;
  if (!plan.rows.empty() && !next.waits) Sample(next);
}

// REQUIRES: the tokens before those that the step samples are known.
void EngineCore::AskForMasks(const InFlightStep& flight) {
  asked_.clear();
  for (size_t i = 0; i < flight.input.rows.size(); ++i) {
    const int32_t sequence = flight.plan->rows[i].sequence;
    const Extras& extras = extras_[static_cast<size_t>(sequence)];
    if (!IsMasked(flight.input.rows[i], extras) || scheduler_.sequence(sequence).retired()) continue;
    if (!extras.complete && !extras.mask->shape().is_masked()) continue;
    extras.mask->Ask();
    asked_.push_back(extras.mask);
  }
  if (options_.masks != nullptr) {
    options_.masks->Run(asked_);
  } else {
    for (const std::shared_ptr<AnswerMask>& mask : asked_) mask->Compute();
  }
  asked_.clear();
}

void EngineCore::Sample(InFlightStep& flight) {
  const bool waited = std::exchange(flight.waits, false);
  flight.adjustments.clear();
  for (size_t i = 0; i < flight.plan->rows.size(); ++i) {
    const StepRow& row = flight.input.rows[i];
    flight.adjustments.push_back(AdjustmentsOf(flight.plan->rows[i], row, !waited && row.tokens[0] == kSampledId));
  }
  try {
    executor_.Sample(flight.ticket, flight.adjustments);
  } catch (const std::bad_alloc& why) {
    Lose(flight, why);
  }
}

// `ahead`: the token before the one that the row samples is not known yet.
const LogitAdjustments* EngineCore::AdjustmentsOf(const PlanRow& plan, const StepRow& row, bool ahead) {
  Extras& extras = extras_[static_cast<size_t>(plan.sequence)];
  // Nobody reads what a row behind the end samples, and nobody waits for its mask.
  if (!row.sample || row.forced_id >= 0 || scheduler_.sequence(plan.sequence).retired()) return nullptr;
  const LogitAdjustments* asked = nullptr;
  try {
    if (extras.options.shaper != nullptr) asked = extras.options.shaper->Next(ahead);
  } catch (const std::bad_alloc&) {
    extras.failure = FinishReason::kNoMemory;
  }
  if (extras.mask == nullptr) return asked;
  if (!extras.mask->asked()) {
    assert(!extras.complete && !extras.mask->shape().is_masked());
    return asked;
  }
  const AnswerMask::State state = extras.mask->Take();
  if (state != AnswerMask::State::kThere) {
    if (!extras.mask->is_promised()) return asked;
    extras.failure = state == AnswerMask::State::kLimit ? FinishReason::kShapeLimit : FinishReason::kNoMemory;
    return asked;
  }
  extras.masked = asked != nullptr ? *asked : LogitAdjustments();
  extras.masked.allowed_bits = extras.mask->bits();
  // The end that a complete answer is closed with is ours, whatever tokens its client allows.
  if (extras.complete) extras.masked.allowed = {};
  return &extras.masked;
}

// The step's rows fail. So do the sequences that it was to bring KV for, parked or of a prefix: at their first row, if
// that is not in this step.
void EngineCore::Lose(InFlightStep& flight, const std::bad_alloc& why) {
  const bool no_weights = dynamic_cast<const WeightsLost*>(&why) != nullptr;
  flight.lost = no_weights ? FinishReason::kNoWeights : FinishReason::kNoMemory;
  loss_.assign(std::string_view(no_weights ? why.what() : "out of memory in a step").substr(0, kLossBytes));
  ++steps_lost_;
  for (const PlanRestore& restore : flight.plan->restores) {
    extras_[static_cast<size_t>(restore.sequence)].failure = flight.lost;
  }
  for (const PlanSwapIn& in : flight.plan->swap_ins) {
    extras_[static_cast<size_t>(in.sequence)].failure = flight.lost;
    scheduler_.LoseReturn(in.sequence);
  }
  for (const int32_t index : scheduler_.running_sequences()) {
    const Sequence& sequence = scheduler_.sequence(index);
    const std::span<const uint64_t> admitted = scheduler_.admitted();
    if (sequence.cached > 0 && std::find(admitted.begin(), admitted.end(), sequence.request.id) != admitted.end()) {
      extras_[static_cast<size_t>(index)].failure = flight.lost;
    }
  }
  std::fill(flight.blank.begin(), flight.blank.end(), RowOutput());
}

void EngineCore::Answer(InFlightStep& flight) {
  if (flight.waits) Sample(flight);
  if (std::exchange(flight.answered, true)) return;
  if (!flight.plan->empty() && !flight.is_lost()) flight.output = executor_.Await(flight.ticket);
  flight.done_us = clock_();
}

// `committed_us`: when its events were there, before KV left the pool.
void EngineCore::Report(const InFlightStep& flight, int64_t committed_us, int64_t blocks_left) {
  report_ = StepReport{};
  const StepPlan& plan = *flight.plan;
  report_.move_us = blocks_left > 0 ? clock_() - committed_us : 0;
  report_.blocks_moved = blocks_left;
  if (plan.empty() || flight.is_lost()) return;
  report_.move_us += flight.output.restore_us;
  for (const PlanRestore& restore : plan.restores) report_.blocks_moved += restore.slice.size();
  for (const PlanSwapIn& in : plan.swap_ins) report_.blocks_moved += in.slice.size();
  if (plan.rows.empty()) return;
  report_.rows = static_cast<int32_t>(plan.rows.size());
  report_.decode_tokens = plan.decode_tokens;
  report_.prefill_tokens = plan.prefill_tokens;
  report_.accepted_tokens = static_cast<int32_t>(more_.size());
  report_.decode_cost = plan.decode_cost;
  report_.prefill_cost = plan.prefill_cost;
  report_.several_tenants = plan.several_tenants;
  report_.plan_us = flight.launch_us - flight.begin_us;
  const int64_t device_us = flight.done_us - std::max(flight.launch_us, free_us_);
  report_.device_us = std::max<int64_t>(0, device_us - flight.output.restore_us);
  report_.commit_us = committed_us - flight.done_us;
  free_us_ = flight.done_us;
}

void EngineCore::BuildInput(const StepPlan& plan, InFlightStep* flight) {
  StepInput& input = flight->input;
  input.clear();
  mover_.AddRestores(plan.restores, &input.restores);
  SessionMover::AddReturns(plan.swap_ins, &input.swap_ins);
  flight->restore_policies.clear();
  for (RestoreOp& restore : input.restores) {
    restore.policy = &flight->restore_policies.emplace_back(*restore.policy);
  }
  for (const PlanRestore& restore : plan.restores) {
    if (restore.cut_to > 0) CountEvicted(restore.sequence, restore.live - restore.cut_to);
  }
  input.score_inits = plan.score_inits;
  flight->has_masks = false;
  for (const PlanRow& from : plan.rows) {
    StepRow& row = input.rows.emplace_back();
    BuildRow(from, &row);
    flight->has_masks |= IsMasked(row, extras_[static_cast<size_t>(from.sequence)]);
    row.snapshots = std::span(plan.snapshots)
                        .subspan(static_cast<size_t>(from.snapshot_begin),
                                 static_cast<size_t>(from.snapshot_end - from.snapshot_begin));
  }
}

void EngineCore::CountEvicted(int32_t sequence, int32_t tokens) {
  const Extras& extras = extras_[static_cast<size_t>(sequence)];
  evicted_tokens_[static_cast<size_t>(extras.options.policy_label)] += static_cast<uint64_t>(tokens);
}

void EngineCore::BuildRow(const PlanRow& from, StepRow* row) {
  Extras& extras = extras_[static_cast<size_t>(from.sequence)];
  if (from.lowered) extras.policy = extras.options.policy.Lowered(from.keep);
  static_cast<RowPlan&>(*row) = from;
  row->adapter = extras.options.adapter;
  row->losses = {from.loss_keep_max, from.loss_cuts, &extras.options.policy};
  row->logprobs = std::max(extras.options.logprobs, extras.options.audited ? 0 : -1);
  // The number of the token it samples.
  const int32_t next = from.position + static_cast<int32_t>(from.tokens.size()) - from.prompt_length;
  const bool forced = from.sample && next < std::ssize(extras.options.forced_ids);
  row->forced_id = forced ? extras.options.forced_ids[static_cast<size_t>(next)] : -1;
  row->policy = &extras.policy;
  const bool cuts_prompt = from.prefill && from.shrink_to > 0 && next == 0;
  if (cuts_prompt && extras.policy.pin_rows > 0) row->segment_starts = extras.options.segment_starts;
  row->sampling = &extras.options.sampling;
  if (from.prefill && extras.options.prompt_logprobs >= 0) {
    // Token i predicts token i + 1, so the last token of the prompt has no target.
    const TokenIds& prompt = scheduler_.sequence(from.sequence).request.prompt;
    const size_t begin = static_cast<size_t>(from.position) + 1;
    row->targets = std::span<const int32_t>(prompt).subspan(begin, std::min(from.tokens.size(), prompt.size() - begin));
    row->target_logprobs = extras.options.prompt_logprobs;
    row->target_ranks = extras.options.prompt_ranks;
  }
  if (from.prefill) row->states = extras.options.states;
}

void EngineCore::BuildResults(InFlightStep& flight) {
  const StepPlan& plan = *flight.plan;
  const std::span<const RowOutput> rows = flight.rows_of(plan.rows.size());
  assert(rows.size() == plan.rows.size());
  results_.clear();
  more_.clear();
  kept_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const RowOutput& output = rows[i];
    RowResult& result = results_.emplace_back();
    kept_.push_back(static_cast<int32_t>(plan.rows[i].tokens.size()) - plan.rows[i].drafts());
    const Sequence& sequence = scheduler_.sequence(plan.rows[i].sequence);
    Extras& extras = extras_[static_cast<size_t>(plan.rows[i].sequence)];
    result.failure = flight.is_lost() ? flight.lost : extras.failure;
    if (result.failure != FinishReason::kNone) continue;
    assert(output.targets.size() == flight.input.rows[i].targets.size());
    assert(std::ssize(output.losses) == plan.rows[i].loss_cuts);
    result.losses = output.losses;
    if (plan.rows[i].sample) {
      result.token = output.sampled.id;
      const bool sound = output.sampled.finite && IsToken(result.token);
      if (!sound) result.failure = output.sampled.no_token ? FinishReason::kNoToken : FinishReason::kError;
      // The result of a row after an end is discarded.
      if (sound && !sequence.retired()) ReadToken(sequence, extras, result);
      if (plan.rows[i].drafts() > 0) Verify(plan.rows[i], output, result);
      kept_.back() += static_cast<int32_t>(result.more.size());
    }
    if (!sequence.ended()) CountEvicted(plan.rows[i].sequence, plan.rows[i].evicted_with(result.more.size()));
    for (const SampleResult& target : output.targets) {
      if (!target.finite) result.failure = FinishReason::kError;
    }
  }
}

// Takes what was sampled behind the drafts that are right, up to an end. What fails there fails again in a row of its own, with nothing
// guessed before it.
void EngineCore::Verify(const PlanRow& plan, const RowOutput& output, RowResult& result) {
  const Sequence& sequence = scheduler_.sequence(plan.sequence);
  Extras& extras = extras_[static_cast<size_t>(plan.sequence)];
  const size_t begin = more_.size();
  RowResult last = result;
  const auto goes_on = [&](int32_t taken) {
    const std::span<const int32_t> stops = sequence.StopIdsAfter(sequence.known + taken - 1);
    return last.failure == FinishReason::kNone && last.end == FinishReason::kNone && !sequence.retired() &&
           std::find(stops.begin(), stops.end(), last.token) == stops.end();
  };
  for (int32_t taken = 1; taken <= plan.drafts() && goes_on(taken); ++taken) {
    const SampleResult& next = output.drafts[static_cast<size_t>(taken) - 1];
    if (last.token != plan.tokens[static_cast<size_t>(taken)] || !next.finite || !IsToken(next.id)) break;
    last.token = next.id;
    ReadToken(sequence, extras, last);
    extras.failure = last.failure;
    if (last.failure != FinishReason::kNone) break;
    result.end = last.end;
    more_.push_back(last.token);
  }
  result.more = std::span<const int32_t>(more_).subspan(begin);
  if (extras.options.drafter == nullptr) return;
  extras.options.drafter->Learn(plan.drafts(), static_cast<int32_t>(result.more.size()));
}

// What follows from the token for those after it.
void EngineCore::ReadToken(const Sequence& sequence, Extras& extras, RowResult& result) const {
  try {
    if (extras.options.shaper != nullptr) extras.options.shaper->Push(result.token);
    if (extras.options.drafter != nullptr) extras.options.drafter->Push(result.token);
    if (extras.options.end_finder != nullptr && extras.options.end_finder->Push(result.token)) {
      result.end = FinishReason::kText;
    }
    if (extras.mask != nullptr) FollowShape(sequence, extras, result);
  } catch (const std::bad_alloc&) {
    result.failure = FinishReason::kNoMemory;
  }
}

// A stop token is no part of the answer, and the scheduler ends the sequence with it.
void EngineCore::FollowShape(const Sequence& sequence, Extras& extras, RowResult& result) const {
  if (extras.complete) {
    result.end = FinishReason::kStop;
    return;
  }
  const std::span<const int32_t> stops = sequence.StopIdsAfter(sequence.known);
  if (std::find(stops.begin(), stops.end(), result.token) != stops.end()) return;
  switch (extras.mask->shape().Push(result.token)) {
    case AnswerShape::Verdict::kGoesOn:
      return;
    case AnswerShape::Verdict::kLost:
      result.failure = FinishReason::kShapeLimit;
      return;
    case AnswerShape::Verdict::kComplete:
      if (result.end != FinishReason::kNone) return;
      extras.complete = EndsByToken(sequence);
      if (!extras.complete) result.end = FinishReason::kComplete;
  }
}

void EngineCore::BuildEvents(InFlightStep& flight, std::span<const SequenceEvent> events) {
  const StepPlan& plan = *flight.plan;
  const std::span<RowOutput> rows = flight.rows_of(plan.rows.size());
  events_.clear();
  // Events of Cancel come first, then those of rows in the order of rows.
  auto next = events.begin();
  const auto append = [this](const SequenceEvent& from) -> EngineEvent& {
    return events_.emplace_back(EngineEvent{from});
  };
  for (; next != events.end() && next->row < 0; ++next) append(*next);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    RowOutput& output = rows[i];
    const bool has_event = next != events.end() && next->row == static_cast<int32_t>(i);
    Extras& extras = extras_[static_cast<size_t>(row.sequence)];
    if (!has_event && scheduler_.sequence(row.sequence).retired()) extras.last = std::move(output.sampled);
    if (!has_event && output.targets.empty()) continue;
    // A row with drafts may have several, each with a token.
    SampleResult* sampled = &output.sampled;
    for (size_t more = 0; has_event && std::next(next) != events.end() && std::next(next)->row == next->row; ++more) {
      append(*next++).sampled = sampled;
      sampled = &output.drafts[more];
    }
    EngineEvent* event = nullptr;
    if (has_event) {
      event = &append(*next++);
      if (event->finish != FinishReason::kNone) {
        extras.Release();
        if (extras.last.id >= 0) output.sampled = std::exchange(extras.last, SampleResult());
      }
    } else {
      // A chunk inside a prompt makes no event of the scheduler's, but it has log-probabilities to deliver.
      event = &append(scheduler_.EventOf(row.sequence));
    }
    if (event->token >= 0) event->sampled = sampled;
    if (event->finish != FinishReason::kNone && !EndsByItself(event->finish)) continue;
    event->prompt_logprobs = output.targets;
    event->prompt_begin = row.position + 1;
  }
  assert(next == events.end());
}

EngineCounters EngineCore::counters() const {
  EngineCounters counters;
  counters.tenants.reserve(scheduler_.tenants().size());
  counters.scheduler = scheduler_.counters();
  counters.evicted_tokens = evicted_tokens_;
  counters.steps_lost = steps_lost_;
  const WeightStream::Counters reads = executor_.WeightReads();
  counters.weights_read_bytes = reads.bytes_read;
  counters.weights_waited_us = reads.waited_us;
  counters.running = scheduler_.running();
  counters.waiting = scheduler_.waiting();
  const BlockPool& pool = scheduler_.block_manager().pool();
  counters.blocks_free = pool.free();
  counters.blocks_used = pool.used();
  counters.blocks_cached = pool.cached();
  for (const Tenant& tenant : scheduler_.tenants()) {
    const auto waiting = static_cast<int32_t>(tenant.queue.size());
    counters.tenants.push_back({.running = tenant.running,
                                .waiting = waiting,
                                .waiting_deferred = tenant.held_back || scheduler_.admission_paused() ? waiting : 0,
                                .reserved_blocks = tenant.reserved,
                                .service = tenant.service,
                                .charged = tenant.charged,
                                .prompt_tokens = tenant.prompt_tokens,
                                .generated_tokens = tenant.generated_tokens});
  }
  for (int32_t index : scheduler_.running_sequences()) {
    const Sequence& sequence = scheduler_.sequence(index);
    TenantCounters& tenant = counters.tenants[static_cast<size_t>(sequence.request.tenant)];
    tenant.logical_tokens += sequence.scheduled;
    if (sequence.place == KvPlace::kOutside) continue;
    counters.live_slots += sequence.live;
    tenant.live_slots += sequence.live;
    tenant.blocks += sequence.blocks.size();
  }
  const ScorePool& score_blocks = scheduler_.block_manager().score_blocks();
  counters.score_blocks_spare = score_blocks.total();
  counters.score_blocks_in_snapshots = score_blocks.in_snapshots();
  counters.snapshots = score_blocks.snapshots();
  counters.swapped = scheduler_.swapping().aside();
  counters.swapped_blocks = scheduler_.swapping().blocks();
  counters.parked_sessions = scheduler_.parked().size();
  counters.parked_blocks = scheduler_.parked().blocks();
  counters.parked_lost = scheduler_.parked().lost();
  return counters;
}

}  // namespace hydrant
