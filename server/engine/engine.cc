#include "server/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/engine/kv_dump.h"
#include "server/process/log.h"

namespace hydrant {
namespace {

// Before there is a measurement: a small model on two cores. Too high a guess lets a slow server accept a queue of some
// minutes once; too low a one lets a fast server turn away its first requests.
constexpr double kPrefillRateAtFirst = 1000;
// A prompt that would wait longer than this is refused, so that the client can send it elsewhere.
constexpr double kWaitTargetS = 60;

// Routes beyond the sequences that the limits allow: a table of a handful grows at its first tombstones.
constexpr int64_t kRoutesSpare = 64;

// What may be left out when there is no memory for it.
void OrLog(const char* without_memory, const std::function<void()>& call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    Log(LogLevel::kError, without_memory);
  }
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineCore> core, const Limits& limits, EngineHooks hooks)
    : limits_(limits),
      hooks_(std::move(hooks)),
      inbox_(static_cast<size_t>(limits.inbox_max)),
      core_(std::move(core)),
      router_(hooks_.fan_out, int64_t{limits.sequences_max} + limits.waiting_sequences_max + kRoutesSpare),
      // Before any step: of weights that lie in memory nothing was read.
      pacer_(limits.batch_tokens_max, core_->counters().weights_read_bytes > 0),
      prefill_rate_(kPrefillRateAtFirst) {
  counters_ = core_->counters();
}

Engine::~Engine() { Stop(); }

void Engine::Start() {
  assert(!thread_.joinable());
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "engine");
    while (MakeRound(/*may_wait=*/true) != Round::kEnded) {
    }
  });
}

void Engine::Stop() {
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
}

int64_t Engine::WaitingTokensMax() const {
  const double affordable = prefill_rate_.value() * kWaitTargetS;
  // The largest request there may be must find room in an idle engine, however slow the device has been so far.
  return std::max(limits_.request_tokens_max(), static_cast<int64_t>(std::min(affordable, 1e15)));
}

std::optional<uint64_t> Engine::TrySubmit(GenerationJob job) {
  const auto sequences = static_cast<int64_t>(job.sequences.size());
  assert(sequences > 0);
  int64_t tokens = 0;
  for (const SequenceRequest& sequence : job.sequences) tokens += sequence.tokens_to_compute();

  if (dead()) return std::nullopt;
  const int64_t open_before = open_sequences_.fetch_add(sequences, std::memory_order_relaxed);
  const int64_t tokens_before = waiting_tokens_.fetch_add(tokens, std::memory_order_relaxed);
  absl::Cleanup not_taken = [&] {
    open_sequences_.fetch_sub(sequences, std::memory_order_relaxed);
    waiting_tokens_.fetch_sub(tokens, std::memory_order_relaxed);
  };
  bool room = open_before + sequences <= int64_t{limits_.sequences_max} + limits_.waiting_sequences_max;
  const bool first = job.ledger != nullptr && job.ledger->first_of_tenant();
  if (!first && tokens_before + tokens > WaitingTokensMax()) room = false;
  const uint64_t first_id = next_id_.fetch_add(static_cast<uint64_t>(sequences), std::memory_order_relaxed);
  for (size_t i = 0; i < job.sequences.size(); ++i) job.sequences[i].request.id = first_id + i;
  if (!room || !inbox_.TryPush(std::move(job))) return std::nullopt;
  std::move(not_taken).Cancel();
  return first_id;
}

void Engine::SetTenants(std::vector<TenantOptions> tenants) {
  inbox_.PushCall([this, tenants = std::move(tenants)] { core_->SetTenants(tenants); });
}

void Engine::PauseAdmission(bool paused) {
  inbox_.PushCall([this, paused] { core_->PauseAdmission(paused); });
}

void Engine::ResetPrefixes() {
  inbox_.PushCall([this] { core_->ResetPrefixes(); });
}

void Engine::SettleTurn(TurnId id, bool keep) {
  inbox_.PushCall([this, id, keep] { core_->SettleTurn(id, keep); });
}

void Engine::DropSession(uint64_t session) {
  inbox_.PushCall([this, session] { core_->DropSession(session); });
}

void Engine::ReadKv(uint64_t session, bool evicts, std::shared_ptr<KvReading> out, std::function<void()> done) {
  // Its destructor makes the call if nothing else did, so a call that the inbox drops is answered, too.
  struct Promise {
    explicit Promise(std::function<void()> call) : done(std::move(call)) {}
    Promise(const Promise&) = delete;
    Promise& operator=(const Promise&) = delete;
    ~Promise() { Keep(); }
    void Keep() {
      if (const auto call = std::exchange(done, nullptr)) call();
    }
    std::function<void()> done;
  };
  out->source = KvReading::Source::kNone;
  const auto promise = std::make_shared<Promise>(std::move(done));
  // Who is not even asked says so by throwing.
  absl::Cleanup not_asked = [&promise] { promise->done = nullptr; };
  inbox_.PushCall([this, session, evicts, out = std::move(out), promise]() mutable {
    const int64_t started = core_->now_us();
    core_->ReadKv(session, evicts, out.get());
    out->read_us = core_->now_us() - started;
    out.reset();  // this closure lives in its batch until the next drain
    promise->Keep();
  });
  std::move(not_asked).Cancel();
}

void Engine::TakeParked(TurnId turn, std::function<void(KvBytes)> done) {
  const auto answer = std::make_shared<OneAnswer>(std::move(done));
  absl::Cleanup not_asked = [&answer] { answer->done = nullptr; };
  inbox_.PushCall([this, turn, answer] { takings_.push_back({turn, answer}); });
  std::move(not_asked).Cancel();
}

KvBytes Engine::ReadParked(const TurnId& turn) const {
  assert(!thread_.joinable());
  bool is_coming = false;
  return dead() ? KvBytes() : core_->ReadParked(turn, &is_coming);
}

// What is on its way out of the pool is given when it has left it.
void Engine::GiveParked() {
  for (auto taking = takings_.begin(); taking != takings_.end();) {
    bool is_coming = false;
    KvBytes kv = core_->ReadParked(taking->turn, &is_coming);
    if (is_coming) {
      ++taking;
      continue;
    }
    taking->answer->Give(std::move(kv));
    taking = takings_.erase(taking);
  }
}

Backlog Engine::backlog() const {
  Backlog backlog;
  backlog.sequences = open_sequences_.load(std::memory_order_relaxed);
  backlog.sequences_max = int64_t{limits_.sequences_max} + limits_.waiting_sequences_max;
  backlog.prompt_tokens = waiting_tokens_.load(std::memory_order_relaxed);
  backlog.prompt_tokens_max = WaitingTokensMax();
  const double completion_rate = completion_rate_.value();
  backlog.prefill_rate = prefill_rate_.average();
  backlog.wait_s = static_cast<double>(backlog.prompt_tokens) / prefill_rate_.value();
  const auto queued = static_cast<double>(backlog.sequences - limits_.sequences_max);
  if (completion_rate > 0 && queued > 0) backlog.wait_s = std::max(backlog.wait_s, queued / completion_rate);
  return backlog;
}

EngineCounters Engine::counters() const {
  const std::lock_guard<std::mutex> lock(counters_mutex_);
  return counters_;
}

bool Engine::stalled() const {
  if (dead()) return true;
  const int64_t started = step_started_us_.load(std::memory_order_relaxed);
  return started != 0 && static_cast<double>(core_->now_us() - started) > limits_.engine_stall_s * 1e6;
}

Engine::Round Engine::MakeRound(bool may_wait) {
  if (!dead()) {
    try {
      return Work(may_wait);
    } catch (const std::exception& error) {
      // The messages of exceptions from the device and the standard library hold no request text.
      Log(LogLevel::kError, absl::StrCat("engine: ", error.what()));
    }
    dead_.store(true, std::memory_order_relaxed);
    FailEverything();
    if (hooks_.on_death) hooks_.on_death("the engine failed");
  }
  return router_.Flush() ? Round::kEnded : Round::kWorked;
}

void Engine::FailEverything() {
  inbox_.Close();
  // A mailbox that is not failed would leave its request waiting for ever. A job in the middle of being accepted is
  // routed already; adding it once more changes nothing.
  const auto route = [this] {
    for (GenerationJob& job : batch_.items) {
      EventRouter::Route to;
      to.mailbox = std::move(job.mailbox);
      router_.Add(job.sequences.front().request.id, std::move(to));
    }
    batch_.items.clear();
  };
  route();
  inbox_.Drain(&batch_);  // closed: these are the last
  batch_.calls.clear();
  route();
  router_.FailAll();
  takings_.clear();
  if (!core_->replay().active()) return;
  core_->replay().Stop();
  hooks_.replays->OnEnd(ReplayEnd::kError);
}

Engine::Round Engine::Work(bool may_wait) {
  if (rests() && !closing_ && router_.Flush()) {
    step_started_us_.store(0, std::memory_order_relaxed);
    const bool replayed = ReplaySome();
    if (may_wait && !replayed) {
      WaitForOrders();
    } else {
      inbox_.Drain(&batch_);
    }
    if (batch_.empty()) return replayed ? Round::kWorked : Round::kWaits;
  } else if (empty_steps_ > 0 && may_wait && !closing_ && router_.Flush()) {
    step_started_us_.store(0, std::memory_order_relaxed);
    inbox_.WaitAndDrainFor(&batch_, kEmptyStepUs);
  } else {
    inbox_.Drain(&batch_);
  }
  const int64_t started = core_->now_us();
  if (!batch_.items.empty() || !core_->idle()) quiet_since_us_ = started;
  step_started_us_.store(started, std::memory_order_relaxed);
  TakeOrders();
  if (!takings_.empty()) GiveParked();
  if (batch_.closed && !closing_) CancelEverything();
  // Nobody goes on any more from what is still to be parked, unless somebody keeps it.
  const bool ends = closing_ && core_->all_ended() && !(hooks_.keeps_parked && core_->moving());
  if (core_->idle() || ends) {
    if (closing_ || !batch_.calls.empty()) Publish();
    if (!closing_) return Round::kWorked;
    takings_.clear();
    step_started_us_.store(0, std::memory_order_relaxed);
    return router_.Flush() ? Round::kEnded : Round::kWorked;
  }
  if (!batch_.cancels.empty()) Publish();  // their blocks are free; the step to come may be long
  Step(started);
  quiet_since_us_ = core_->now_us();
  return Round::kWorked;
}

bool Engine::MayReplay() const {
  return hooks_.replays != nullptr && rests() && !core_->in_flight() && !core_->scheduler().admission_paused() &&
         (core_->replay().active() || hooks_.replays->has_text());
}

void Engine::WaitForOrders() {
  if (!MayReplay()) return inbox_.WaitAndDrain(&batch_);
  inbox_.WaitAndDrainFor(&batch_, quiet_since_us_ + kQuietUs - core_->now_us());
}

bool Engine::ReplaySome() {
  const int64_t started = core_->now_us();
  if (!MayReplay() || inbox_.has_news() || started - quiet_since_us_ < kQuietUs) return false;
  step_started_us_.store(started, std::memory_order_relaxed);
  try {
    Replay();
  } catch (const std::bad_alloc&) {
    // No user's request ends for it.
    core_->replay().Stop();
    hooks_.replays->OnEnd(ReplayEnd::kNoMemory);
  } catch (...) {
    core_->replay().Stop();
    hooks_.replays->OnEnd(ReplayEnd::kError);
    throw;
  }
  step_started_us_.store(0, std::memory_order_relaxed);
  return true;
}

void Engine::Replay() {
  IdleReplay& replay = core_->replay();
  if (!replay.active()) {
    std::optional<ReplayText> text = hooks_.replays->Next();
    if (text.has_value() && !replay.Begin(*std::move(text))) hooks_.replays->OnEnd(ReplayEnd::kNoRoom);
    return;
  }
  const std::optional<std::span<const SampleResult>> scores = replay.Step(&inbox_.has_news());
  if (!scores.has_value()) return hooks_.replays->OnEnd(ReplayEnd::kNoAdapter);
  if (!hooks_.replays->OnScores(*scores)) return replay.Stop();
  if (!replay.active()) hooks_.replays->OnEnd(ReplayEnd::kDone);
}

void Engine::CancelEverything() {
  closing_ = true;
  for (const uint64_t id : router_.OpenIds()) core_->Cancel(id);
}

void Engine::Step(int64_t started) {
  core_->LimitSteps(pacer_.limits());
  const uint64_t lost_before = core_->steps_lost();
  const std::span<const EngineEvent> events = core_->Step();
  const int64_t ended = core_->now_us();
  if (core_->steps_lost() != lost_before)
    Log(LogLevel::kError, absl::StrCat("engine: ", core_->loss(), "; the requests of a step end with an error"));
  if (static_cast<double>(ended - started) > limits_.engine_stall_s * 1e6) ++stalls_;
  // Before Publish: a stall that is counted as over must not be found in progress as well.
  step_started_us_.store(ended, std::memory_order_relaxed);
  // Before the events are delivered, so that a client that sees one finds it counted.
  Publish();
  const StepReport& report = core_->report();
  if (report.rows > 0 && hooks_.on_step) hooks_.on_step(report);
  if (hooks_.on_parked && (!core_->dropped().empty() || !core_->parked().empty())) {
    // What is parked is the engine's to know; who is not told takes a session for cold, or finds that out when it goes
    // on.
    OrLog("engine: out of memory; a session's state is not told",
          [this] { hooks_.on_parked(core_->dropped(), core_->parked()); });
  }
  router_.Admitted(core_->admitted());
  const EventRouter::Settled settled = router_.Deliver(events, ended);
  Settle(settled);
  for (const uint64_t id : settled.paused) core_->SetPaused(id, true);
  if (hooks_.kv_dump != nullptr) hooks_.kv_dump->OnEvents(events);
  if (!takings_.empty()) GiveParked();
  // Blocks that left the pool may be what the others have waited for.
  const bool empty = report.rows == 0 && report.blocks_moved == 0 && events.empty() && !core_->moving();
  empty_steps_ = empty ? empty_steps_ + 1 : 0;
  const double seconds = static_cast<double>(ended - started) * 1e-6;
  pacer_.Observe(report);
  if (report.prefill_tokens > 0) prefill_rate_.Observe(report.prefill_tokens, seconds, /*full=*/accepted_tokens_ > 0);
  const Scheduler& scheduler = core_->scheduler();
  const bool rows_taken = scheduler.waiting() > 0 || scheduler.running() + settled.sequences >= limits_.sequences_max;
  // Where there is a row for everybody, no more sequences end than were asked for.
  if (rows_taken) completion_rate_.Observe(settled.sequences, seconds, /*full=*/true);
}

bool Engine::rests() const {
  return core_->idle() || (empty_steps_ > 0 && empty_steps_ > core_->scheduler().patience());
}

void Engine::TakeOrders() {
  if (!batch_.empty()) empty_steps_ = 0;
  for (const std::function<void()>& call : batch_.calls) {
    OrLog("engine: out of memory for an order; it is not carried out", call);
  }
  for (GenerationJob& job : batch_.items) Accept(job);
  batch_.items.clear();
  // After the items: a cancel never overtakes its job.
  for (const IdRange& ids : batch_.cancels) {
    for (uint64_t i = 0; i < ids.count; ++i) core_->Cancel(ids.first + i);
  }
  for (const IdRange& ids : batch_.resumes) {
    for (uint64_t i = 0; i < ids.count; ++i) core_->SetPaused(ids.first + i, false);
  }
}

void Engine::Accept(GenerationJob& job) {
  int32_t choice = 0;
  for (SequenceRequest& sequence : job.sequences) {
    const uint64_t id = sequence.request.id;
    const bool resumes = sequence.request.resumes != 0;
    accepted_tokens_ += sequence.tokens_to_compute();
    router_.Add(id, {.mailbox = job.mailbox,
                     .choice = choice++,
                     .waiting_tokens = sequence.tokens_to_compute(),
                     .with_logprobs = sequence.logprobs >= 0,
                     .ledger = job.ledger,
                     .adapter = AdapterUse(job.adapter)});
    try {
      if (hooks_.kv_dump != nullptr) hooks_.kv_dump->OnAccept(sequence);
      if (!sequence.staged.empty()) Adopt(sequence);
      absl::Status status = CheckPast(sequence.request);
      if (status.ok()) status = core_->Add(std::move(sequence));
      if (!status.ok()) Refuse(id, resumes, status);
    } catch (const std::bad_alloc&) {
      // The core does not have it, and it is not refused yet.
      Log(LogLevel::kError, "engine: out of memory for a request; it ends with out_of_memory");
      if (hooks_.kv_dump != nullptr) hooks_.kv_dump->OnRefuse(id);
      Settle(router_.Refuse(id, FinishReason::kNoMemory));
    }
  }
}

// Its KV was kept elsewhere, and is parked from now on. Where there is no room for it the request computes what it can; one that would not
// do has to come again, if it is what others wait for that is in its way.
void Engine::Adopt(SequenceRequest& sequence) {
  const KvBytes kv = std::move(sequence.staged);
  sequence.staged = {};
  Request& request = sequence.request;
  const ParkedTurn turn = {{request.session, request.resumes}, kv.computed, kv.live};
  if (!core_->Adopt(turn.id, request.tenant, kv)) {
    request.needs_past = request.needs_past && core_->scheduler().parked().HasRoomOncePinsAreGone(kv.live);
    return;
  }
  if (!hooks_.on_parked) return;
  OrLog("engine: out of memory; a session's state is not told", [&] { hooks_.on_parked({}, {&turn, 1}); });
}

// A history of more tokens than a request may compute has to go on from what is parked of it, for certain.
absl::Status Engine::CheckPast(const Request& request) const {
  const Scheduler& scheduler = core_->scheduler();
  if (std::ssize(request.prompt) <= limits_.request_tokens_max() || scheduler.KeepsPast(request)) {
    return absl::OkStatus();
  }
  if (scheduler.parked().Find({request.session, request.resumes}) != nullptr) {
    return absl::ResourceExhaustedError("its tenant's queue counts on as much parked KV as its share");
  }
  return absl::OutOfRangeError("what its session had parked is gone");
}

void Engine::Refuse(uint64_t id, bool resumes, const absl::Status& status) {
  if (hooks_.kv_dump != nullptr) hooks_.kv_dump->OnRefuse(id);
  // The checks before the engine could not know for certain whether the session's parked KV is still there.
  if (resumes && (absl::IsOutOfRange(status) || absl::IsInvalidArgument(status))) {
    Settle(router_.Refuse(id, FinishReason::kTooLarge));
    return;
  }
  // A reload may have lowered its tenant's cap, or raised the floors of others, since it was checked.
  if (absl::IsOutOfRange(status)) {
    Settle(router_.Refuse(id, FinishReason::kNoRoom));
    return;
  }
  if (absl::IsUnavailable(status)) {
    Settle(router_.Refuse(id, FinishReason::kPastMoved));
    return;
  }
  // Everything else was checked before, so a refusal is a defect of this server and fails this request alone. A turn
  // whose parked KV cannot be pinned while it waits may be sent again.
  if (!resumes || !absl::IsResourceExhausted(status)) {
    Log(LogLevel::kError, absl::StrCat("engine refused sequence ", id, ": ", status.message()));
  }
  Settle(router_.Refuse(id, FinishReason::kRefused));
}

void Engine::Settle(const EventRouter::Settled& settled) {
  open_sequences_.fetch_sub(settled.sequences, std::memory_order_relaxed);
  waiting_tokens_.fetch_sub(settled.prompt_tokens, std::memory_order_relaxed);
  accepted_tokens_ -= settled.prompt_tokens;
  router_.Flush();
}

void Engine::Publish() {
  try {
    EngineCounters counters = core_->counters();
    counters.stalls = stalls_;
    const std::lock_guard<std::mutex> lock(counters_mutex_);
    counters_ = std::move(counters);
  } catch (const std::bad_alloc&) {
    // Those of the step before stay.
  }
}

}  // namespace hydrant
