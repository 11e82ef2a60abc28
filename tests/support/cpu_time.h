// How the time that a piece of work takes grows with its size. A bound in seconds would be one of the machine; this is one of the
// work: eight times the size takes about eight times as long where each byte is looked at a few times, and 64 times where it is
// looked at again for every other one.
#ifndef HYDRANT_TESTS_SUPPORT_CPU_TIME_H_
#define HYDRANT_TESTS_SUPPORT_CPU_TIME_H_

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>

namespace hydrant {

// The seconds of a processor that this thread alone has taken.
inline double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least that `work` takes of a processor, of three times: what comes between makes one longer, never shorter.
template <class Work>
double CpuSecondsOf(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double before = ThreadCpuSeconds();
    work();
    least = std::min(least, ThreadCpuSeconds() - before);
  }
  return least;
}

// How many times as long work(8 * size) takes as work(size).
template <class Work>
double GrowthOfEightfold(size_t size, const Work& work) {
  const double few = CpuSecondsOf([&] { work(size); });
  return CpuSecondsOf([&] { work(8 * size); }) / few;
}

// Between 8 and 64: caches that no longer hold all make what is linear twice as long at most.
inline constexpr double kLinearGrowth = 24;

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_CPU_TIME_H_
