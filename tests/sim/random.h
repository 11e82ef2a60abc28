// Random draws what an episode is made of: the same numbers for the same seed, on every machine.
#ifndef HYDRANT_TESTS_SIM_RANDOM_H_
#define HYDRANT_TESTS_SIM_RANDOM_H_

#include <cstdint>

#include "tests/sim/fake_model.h"

namespace hydrant::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }
  int32_t Below(int32_t n) { return Scale(Next(), n); }
  int32_t Between(int32_t low, int32_t high) { return low + Below(high - low + 1); }  // both included
  bool Chance(int32_t percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_RANDOM_H_
