#include "server/metrics/metrics.h"

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <ctime>
#include <fstream>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "server/adapters/adapter_registry.h"
#include "server/metrics/audit_series.h"
#include "server/metrics/sampled_series.h"
#include "server/process/clock.h"
#include "server/process/limits.h"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/kv/kv_keeper.h"
#include "server/shapes/shape_cache.h"
#include "server/shared_limits/limit_store.h"

namespace hydrant {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;
using Buckets = Histogram::BucketBoundaries;

const Buckets& FirstTokenBuckets() {
  static const Buckets buckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  return buckets;
}

const Buckets& TokenGapBuckets() {
  static const Buckets buckets = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
  return buckets;
}

// A store on this machine answers in a tenth of a millisecond, one in the same building in a half; nobody waits for long.
const Buckets& StoreBuckets() {
  static const Buckets buckets = {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1};
  return buckets;
}

const Buckets& RequestBuckets() {
  static const Buckets buckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                  30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  return buckets;
}

// Every tenant has these, so there are few: each bound costs as many series as there are tenants. From half a millisecond, because vLLM's lowest
// bounds are too coarse for a small model; steps of 2 to 2.5 keep a quantile within that factor.
const Buckets& TenantBuckets() {
  static const Buckets buckets = {.0005, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2.5, 5, 10, 30, 160};
  return buckets;
}

const Buckets& StepBuckets() {
  static const Buckets buckets = {.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01,
                                  .02,    .05,    .1,     .2,    .5,    1,     2,    5,    10,   30};
  return buckets;
}

const Buckets& StepTokenBuckets() {
  static const Buckets buckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  return buckets;
}

// 1, 2, 5, 10, 20, 50, … up to `max`.
Buckets OneTwoFive(int32_t max) {
  Buckets buckets;
  for (int64_t decade = 1; decade <= max; decade *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (decade * step <= max) buckets.push_back(static_cast<double>(decade * step));
    }
  }
  return buckets;
}

Labels With(Labels labels, const char* name, const char* value) {
  labels.emplace(name, value);
  return labels;
}

double Seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }

// Brings a counter, which can only be incremented, up to a total kept elsewhere.
void RaiseTo(Counter* counter, double total) {
  const double missing = total - counter->Value();
  if (missing > 0) counter->Increment(missing);
}

int64_t OpenFileDescriptors() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  int64_t count = -3;  // ".", "..", and the directory's own descriptor
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

struct MemoryUse {
  int64_t virtual_bytes = 0;
  int64_t resident_bytes = 0;
};

MemoryUse MemoryOfProcess() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  const int64_t unit = sysconf(_SC_PAGESIZE);
  return {size * unit, resident * unit};
}

double FileDescriptorsMax() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

const char* RejectReasonName(RejectReason reason) {
  static constexpr const char* kNames[kRejectReasons] = {"invalid", "overloaded",   "draining", "concurrency",
                                                         "rpm",     "tpm",          "queue",    "sessions",
                                                         "timeout", "queue_timeout"};
  return kNames[static_cast<int32_t>(reason)];
}

struct Metrics::Series {
  explicit Series(const MetricsOptions& options);

  Counter* AddCounter(const std::string& name, const std::string& help, const Labels& labels) {
    return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Gauge* AddGauge(const std::string& name, const std::string& help, const Labels& labels) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram* AddHistogram(const std::string& name, const std::string& help, const Labels& labels,
                          const Buckets& buckets) {
    return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }
  Counter* Vllm(const std::string& name, const std::string& help, Labels extra = {}) {
    extra.insert(model.begin(), model.end());
    return AddCounter("vllm:" + name + "_total", help, extra);
  }
  Histogram* VllmHistogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return AddHistogram("vllm:" + name, help, model, buckets);
  }
  // A row of a table with the registry's own counter or gauge.
  template <typename Source>
  struct Sampled {
    double (*value)(const Source&);
    Counter* counter;  // or
    Gauge* gauge;

    void Update(const Source& source) const {
      if (counter != nullptr) {
        RaiseTo(counter, value(source));
      } else {
        gauge->Set(value(source));
      }
    }
  };
  template <typename Source>
  Sampled<Source> AddSampled(const SampledSeries<Source>& row, Labels labels) {
    const std::string_view name = row.name;
    if (row.label != nullptr) labels.emplace(row.label, row.label_value);
    if (name.starts_with("vllm:")) labels.insert(model.begin(), model.end());
    const bool counts = name.ends_with("_total");
    return {row.value, counts ? AddCounter(row.name, row.help, labels) : nullptr,
            counts ? nullptr : AddGauge(row.name, row.help, labels)};
  }

  // What is told apart by tenant.
  struct Tenant {
    std::vector<Sampled<TenantCounters>> sampled;
    Counter* requests;
    Counter* rejected[kRejectReasons];
    Counter* work_rejected[kRejectReasons];
    Histogram* queue;
    Histogram* first_token;
    Histogram* token_gap;
  };

  void AddVllmEngine(const MetricsOptions& options);
  void AddVllmRequests(const MetricsOptions& options);
  void AddOurs(const MetricsOptions& options);
  void AddTenant(const std::string& name);
  void RenderTenants(const EngineCounters& engine);
  void RenderAdapters();
  Tenant& tenant(int32_t index) { return *tenants[static_cast<size_t>(index)].load(std::memory_order_acquire); }

  Registry registry;
  const Labels model;
  // Filled from the front. Acquire and release: who reads an entry sees what it points to.
  std::array<std::atomic<Tenant*>, kTenantsMax> tenants = {};
  std::vector<std::unique_ptr<Tenant>> tenant_memory;  // AddTenant's

  // Brought up to date at a scrape.
  std::vector<Sampled<Scrape>> sampled;
  int64_t score_block_bytes = 0;
  int64_t kv_block_bytes = 0;
  std::shared_ptr<const ShapeCache> shapes;   // null: there are none
  const AdapterRegistry* adapters = nullptr;  // null: there are none
  prometheus::Family<Gauge>* adapter_family = nullptr;
  Gauge* adapter_demand = nullptr;  // the family's only series
  AdapterRegistry::Demand adapters_seen;
  std::unique_ptr<AuditSeries> audit;  // null: no turn is audited
  std::vector<Counter*> evicted;       // by policy_label
  Gauge* open_fds;
  Gauge* resident_bytes;
  Gauge* virtual_bytes;
  Counter* cpu_seconds;

  // Observed as things happen.
  // Times that somebody else has counted.
  struct Counted {
    Histogram* histogram = nullptr;
    CommitTimes seen;  // what of them it has
    void Observe(const CommitTimes& times);
  };
  Counted session_commit, kv_write, kv_read;
  std::array<Counter*, kKvRejects> kv_rejected;
  Histogram* step_plan;
  Histogram* step_device;
  Histogram* step_commit;
  Histogram* step_move;
  Histogram* step_tokens;
  Histogram* batch_tokens;
  Counter* auth_failures;
  Counter* connections_refused;
  Counter* reloads_applied;
  Counter* reloads_refused;
  Gauge* reload_refused;
  Gauge* paused;
  Counter* store_asks[kAskEnds];  // by AskEnd
  Histogram* store_seconds;
  Gauge* store_away;
  Counter* success[kFinishReasons];  // by FinishReason; several have one word
  Histogram* first_token;
  Histogram* token_gap;
  Histogram* token_gap_alias;
  Histogram* time_per_token;
  Histogram* e2e;
  Histogram* queue;
  Histogram* inference;
  Histogram* prefill;
  Histogram* decode;
  Histogram* request_prompt_tokens;
  Histogram* request_generation_tokens;
  Histogram* request_max_generation_tokens;
  Histogram* params_max_tokens;
  Histogram* prefill_computed;
  Histogram* params_n;

  std::mutex render_mutex;  // two scrapes at once would count an increment twice
};

Metrics::Series::Series(const MetricsOptions& options) : model({{"model_name", options.model_name}, {"engine", "0"}}) {
  AddVllmEngine(options);
  AddVllmRequests(options);
  AddOurs(options);
}

void Metrics::Series::AddVllmEngine(const MetricsOptions& options) {
  const std::string slots = std::to_string(int64_t{options.blocks} * options.block_slots);
  AddGauge("vllm:cache_config_info", "The configuration of the KV cache.",
           {{"block_size", std::to_string(options.block_slots)},
            {"num_gpu_blocks", std::to_string(options.blocks)},
            {"num_cpu_blocks", "0"},
            {"cache_dtype", options.cache_dtype},
            {"enable_prefix_caching", options.prefix_caching ? "True" : "False"},
            {"kv_cache_size_tokens", slots},
            {"engine", "0"}})
      ->Set(1);
  step_tokens = VllmHistogram("iteration_tokens_total", "Prompt tokens computed and tokens generated in a step.",
                              StepTokenBuckets());
}

void Metrics::Series::AddVllmRequests(const MetricsOptions& options) {
  // By FinishReason, in vLLM's words. Nothing ends with kNone: its place has the word of vLLM's that nothing here ends with.
  static constexpr const char* kWords[kFinishReasons] = {"repetition", "stop",  "stop",  "length", "abort",
                                                         "error",      "error", "error", "error",  "stop",
                                                         "error",      "error", "error", "error",  "abort"};
  for (int32_t i = 0; i < kFinishReasons; ++i) {
    success[i] = Vllm("request_success", "Finished sequences.", {{"finished_reason", kWords[i]}});
  }
  first_token =
      VllmHistogram("time_to_first_token_seconds", "Time from arrival to the first token.", FirstTokenBuckets());
  token_gap = VllmHistogram("inter_token_latency_seconds", "Time between two tokens of a sequence.", TokenGapBuckets());
  token_gap_alias = VllmHistogram("time_per_output_token_seconds",
                                  "The former name of vllm:inter_token_latency_seconds.", TokenGapBuckets());
  time_per_token = VllmHistogram("request_time_per_output_token_seconds",
                                 "Decode time of a sequence per token after the first.", TokenGapBuckets());
  e2e = VllmHistogram("e2e_request_latency_seconds", "Time from arrival to the last output.", RequestBuckets());
  queue = VllmHistogram("request_queue_time_seconds", "Time from arrival to admission.", RequestBuckets());
  inference =
      VllmHistogram("request_inference_time_seconds", "Time from admission to the last token.", RequestBuckets());
  prefill = VllmHistogram("request_prefill_time_seconds", "Time from admission to the first token.", RequestBuckets());
  decode = VllmHistogram("request_decode_time_seconds", "Time from the first to the last token.", RequestBuckets());
  const Buckets tokens = OneTwoFive(options.context);
  request_prompt_tokens = VllmHistogram("request_prompt_tokens", "Prompt tokens of a sequence.", tokens);
  request_generation_tokens = VllmHistogram("request_generation_tokens", "Generated tokens of a sequence.", tokens);
  request_max_generation_tokens =
      VllmHistogram("request_max_num_generation_tokens",
                    "Largest number of generated tokens among the sequences of a request.", tokens);
  params_max_tokens = VllmHistogram("request_params_max_tokens", "max_tokens of a request.", tokens);
  prefill_computed =
      VllmHistogram("request_prefill_kv_computed_tokens", "Prompt tokens computed for a sequence.", tokens);
  params_n = VllmHistogram("request_params_n", "n of a request.", {1, 2, 5, 10, 20});
}

void Metrics::Series::AddOurs(const MetricsOptions& options) {
  score_block_bytes = options.score_block_bytes;
  kv_block_bytes = options.kv_block_bytes;
  for (const auto& [format, bytes] : options.weight_bytes) {
    AddGauge("hydrant_weight_bytes", "Bytes of the weights, by the format they are multiplied in.",
             {{"format", format}})
        ->Set(static_cast<double>(bytes));
  }
  for (const SampledSeries<Scrape>& row : EngineSeries()) sampled.push_back(AddSampled(row, {}));
  for (const std::string& name : options.policy_names) {
    evicted.push_back(AddCounter("hydrant_evicted_tokens_total",
                                 "Positions dropped from the KV cache, once per sequence (not per layer and head).",
                                 {{"policy", name}}));
  }
  const Buckets disk_times(CommitTimes::kBoundsS.begin(), CommitTimes::kBoundsS.end());
  session_commit.histogram =
      AddHistogram("hydrant_session_commit_seconds",
                   "Time from a turn's last token to its being durable (--session-dir).", {}, disk_times);
  kv_write.histogram =
      AddHistogram("hydrant_session_kv_write_seconds",
                   "Time from when a session's KV was to be written to its being durable.", {}, disk_times);
  kv_read.histogram =
      AddHistogram("hydrant_session_kv_read_seconds",
                   "Time that a turn waited for its session's KV to be read and verified.", {}, disk_times);
  for (size_t i = 1; i < kKvRejects; ++i) {
    kv_rejected[i] = AddCounter("hydrant_session_kv_rejected_total", "Files with KV that were not used, and why.",
                                {{"reason", std::string(KvRejectName(static_cast<KvReject>(i)))}});
  }
  static constexpr char kStep[] = "Parts of an engine step.";
  step_plan = AddHistogram("hydrant_step_seconds", kStep, {{"phase", "plan"}}, StepBuckets());
  step_device = AddHistogram("hydrant_step_seconds", kStep, {{"phase", "device"}}, StepBuckets());
  step_commit = AddHistogram("hydrant_step_seconds", kStep, {{"phase", "commit"}}, StepBuckets());
  step_move = AddHistogram("hydrant_step_seconds", kStep, {{"phase", "move"}}, StepBuckets());
  batch_tokens = AddHistogram("hydrant_batch_tokens", "Tokens of an engine step.", {}, StepTokenBuckets());
  auth_failures = AddCounter("hydrant_auth_failures_total", "Requests without a valid key.", {});
  connections_refused = AddCounter("hydrant_connections_refused_total",
                                   "Connections refused over --max-connections, or over an address's part.", {});
  static constexpr char kReloads[] = "Reloads of the files of tenants and keys, by result.";
  reloads_applied = AddCounter("hydrant_reloads_total", kReloads, {{"result", "applied"}});
  reloads_refused = AddCounter("hydrant_reloads_total", kReloads, {{"result", "refused"}});
  reload_refused = AddGauge("hydrant_reload_refused", "1: the last reload found a file wrong and changed nothing.", {});
  paused = AddGauge("hydrant_paused", "1: the operator has paused admission.", {});
  static constexpr const char* kAskWords[kAskEnds] = {"granted", "refused", "timeout", "error", "away"};
  for (int32_t i = 0; i < kAskEnds; ++i) {
    store_asks[i] = AddCounter("hydrant_shared_limits_asks_total",
                               "Times that the store of --shared-limits was to decide, by what came of it.",
                               {{"result", kAskWords[i]}});
  }
  store_seconds = AddHistogram("hydrant_shared_limits_seconds", "Time until that store had decided, or was given up.",
                               {}, StoreBuckets());
  store_away = AddGauge("hydrant_shared_limits_away", "1: that store is not asked, because it does not answer.", {});
  for (const std::string& name : options.tenant_names) AddTenant(name);

  open_fds = AddGauge("process_open_fds", "Open file descriptors.", {});
  AddGauge("process_max_fds", "Maximum number of open file descriptors.", {})->Set(FileDescriptorsMax());
  resident_bytes = AddGauge("process_resident_memory_bytes", "Resident memory.", {});
  virtual_bytes = AddGauge("process_virtual_memory_bytes", "Virtual memory.", {});
  cpu_seconds = AddCounter("process_cpu_seconds_total", "User and system time.", {});
  AddGauge("process_start_time_seconds", "Start of the process, Unix time.", {})
      ->Set(static_cast<double>(ProcessStartS()));
  // While it is 1 the loading server answers, which says no more than this and the start.
  AddGauge("hydrant_loading", "1 while the model is loading.", {})->Set(0);
}

void Metrics::Series::AddTenant(const std::string& name) {
  assert(tenant_memory.size() < tenants.size());
  const Labels labels = {{"tenant", name}};
  auto added = std::make_unique<Tenant>();
  added->requests = AddCounter("hydrant_requests_total", "Requests for generation.", labels);
  for (int32_t i = 0; i < kRejectReasons; ++i) {
    const Labels with_reason = With(labels, "reason", RejectReasonName(static_cast<RejectReason>(i)));
    added->rejected[i] =
        AddCounter("hydrant_rejected_total", "Requests for generation rejected, by reason.", with_reason);
    added->work_rejected[i] =
        AddCounter("hydrant_work_rejected_total", "Other requests rejected, by reason.", with_reason);
  }
  added->queue = AddHistogram("hydrant_queue_seconds", "Time from arrival to admission.", labels, TenantBuckets());
  added->first_token =
      AddHistogram("hydrant_ttft_seconds", "Time from arrival to the first token.", labels, TenantBuckets());
  added->token_gap =
      AddHistogram("hydrant_itl_seconds", "Time between two tokens of a sequence.", labels, TenantBuckets());
  for (const SampledSeries<TenantCounters>& row : TenantSeries()) added->sampled.push_back(AddSampled(row, labels));
  tenants[tenant_memory.size()].store(added.get(), std::memory_order_release);
  tenant_memory.push_back(std::move(added));
}

void Metrics::Series::RenderTenants(const EngineCounters& engine) {
  for (size_t i = 0; i < engine.tenants.size(); ++i) {
    const Tenant* series = tenants[i].load(std::memory_order_acquire);
    if (series == nullptr) return;
    for (const Sampled<TenantCounters>& sample : series->sampled) sample.Update(engine.tenants[i]);
  }
}

// As vLLM's: the names are labels, and the value is the time, so that who sees several series knows the latest.
void Metrics::Series::RenderAdapters() {
  if (adapters == nullptr) return;
  AdapterRegistry::Demand demand = adapters->demand();
  if (adapter_demand == nullptr || demand != adapters_seen) {
    // Without memory for the new one the old one stays.
    Gauge& added = adapter_family->Add({{"max_lora", std::to_string(adapters->slots())},
                                        {"running_lora_adapters", absl::StrJoin(demand.running, ",")},
                                        {"waiting_lora_adapters", absl::StrJoin(demand.waiting, ",")}});
    if (adapter_demand != nullptr) adapter_family->Remove(adapter_demand);
    adapter_demand = &added;
    adapters_seen = std::move(demand);
  }
  adapter_demand->SetToCurrentTime();
}

Metrics::Metrics(const MetricsOptions& options) : series_(std::make_unique<Series>(options)) {}
Metrics::~Metrics() = default;

void Metrics::ObserveStep(int32_t tokens, int64_t plan_us, int64_t device_us, int64_t commit_us, int64_t move_us) {
  series_->step_plan->Observe(Seconds(plan_us));
  series_->step_device->Observe(Seconds(device_us));
  series_->step_commit->Observe(Seconds(commit_us));
  series_->step_move->Observe(Seconds(move_us));
  series_->step_tokens->Observe(tokens);
  series_->batch_tokens->Observe(tokens);
}

void Metrics::AddTenant(const std::string& name) { series_->AddTenant(name); }

void Metrics::CountRequest(int32_t tenant) { series_->tenant(tenant).requests->Increment(); }

void Metrics::CountReject(int32_t tenant, RejectReason reason, bool generates) {
  Series::Tenant& series = series_->tenant(tenant);
  (generates ? series.rejected : series.work_rejected)[static_cast<int32_t>(reason)]->Increment();
}

uint64_t Metrics::Rejected(int32_t tenant, RejectReason reason) const {
  const Series::Tenant& series = series_->tenant(tenant);
  const auto i = static_cast<int32_t>(reason);
  return static_cast<uint64_t>(series.rejected[i]->Value() + series.work_rejected[i]->Value());
}

void Metrics::CountAuthFailure() { series_->auth_failures->Increment(); }
void Metrics::CountRefusedConnection() { series_->connections_refused->Increment(); }

void Metrics::CountReload(bool applied) {
  (applied ? series_->reloads_applied : series_->reloads_refused)->Increment();
  series_->reload_refused->Set(applied ? 0 : 1);
}

void Metrics::CountStoreAsk(AskEnd end, int64_t us) {
  series_->store_asks[static_cast<int32_t>(end)]->Increment();
  if (end != AskEnd::kAway) series_->store_seconds->Observe(Seconds(us));
}

void Metrics::SetStoreAway(bool away) { series_->store_away->Set(away ? 1 : 0); }

void Metrics::SetPaused(bool paused) { series_->paused->Set(paused ? 1 : 0); }

void Metrics::ObserveFirstToken(int32_t tenant, int64_t us) {
  series_->first_token->Observe(Seconds(us));
  series_->tenant(tenant).first_token->Observe(Seconds(us));
}

void Metrics::ObserveTokenGap(int32_t tenant, int64_t us) {
  series_->token_gap->Observe(Seconds(us));
  series_->token_gap_alias->Observe(Seconds(us));
  series_->tenant(tenant).token_gap->Observe(Seconds(us));
}

void Metrics::ObserveSequence(int32_t tenant, const SequenceReport& report) {
  const RequestTimes& times = report.times;
  assert(report.reason != FinishReason::kNone);
  series_->success[static_cast<int32_t>(report.reason)]->Increment();
  series_->params_max_tokens->Observe(report.max_tokens);
  series_->request_prompt_tokens->Observe(report.prompt_tokens);
  series_->request_generation_tokens->Observe(report.generated);
  series_->e2e->Observe(Seconds(report.ended_us - times.arrival_us));
  if (times.admitted_us < 0) return;
  series_->queue->Observe(Seconds(times.admitted_us - times.arrival_us));
  series_->tenant(tenant).queue->Observe(Seconds(times.admitted_us - times.arrival_us));
  const bool tokens = times.first_token_us >= 0;
  if (!tokens && !EndsByItself(report.reason)) return;
  // What is asked for no token, a vector, comes with the end.
  const int64_t first_us = tokens ? times.first_token_us : report.ended_us;
  const int64_t last_us = tokens ? times.last_token_us : report.ended_us;
  series_->prefill_computed->Observe(report.prompt_tokens - report.cached - report.restored);
  series_->prefill->Observe(Seconds(first_us - times.admitted_us));
  series_->inference->Observe(Seconds(last_us - times.admitted_us));
  series_->decode->Observe(Seconds(last_us - first_us));
  if (report.generated > 1) series_->time_per_token->Observe(Seconds(last_us - first_us) / (report.generated - 1));
}

void Metrics::ObserveRequest(int32_t n, int32_t generated_tokens_max) {
  series_->params_n->Observe(n);
  series_->request_max_generation_tokens->Observe(generated_tokens_max);
}

void Metrics::Series::Counted::Observe(const CommitTimes& times) {
  std::vector<double> more;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    more.push_back(static_cast<double>(times.counts[i] - seen.counts[i]));
  }
  histogram->ObserveMultiple(more, times.sum_s - seen.sum_s);
  seen = times;
}

void Metrics::ReadShapes(std::shared_ptr<const ShapeCache> shapes) {
  const std::lock_guard<std::mutex> lock(series_->render_mutex);
  series_->shapes = std::move(shapes);
}

void Metrics::ReadAdapters(const AdapterRegistry* adapters) {
  if (adapters == nullptr) return;
  const std::lock_guard<std::mutex> lock(series_->render_mutex);
  series_->adapters = adapters;
  series_->adapter_family = &prometheus::BuildGauge()
                                 .Name("vllm:lora_requests_info")
                                 .Help("The adapters that sequences run with and wait for, and when that was.")
                                 .Register(series_->registry);
}

void Metrics::ReadAudit(const KvAudit* audit) {
  if (audit == nullptr) return;
  const std::lock_guard<std::mutex> lock(series_->render_mutex);
  series_->audit = std::make_unique<AuditSeries>(*audit, &series_->registry);
}

std::string Metrics::Render(const EngineCounters& engine, const SessionCounts& sessions, bool stalled,
                            const SessionJournal* journal, const KvKeeper* kv) {
  Series& series = *series_;
  const std::lock_guard<std::mutex> lock(series.render_mutex);
  const Scrape scrape{engine,
                      sessions,
                      stalled,
                      series.score_block_bytes,
                      series.kv_block_bytes,
                      journal != nullptr ? journal->counts() : LogCounts(),
                      kv != nullptr ? kv->counts() : KvCounts(),
                      series.shapes != nullptr ? series.shapes->counts() : ShapeCounts()};
  if (journal != nullptr) series.session_commit.Observe(journal->times());
  if (kv != nullptr) {
    series.kv_write.Observe(kv->write_times());
    series.kv_read.Observe(kv->read_times());
    for (size_t i = 1; i < kKvRejects; ++i) RaiseTo(series.kv_rejected[i], static_cast<double>(scrape.kv.rejected[i]));
  }
  for (const Series::Sampled<Scrape>& sample : series.sampled) sample.Update(scrape);
  for (size_t i = 0; i < series.evicted.size(); ++i) {
    RaiseTo(series.evicted[i], static_cast<double>(engine.evicted_tokens[i]));
  }
  series.RenderTenants(engine);
  series.RenderAdapters();
  if (series.audit != nullptr) series.audit->Update();

  rusage usage_times{};
  getrusage(RUSAGE_SELF, &usage_times);
  const double cpu = static_cast<double>(usage_times.ru_utime.tv_sec + usage_times.ru_stime.tv_sec) +
                     Seconds(usage_times.ru_utime.tv_usec + usage_times.ru_stime.tv_usec);
  series.cpu_seconds->Increment(std::max(0.0, cpu - series.cpu_seconds->Value()));
  series.open_fds->Set(static_cast<double>(OpenFileDescriptors()));
  const MemoryUse memory = MemoryOfProcess();
  series.resident_bytes->Set(static_cast<double>(memory.resident_bytes));
  series.virtual_bytes->Set(static_cast<double>(memory.virtual_bytes));
  return prometheus::TextSerializer().Serialize(series.registry.Collect());
}

}  // namespace hydrant
