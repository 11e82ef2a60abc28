#include "scheduler/swapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/scheduler/swap_driver.h"

namespace hydrant {
namespace {

TEST(Swapping, AdmissionReservesThePromptAndABlocksWorthOfTokens) {
  for (const int64_t swap_blocks : {0, 100}) {
    SwapDriver driver(WithSwapSpace(40, swap_blocks));
    ASSERT_TRUE(driver.scheduler.Add(Long(1)).ok());
    driver.Step();
    EXPECT_EQ(driver.Find(1)->blocks.reserved(), swap_blocks == 0 ? 16 : 2);
    EXPECT_EQ(driver.Find(1)->peak_blocks, swap_blocks == 0 ? 0 : 16);
  }
}

TEST(Swapping, MoreRunAtOnceThanFitAndAllGetAllTheirTokens) {
  for (const bool ahead : {false, true}) {
    SwapDriver driver(WithSwapSpace(34, 200));
    driver.ahead = ahead;
    for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
    driver.DrainAndMove();
    EXPECT_EQ(driver.at_once, 8);
    for (uint64_t id = 1; id <= 8; ++id) EXPECT_EQ(driver.tokens[id].size(), 15u * kBlockSlots) << id;
    const SchedulerCounters& counters = driver.scheduler.counters();
    EXPECT_GT(counters.swaps_out, 0u);
    EXPECT_EQ(counters.swaps_in, counters.swaps_out);
    EXPECT_EQ(counters.prompt_tokens, 8u * 16) << "nothing is computed twice";
  }
}

// What those that run may come to hold has a place, so nobody is let in for whom there would be none.
TEST(Swapping, NobodyIsLetInBeyondPoolAndSwapSpace) {
  SwapDriver driver(WithSwapSpace(34, /*swap_blocks=*/45));
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.DrainAndMove();
  EXPECT_EQ(driver.at_once, 4) << "4 x 16 blocks and the largest once more are 80, five would be 96; there are 79";
}

// Once a cap is lowered so far that those that run have no place under it, they keep to the one with which they were let in.
TEST(Swapping, WhoHasNoPlaceUnderALoweredCapKeepsToTheOldOne) {
  SchedulerOptions options = WithSwapSpace(64, 30);
  options.tenants = {{.name = "capped", .blocks_max = 20}};
  SwapDriver driver(options);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.StepAndMove();
  ASSERT_EQ(driver.scheduler.running(), 2);
  options.tenants[0].blocks_max = 8;
  driver.scheduler.SetTenants(options.tenants);
  int64_t most = 0;
  for (int32_t steps = 0; !driver.scheduler.idle() && steps < 2000; ++steps) {
    driver.StepAndMove();
    most = std::max(most, driver.scheduler.tenant(0).claimed());
  }
  EXPECT_LE(most, 20);
  EXPECT_GT(most, 8);
  for (uint64_t id = 1; id <= 2; ++id) EXPECT_EQ(driver.tokens[id].size(), 15u * kBlockSlots);
}

TEST(Swapping, AHundredOfTheLargestRequestsComeToAnEndInAPoolForOne) {
  SwapDriver driver(WithSwapSpace(17, 100 * 16, 100));
  for (uint64_t id = 1; id <= 100; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.DrainAndMove(200'000);
  for (uint64_t id = 1; id <= 100; ++id) EXPECT_EQ(driver.tokens[id].size(), 15u * kBlockSlots) << id;
}

TEST(Swapping, ATenantWithinItsShareStepsAsideForNobodyElse) {
  SchedulerOptions options = WithSwapSpace(32, 300);
  options.tenants = {{.name = "many"}, {.name = "one"}};
  SwapDriver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Long(100, 1)).ok());
  for (uint64_t id = 1; id <= 7; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.DrainAndMove();
  EXPECT_FALSE(driver.left.contains(100));
  EXPECT_GT(driver.left.size(), 1u);
}

TEST(Swapping, TheTenantForWhomSomebodyStepsAsidePaysForIt) {
  SchedulerOptions options = WithSwapSpace(32, 300);
  options.tenants = {{.name = "many"}, {.name = "one"}};
  SwapDriver driver(options);
  StepLimits limits;
  constexpr double kCost = 1e9;
  limits.block_moved = kCost;
  driver.scheduler.LimitSteps(limits);
  for (uint64_t id = 1; id <= 7; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Long(100, 1)).ok());
  int32_t for_another = 0;
  for (int32_t steps = 0; for_another == 0 && steps < 500; ++steps) {
    driver.Step();
    const double before[2] = {driver.scheduler.tenant(0).memory_charged, driver.scheduler.tenant(1).memory_charged};
    double due[2] = {};
    for (const PlanSwapOut& out : driver.scheduler.swap_outs()) {
      due[out.payer] += kCost * out.slice.size();
      for_another += driver.scheduler.sequence(out.sequence).request.tenant != out.payer ? 1 : 0;
    }
    driver.scheduler.FinishSwaps();
    for (const int32_t tenant : {0, 1}) {
      EXPECT_DOUBLE_EQ(driver.scheduler.tenant(tenant).memory_charged - before[tenant], due[tenant]) << tenant;
    }
  }
  EXPECT_GT(for_another, 0);
}

TEST(Swapping, WhoComesBackHasSixtyFourTokensBeforeItGoesAgain) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  std::vector<int32_t> back_at(5, -1);
  std::vector<KvPlace> places(5, KvPlace::kPool);
  int32_t again = 0;
  for (int32_t steps = 0; !driver.scheduler.idle() && steps < 20'000; ++steps) {
    driver.StepAndMove();
    for (uint64_t id = 1; id <= 4; ++id) {
      const Sequence* sequence = driver.Find(id);
      if (sequence == nullptr) continue;
      const KvPlace before = std::exchange(places[id], sequence->place);
      if (before == KvPlace::kOutside && before != sequence->place) back_at[id] = sequence->generated();
      const bool goes = before == KvPlace::kPool && sequence->place != KvPlace::kPool;
      if (!goes || back_at[id] < 0) continue;
      ++again;
      EXPECT_GE(sequence->generated() - back_at[id] + 1, Swapping::kGuard) << "one of them came with the last slice";
    }
  }
  EXPECT_GT(again, 0);
}

TEST(Swapping, ACancelEndsASequenceWhereverItIs) {
  for (const KvPlace place : {KvPlace::kLeaving, KvPlace::kOutside, KvPlace::kReturning}) {
    SwapDriver driver(WithSwapSpace(20, 300, 4));
    StepLimits limits;
    limits.blocks_moved_max = 2;
    driver.scheduler.LimitSteps(limits);
    for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
    while (driver.begun.empty()) driver.StepAndMove();
    const uint64_t id = driver.begun.front();
    ASSERT_NE(driver.Until(id, place), nullptr);
    driver.dropped.clear();
    EXPECT_TRUE(driver.scheduler.Cancel(id));
    EXPECT_FALSE(driver.scheduler.Cancel(id));
    driver.DrainAndMove();
    EXPECT_EQ(driver.finished[id].finish, FinishReason::kAbort);
    EXPECT_NE(std::find(driver.dropped.begin(), driver.dropped.end(), id), driver.dropped.end())
        << "what is outside of it is forgotten";
    EXPECT_EQ(driver.finished.size(), 4u);
  }
}

TEST(Swapping, ACancelInTheStepThatBringsItBackEndsIt) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  uint64_t cancelled = 0;
  driver.between = [&] {
    if (cancelled != 0 || driver.scheduler.plan().swap_ins.empty()) return;
    cancelled = driver.scheduler.plan().swap_ins.front().id;
    EXPECT_TRUE(driver.scheduler.Cancel(cancelled));
  };
  driver.DrainAndMove();
  EXPECT_EQ(driver.finished[cancelled].finish, FinishReason::kAbort);
}

TEST(Swapping, OneForWhichThereIsNoMemoryEndsAlone) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.fails_for = 4;
  driver.DrainAndMove();
  EXPECT_EQ(driver.finished[4].finish, FinishReason::kNoMemory);
  EXPECT_EQ(driver.scheduler.counters().swaps_lost, 1u);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(driver.finished[id].finish, FinishReason::kLength) << id;
}

TEST(Swapping, AFailedMoveEndsThoseThatWereToBeginAndNobodyElse) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  StepLimits limits;
  limits.blocks_moved_max = 2;
  driver.scheduler.LimitSteps(limits);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  while (driver.scheduler.swap_outs().empty()) driver.Step();
  ASSERT_GT(BlocksForSlots(driver.scheduler.swap_outs().front().live), 2);
  const uint64_t begun = driver.scheduler.swap_outs().front().id;
  driver.scheduler.FinishSwaps();
  driver.Step();
  ASSERT_EQ(driver.scheduler.swap_outs().front().id, begun);
  EXPECT_EQ(driver.scheduler.swap_outs().front().slice.begin, 2);
  driver.scheduler.FailSwaps();
  driver.Step();
  ASSERT_EQ(driver.scheduler.swap_outs().front().id, begun);
  EXPECT_EQ(driver.scheduler.swap_outs().front().slice.begin, 2) << "the slice is copied again";
  driver.DrainAndMove();
  EXPECT_EQ(driver.scheduler.counters().swaps_lost, 0u);
}

TEST(Swapping, AStepThatIsLostTakesWithItWhatItWasToBringBack) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  uint64_t lost = 0;
  driver.between = [&] {
    if (lost != 0 || driver.scheduler.plan().swap_ins.empty()) return;
    lost = driver.scheduler.plan().swap_ins.front().id;
    driver.failing = lost;
    driver.failure = FinishReason::kNoMemory;
    driver.scheduler.LoseReturn(driver.scheduler.plan().swap_ins.front().sequence);
  };
  driver.DrainAndMove();
  ASSERT_NE(lost, 0u);
  EXPECT_EQ(driver.finished[lost].finish, FinishReason::kNoMemory);
  EXPECT_NE(std::find(driver.dropped.begin(), driver.dropped.end(), lost), driver.dropped.end());
}

TEST(Swapping, NoMoreMovesWithAStepThanMay) {
  SwapDriver driver(WithSwapSpace(20, 300, 4));
  StepLimits limits;
  limits.blocks_moved_max = 3;
  driver.scheduler.LimitSteps(limits);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  int64_t in = 0;
  driver.between = [&] {
    in = 0;
    for (const PlanSwapIn& each : driver.scheduler.plan().swap_ins) in += each.slice.size();
  };
  for (int32_t steps = 0; !driver.scheduler.idle() && steps < 20'000; ++steps) {
    driver.Step();
    int64_t moved = in;
    for (const PlanSwapOut& out : driver.scheduler.swap_outs()) moved += out.slice.size();
    EXPECT_LE(moved, 3);
    driver.scheduler.FinishSwaps();
  }
  EXPECT_TRUE(driver.scheduler.idle());
  EXPECT_GT(driver.scheduler.counters().swaps_in, 0u);
}

// A reader that is behind holds nobody up: not its tenant's line, nor what is outside for others.
TEST(Swapping, WhoseReaderIsBehindStaysOutsideAndOthersAreLetIn) {
  SwapDriver driver(WithSwapSpace(20, 300, 5));
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  while (driver.begun.empty()) driver.StepAndMove();
  const uint64_t slow = driver.begun.front();
  ASSERT_NE(driver.Until(slow, KvPlace::kOutside), nullptr);
  driver.scheduler.SetPaused(slow, true);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(9, 10, 4)).ok());
  for (int32_t steps = 0; steps < 5000 && driver.scheduler.running() > 1; ++steps) driver.StepAndMove();
  EXPECT_TRUE(driver.finished.contains(9));
  EXPECT_EQ(driver.Find(slow)->place, KvPlace::kOutside);
  driver.scheduler.SetPaused(slow, false);
  driver.DrainAndMove();
  EXPECT_EQ(driver.tokens[slow].size(), 15u * kBlockSlots);
}

}  // namespace
}  // namespace hydrant
