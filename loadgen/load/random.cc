#include "loadgen/load/random.h"

#include <cmath>
#include <numbers>

namespace hydrant {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixer, so that any state is a good one.
constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed, uint64_t stream, uint64_t index)
    : state_(Mix(Mix(Mix(seed + kStep) ^ (stream + kStep)) ^ (index + kStep))) {}

uint64_t Random::Next() { return Mix(state_ += kStep); }

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

int64_t Random::Integer(int64_t low, int64_t high) {
  // The bias of a multiplication by 2^-53 is far below what a load of millions could show.
  return low + static_cast<int64_t>(Uniform() * (static_cast<double>(high - low) + 1));
}

double Random::Exponential() { return -std::log1p(-Uniform()); }

double Random::Normal() { return std::sqrt(2 * Exponential()) * std::cos(2 * std::numbers::pi * Uniform()); }

double Random::Gamma(double shape, double scale) {
  // Below 1 the method draws at shape + 1 and shrinks the result.
  if (shape < 1) return Gamma(shape + 1, scale) * std::pow(1 - Uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {  // accepts more than 95 of 100
    const double x = Normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log1p(-Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * scale;
  }
}

}  // namespace hydrant
