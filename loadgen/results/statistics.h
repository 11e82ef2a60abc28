// Statistics of samples: moments and percentiles as numpy computes them, Jain's fairness, and bootstrap intervals of a
// ratio between two servers.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_RESULTS_STATISTICS_H_
#define HYDRANT_LOADGEN_RESULTS_STATISTICS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hydrant {

// Every statistic of no values is 0, as in vLLM's reports.
double Mean(std::span<const double> values);
// The population's deviation: divided by n.
double Deviation(std::span<const double> values);
// numpy's default ("linear") interpolation. REQUIRES: `sorted` ascending, percent in [0, 100].
double PercentileOfSorted(std::span<const double> sorted, double percent);
double Percentile(std::vector<double> values, double percent);

// The figures that a report gives of one quantity.
struct Distilled {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  std::vector<double> percentiles;  // one per percent asked for
};
Distilled Distil(std::vector<double> values, std::span<const double> percents);

// (sum x)^2 / (n * sum x^2): 1 when all get the same, 1/n when one gets everything; 1 when nobody gets anything.
double JainIndex(std::span<const double> shares);

struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;
};

// A statistic of what two servers said of the same requests. A round holds pairs, taken at about the same time.
struct Pair {
  double first = 0;
  double second = 0;
};
using Statistic = std::function<double(std::span<const double>)>;

// second / first of a statistic, with a 95 % percentile-bootstrap interval. Resamples rounds, then the pairs within each
// (Davison and Hinkley 1997, 3.8): requests of a round share the machine's mood, so more of them is not more evidence.
// Widened for the number of rounds, so that few of them do not look sure; one alone says nothing: 0 to infinity.
// Rounds without pairs are ignored; without any everything is 0, as is a ratio to 0.
Interval BootstrapRatio(const std::vector<std::vector<Pair>>& rounds, const Statistic& statistic, uint64_t seed,
                        int32_t resamples = 1000);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_STATISTICS_H_
