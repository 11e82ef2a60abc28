#include "server/frontend/generation_service.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/response/sse.h"
#include "server/frontend/request_deadlines.h"
#include "server/frontend/request_headers.h"
#include "server/frontend/store_wait.h"
#include "server/generation/generation_run.h"
#include "server/process/clock.h"
#include "server/process/log.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

RejectReason ReasonOf(const ApiError& error) {
  if (error.status == 429) return RejectReason::kSessions;
  return error.status == 503 ? RejectReason::kOverloaded : RejectReason::kInvalid;
}

}  // namespace

TenantRules TenantRulesOf(const TenantEntry& tenant, const ServingContext& context) {
  TenantRules rules;
  rules.kv = tenant.config.kv;
  rules.kv_budget_max = tenant.config.kv_budget_max;
  rules.priority_max = tenant.config.priority_max;
  rules.blocks_max = tenant.blocks_max;
  rules.tokens_max = tenant.config.limits.tpm;
  rules.max_tokens_max = tenant.config.max_tokens_max;
  rules.seconds_max = tenant.config.request_seconds_max;
  rules.sessions = {tenant.index(), tenant.config.weight, tenant.config.sessions_max, tenant.config.session_disk_bytes,
                    tenant.config.session_durability.value_or(context.session_durability) == Durability::kKv};
  rules.adapters = tenant.config.adapters;
  rules.tenant = tenant.config.name;
  return rules;
}

GenerationService::GenerationService(const ServingContext& context, EnginePort& engine, Metrics& metrics,
                                     AdmissionControl& admission, WorkerPool& workers, WorkerPool& shape_workers,
                                     WorkerPool& disk_workers, RequestDirectory& directory)
    : context_(context),
      engine_(engine),
      metrics_(metrics),
      admission_(admission),
      workers_(workers),
      shape_workers_(shape_workers),
      disk_workers_(disk_workers),
      directory_(directory) {}

asio::awaitable<void> GenerationService::Serve(HttpExchange& exchange, PrepareFunction prepare, bool reads_past) {
  struct InFlight {
    explicit InFlight(std::atomic<int64_t>& count_in) : count(count_in) {
      count.fetch_add(1, std::memory_order_relaxed);
    }
    ~InFlight() { count.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<int64_t>& count;
  };
  const InFlight guard(in_flight_);
  co_await ServeCounted(exchange, prepare, reads_past);
}

asio::awaitable<void> GenerationService::Reject(HttpExchange& exchange, const Refusal& refusal) {
  HttpResponse response = admission_.Reject(*exchange.caller(), refusal);
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> GenerationService::Prepare(HttpExchange& exchange, PrepareFunction prepare, bool reads_past,
                                                 std::optional<ApiResult<PreparedGeneration>>* prepared) {
  const TenantEntry& tenant = *exchange.caller();
  const RequestHeaders headers = ReadRequestHeaders(exchange.head(), context_.session_headers);
  bool needs_disk = false;
  // By the body alone, also where a session's past is longer: nothing of that is encoded. It is copied and compared, in 0.1 ms
  // for a context of 8,192 tokens, and in 2 ms for a rolling chat of 131,072.
  const auto prepare_now = [&](bool* needs) {
    TenantRules rules = TenantRulesOf(tenant, context_);
    rules.sessions.needs_disk = needs;
    prepared->emplace(prepare(exchange.body(), context_, rules, headers));
  };
  const auto without_disk = [&] { prepare_now(&needs_disk); };
  const WorkOwner owner = {tenant.index(), exchange.client()};
  if (reads_past || context_.sessions->journals()) {
    co_await workers_.Run(owner, without_disk);
  } else {
    co_await workers_.RunHereIfSmall(exchange.body().size(), owner, without_disk);
  }
  if (!needs_disk) co_return;
  prepared->reset();  // a turn that it began is over
  const auto with_disk = [&] { prepare_now(nullptr); };
  co_await disk_workers_.Run(owner, with_disk);
}

asio::awaitable<void> GenerationService::ServeCounted(HttpExchange& exchange, PrepareFunction prepare,
                                                      bool reads_past) {
  if (admission_.refusing()) {  // it was admitted before
    co_await Reject(exchange, AdmissionControl::Draining());
    co_return;
  }
  const TenantEntry& tenant = *exchange.caller();
  std::optional<ApiResult<PreparedGeneration>> prepared;
  co_await Prepare(exchange, prepare, reads_past, &prepared);
  exchange.DropBody();
  if (!prepared->ok()) {
    const Refusal refusal = {prepared->error(), ReasonOf(prepared->error())};
    co_await Reject(exchange, refusal);
    co_return;
  }
  std::string id = prepared->value().answer_id;
  if (id.empty()) id = prepared->value().fields.request_id;
  if (id.empty()) id = exchange.request_id();
  GenerationRun run(std::move(prepared->value()), context_, engine_, metrics_, exchange.arrival_us(), id,
                    tenant.index());
  prepared.reset();
  co_await Generate(exchange, run);
}

asio::awaitable<std::optional<ApiError>> GenerationService::Shape(HttpExchange& exchange, GenerationRun& run) {
  const ShapeCache::Key key = run.ShapeKey();
  const std::optional<ShapeResult> found = context_.shapes->Find(key);
  if (found.has_value() && !run.FollowsShape(*found)) co_return run.SetShape(*found);
  std::optional<ApiError> error;
  const auto compile = [&] { error = run.SetShape(found.has_value() ? *found : context_.shapes->Get(key)); };
  try {
    co_await shape_workers_.Run({(*exchange.caller()).index(), exchange.client()}, compile);
  } catch (const std::bad_alloc&) {
    if (key.is_asked_for) throw;  // else it is served without
  }
  co_return error;
}

asio::awaitable<std::optional<Refusal>> GenerationService::AskStore(HttpExchange& exchange, RequestAccount& account,
                                                                    RequestDeadlines& deadlines) {
  std::optional<LimitDemand> demand = account.SharedDemand();
  if (!demand.has_value()) co_return std::nullopt;
  TenantAccount& tenant = *exchange.caller()->account;
  std::optional<Refusal> refusal = tenant.KnownRefusal(*demand, MonotonicUs());
  if (!refusal.has_value()) {
    LimitStore& store = *admission_.store();
    const std::shared_ptr<LimitAsk> ask = store.Ask(*std::move(demand), exchange.Waker());
    if (ask != nullptr) account.Hold(&store, ask);
    co_await WaitForStore(exchange, ask.get(), deadlines.next_us());
    if (exchange.client_gone()) co_return std::nullopt;
    // A request has no way past the store by having little time.
    const int64_t now_us = MonotonicUs();
    if (now_us >= deadlines.next_us()) refusal = deadlines.Missed(now_us, engine_.backlog().wait_s);
    if (!refusal.has_value()) refusal = tenant.Judge(ask.get(), store.fails_open(), now_us);
  }
  co_return refusal;
}

asio::awaitable<void> GenerationService::Generate(HttpExchange& exchange, GenerationRun& run) {
  const TenantEntry& tenant = *exchange.caller();
  std::optional<Refusal> refusal;
  std::shared_ptr<RequestAccount> account = RequestAccount::TryOpen(tenant.account, run.accounts(), engine_.backlog(),
                                                                    tenant.queue_share, MonotonicUs(), &refusal);
  RequestDeadlines deadlines(exchange.arrival_us(), run.fields().time_limit, context_.limits.queue_timeout_s, account);
  if (account != nullptr) {
    exchange.WatchClient(HalfClosed::kLeft);
    if (admission_.store() != nullptr) {
      refusal = co_await AskStore(exchange, *account, deadlines);
      if (exchange.client_gone()) co_return;
    }
    // Also before any line: what others wait for is never a schema.
    if (!refusal.has_value() && run.fields().constraint.has_value()) {
      std::optional<ApiError> error = co_await Shape(exchange, run);
      if (exchange.client_gone()) co_return;
      if (error.has_value()) refusal = {*std::move(error), RejectReason::kInvalid};
    }
  }
  if (account != nullptr && !refusal.has_value()) {
    // Before it stands in any line: nobody waits for its disk, and it joins with what it needs in hand.
    if (run.on_disk() && run.IsComputedFaster(engine_.backlog().prefill_rate)) {
      run.StopStaging(KvReject::kSlower);
    } else if (run.on_disk()) {
      run.Stage(exchange.Waker());
      const auto patience_us = static_cast<int64_t>(context_.limits.session_read_timeout_s * 1e6);
      const int64_t until_us = std::min(deadlines.next_us(), MonotonicUs() + patience_us);
      while (!run.staged()) {
        if (MonotonicUs() >= until_us) {
          run.StopStaging(KvReject::kTimeout);  // a disk that hangs holds up nobody: the history is computed
          break;
        }
        co_await exchange.WaitForWake(until_us);
        if (exchange.client_gone()) co_return;
      }
    }
    if (!run.Submit(exchange.Waker(), std::move(account))) {
      const int32_t retry_after_s = RetryAfterS(engine_.backlog().wait_s);
      refusal = {Overloaded("The server's queue is full.", "queue_full", retry_after_s), RejectReason::kOverloaded};
    }
  }
  if (refusal.has_value()) {
    if (account != nullptr) account->Withdraw();  // before the response says what is left
    run.LeaveTurn();
    co_await Reject(exchange, *refusal);
    co_return;
  }
  const RequestDirectory::Entry listed(directory_,
                                       {run.id(), run.bare_id(), run.fields().request_id, exchange.request_id()},
                                       tenant.index(), run.first_id(), run.sequences());
  if (run.fields().stream) {
    co_await Stream(exchange, run, listed, deadlines);
  } else {
    co_await Collect(exchange, run, listed, deadlines);
  }
  run.Cancel();  // whoever left early, too, is told of in the log by all that was generated
  run.Describe(&exchange.notes());
}

// When EndIfDue has to be asked again. What has ended in the engine has met its deadlines, however long the disk takes to keep it.
int64_t GenerationService::DueUs(const GenerationRun& run, const RequestDeadlines& deadlines) {
  return run.ended() ? kNever : deadlines.next_us();
}

void GenerationService::EndIfDue(const HttpExchange& exchange, GenerationRun& run, RequestDeadlines& deadlines) {
  if (deadlines.next_us() == kNever || run.ended() || run.error().has_value()) return;
  const int64_t now_us = MonotonicUs();
  if (now_us < deadlines.next_us()) return;
  std::optional<Refusal> missed = deadlines.Missed(now_us, engine_.backlog().wait_s);
  if (!missed.has_value()) return;
  metrics_.CountReject((*exchange.caller()).index(), missed->reason);
  run.Fail(std::move(missed->error));
}

HttpResponse GenerationService::AnswerError(const ApiError& error, const TenantEntry& tenant,
                                            const RequestDirectory::Entry& listed) {
  HttpResponse response = admission_.Answer(error, tenant);
  // Clients' libraries send what failed with a 5xx again by themselves: what an operator ended would be computed twice more.
  if (listed.aborted()) response.fields.emplace_back("x-should-retry", "false");
  return response;
}

asio::awaitable<void> GenerationService::Collect(HttpExchange& exchange, GenerationRun& run,
                                                 const RequestDirectory::Entry& listed, RequestDeadlines& deadlines) {
  while (!run.done() && !run.error().has_value()) {
    co_await exchange.WaitForWake(DueUs(run, deadlines));
    if (exchange.client_gone()) co_return;
    run.Absorb();
    EndIfDue(exchange, run, deadlines);
  }
  const TenantEntry& tenant = *exchange.caller();
  if (run.error().has_value()) {
    HttpResponse response = AnswerError(*run.error(), tenant, listed);
    co_await exchange.Respond(std::move(response));
    co_return;
  }
  HttpResponse response;
  const auto write = [&] { response.body = run.Body(); };
  if (run.has_long_body()) {
    co_await workers_.Run({tenant.index(), exchange.client()}, write);
  } else {
    write();
  }
  AddFields(&response, run.response_fields());
  AddFields(&response, tenant.account->RateFields(MonotonicUs()));
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> GenerationService::Stream(HttpExchange& exchange, GenerationRun& run,
                                                const RequestDirectory::Entry& listed, RequestDeadlines& deadlines) {
  const auto quiet_us = static_cast<int64_t>(context_.limits.stream_quiet_s * 1e6);
  std::string out;
  bool begun = false;
  int64_t comment_us = kNever;  // when to write one
  while (!run.done()) {
    co_await exchange.WaitForWake(std::min(DueUs(run, deadlines), comment_us));
    if (exchange.client_gone()) co_return;
    run.Absorb();
    EndIfDue(exchange, run, deadlines);
    if (run.error().has_value()) break;
    if (run.done()) exchange.ClosePlace();
    out.clear();
    run.AppendEvents(&out);
    // What is set aside says nothing for as long as others need its place, and proxies cut what says nothing.
    if (out.empty() && MonotonicUs() >= comment_us) out = kSseComment;
    if (out.empty()) continue;
    if (!begun) {
      HttpResponse head;
      head.content_type = kSseContentType;
      head.fields.emplace_back("cache-control", "no-cache");
      AddFields(&head, run.response_fields());
      AddFields(&head, exchange.caller()->account->RateFields(MonotonicUs()));
      exchange.BeginStream(std::move(head));
      begun = true;
    }
    const bool ok = co_await exchange.Write(out);
    if (!ok) co_return;
    comment_us = MonotonicUs() + quiet_us;
  }
  if (run.error().has_value()) {
    exchange.ClosePlace();
    const ApiError& error = *run.error();
    if (!begun) {
      HttpResponse response = AnswerError(error, *exchange.caller(), listed);
      co_await exchange.Respond(std::move(response));
      co_return;
    }
    out.clear();
    run.AppendError(&out);
    const bool ok = co_await exchange.Write(out);
    if (!ok) co_return;
  }
  co_await exchange.EndStream();
}

}  // namespace hydrant
