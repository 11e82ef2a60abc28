// What a run was like: percentiles, goodput, errors by kind, per tenant and per turn, fairness, and how well the client
// itself kept up.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_RESULTS_SUMMARY_H_
#define HYDRANT_LOADGEN_RESULTS_SUMMARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/load/workload.h"
#include "loadgen/results/request_record.h"
#include "loadgen/results/run_result.h"
#include "loadgen/results/statistics.h"

namespace hydrant {

// Service level objectives in milliseconds; a request is good when it meets all that are given.
struct Goals {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> e2el_ms;

  bool empty() const { return !ttft_ms && !tpot_ms && !e2el_ms; }
  bool MetBy(const RequestRecord& record) const;
};

struct SummarySpec {
  std::vector<double> percents = {50, 90, 95, 99};
  Goals goals;
  // A client that sent or woke up later than this did not put the load on the server that was asked for.
  double lag_limit_ms = 50;
};

// Sums up the requests of one tenant, of one turn, or all.
struct GroupSummary {
  std::string name;
  size_t completed = 0;
  size_t failed = 0;
  size_t cancelled = 0;
  size_t good = 0;
  std::array<size_t, kRequestErrors> errors{};  // by RequestError
  int64_t input_tokens = 0;                     // of completed ones, as all below
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  Distilled ttft_ms;
  Distilled tpot_ms;  // of those with more than one token
  Distilled itl_ms;
  Distilled e2el_ms;
  Distilled queue_ms;  // sent - scheduled
};

struct Refusal {
  RequestError error = RequestError::kNone;
  std::string text;  // of the first of them
  size_t count = 0;
};

struct Summary {
  double duration_s = 0;
  GroupSummary all;
  std::vector<GroupSummary> tenants;  // in the order given; empty with one tenant
  std::vector<GroupSummary> turns;    // empty with one turn
  // Jain's index over tenants of (prompt + output tokens) / weight, and of completed / sent; who sent nothing is in neither.
  double jain_service = 1;
  double jain_completion = 1;
  std::vector<Refusal> refusals;       // one per kind and text, most frequent first, at most 10
  double max_output_tokens_per_s = 0;  // of the fullest second, and no less than the mean
  size_t max_concurrent_requests = 0;
  double offered_rate = 0;  // requests sent per second of sending
  double max_lag_ms = 0;    // the larger of the two below
  double max_send_lag_ms = 0;
  double p99_send_lag_ms = 0;
  double max_loop_lag_ms = 0;
  double cpu_share = 0;  // of one core
  bool kept_up = true;
  bool interrupted = false;
};

// What is measured of completed requests, in milliseconds: tables and plots are made of this.
struct Samples {
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  std::vector<double> itl_ms;
  std::vector<double> e2el_ms;
  std::vector<double> queue_ms;

  // A request that is not completed adds nothing.
  void Add(const RequestRecord& record);
};

Summary Summarise(const RunResult& run, const std::vector<TenantSpec>& tenants, const SummarySpec& spec);

// Counts per second of the run, for plots. Second i is [i, i + 1). Cancelled requests are neither completed nor failed.
struct Timeline {
  std::vector<double> sent;
  std::vector<double> completed;
  std::vector<double> failed;
  std::vector<double> output_tokens;  // of completed requests, as many in each of an answer's events
  std::vector<double> running;        // requests under way at some time of the second
};
Timeline MakeTimeline(const RunResult& run);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_SUMMARY_H_
