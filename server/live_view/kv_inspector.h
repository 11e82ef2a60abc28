// KvInspector answers GET /v1/sessions/{id}/kv. The engine thread only copies the session's scores and positions between two
// steps; everything made of them is made on a worker thread.
//
// Thread: any strand; a short lock.
//
// What it costs others
//  1. One copy at a time, for all sessions together; the next one not before kRest times as long as the last one took has
//     passed: at most 1 % of the engine thread's time, however many look on. It never waits longer than kRestMaxUs: where the
//     copy took so long, the processor was somebody else's meanwhile. Default model (90 pairs), CPU: 23 us for a
//     budget of 256, 190 us for 2,048, beside steps of 100 ms (model_bench --only kv_map).
//  2. A session is not copied again within kFreshUs: who asks sooner gets the same copy.
//  3. kOpenMax requests of a tenant at once; further ones get 429. Their maps are made one after the other and with rests
//     (map_turns.h), so the worker thread never has more of this from one tenant than a few milliseconds' work, and in the long
//     run no more than a tenth of its time.
//  4. kKeptMax copies are kept, each of at most kKvReadingBytesMax.
#ifndef HYDRANT_SERVER_LIVE_VIEW_KV_INSPECTOR_H_
#define HYDRANT_SERVER_LIVE_VIEW_KV_INSPECTOR_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/engine/engine_port.h"
#include "server/http/http_exchange.h"
#include "server/http/worker_pool.h"
#include "server/live_view/kv_map.h"
#include "server/live_view/map_turns.h"
#include "server/sessions/session_store.h"

namespace hydrant {

class KvInspector {
 public:
  static constexpr int64_t kFreshUs = 150'000;
  static constexpr int64_t kRest = 100;
  static constexpr int64_t kRestMaxUs = 1'000'000;
  static constexpr int32_t kOpenMax = 4;
  static constexpr size_t kKeptMax = 4;

  // The arguments outlive the inspector.
  KvInspector(EnginePort& engine, const KvShape& shape, SessionStore& sessions, const Tokenizer& tokenizer,
              WorkerPool& workers, WorkerPool& disk_workers);

  // Answers about the session `id` of the caller's tenant. 404 as SessionStore::Get.
  boost::asio::awaitable<void> Serve(HttpExchange& exchange, std::string id);

 private:
  class Visit;
  struct Kept {
    uint64_t session = 0;
    int64_t taken_us = 0;
    std::shared_ptr<KvReading> reading;
  };

  boost::asio::awaitable<HttpResponse> Answer(HttpExchange& exchange, const std::string& id);
  // SessionStore::Inspect, with the past from the disk where it is only there.
  boost::asio::awaitable<ApiResult<SessionStore::View>> View(WorkOwner owner, const std::string& id);
  // Runs `make`, when it is the tenant's turn, on a worker thread.
  boost::asio::awaitable<void> Make(WorkOwner owner, std::function<void()> make);
  // The session's scores and positions, at most kFreshUs old, or, with `now`, read after the call.
  boost::asio::awaitable<std::shared_ptr<const KvReading>> Read(uint64_t session, bool evicts, bool now);

  EnginePort& engine_;
  const KvShape shape_;
  SessionStore& sessions_;
  const Tokenizer& tokenizer_;
  WorkerPool& workers_;
  WorkerPool& disk_workers_;

  std::mutex mutex_;
  // Guarded by mutex_.
  absl::flat_hash_map<int32_t, int32_t> open_;  // by tenant
  MapTurns turns_;
  std::list<Kept> kept_;  // oldest first
  bool reading_ = false;
  int64_t rest_until_us_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_LIVE_VIEW_KV_INSPECTOR_H_
