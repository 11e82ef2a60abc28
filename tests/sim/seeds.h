// Where an episode's seed may be given by hand: HYDRANT_SIM_SEED and HYDRANT_SIM_BASE (docs/debugging.md).
#ifndef HYDRANT_TESTS_SIM_SEEDS_H_
#define HYDRANT_TESTS_SIM_SEEDS_H_

#include <cstdint>
#include <cstdlib>

namespace hydrant::sim {

// The number in the environment variable `name`; `default_value` where there is none.
inline uint64_t SeedFromEnvironment(const char* name, uint64_t default_value) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : default_value;
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SEEDS_H_
