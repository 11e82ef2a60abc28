// As in tests/sim/sim_test.cc: HYDRANT_SIM_SEED=<n> runs that episode, HYDRANT_SIM_BASE=<n> starts from other seeds.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "tests/sim/engine/engine_episode.h"
#include "tests/sim/seeds.h"
#include "tests/support/sanitizers.h"

namespace hydrant::sim {
namespace {

constexpr uint64_t kEpisodes = kSanitized ? 60 : 1000;

TEST(EngineSimulation, HoldsEveryInvariantOverRandomEpisodes) {
  const uint64_t replay = SeedFromEnvironment("HYDRANT_SIM_SEED", 0);
  const uint64_t first = replay != 0 ? replay : SeedFromEnvironment("HYDRANT_SIM_BASE", 1) * 1'000'000'007u + 1;
  EngineResult sum;
  for (uint64_t seed = first; seed < first + (replay != 0 ? 1 : kEpisodes); ++seed) {
    const EngineResult result = EngineEpisode(seed).Run();
    ASSERT_EQ(result.failure, "") << "replay with HYDRANT_SIM_SEED=" << seed;
    sum.rounds += result.rounds;
    sum.jobs += result.jobs;
    sum.refused += result.refused;
    sum.busy += result.busy;
    sum.in_flight += result.in_flight;
    sum.on_waking += result.on_waking;
    sum.cancelled += result.cancelled;
    sum.left += result.left;
    sum.resumed += result.resumed;
    sum.turns += result.turns;
    sum.steps_lost += result.steps_lost;
    sum.parks_lost += result.parks_lost;
    sum.reads += result.reads;
    sum.waits += result.waits;
    sum.stops += result.stops;
    sum.deaths += result.deaths;
  }
  std::cout << sum.rounds << " rounds, " << sum.jobs << " requests (" << sum.refused << " refused, " << sum.busy
            << " turns of busy sessions, " << sum.turns << " turns ended well), " << sum.in_flight
            << " acts while a step was computed, " << sum.on_waking << " while clients were woken, " << sum.cancelled
            << " sequences cancelled, " << sum.left << " clients left, " << sum.resumed << " behind and resumed, "
            << sum.steps_lost << " steps and " << sum.parks_lost << " parks lost, " << sum.reads
            << " looks at sessions, " << sum.waits << " waits, " << sum.stops << " stops amid work, " << sum.deaths
            << " deaths\n";
  if (replay != 0) return;
  // A workload that meets nothing proves nothing.
  EXPECT_GT(sum.refused * 100, sum.jobs);
  EXPECT_GT(sum.busy * 100, sum.jobs);
  EXPECT_GT(sum.turns * 20, sum.jobs);
  EXPECT_GT(sum.in_flight * 10, sum.jobs);
  EXPECT_GT(sum.on_waking * 10, sum.jobs);
  EXPECT_GT(sum.cancelled * 50, sum.jobs);
  EXPECT_GT(sum.left * 50, sum.jobs);
  EXPECT_GT(sum.resumed * 50, sum.jobs);
  EXPECT_GT(sum.steps_lost * 500, sum.jobs);
  EXPECT_GT(sum.parks_lost * 5000, sum.jobs);
  EXPECT_GT(sum.reads * 500, sum.jobs);
  EXPECT_GT(sum.waits * 100, sum.rounds);
  EXPECT_GT(sum.stops * 20, kEpisodes);
  EXPECT_GT(sum.deaths * 20, kEpisodes);
}

TEST(EngineSimulation, IsAPureFunctionOfItsSeed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const EngineResult a = EngineEpisode(seed).Run();
    const EngineResult b = EngineEpisode(seed).Run();
    EXPECT_EQ(a.rounds, b.rounds);
    EXPECT_EQ(a.resumed, b.resumed);
    EXPECT_EQ(a.cancelled, b.cancelled);
  }
}

class EngineBugs : public testing::TestWithParam<EngineBug> {};

TEST_P(EngineBugs, AreCaught) {
  constexpr uint64_t kTries = 300;
  std::string caught;
  uint64_t seed = 1;
  for (; seed <= kTries && caught.empty(); ++seed) caught = EngineEpisode(seed, GetParam()).Run().failure;
  EXPECT_NE(caught, "") << NameOf(GetParam()) << " went unseen";
  std::cout << "episode " << seed - 1 << ": " << caught << "\n";
}

std::vector<EngineBug> AllBugs() {
  std::vector<EngineBug> bugs;
  for (int32_t i = 1; i <= static_cast<int32_t>(kLastEngineBug); ++i) bugs.push_back(static_cast<EngineBug>(i));
  return bugs;
}

INSTANTIATE_TEST_SUITE_P(All, EngineBugs, testing::ValuesIn(AllBugs()),
                         [](const auto& tested) { return std::string(NameOf(tested.param)); });

}  // namespace
}  // namespace hydrant::sim
