// WorkRate: how much is done in a second when there is enough to do, learned from steps of work. What is done where little is
// asked for says little about it: a server that has answered short prompts for hours would turn away a burst that it could
// compute in seconds.
//
// Thread: Observe on one, the rest on any.
#ifndef HYDRANT_SERVER_PROCESS_WORK_RATE_H_
#define HYDRANT_SERVER_PROCESS_WORK_RATE_H_

#include <algorithm>
#include <atomic>

namespace hydrant {

class WorkRate {
 public:
  // `at_first` per second is believed until a step was full, and counts as a second of full steps from then on.
  explicit WorkRate(double at_first) : all_(at_first), full_(at_first), average_(at_first), value_(at_first) {}

  // A step of `seconds` did `amount`. `full`: there was more to do than it did.
  void Observe(double amount, double seconds, bool full) {
    if (seconds <= 0) return;
    const double rate = amount / seconds;
    all_.Add(rate, seconds);
    if (full) full_.Add(rate, seconds);
    average_.store(all_.rate, std::memory_order_relaxed);
    value_.store(std::max(all_.rate, full_.rate), std::memory_order_relaxed);
  }

  // That of full steps, or of all steps where those did more.
  double value() const { return value_.load(std::memory_order_relaxed); }
  // That of all steps, as of late.
  double average() const { return average_.load(std::memory_order_relaxed); }

 private:
  struct Average {
    // Over about so many seconds: one second counts for a fifth.
    static constexpr double kMemoryS = 5;

    explicit Average(double at_first) : rate(at_first) {}
    void Add(double sample, double sample_s) {
      seen_s += sample_s;
      rate += std::min(1.0, sample_s / std::min(kMemoryS, seen_s)) * (sample - rate);
    }
    double rate;
    double seen_s = 1;  // never less, so that a short step does not decide
  };

  Average all_;
  Average full_;
  std::atomic<double> average_;
  std::atomic<double> value_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_WORK_RATE_H_
