#include "server/live_view/map_turns.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(MapTurns, ATenantHasOneMapMadeAtATime) {
  MapTurns turns;
  EXPECT_TRUE(turns.Begin(1, 0));
  EXPECT_FALSE(turns.Begin(1, 1'000'000));
  EXPECT_TRUE(turns.Begin(2, 0));
  turns.End(1, 1'000'000, 0);
  EXPECT_TRUE(turns.Begin(1, 1'000'000));
}

// Whoever asks without a pause, with maps of any length, has a tenth of a thread.
TEST(MapTurns, ATenantThatNeverStopsAskingHasATenthOfAThread) {
  constexpr int64_t kWaitUs = 10;
  for (const int64_t took_us : {1, 400, 3'000, 50'000}) {
    MapTurns turns;
    int64_t now_us = 0;
    int64_t used_us = 0;
    while (now_us < 10'000'000) {
      if (!turns.Begin(1, now_us)) {
        now_us += kWaitUs;
        continue;
      }
      now_us += took_us;
      used_us += took_us;
      turns.End(1, now_us, took_us);
    }
    EXPECT_LE(used_us, now_us / 10 + took_us) << took_us;
  }
}

TEST(MapTurns, ARestHasAnEnd) {
  MapTurns turns;
  ASSERT_TRUE(turns.Begin(1, 0));
  turns.End(1, 5'000'000, 5'000'000);
  EXPECT_FALSE(turns.Begin(1, 5'000'000 + MapTurns::kRestMaxUs - 1));
  EXPECT_TRUE(turns.Begin(1, 5'000'000 + MapTurns::kRestMaxUs));
}

}  // namespace
}  // namespace hydrant
