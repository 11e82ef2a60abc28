// Writes the digest of every plan of many episodes (plan_digest.h), a line for each seed. To show that a change of the scheduler
// changes no plan: build this program before and after it, run both, and compare what they write.
//
//   sim_plans [--seeds N] [--base B]   seeds B, B + 1, …, B + N - 1 (1,000 from 1): seed, digest, plans, steps
//   sim_plans --seed S                 the plans of one seed: number, digest so far, rows; to find the first that differs
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/sim/plan_digest.h"
#include "tests/sim/simulator.h"

namespace hydrant::sim {
namespace {

std::ostream& Hex(std::ostream& out, uint64_t digest) {
  return out << std::hex << std::setw(16) << std::setfill('0') << digest << std::dec;
}

// Returns false when an invariant of the simulator did not hold.
bool WriteSeed(uint64_t seed, bool every_plan) {
  PlanDigest digest;
  if (every_plan) {
    digest.on_plan = [&digest](const StepPlan& plan) {
      std::cout << plan.number << ' ';
      Hex(std::cout, digest.value()) << ' ' << plan.rows.size() << '\n';
    };
  }
  const EpisodeResult result = RunEpisode({.seed = seed, .digest = &digest});
  std::cout << seed << ' ';
  Hex(std::cout, digest.value()) << ' ' << digest.plans() << ' ' << result.steps << '\n';
  if (!result.failure.empty()) std::cerr << "seed " << seed << ": " << result.failure << '\n';
  return result.failure.empty();
}

int Run(int argc, char** argv) {
  uint64_t seeds = 1000;
  uint64_t base = 1;
  bool every_plan = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc || (name != "--seeds" && name != "--base" && name != "--seed")) {
      std::cerr << "usage: " << argv[0] << " [--seeds N] [--base B] | --seed S\n";
      return 2;
    }
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    (name == "--seeds" ? seeds : base) = value;
    if (name == "--seed") {
      seeds = 1;
      every_plan = true;
    }
  }
  bool holds = true;
  for (uint64_t seed = base; seed < base + seeds; ++seed) holds &= WriteSeed(seed, every_plan);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace hydrant::sim

int main(int argc, char** argv) { return hydrant::sim::Run(argc, argv); }
