#include "server/generation/generation_run.h"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/prefix_sharing.h"
#include "server/generation/stop_string_finder.h"
#include "server/process/clock.h"
#include "server/process/random_id.h"
#include "server/shapes/shape_refusal.h"

namespace hydrant {
namespace {

// What a request is answered with when a sequence of it ends like this; nullopt: with what was generated.
std::optional<ApiError> ErrorOf(FinishReason finish) {
  switch (finish) {
    case FinishReason::kAbort:
      return Overloaded("The request was ended before its time.", "aborted", 1);
    case FinishReason::kError:
      return ServerError("The model produced numbers that are not finite.", "numerical_error");
    case FinishReason::kNoMemory:
      return Overloaded("The server is out of memory.", "out_of_memory", 1);
    case FinishReason::kNoWeights:
      return Overloaded("The server could not read the model's weights from its disk.", "weights_unreadable", 1);
    case FinishReason::kRefused:
      return Overloaded("The engine could not accept the request.", "engine_refused", 1);
    case FinishReason::kPastMoved:
      return Overloaded("Memory for the session's KV, which is in its file, is taken.", "session_kv_busy", 1);
    case FinishReason::kTooLarge:
      return SessionTooLong();
    case FinishReason::kNoRoom:
      return InvalidField("prompt", "The KV pool's limits were changed below what this request needs: shorten it.",
                          "kv_capacity_exceeded");
    case FinishReason::kNoToken:
      return InvalidField("", "The answer came to a place where nothing that the request allows can follow.",
                          "no_token_allowed");
    case FinishReason::kShapeLimit:
      return ServerError("Following the form of the answer took more work than it may.", "structured_output_limit");
    default:
      return std::nullopt;
  }
}

}  // namespace

GenerationRun::GenerationRun(PreparedGeneration prepared, const ServingContext& context, EnginePort& engine,
                             Metrics& metrics, int64_t arrival_us, std::string id, int32_t tenant)
    : turn_(std::exchange(prepared.turn, std::nullopt)),
      turn_number_(turn_.has_value() ? turn_->turn() : 0),
      session_id_(turn_.has_value() ? turn_->id() : std::string()),
      writer_(std::exchange(prepared.writer, nullptr)),
      adapter_(std::exchange(prepared.adapter, nullptr)),
      adapter_digest_(adapter_ == nullptr ? "" : adapter_->digest),
      prepared_(std::move(prepared)),
      context_(context),
      engine_(engine),
      metrics_(metrics),
      arrival_us_(arrival_us),
      tenant_(tenant),
      prefix_salt_(context.prefix_salts.Of(std::to_string(tenant), prepared_.fields.cache_salt, adapter_digest_)),
      head_{std::string(writer_->id_prefix()) + id, static_cast<int64_t>(std::time(nullptr)),
            adapter_ == nullptr ? context.request.model_names.front() : adapter_->name, context.system_fingerprint},
      stops_(std::make_shared<const StopStrings>(prepared_.fields.stop)) {
  const GenerationFields& fields = prepared_.fields;
  writer_->Begin(head_);
  if (turn_.has_value() && !on_disk()) turn_->CloseKvFile();
  for (size_t p = 0; p < prepared_.prompts.size(); ++p) {
    const PreparedPrompt& prompt = prepared_.prompts[p];
    prompt_tokens_ += static_cast<int64_t>(prompt.ids.size());
    for (int32_t sample = 0; sample < fields.n; ++sample) {
      Choice& choice = choices_.emplace_back();
      choice.prompt = static_cast<int32_t>(p);
      if (fields.pooling != Pooling::kNone) choice.states = std::make_shared<PooledStates>(fields.pooling);
      choice.audit = DrawAudit(prompt);
      choice.assembler =
          std::make_unique<ChoiceAssembler>(*context_.tokenizer, fields, *stops_, prompt.ids,
                                            prompt.added_special_tokens, prompt.show_specials, prepared_.reasoning);
    }
  }
  open_ = unclosed_ = static_cast<int32_t>(choices_.size());
  if (turn_.has_value()) answer_.emplace(*context_.tokenizer, fields.skip_special_tokens);
}

GenerationRun::~GenerationRun() { Cancel(); }

void GenerationRun::Fail(ApiError error) {
  Cancel();
  turn_.reset();
  error_ = std::move(error);
}

void GenerationRun::Cancel() noexcept {
  if (first_id_ == 0) return;
  // A turn that the engine has ended is over, whether or not its client stayed to hear of it; and what it was not sent it has cost.
  try {
    if (open_ > 0 && !lost_) Absorb();
  } catch (const std::exception&) {
    // As if its client had left before.
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].assembler->finished()) continue;
    choices_[i].assembler->Abort();
    Finish(static_cast<int32_t>(i));
  }
  bool runs = false;
  for (Choice& choice : choices_) runs |= !std::exchange(choice.ended_in_engine, true);
  if (runs) engine_.Cancel(std::move(cancel_));
}

ShapeCache::Key GenerationRun::ShapeKey() const {
  const Constraint& constraint = *prepared_.fields.constraint;
  const std::optional<grammar::MessageMarks>& messages = prepared_.shape_start.messages;
  if (constraint.calls_only) return {tenant_, "", constraint.spec, /*is_asked_for=*/false, messages};
  return {tenant_, prepared_.fields.cache_salt, constraint.spec, /*is_asked_for=*/true, messages};
}

std::optional<ApiError> GenerationRun::SetShape(const ShapeResult& shape) {
  const Constraint& constraint = *prepared_.fields.constraint;
  const auto* refusal = std::get_if<grammar::Refusal>(&shape);
  if (refusal != nullptr && constraint.calls_only) return std::nullopt;
  if (refusal != nullptr) return RefusalError(*refusal, constraint);
  shape_ = std::get<0>(shape);
  if (!FollowsShape(shape)) return std::nullopt;
  switch (shape_->Behind(prepared_.shape_start.prefix, behind_prefix_.emplace())) {
    case grammar::Grammar::Verdict::kAllowed:
      break;
    case grammar::Grammar::Verdict::kForbidden:
      return InvalidField("messages",
                          absl::StrCat("The last message, which the answer goes on with, is not how one begins that ",
                                       "fits '", constraint.field, "'."),
                          "prefix_not_allowed");
    case grammar::Grammar::Verdict::kLimit:
      return InvalidField("messages",
                          absl::StrCat("Whether the last message, which the answer goes on with, is how one begins ",
                                       "that fits '", constraint.field, "' takes too much work to find out."),
                          "structured_output_too_complex");
  }
  return constraint.close_at_max_tokens ? CheckClosing() : std::nullopt;
}

bool GenerationRun::FollowsShape(const ShapeResult& shape) const {
  const bool from_the_start = prepared_.shape_start.prefix.empty() && !prepared_.fields.constraint->close_at_max_tokens;
  return shape.index() == 0 && !from_the_start;
}

std::optional<ApiError> GenerationRun::CheckClosing() {
  static constexpr std::string_view kField = "structured_outputs.close_at_max_tokens";
  if (!shape_->vocabulary().spells_text()) {
    return UnsupportedField(kField, "'close_at_max_tokens' with a vocabulary that lacks tokens of single bytes");
  }
  grammar::GrammarState state = *behind_prefix_;
  grammar::Fuel fuel{grammar::Grammar::kAdvanceFuel};
  const std::optional<int64_t> bytes = shape_->BytesToEnd(state, fuel);
  if (fuel.empty()) {
    return InvalidField(kField, "How many bytes an answer needs at least takes too much work to find out.",
                        "structured_output_too_complex");
  }
  if (!bytes.has_value()) {
    return UnsupportedField(kField, "'close_at_max_tokens' with a schema that asks for several keys and names none");
  }
  const ShapeStart& start = prepared_.shape_start;
  const int64_t least = *bytes + (start.thinks ? static_cast<int64_t>(start.thinking_closes.size()) : 0);
  if (prepared_.fields.max_tokens >= std::max<int64_t>(least, 1)) return std::nullopt;
  return InvalidField("max_tokens", absl::StrCat("'max_tokens' must be at least ", least,
                                                 " here, so that an answer can be closed in time."));
}

std::vector<RequestAccount::Sequence> GenerationRun::accounts() const {
  std::vector<RequestAccount::Sequence> sequences;
  for (const Choice& choice : choices_) {
    const PreparedPrompt& prompt = prepared_.prompts[static_cast<size_t>(choice.prompt)];
    sequences.push_back({static_cast<int64_t>(prompt.ids.size()) - prompt.parked, prepared_.fields.max_tokens});
  }
  return sequences;
}

bool GenerationRun::Submit(std::function<void()> wake, std::shared_ptr<SequenceLedger> ledger) {
  wake_ = wake;
  mailbox_ = std::make_shared<StreamMailbox>(static_cast<int32_t>(choices_.size()),
                                             context_.limits.stream_buffer_bytes_max, std::move(wake));
  GenerationJob job;
  job.mailbox = mailbox_;
  job.ledger = std::move(ledger);
  if (adapter_ != nullptr) job.adapter = adapter_->slot;
  job.sequences.reserve(choices_.size());
  for (size_t i = 0; i < choices_.size(); ++i) job.sequences.push_back(MakeSequence(i));
  cancel_ = {{0, choices_.size()}};
  const std::optional<uint64_t> first_id = engine_.TrySubmit(std::move(job));
  if (!first_id.has_value()) return false;
  cancel_.front().first = first_id_ = *first_id;
  adapter_ = nullptr;  // from here on its slot is the engine's, however long the client reads
  return true;
}

void GenerationRun::Stage(std::function<void()> wake) {
  staging_ = std::make_shared<Staging>();
  context_.sessions->ReadKv(&*turn_, [staging = staging_, wake = std::move(wake)](KvBytes kv) {
    staging->kv = std::move(kv);
    staging->done.store(true, std::memory_order_release);
    wake();
  });
}

// What evicted is not computed again, unless the turn recalls: another text may come of it; nor what was promised.
bool GenerationRun::IsComputedFaster(double prefill_rate) const {
  const KvFileHeader& header = *turn_->kv_file();
  const double read_rate = context_.sessions->kv()->read_rate();
  const PreparedPrompt& prompt = prepared_.prompts.front();
  const bool changes_it = prompt.kv.policy.evicts && !prompt.spec.recalls();
  if (changes_it || turn_->keeps_kv() || read_rate <= 0 || prefill_rate <= 0) return false;
  return static_cast<double>(header.payload_bytes()) / read_rate > header.binding.computed / prefill_rate;
}

void GenerationRun::StopStaging(KvReject why) {
  staging_.reset();
  turn_->CloseKvFile();
  context_.sessions->StopReadingKv(why);
}

// Turns are drawn that generate, under a policy that evicts.
std::unique_ptr<TurnAudit> GenerationRun::DrawAudit(const PreparedPrompt& prompt) const {
  if (context_.audit == nullptr || !prompt.kv.policy.evicts || prepared_.fields.max_tokens == 0) return nullptr;
  AuditedTurn turn;
  turn.tenant = tenant_;
  turn.policy = prompt.kv.policy_label;
  turn.recalls = prompt.spec.recalls();
  turn.session = turn_.has_value() ? turn_->session() : 0;
  turn.prompt = prompt.ids;
  turn.has_adapter = adapter_ != nullptr;
  if (turn.has_adapter) turn.adapter = adapter_->slot;
  return TurnAudit::Draw(context_.audit, std::move(turn));
}

SequenceRequest GenerationRun::MakeSequence(size_t choice) const {
  const GenerationFields& fields = prepared_.fields;
  const PreparedPrompt& prompt = prepared_.prompts[static_cast<size_t>(choices_[choice].prompt)];
  SequenceRequest sequence;
  Request& request = sequence.request;
  static_cast<RequestOptions&>(request) = fields;
  request.tenant = tenant_;
  request.arrival_us = arrival_us_;
  request.prompt = prompt.ids;
  request.budget = prompt.kv.budget;
  if (turn_.has_value()) {
    request.session = turn_->session();
    request.turn = turn_->turn();
    request.resumes = prompt.resumes;
    request.history = prompt.history;
    // What was read, or is parked and in a file; a file that could not be read stands in nobody's way.
    const bool in_file = staging_ != nullptr ? !staging_->kv.empty() : !on_disk() && turn_->has_kv_file();
    request.needs_past = prompt.resumes != 0 && in_file && turn_->keeps_kv();
  }
  sequence.parked_tokens = prompt.parked;
  if (staging_ != nullptr) sequence.staged = std::move(staging_->kv);  // a turn has one sequence
  sequence.policy = prompt.kv.policy;
  if (prompt.turn_tokens > 0) sequence.policy.pin_rows = std::min(sequence.policy.pin_rows, prompt.turn_tokens);
  if (const int32_t rows = sequence.policy.pin_rows; rows > 0) {
    request.tail_tokens = rows;
    sequence.segment_starts = context_.sentence_ends->SegmentStarts(prompt.ids);
  }
  sequence.policy_label = prompt.kv.policy_label;
  if (adapter_ != nullptr) sequence.adapter = adapter_->slot->number;
  static_cast<ScoringOptions&>(sequence) = fields;
  sequence.audited = choices_[choice].audit != nullptr;
  if (fields.echo) sequence.prompt_logprobs = std::max(fields.logprobs, fields.prompt_logprobs);
  sequence.prompt_ranks = fields.prompt_logprobs >= 0;
  sequence.states = choices_[choice].states;
  if (context_.prefix_caching) {
    const bool takes_all = sequence.prompt_logprobs >= 0 || fields.pooling == Pooling::kMean;
    request.prefix = SharePrefixes(sequence.policy, prefix_salt_, takes_all);
    request.prefix.takes_generated = fields.is_answered_anew() && prompt.history < 0;
    // What it leaves has to be computed at its end, where the scores are those to leave.
    const int32_t last_rows = prompt.history > 0 ? static_cast<int32_t>(prompt.ids.size()) - prompt.history + 1 : 1;
    request.prefix.rows_computed_min = std::max(request.prefix.rows_computed_min, last_rows);
  }
  if (prompt.shaper != nullptr) sequence.shaper = std::make_shared<LogitShaper>(*prompt.shaper);
  const bool drafts = sequence.shaper == nullptr && shape_ == nullptr && fields.max_tokens > 1;
  if (drafts) sequence.drafter = MakeNgramDrafter(context_.drafts, prompt.ids);
  if (!fields.stop.empty()) {
    sequence.end_finder =
        std::make_shared<StopStringFinder>(context_.tokenizer, stops_, fields.skip_special_tokens, fields.min_tokens);
  }
  if (shape_ != nullptr) {
    ShapeStart start = prepared_.shape_start;
    start.behind = behind_prefix_;
    if (fields.constraint->close_at_max_tokens) start.tokens_max = fields.max_tokens;
    sequence.shape = std::make_shared<GrammarShape>(shape_, std::move(start));
  }
  // The samples of one prompt draw from neighbouring keys, and equal prompts of one request draw alike, as in two requests.
  const auto sample = static_cast<uint64_t>(choice % static_cast<size_t>(fields.n));
  sequence.sampling = fields;
  sequence.sampling.key = fields.seed.has_value() ? static_cast<uint64_t>(*fields.seed) + sample : RandomSeed();
  return sequence;
}

void GenerationRun::Absorb() {
  try {
    AbsorbBatch();
  } catch (...) {
    // What was taken is lost: nothing can go on from it.
    lost_ = true;
    turn_.reset();
    throw;
  }
}

void GenerationRun::AbsorbBatch() {
  if (commit_ != nullptr) {
    commit_seen_ = commit_->known.load(std::memory_order_acquire);
    return;
  }
  if (mailbox_->Take(&batch_)) engine_.Resume(first_id_, static_cast<int32_t>(choices_.size()));
  for (const PromptEvent& event : batch_.prompts) {
    choices_[static_cast<size_t>(event.choice)].assembler->AddPromptLogprobs(event);
  }
  for (const TokenEvent& event : batch_.tokens) AddToken(choices_[static_cast<size_t>(event.choice)], event);
  if (batch_.failed) {
    for (Choice& choice : choices_) choice.ended_in_engine = true;
    if (open_ > 0) error_ = ServerError("The engine stopped.", "engine_failed");
  } else if (batch_.lost && open_ > 0) {
    error_ = ErrorOf(FinishReason::kNoMemory);
  }
}

std::optional<ApiError> GenerationRun::ErrorOfEnd(const Choice& choice, FinishReason finish) const {
  if (finish == FinishReason::kAbort && writer_->tells_aborts()) return std::nullopt;
  // The states of one that was left behind are not looked at: a step on its way may still write them.
  const bool is_no_vector = choice.states != nullptr && EndsByItself(finish) && !choice.states->finite();
  return ErrorOf(is_no_vector ? FinishReason::kError : finish);
}

void GenerationRun::AddToken(Choice& choice, const TokenEvent& event) {
  assert(!choice.assembler->finished() && !choice.ended_in_engine);
  choice.ended_in_engine = event.finish != FinishReason::kNone;
  if (event.token >= 0) {
    if (choice.last_token_us < 0) {
      metrics_.ObserveFirstToken(tenant_, event.time_us - arrival_us_);
    } else {
      metrics_.ObserveTokenGap(tenant_, event.time_us - choice.last_token_us);
    }
    choice.last_token_us = event.time_us;
    if (answer_.has_value()) answer_->Add(event.token);
  }
  if (choice.audit != nullptr) choice.audit->Take(event, batch_.status[static_cast<size_t>(event.choice)]);
  choice.assembler->AddToken(event);
  if (choice.ended_in_engine && !error_.has_value()) error_ = ErrorOfEnd(choice, event.finish);
  // The engine finds stop strings too, so both end with the same token.
  assert(choice.assembler->finished() == choice.ended_in_engine);
  if (!choice.ended_in_engine) return;
  if (turn_.has_value()) EndTurn(event.finish);
  Finish(event.choice);
}

// Before the client can know of the end, so that its next turn finds the session free, and what it was told of is there after a
// crash. A turn that was cancelled or failed leaves the session as it was.
void GenerationRun::EndTurn(FinishReason finish) {
  if (!EndsByItself(finish)) {
    turn_.reset();
    return;
  }
  const PreparedPrompt& prompt = prepared_.prompts.front();
  // A token that only says that the text is over is no part of it.
  const bool drop_last = finish == FinishReason::kStop && !prepared_.fields.include_stop_str_in_output;
  SessionPast past = answer_->PastWith(prompt.ids, prompt.text, prompt.client_ranges, drop_last);
  if (prompt.spec.recalls()) past.computed = WholePromptBlocks(static_cast<int32_t>(prompt.ids.size()));
  past.added_special_tokens = prompt.added_special_tokens;
  past.spec = prompt.spec;
  past.kv = prompt.kv;
  past.adapter = adapter_digest_;
  past.notes = MakeNotes(past);
  auto commit = std::make_shared<Commit>();
  turn_->Commit(std::move(past), [commit, wake = wake_](Durability durable) {
    commit->durable = durable;
    commit->known.store(true, std::memory_order_release);
    wake();
  });
  turn_.reset();
  commit_ = std::move(commit);
  commit_seen_ = commit_->known.load(std::memory_order_acquire);
}

// Those of the turns before, with the tokens that `past` begins with, and this turn's own.
TurnNotes GenerationRun::MakeNotes(const SessionPast& past) const {
  const SessionPast* before = turn_->past();
  TurnNotes notes = prepared_.notes.value_or(before != nullptr ? before->notes : TurnNotes());
  size_t common = 0;
  if (before != nullptr && !notes.empty()) {
    const size_t most = std::min(past.tokens.size(), before->tokens.size());
    while (common < most && past.tokens[common] == before->tokens[common]) ++common;
  }
  for (std::shared_ptr<const TurnNote>& note : notes) {
    if (static_cast<size_t>(note->tokens) <= common) continue;
    auto moved = std::make_shared<TurnNote>(*note);
    moved->tokens = 0;
    note = std::move(moved);
  }
  if (!prepared_.notes.has_value()) return notes;
  const ChoiceAssembler& assembler = *choices_.front().assembler;
  Answer answer;
  AnswerChoice& choice = answer.choices.emplace_back();
  choice.text = taken_.text + assembler.untaken().text;
  choice.reasoning = taken_.reasoning + assembler.untaken().reasoning;
  choice.finish_reason = assembler.finish_reason();
  choice.stop_reason = assembler.stop_reason();
  answer.usage = MakeUsage();
  AnswerNote said = writer_->Note(answer);
  // Nobody can answer a call that was left out: what comes next is made of what the client was told.
  const int32_t tokens = said.says_all ? static_cast<int32_t>(past.tokens.size()) : 0;
  const bool same_head = !notes.empty() && *notes.back()->head == prepared_.note_head;
  auto head = same_head ? notes.back()->head : std::make_shared<const std::string>(prepared_.note_head);
  notes.push_back(
      std::make_shared<const TurnNote>(TurnNote{turn_number_, tokens, std::move(said.text), std::move(head)}));
  return notes;
}

void GenerationRun::Finish(int32_t index) {
  const Choice& choice = choices_[static_cast<size_t>(index)];
  --open_;
  SequenceReport report;
  if (!batch_.status.empty()) static_cast<SequenceProgress&>(report) = batch_.status[static_cast<size_t>(index)];
  report.times.arrival_us = arrival_us_;
  report.generated = choice.assembler->generated();
  report.reason = choice.assembler->finish_reason();
  report.prompt_tokens = static_cast<int32_t>(prepared_.prompts[static_cast<size_t>(choice.prompt)].ids.size());
  report.max_tokens = prepared_.fields.max_tokens;
  report.ended_us = MonotonicUs();
  metrics_.ObserveSequence(tenant_, report);
  if (open_ > 0) return;
  int32_t most = 0;
  for (const Choice& other : choices_) most = std::max(most, other.assembler->generated());
  metrics_.ObserveRequest(prepared_.fields.n, most);
}

int64_t GenerationRun::generated_tokens() const {
  int64_t tokens = 0;
  for (const Choice& choice : choices_) tokens += choice.assembler->generated();
  return tokens;
}

void GenerationRun::Describe(RequestNotes* notes) const {
  notes->generation_id = id();
  if (error_.has_value()) notes->error_code = error_->code;
  notes->session = session_id_;
  const Usage usage = MakeUsage();
  notes->prompt_tokens = usage.prompt_tokens;
  notes->cached_tokens = usage.cached_tokens;
  notes->generated_tokens = usage.completion_tokens;
  int64_t admitted_us = -1, first_token_us = -1;
  const auto earliest = [](int64_t one, int64_t other) {
    return one < 0 || other < 0 ? std::max(one, other) : std::min(one, other);
  };
  for (const SequenceProgress& status : batch_.status) {
    admitted_us = earliest(admitted_us, status.times.admitted_us);
    first_token_us = earliest(first_token_us, status.times.first_token_us);
  }
  if (admitted_us >= 0) notes->queue_ms = (admitted_us - arrival_us_) / 1000;
  if (first_token_us >= 0) notes->first_token_ms = (first_token_us - arrival_us_) / 1000;
  for (const Choice& choice : choices_) {
    const FinishReason reason = choice.assembler->finish_reason();
    if (reason != FinishReason::kNone) notes->finish = AnswerFinishName(reason);
  }
}

int64_t GenerationRun::CachedTokens(int32_t index) const {
  const SequenceProgress& status = batch_.status[static_cast<size_t>(index)];
  return status.cached + status.restored;
}

Usage GenerationRun::MakeUsage() const {
  Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  usage.completion_tokens = generated_tokens();
  if (prepared_.reasoning.may_reason()) {
    usage.reasoning_tokens = 0;
    for (const Choice& choice : choices_) *usage.reasoning_tokens += choice.assembler->reasoning_tokens();
  }
  // Like prompt tokens, once per prompt: those of its first sample.
  for (size_t i = 0; i < batch_.status.size(); i += static_cast<size_t>(prepared_.fields.n)) {
    usage.cached_tokens += CachedTokens(static_cast<int32_t>(i));
  }
  return usage;
}

KvReport GenerationRun::MakeKvReport() const {
  const SequenceProgress& status = batch_.status.back();
  KvReport report;
  report.live = status.live;
  report.budget = status.budget;
  report.evicted = status.evicted;
  report.blocks = status.blocks;
  report.session = session_id_;
  return report;
}

std::optional<TurnReport> GenerationRun::MakeTurnReport() const {
  if (commit_ == nullptr) return std::nullopt;
  return TurnReport{turn_number_, commit_->known.load(std::memory_order_acquire) ? commit_->durable : Durability::kNone,
                    batch_.status.front().restored > 0};
}

void GenerationRun::AppendChunk(int32_t index, std::string* out) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const GenerationFields& fields = prepared_.fields;
  const PreparedPrompt& prompt = prepared_.prompts[static_cast<size_t>(choice.prompt)];
  const ChoiceAssembler::Output output = choice.assembler->Take();
  if (prepared_.notes.has_value()) {
    taken_.text += output.text;
    taken_.reasoning += output.reasoning;
  }
  AnswerDelta delta;
  delta.index = index;
  delta.first = !choice.announced;
  delta.reasoning = output.reasoning;
  delta.text = output.text;
  if (fields.logprobs >= 0) delta.logprobs = &output.logprobs;
  delta.text_begin = choice.assembler->text_begin();
  if (fields.return_token_ids) {
    delta.token_ids = &output.token_ids;
    if (!choice.announced) delta.prompt_token_ids = &prompt.ids.vector();
  }
  choice.announced = true;
  Usage usage;
  if (fields.continuous_usage_stats) {
    usage.prompt_tokens = static_cast<int64_t>(prompt.ids.size());
    usage.completion_tokens = choice.assembler->generated();
    if (prepared_.reasoning.may_reason()) usage.reasoning_tokens = choice.assembler->reasoning_tokens();
    usage.cached_tokens = CachedTokens(index - index % fields.n);
    delta.usage = &usage;
  }
  KvReport kv;
  const std::optional<TurnReport> turn = MakeTurnReport();
  if (choice.assembler->finished()) {
    choice.closed = true;
    --unclosed_;
    delta.finish_reason = choice.assembler->finish_reason();
    delta.stop_reason = &choice.assembler->stop_reason();
    if (turn.has_value()) delta.turn = &*turn;
    if (unclosed_ == 0 && fields.kv_report && !fields.include_usage) {
      kv = MakeKvReport();
      delta.kv = &kv;
    }
  }
  writer_->AppendChunk(out, delta);
}

void GenerationRun::AppendEvents(std::string* out) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    if (choice.assembler->finished() && ended() && !done()) return;  // its end is told when it is durable
    if (choice.closed || !choice.assembler->has_output()) continue;
    // The first token goes out at once, whatever the interval.
    const bool due = !choice.announced || choice.assembler->finished() ||
                     choice.assembler->pending_tokens() >= prepared_.fields.stream_interval;
    if (due) AppendChunk(static_cast<int32_t>(i), out);
  }
  if (unclosed_ > 0) return;
  if (prepared_.fields.include_usage) {
    const KvReport kv = MakeKvReport();
    writer_->AppendUsage(out, MakeUsage(), prepared_.fields.kv_report ? &kv : nullptr);
  }
  writer_->AppendEnd(out);
}

std::string GenerationRun::Body() {
  assert(done());
  const GenerationFields& fields = prepared_.fields;
  Answer answer;
  for (size_t i = 0; i < choices_.size(); ++i) {
    ChoiceAssembler& assembler = *choices_[i].assembler;
    ChoiceAssembler::Output output = assembler.Take();
    AnswerChoice& choice = answer.choices.emplace_back();
    choice.index = static_cast<int32_t>(i);
    choice.reasoning = std::move(output.reasoning);
    choice.text = std::move(output.text);
    if (fields.logprobs >= 0) choice.logprobs = std::move(output.logprobs);
    choice.text_begin = assembler.text_begin();
    if (fields.prompt_logprobs >= 0) choice.prompt_logprobs = assembler.TakePromptLogprobs();
    choice.finish_reason = assembler.finish_reason();
    choice.stop_reason = assembler.stop_reason();
    if (choices_[i].states != nullptr) {
      choice.embedding = choices_[i].states->Normalised();
      choices_[i].states.reset();  // twice what the vector takes
    }
    if (fields.return_token_ids) {
      choice.token_ids = std::move(output.token_ids);
      choice.prompt_token_ids = prepared_.prompts[static_cast<size_t>(choices_[i].prompt)].ids;
    }
  }
  answer.usage = MakeUsage();
  if (fields.kv_report) answer.kv = MakeKvReport();
  answer.turn = MakeTurnReport();
  return writer_->Body(answer);
}

}  // namespace hydrant
