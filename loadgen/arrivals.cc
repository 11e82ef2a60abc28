#include "loadgen/arrivals.h"

#include <algorithm>
#include <cmath>

namespace hydrant {
namespace {

// Streams of a seed; the workload has others.
constexpr uint64_t kArrivalStream = 1;
// A linear ramp may start at nothing; its first arrival still has to come.
constexpr double kRateMin = 1e-3;

}  // namespace

ArrivalSchedule::ArrivalSchedule(const ArrivalSpec& spec) : spec_(spec), random_(spec.seed, kArrivalStream) {
  if (spec_.ramp != Ramp::kNone || spec_.count == 0 || !spec_.trace.empty() || std::isinf(spec_.rate)) return;
  // A first pass over the same gaps says how long they take.
  for (size_t i = 0; i < spec_.count; ++i) Unscaled();
  if (time_s_ > 0) scale_ = static_cast<double>(spec_.count) / spec_.rate / time_s_;
  time_s_ = 0;
  next_ = 0;
  random_ = Random(spec.seed, kArrivalStream);
}

double ArrivalSchedule::RateAt(double progress) const {
  progress = std::clamp(progress, 0.0, 1.0);
  switch (spec_.ramp) {
    case Ramp::kNone:
      return spec_.rate;
    case Ramp::kLinear:
      return std::max(kRateMin, spec_.ramp_start + (spec_.ramp_end - spec_.ramp_start) * progress);
    case Ramp::kExponential:
      return spec_.ramp_start * std::pow(spec_.ramp_end / spec_.ramp_start, progress);
  }
  return spec_.rate;
}

double ArrivalSchedule::Gap(double rate) {
  if (std::isinf(rate)) return 0;
  if (std::isinf(spec_.burstiness)) return 1 / rate;
  return random_.Gamma(spec_.burstiness, 1 / (rate * spec_.burstiness));
}

double ArrivalSchedule::Unscaled() {
  const double progress = spec_.count > 0
                              ? static_cast<double>(next_) / std::max(1.0, static_cast<double>(spec_.count) - 1)
                              : time_s_ / spec_.duration_s;
  time_s_ += Gap(RateAt(progress));
  ++next_;
  return time_s_;
}

std::optional<double> ArrivalSchedule::Next() {
  if (spec_.count > 0 && next_ == spec_.count) return std::nullopt;
  double at_s = 0;
  if (!spec_.trace.empty()) {
    if (next_ == spec_.trace.size()) return std::nullopt;
    at_s = spec_.trace[next_++];
  } else if (std::isinf(spec_.rate) && spec_.ramp == Ramp::kNone) {
    const double user = std::min(static_cast<double>(next_++), static_cast<double>(spec_.users));
    at_s = spec_.users > 0 ? user * spec_.users_ramp_s / spec_.users : 0;
  } else {
    at_s = Unscaled() * scale_;
  }
  if (at_s > spec_.duration_s) return std::nullopt;
  return at_s;
}

}  // namespace hydrant
