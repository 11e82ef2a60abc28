// As in tests/sim/sim_test.cc: HYDRANT_SIM_SEED=<n> runs that episode, HYDRANT_SIM_BASE=<n> starts from other seeds.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "tests/sim/seeds.h"
#include "tests/sim/sessions/store_episode.h"
#include "tests/support/sanitizers.h"

namespace hydrant::sim {
namespace {

constexpr uint64_t kEpisodes = kSanitized ? 60 : 1000;

TEST(SessionSimulation, TheStoreIsItsModelOverRandomEpisodes) {
  const uint64_t replay = SeedFromEnvironment("HYDRANT_SIM_SEED", 0);
  const uint64_t first = replay != 0 ? replay : SeedFromEnvironment("HYDRANT_SIM_BASE", 1) * 1'000'000'007u + 1;
  StoreResult sum;
  for (uint64_t seed = first; seed < first + (replay != 0 ? 1 : kEpisodes); ++seed) {
    const StoreResult result = StoreEpisode(seed).Run();
    ASSERT_EQ(result.failure, "") << "replay with HYDRANT_SIM_SEED=" << seed;
    sum.calls += result.calls;
    sum.turns += result.turns;
    sum.busy += result.busy;
    sum.refused += result.refused;
    sum.expired += result.expired;
    sum.gave_way += result.gave_way;
    sum.deleted += result.deleted;
    sum.went_back += result.went_back;
    sum.resumed += result.resumed;
    sum.unsettled += result.unsettled;
  }
  std::cout << sum.calls << " calls, " << sum.turns << " turns (" << sum.resumed << " found their past parked, "
            << sum.went_back << " left their session as it was, " << sum.unsettled << " not settled), " << sum.busy
            << " found a turn in progress, " << sum.refused << " refused; " << sum.expired << " sessions expired, "
            << sum.gave_way << " gave way, " << sum.deleted << " deleted\n";
  if (replay != 0) return;
  // A workload that meets nothing proves nothing.
  EXPECT_GT(sum.turns * 10, sum.calls);
  EXPECT_GT(sum.busy * 50, sum.calls);
  EXPECT_GT(sum.refused * 300, sum.calls);
  EXPECT_GT(sum.expired * 100, sum.calls);
  EXPECT_GT(sum.gave_way * 100, sum.calls);
  EXPECT_GT(sum.deleted * 200, sum.calls);
  EXPECT_GT(sum.went_back * 200, sum.calls);
  EXPECT_GT(sum.resumed * 100, sum.calls);
  EXPECT_GT(sum.unsettled * 1000, sum.calls);
}

class StoreBugs : public testing::TestWithParam<StoreBug> {};

TEST_P(StoreBugs, AreCaught) {
  constexpr uint64_t kTries = 30;
  std::string caught;
  uint64_t seed = 1;
  for (; seed <= kTries && caught.empty(); ++seed) caught = StoreEpisode(seed, GetParam()).Run().failure;
  EXPECT_NE(caught, "") << NameOf(GetParam()) << " went unseen";
  std::cout << "episode " << seed - 1 << ": " << caught << "\n";
}

std::vector<StoreBug> AllBugs() {
  std::vector<StoreBug> bugs;
  for (int32_t i = 1; i <= static_cast<int32_t>(kLastStoreBug); ++i) bugs.push_back(static_cast<StoreBug>(i));
  return bugs;
}

INSTANTIATE_TEST_SUITE_P(All, StoreBugs, testing::ValuesIn(AllBugs()),
                         [](const auto& tested) { return std::string(NameOf(tested.param)); });

}  // namespace
}  // namespace hydrant::sim
