// Wall-clock seconds and the median of some.
#ifndef HYDRANT_TESTS_BENCH_TIMING_H_
#define HYDRANT_TESTS_BENCH_TIMING_H_

#include <algorithm>
#include <chrono>
#include <vector>

namespace hydrant {

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The upper one of two in the middle. REQUIRES: not empty.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_TIMING_H_
