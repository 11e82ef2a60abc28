// tests/sim/seeds.h says how an episode is replayed.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "tests/sim/all_bugs.h"
#include "tests/sim/engine/engine_episode.h"
#include "tests/sim/seeds.h"
#include "tests/support/sanitizers.h"

namespace hydrant::sim {
namespace {

constexpr uint64_t kEpisodes = kSanitized ? 60 : 1000;

TEST(EngineSimulation, HoldsEveryInvariantOverRandomEpisodes) {
  const Seeds seeds = SeedsOfRun();
  EngineResult sum;
  for (uint64_t seed = seeds.first; seed < seeds.first + (seeds.alone ? 1 : kEpisodes); ++seed) {
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
  if (seeds.alone) return;
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
  ExpectCaught(std::string(NameOf(GetParam())), /*tries=*/300, "",
               [](uint64_t seed) { return EngineEpisode(seed, GetParam()).Run().failure; });
}

INSTANTIATE_TEST_SUITE_P(All, EngineBugs, testing::ValuesIn(AllBugs(kLastEngineBug)),
                         [](const auto& tested) { return std::string(NameOf(tested.param)); });

}  // namespace
}  // namespace hydrant::sim
