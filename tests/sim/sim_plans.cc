// Writes the digest of every plan of many episodes (plan_digest.h), a line for each seed. To show that a change of the scheduler
// changes no plan: build this program before and after it, run both, and compare what they write.
//
//   sim_plans [--seeds N] [--base B]   seeds B, B + 1, …, B + N - 1 (1,000 from 1): seed, digest, plans, steps
//   sim_plans --seed S                 the plans of one seed: number, digest so far, rows; to find the first that differs
//   sim_plans --operations N           runs seeds from the base, every fifth with sequences that step aside, until N blocks were
//                                      taken and given back, each step held against the oracle, and says how fast
#include <chrono>
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

// Returns false when an invariant of the simulator did not hold.
bool RunOperations(uint64_t operations, uint64_t base) {
  const auto begin = std::chrono::steady_clock::now();
  EpisodeResult sum;
  uint64_t episodes = 0;
  uint64_t said = 0;  // times 50 million
  for (uint64_t seed = base; sum.block_operations < operations; ++seed, ++episodes) {
    const bool swaps = seed % 5 == 0;
    const EpisodeResult result = RunEpisode({.seed = seed, .swaps = swaps});
    sum.block_operations += result.block_operations;
    sum.steps += result.steps;
    sum.requests += result.requests;
    sum.swaps_out += result.swaps_out;
    if (!result.failure.empty()) {
      std::cout << "seed " << seed << (swaps ? " with swaps: " : ": ") << result.failure << std::endl;
      return false;
    }
    const bool over = sum.block_operations >= operations;
    if (!over && sum.block_operations / 50'000'000 == said) continue;
    said = sum.block_operations / 50'000'000;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::cout << sum.block_operations << " block operations, " << episodes + 1 << " episodes, " << sum.steps
              << " steps, " << sum.requests << " requests, " << sum.swaps_out << " stepped aside, " << seconds.count()
              << " s, " << static_cast<double>(sum.block_operations) / seconds.count() << " a second" << std::endl;
  }
  return true;
}

int Run(int argc, char** argv) {
  uint64_t seeds = 1000;
  uint64_t base = 1;
  uint64_t operations = 0;
  bool every_plan = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc || (name != "--seeds" && name != "--base" && name != "--seed" && name != "--operations")) {
      std::cerr << "usage: " << argv[0] << " [--seeds N | --operations N] [--base B] | --seed S\n";
      return 2;
    }
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    (name == "--seeds" ? seeds : name == "--operations" ? operations : base) = value;
    if (name == "--seed") {
      seeds = 1;
      every_plan = true;
    }
  }
  if (operations > 0) return RunOperations(operations, base) ? 0 : 1;
  bool holds = true;
  for (uint64_t seed = base; seed < base + seeds; ++seed) holds &= WriteSeed(seed, every_plan);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace hydrant::sim

int main(int argc, char** argv) { return hydrant::sim::Run(argc, argv); }
