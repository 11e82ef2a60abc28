// Two servers under the same load: what one's figures are in terms of the other's, and how sure that is.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_RESULTS_COMPARE_H_
#define HYDRANT_LOADGEN_RESULTS_COMPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/results/run_result.h"
#include "loadgen/results/statistics.h"

namespace hydrant {

// The same conversations on both servers, one after the other.
struct CompareRound {
  RunResult first;
  RunResult second;
};

struct CompareLine {
  std::string name;  // "mean TTFT (ms)", …
  double first = 0;
  double second = 0;
  Interval ratio;    // second / first, 95 %
  size_t pairs = 0;  // requests, or rounds, that both have
  // The interval leaves 1 out. Where the first has nothing there is no ratio.
  bool differs() const { return first != 0 && (ratio.low > 1 || ratio.high < 1); }
};

// Requests are paired by conversation and turn; those that failed on either server are left out, here and on the other.
std::vector<CompareLine> CompareServers(const std::vector<CompareRound>& rounds, uint64_t seed);

// All rounds of one server as one run: times go on from round to round.
RunResult JoinRounds(const std::vector<const RunResult*>& rounds);

// Several lines, the last one ended.
std::string CompareTable(const std::string& first, const std::string& second, const std::vector<CompareLine>& lines);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_COMPARE_H_
