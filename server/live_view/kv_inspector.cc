#include "server/live_view/kv_inspector.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/process/clock.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// How often somebody who waits for the engine's next copy, or for the end of a turn to be known, looks again.
constexpr auto kPoll = std::chrono::milliseconds(5);
// Until a turn that the engine has ended is ended for the store too: as long as its connection takes for one event.
constexpr int kLooksMax = 40;

asio::awaitable<void> Pause() {
  asio::steady_timer timer(co_await asio::this_coro::executor, kPoll);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Has the engine read. It looks whether that is done, for to be resumed from the engine's thread would take memory there.
asio::awaitable<void> ReadOnEngine(EnginePort& engine, uint64_t session, bool evicts,
                                   std::shared_ptr<KvReading> reading) {
  // Released after the copy, acquired before it is looked at.
  const auto done = std::make_shared<std::atomic<bool>>(false);
  engine.ReadKv(session, evicts, std::move(reading), [done] { done->store(true, std::memory_order_release); });
  while (!done->load(std::memory_order_acquire)) co_await Pause();
}

}  // namespace

// One request of a tenant, until it is answered.
class KvInspector::Visit {
 public:
  Visit(KvInspector& inspector, int32_t tenant) : inspector_(inspector), tenant_(tenant) {
    const std::lock_guard<std::mutex> lock(inspector_.mutex_);
    count_ = ++inspector_.open_[tenant_];
  }
  ~Visit() {
    const std::lock_guard<std::mutex> lock(inspector_.mutex_);
    const auto found = inspector_.open_.find(tenant_);
    if (--found->second == 0) inspector_.open_.erase(found);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  bool admitted() const { return count_ <= kOpenMax; }

 private:
  KvInspector& inspector_;
  const int32_t tenant_;
  int32_t count_ = 0;
};

KvInspector::KvInspector(EnginePort& engine, const KvShape& shape, SessionStore& sessions, const Tokenizer& tokenizer,
                         WorkerPool& workers, WorkerPool& disk_workers)
    : engine_(engine),
      shape_(shape),
      sessions_(sessions),
      tokenizer_(tokenizer),
      workers_(workers),
      disk_workers_(disk_workers) {}

asio::awaitable<void> KvInspector::Serve(HttpExchange& exchange, std::string id) {
  HttpResponse response = co_await Answer(exchange, id);
  response.fields.emplace_back("cache-control", "no-store");
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<HttpResponse> KvInspector::Answer(HttpExchange& exchange, const std::string& id) {
  const int32_t tenant = exchange.caller()->index();
  const std::string& text = exchange.head().query;
  const ApiResult<SessionKvQuery> query = ReadSessionKvQuery(
      [&text](std::string_view name) { return QueryValue(text, name); }, shape_.layers, shape_.kv_heads);
  if (!query.ok()) co_return ErrorResponse(query.error());
  const Visit visit(*this, tenant);
  if (!visit.admitted()) {
    co_return ErrorResponse(
        RateLimited("Too many requests for a session's KV map at once.", "too_many_kv_requests", 1));
  }

  const WorkOwner owner = {tenant, exchange.client()};
  ApiResult<SessionStore::View> view = co_await View(owner, id);
  std::shared_ptr<const KvReading> reading;
  for (int looks = 0; view.ok() && looks < kLooksMax; ++looks) {
    if (looks > 1) co_await Pause();
    const bool evicts = view.value().past == nullptr || view.value().past->kv.policy.evicts;
    reading = co_await Read(view.value().number, evicts, /*now=*/looks > 0);
    view = co_await View(owner, id);
    if (!view.ok() || KvReadingFits(*reading, view.value())) break;
    // What an abandoned turn left is nobody's past.
    const SessionState state = view.value().card.state;
    if (looks > 0 && (state == SessionState::kCold || state == SessionState::kOnDisk)) break;
  }
  if (!view.ok()) co_return ErrorResponse(view.error());
  HttpResponse response;
  co_await Make(owner, [&] {
    response =
        JsonResponse(SessionKvJson(MakeSessionKv(id, view.value(), *reading, shape_, tokenizer_, query.value())));
  });
  co_return response;
}

asio::awaitable<ApiResult<SessionStore::View>> KvInspector::View(WorkOwner owner, const std::string& id) {
  ApiResult<SessionStore::View> view = sessions_.Inspect(owner.tenant, id);
  if (!view.ok() || !view.value().stored) co_return view;
  std::shared_ptr<const SessionPast> past;
  co_await disk_workers_.Run(owner, [&] { past = sessions_.ReadStored(owner.tenant, id); });
  // What it was read from and what it is now must be the same; where a turn has ended meanwhile, that one's is in memory.
  view = sessions_.Inspect(owner.tenant, id);
  if (view.ok() && view.value().stored && past != nullptr && view.value().card.tokens == std::ssize(past->tokens)) {
    view.value().past = std::move(past);
  }
  co_return view;
}

asio::awaitable<void> KvInspector::Make(WorkOwner owner, std::function<void()> make) {
  const auto begin = [this, tenant = owner.tenant] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return turns_.Begin(tenant, MonotonicUs());
  };
  while (!begin()) co_await Pause();
  int64_t took_us = 0;
  const absl::Cleanup ended = [this, tenant = owner.tenant, &took_us] {
    const std::lock_guard<std::mutex> lock(mutex_);
    turns_.End(tenant, MonotonicUs(), took_us);
  };
  co_await workers_.Run(owner, [&make, &took_us] {
    const int64_t begun_us = MonotonicUs();
    make();
    took_us = MonotonicUs() - begun_us;
  });
}

asio::awaitable<std::shared_ptr<const KvReading>> KvInspector::Read(uint64_t session, bool evicts, bool now) {
  const int64_t asked_us = MonotonicUs();
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const int64_t time_us = MonotonicUs();
      const int64_t since_us = now ? asked_us : time_us - kFreshUs;
      for (const Kept& kept : kept_) {
        if (kept.session == session && kept.taken_us >= since_us) co_return kept.reading;
      }
      if (!reading_ && time_us >= rest_until_us_) {
        reading_ = true;
        break;
      }
    }
    co_await Pause();
  }
  // Whether this copy is taken or memory runs out on the way to it, the next one may be.
  const absl::Cleanup ended = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    reading_ = false;
  };
  const auto reading = std::make_shared<KvReading>();
  const int64_t taken_us = MonotonicUs();
  co_await ReadOnEngine(engine_, session, evicts, reading);
  const std::lock_guard<std::mutex> lock(mutex_);
  rest_until_us_ = MonotonicUs() + std::min(kRest * reading->read_us, kRestMaxUs);
  std::erase_if(kept_, [session](const Kept& kept) { return kept.session == session; });
  if (kept_.size() == kKeptMax) kept_.pop_front();
  kept_.push_back({session, taken_us, reading});
  co_return reading;
}

}  // namespace hydrant
