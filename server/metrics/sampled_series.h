// The series whose values are read when somebody scrapes: one row each with name, help, label and where the value comes
// from. What is observed as it happens (histograms, counts of requests) is metrics.cc's.
#ifndef HYDRANT_SERVER_METRICS_SAMPLED_SERIES_H_
#define HYDRANT_SERVER_METRICS_SAMPLED_SERIES_H_

#include <cstdint>
#include <span>

#include "api/session/session.h"
#include "server/engine/engine_types.h"
#include "server/sessions/journal/session_log.h"
#include "server/sessions/kv/kv_keeper.h"
#include "server/shapes/shape_cache.h"

namespace hydrant {

// The sources of one scrape's values.
struct Scrape {
  const EngineCounters& engine;
  const SessionCounts& sessions;
  bool stalled = false;  // found so just now; the engine counts a stall when it is over
  int64_t score_block_bytes = 0;
  int64_t kv_block_bytes = 0;
  LogCounts log;  // zero without --session-dir
  KvCounts kv;    // zero where no KV is kept on disk
  ShapeCounts shapes;

  int32_t waiting_deferred() const;
  double kv_usage() const;  // blocks in use; 1 means all
};

// A counter's values never fall, and its name ends in _total. Names that begin with "vllm:" get vLLM's labels besides.
template <typename Source>
struct SampledSeries {
  const char* name;
  const char* help;
  const char* label;  // null: none
  const char* label_value;
  double (*value)(const Source&);
};

std::span<const SampledSeries<Scrape>> EngineSeries();
// These are labelled with the tenant besides.
std::span<const SampledSeries<TenantCounters>> TenantSeries();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_METRICS_SAMPLED_SERIES_H_
