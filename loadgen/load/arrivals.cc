#include "loadgen/load/arrivals.h"

#include <algorithm>
#include <cmath>

namespace hydrant {
namespace {

// Streams of a seed; the workload has others.
constexpr uint64_t kArrivalStream = 1;

}  // namespace

int32_t ArrivalSpec::UsersAt(double now_s) const {
  if (now_s >= users_ramp_s) return users;
  return std::min(users, 1 + static_cast<int32_t>(std::max(0.0, now_s) * users / users_ramp_s));
}

ArrivalSpec ArrivalSpec::Round(int32_t round, int32_t rounds) const {
  ArrivalSpec part = *this;
  part.count = RoundBegin(round + 1, rounds) - RoundBegin(round, rounds);
  part.duration_s /= rounds;
  part.users_ramp_s /= rounds;
  part.seed += static_cast<uint64_t>(round);
  return part;
}

ArrivalSchedule::ArrivalSchedule(const ArrivalSpec& spec) : spec_(spec), random_(spec.seed, kArrivalStream) {
  if (spec_.ramp != Ramp::kNone || spec_.count == 0 || !spec_.trace.empty() || std::isinf(spec_.rate)) return;
  // A first pass over the same gaps says how long they take.
  for (size_t i = 0; i < spec_.count; ++i) Unscaled();
  if (time_s_ > 0) scale_ = static_cast<double>(spec_.count) / spec_.rate / time_s_;
  time_s_ = 0;
  next_ = 0;
  random_ = Random(spec.seed, kArrivalStream);
}

double ArrivalSchedule::UnitGap() {
  return std::isinf(spec_.burstiness) ? 1 : random_.Gamma(spec_.burstiness, 1 / spec_.burstiness);
}

double ArrivalSchedule::RampRate(double progress) const {
  return spec_.ramp == Ramp::kLinear ? spec_.ramp_start + (spec_.ramp_end - spec_.ramp_start) * progress
                                     : spec_.ramp_start * std::pow(spec_.ramp_end / spec_.ramp_start, progress);
}

double ArrivalSchedule::RampTime(double arrivals) const {
  const double start = spec_.ramp_start;
  if (spec_.ramp == Ramp::kLinear) {
    // start t + slope t^2 / 2 = arrivals, solved in the form that has no 0 / 0 for a slope of 0.
    const double slope = (spec_.ramp_end - start) / spec_.duration_s;
    const double square = start * start + 2 * slope * arrivals;
    return square > 0 ? 2 * arrivals / (start + std::sqrt(square)) : kInfinity;
  }
  // start (e^(growth t) - 1) / growth = arrivals.
  const double growth = std::log(spec_.ramp_end / start) / spec_.duration_s;
  if (growth == 0) return arrivals / start;
  const double more = growth * arrivals / start;
  return more > -1 ? std::log1p(more) / growth : kInfinity;
}

double ArrivalSchedule::Unscaled() {
  if (spec_.ramp == Ramp::kNone) {
    time_s_ += UnitGap() / spec_.rate;
  } else if (std::isinf(spec_.duration_s)) {
    time_s_ += UnitGap() / RampRate(static_cast<double>(next_) / std::max(1.0, static_cast<double>(spec_.count) - 1));
  } else {
    // Not a gap at the rate of its beginning: near a rate of 0 that would outlast the ramp.
    unit_time_s_ += UnitGap();
    time_s_ = RampTime(unit_time_s_);
  }
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
    ++next_;
  } else {
    at_s = Unscaled() * scale_;
  }
  if (at_s > spec_.duration_s) return std::nullopt;
  return at_s;
}

}  // namespace hydrant
