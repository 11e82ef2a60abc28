// RunResult is everything that a run of the load generator measured, Progress what is known while it lasts. Reports and
// comparisons read nothing else.
#ifndef HYDRANT_LOADGEN_RESULTS_RUN_RESULT_H_
#define HYDRANT_LOADGEN_RESULTS_RUN_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loadgen/results/request_record.h"

namespace hydrant {

struct Progress {
  double elapsed_s = 0;
  size_t sent = 0;
  size_t completed = 0;
  size_t failed = 0;
  size_t running = 0;
  int64_t output_events = 0;  // events with tokens
  double max_lag_s = 0;
};

struct RunResult {
  std::vector<RequestRecord> records;  // in the order they ended
  double duration_s = 0;               // to the last end
  double start_unix_s = 0;
  double max_loop_lag_s = 0;  // the latest that the event loop woke up
  double cpu_s = 0;           // of the thread that ran it
  bool interrupted = false;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_RUN_RESULT_H_
