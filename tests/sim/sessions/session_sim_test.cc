// tests/sim/seeds.h says how an episode is replayed.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "tests/sim/all_bugs.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sessions/store_episode.h"
#include "tests/support/sanitizers.h"

namespace hydrant::sim {
namespace {

constexpr uint64_t kSessionSimEpisodes = kSanitized ? 60 : 1000;

TEST(SessionSimulation, TheStoreIsItsModelOverRandomEpisodes) {
  const Seeds seeds = SeedsOfRun();
  StoreResult sum;
  for (uint64_t seed = seeds.first; seed < seeds.first + (seeds.alone ? 1 : kSessionSimEpisodes); ++seed) {
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
  if (seeds.alone) return;
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
  ExpectCaught(std::string(NameOf(GetParam())), /*tries=*/30, "",
               [](uint64_t seed) { return StoreEpisode(seed, GetParam()).Run().failure; });
}

INSTANTIATE_TEST_SUITE_P(All, StoreBugs, testing::ValuesIn(AllBugs(kLastStoreBug)),
                         [](const auto& tested) { return std::string(NameOf(tested.param)); });

}  // namespace
}  // namespace hydrant::sim
