// Where an episode's seed may be given by hand: HYDRANT_SIM_SEED=<n> runs that episode alone, HYDRANT_SIM_BASE=<n> starts from
// other seeds (docs/debugging.md).
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

struct Seeds {
  uint64_t first = 0;
  bool alone = false;  // one episode is to be replayed
};

// Those of a long run; runs with different `part` have different ones.
inline Seeds SeedsOfRun(uint64_t part = 0) {
  const uint64_t replay = SeedFromEnvironment("HYDRANT_SIM_SEED", 0);
  if (replay != 0) return {.first = replay, .alone = true};
  return {.first = SeedFromEnvironment("HYDRANT_SIM_BASE", 1) * 1'000'000'007u + part * 1'000'000u + 1};
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SEEDS_H_
