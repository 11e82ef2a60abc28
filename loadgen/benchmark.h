// A whole benchmark: the servers are asked for their model, the load runs (in turn on both in compare mode), and the
// reports are written.
//
// Thread: the caller's; blocks.
#ifndef HYDRANT_LOADGEN_BENCHMARK_H_
#define HYDRANT_LOADGEN_BENCHMARK_H_

#include <functional>
#include <string>

#include "loadgen/options.h"

namespace hydrant {

// Where text for the user goes.
struct Terminal {
  std::function<void(const std::string&)> out;       // reports, line ends included
  std::function<void(const std::string&)> note;      // a line, without its end
  std::function<void(const std::string&)> progress;  // a line that may replace the one before
};

// Returns the exit code.
int RunBenchmark(const Options& options, const Terminal& terminal);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_BENCHMARK_H_
