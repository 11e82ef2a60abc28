// When conversations begin. Open loop: a rate, constant, Poisson or burstier, or a recorded trace; closed loop: all at
// once, and as many at a time as there are users, who may come one after the other.
//
// Thread: any (an instance belongs to one caller).
#ifndef HYDRANT_LOADGEN_LOAD_ARRIVALS_H_
#define HYDRANT_LOADGEN_LOAD_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "loadgen/load/random.h"

namespace hydrant {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Ramp { kNone, kLinear, kExponential };

struct ArrivalSpec {
  double rate = kInfinity;  // arrivals per second; infinite: all at once
  // Shape of the gamma distribution of gaps (vLLM's --burstiness): 1 is a Poisson process, less is burstier, infinite
  // is a constant gap.
  double burstiness = 1;
  // With a ramp the rate goes from `ramp_start` to `ramp_end` and `rate` is ignored: over duration_s where that is finite,
  // else over the arrivals by their number, as vLLM's does.
  Ramp ramp = Ramp::kNone;
  double ramp_start = 0;
  double ramp_end = 0;
  size_t count = 0;               // arrivals; 0: as many as come before duration_s
  double duration_s = kInfinity;  // none after it
  // Seconds since the start, ascending; not empty: the only arrivals, `rate` and ramp are ignored.
  std::vector<double> trace;
  // Closed loop: a conversation begins when one of so many users is free. They come evenly over `users_ramp_s` seconds.
  int32_t users = 0;
  double users_ramp_s = 0;
  uint64_t seed = 0;

  // Neither a ramp nor a trace: `rate` says how they come.
  bool has_rate() const { return ramp == Ramp::kNone && trace.empty(); }
  // A conversation begins when another one ends: no time is scheduled for any.
  bool closed_loop() const { return has_rate() && rate == kInfinity && users > 0; }
  // When the user of this number, from 0 on, comes, and how many are there at a time.
  double UserComesS(int32_t user) const { return users > 0 ? user * users_ramp_s / users : 0; }
  int32_t UsersAt(double now_s) const;
  // Part `round` of `rounds`: of the arrivals, or of their time. REQUIRES: no trace.
  ArrivalSpec Round(int32_t round, int32_t rounds) const;
  // The number of its first arrival.
  size_t RoundBegin(int32_t round, int32_t rounds) const {
    return count * static_cast<size_t>(round) / static_cast<size_t>(rounds);
  }
};

// The arrivals of a spec, in order. With a count and no ramp the gaps are scaled so that the last one arrives at
// count / rate exactly, as vLLM does: a rate is then met for every seed.
class ArrivalSchedule {
 public:
  // REQUIRES: rates and burstiness above 0, but a linear ramp over a duration may start at 0; a count, a trace or a finite
  // duration.
  explicit ArrivalSchedule(const ArrivalSpec& spec);

  // Seconds since the start, or nullopt when there are no more.
  std::optional<double> Next();

 private:
  // The next gap of a process with one arrival per second.
  double UnitGap();
  // The rate of a ramp at `progress`, from 0 to 1.
  double RampRate(double progress) const;
  // When a ramp over a duration has let `arrivals` come: where the integral of its rate is that many. Infinite: never.
  double RampTime(double arrivals) const;
  double Unscaled();

  ArrivalSpec spec_;
  Random random_;
  double scale_ = 1;
  size_t next_ = 0;
  double time_s_ = 0;       // of the last arrival
  double unit_time_s_ = 0;  // and in the process with one per second that a ramp over a duration stretches
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_ARRIVALS_H_
