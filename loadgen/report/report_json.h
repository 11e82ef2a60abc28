// The result as JSON, with the names of vLLM's `bench serve` where the meaning is the same.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_REPORT_REPORT_JSON_H_
#define HYDRANT_LOADGEN_REPORT_REPORT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/results/compare.h"
#include "loadgen/results/run_result.h"
#include "loadgen/results/summary.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// What every kind of report says besides the figures.
struct ReportHead {
  std::string title;  // the label, or the backend
  std::string date;   // YYYYMMDD-HHMMSS
  std::string backend;
  std::string base_url;
  std::string model;
  size_t num_prompts = 0;              // asked for; 0: no number was given
  std::optional<double> request_rate;  // infinite: all at once; none: a ramp or a trace
  std::string ramp;                    // its strategy; empty: none
  double ramp_start_rps = 0;
  double ramp_end_rps = 0;
  bool closed_loop = false;  // then nothing has a scheduled time that it could have waited from
  double burstiness = 1;
  int32_t concurrency_max = 0;  // 0: any
  std::vector<std::pair<std::string, std::string>> metadata;
  // Every flag and its effective value; keys are not among them.
  std::vector<std::pair<std::string, std::string>> configuration;
};

// `detailed`: with every request's own times, in the order they were sent.
nlohmann::ordered_json ReportJson(const ReportHead& head, const Summary& summary, const SummarySpec& spec,
                                  const RunResult& run, bool detailed);

// Lines of compare mode: name -> both figures and their ratio.
nlohmann::ordered_json CompareJson(const std::vector<CompareLine>& lines);

// "p99", "p99.9".
std::string PercentileName(double percent);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_REPORT_REPORT_JSON_H_
