// Metrics holds every Prometheus series and renders them. Names, labels and buckets of vLLM's series are vLLM's, so
// that its dashboards and gateways read this server unchanged; ours start with hydrant_. Everything exists, at zero,
// from the first scrape.
// Labels named `tenant` hold configured names only, and only on our own series.
//
// Thread: any. Observations lock one histogram for some ten nanoseconds; the engine's numbers come as a snapshot, so a
// scrape never waits for the engine.
#ifndef HYDRANT_SERVER_METRICS_METRICS_H_
#define HYDRANT_SERVER_METRICS_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/session/session.h"
#include "scheduler/request/sequence_event.h"

namespace hydrant {

class AdapterRegistry;
enum class AskEnd : uint8_t;
struct EngineCounters;
class KvAudit;
class KvKeeper;
class SessionJournal;
class ShapeCache;

struct MetricsOptions {
  std::string model_name;
  int32_t context = 0;
  int32_t blocks = 0;
  int32_t block_slots = 16;
  std::string cache_dtype;
  std::vector<std::pair<std::string, int64_t>> weight_bytes;  // by the format they are multiplied in
  std::vector<std::string> policy_names;                      // by policy_label
  bool prefix_caching = false;
  int64_t score_block_bytes = 0;                        // of one score block: the unit of score snapshots
  int64_t kv_block_bytes = 0;                           // of one block outside the pool
  std::vector<std::string> tenant_names = {"default"};  // by tenant index; as many as kTenantsMax, later ones included
};

// Why a request was turned away before the engine saw it, or, kTimeout and kQueueTimeout, ended before it was done.
enum class RejectReason : uint8_t {
  kInvalid,
  kOverloaded,
  kDraining,
  // Limits of its tenant, up to kSessions.
  kConcurrency,
  kRpm,
  kTpm,
  kQueue,
  kSessions,
  kTimeout,       // of the request as a whole
  kQueueTimeout,  // before its first sequence was admitted
};
inline constexpr int32_t kRejectReasons = 10;
const char* RejectReasonName(RejectReason reason);  // its label

// A finished sequence: where it stood at its end, as far as its connection has heard.
struct SequenceReport : SequenceProgress {
  FinishReason reason = FinishReason::kStop;
  int32_t prompt_tokens = 0;
  int32_t max_tokens = 0;
  int64_t ended_us = -1;  // monotonic
};

class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Whose counts are rendered. Before the first scrape.
  void ReadShapes(std::shared_ptr<const ShapeCache> shapes);
  // Whose demand is, unless it is null. Outlives the last scrape.
  void ReadAdapters(const AdapterRegistry* adapters);
  // Whose results are, unless it is null. Outlives the last scrape.
  void ReadAudit(const KvAudit* audit);

  // Engine thread.
  void ObserveStep(int32_t tokens, int64_t plan_us, int64_t device_us, int64_t commit_us, int64_t move_us);

  // The next tenant index gets series of its own. One thread at a time.
  void AddTenant(const std::string& name);

  // Connections. `tenant` is the index of one that was added.
  void CountRequest(int32_t tenant);
  // `generates`: the request is one of those that CountRequest counts.
  void CountReject(int32_t tenant, RejectReason reason, bool generates = true);
  void CountAuthFailure();
  void CountRefusedConnection();
  // The files of tenants and keys were read again; not `applied`: one of them was wrong, and nothing changed.
  void CountReload(bool applied);
  void SetPaused(bool paused);  // admission to the engine
  // LimitStore was asked, and `us` later it was known how that ended.
  void CountStoreAsk(AskEnd end, int64_t us);
  void SetStoreAway(bool away);
  void ObserveFirstToken(int32_t tenant, int64_t us);
  void ObserveTokenGap(int32_t tenant, int64_t us);  // between two outputs of one sequence
  void ObserveSequence(int32_t tenant, const SequenceReport& report);
  // A whole request: its n, and the most tokens one of its sequences generated.
  void ObserveRequest(int32_t n, int32_t generated_tokens_max);

  uint64_t Rejected(int32_t tenant, RejectReason reason) const;

  // Prometheus text format 0.0.4. `stalled`: whether the engine is found stalled just now, asked after `engine` was.
  // `journal` and `kv`: of --session-dir; null: there is none.
  std::string Render(const EngineCounters& engine, const SessionCounts& sessions, bool stalled,
                     const SessionJournal* journal = nullptr, const KvKeeper* kv = nullptr);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_METRICS_METRICS_H_
