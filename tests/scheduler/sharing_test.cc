// What the scheduler plans for requests whose prompts begin alike.
#include <gtest/gtest.h>

#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

Request Shared(uint64_t id, int32_t prompt_length, int32_t max_tokens, KvBudget budget = KvBudget::Unlimited(),
               SideNeed side = SideNeed::kNothing) {
  Request request = MakeRequest(id, prompt_length, max_tokens, budget);
  request.prefix.publishes = request.prefix.looks_up = true;
  request.prefix.side = side;
  return request;
}

TEST(SchedulerSharing, ASecondPromptIsComputedFromWhereTheFirstOneEnds) {
  Driver driver(SmallOptions(32));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 3)).ok());
  driver.Drain();
  EXPECT_EQ(driver.scheduler.block_manager().pool().cached(), 3) << "48 of 50 + 2 computed tokens";
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 50, 3)).ok());
  const std::vector<PlanRow> rows = driver.Step();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].position, 48);
  EXPECT_EQ(rows[0].live, 48);
  EXPECT_EQ(rows[0].tokens.size(), 2u);
  driver.Drain();
  EXPECT_EQ(driver.finished[2].cached, 48);
  EXPECT_EQ(driver.finished[2].prompt_computed, 2) << "what is charged";
  EXPECT_EQ(driver.scheduler.tenant(0).prompt_tokens, 52u);
  EXPECT_EQ(driver.scheduler.counters().prefix_queries, 100u);
  EXPECT_EQ(driver.scheduler.counters().prefix_hits, 48u);
}

TEST(SchedulerSharing, ACutCopiesTheFullBlocksThatItKeeps) {
  SchedulerOptions options = SmallOptions(32);
  options.spare_sides = 32;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 60, 5, KvBudget::Exact(24), SideNeed::kZeros)).ok());
  size_t copies = 0;
  driver.between = [&] {
    for (int32_t index : driver.scheduler.running_sequences()) {
      copies += driver.scheduler.sequence(index).blocks.copies().size();
    }
  };
  const std::vector<PlanRow> rows = driver.Step();
  EXPECT_EQ(rows[0].shrink_to, 24);
  EXPECT_EQ(copies, 2u);
  EXPECT_EQ(driver.used(), 2);
  EXPECT_EQ(driver.scheduler.block_manager().pool().cached(), 3) << "the prompt's full blocks stay to be found";
  driver.Drain();
  EXPECT_EQ(copies, 2u) << "once";
}

TEST(SchedulerSharing, AScoredPromptLeavesSnapshotsOnALadder) {
  SchedulerOptions options = SmallOptions(64);
  options.tokens_max = 512;
  options.spare_sides = 256;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 200, 2, KvBudget::Exact(32), SideNeed::kSnapshot)).ok());
  driver.Step();
  // 64, 80, 96, 112, 128, 160, 192: and 192 is also where the same prompt would be taken up again.
  EXPECT_EQ(driver.scheduler.block_manager().sides().snapshots(), 7);
  EXPECT_EQ(driver.scheduler.block_manager().sides().in_snapshots(), (64 + 80 + 96 + 112 + 128 + 160 + 192) / 16);
  driver.Drain();
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 150, 2, KvBudget::Exact(32), SideNeed::kSnapshot)).ok());
  EXPECT_EQ(driver.Step()[0].position, 128) << "rounded down to a snapshot";
}

TEST(SchedulerSharing, ARequestThatDoesNotFitAloneMayFitBesideWhatItShares) {
  Driver driver(SmallOptions(8));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 65, 15)).ok());  // 5 blocks
  for (int step = 0; step < 3; ++step) driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 70, 4)).ok());  // 5 blocks, of which 4 are there
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2);
  driver.Drain();
  EXPECT_EQ(driver.finished[2].cached, 64);
}

TEST(SchedulerSharing, WithoutRoomForCopiesARequestSharesNothingAndRuns) {
  Driver driver(SmallOptions(5));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 70, 4, KvBudget::Exact(20), SideNeed::kZeros)).ok());
  driver.Drain();
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kLength);
  EXPECT_EQ(driver.scheduler.block_manager().pool().cached(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().pool().free(), 5);
}

// Three sequences of a hold the same three blocks. Counted three times they would use up a's floor of 10.
TEST(SchedulerSharing, WhatSequencesShareUsesAFloorOnce) {
  SchedulerOptions options = SmallOptions(24);
  options.sequences_max = 16;
  options.tenants = {{.name = "a", .floor_blocks = 10}, {.name = "b"}};
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 30)).ok());
  driver.Step();
  driver.Step();
  for (uint64_t id : {2u, 3u}) ASSERT_TRUE(driver.scheduler.Add(Shared(id, 50, 30)).ok());
  driver.Step();
  const Tenant& a = driver.scheduler.tenant(0);
  ASSERT_EQ(a.running, 3);
  EXPECT_EQ(a.reserved, 15);
  EXPECT_EQ(a.overlap, 6) << "as each was let in";
  // Of the 15 blocks that are left one is of a's floor.
  Request seven = MakeRequest(4, 90, 20);
  Request eight = MakeRequest(6, 100, 28);
  seven.tenant = eight.tenant = 1;
  ASSERT_TRUE(driver.scheduler.Add(std::move(seven)).ok());
  ASSERT_TRUE(driver.scheduler.Add(std::move(eight)).ok());
  driver.Step();
  EXPECT_EQ(a.overlap, 6);
  EXPECT_EQ(driver.scheduler.tenant(1).reserved, 7);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(5, 10, 3)).ok());
  driver.Step();
  EXPECT_EQ(a.running, 4) << "within the floor it passes";
  driver.Drain();
}

TEST(SchedulerSharing, AFailedRowIsNotPublished) {
  Driver driver(SmallOptions(16));
  driver.failing = 1;
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 3)).ok());
  driver.Drain();
  EXPECT_EQ(driver.scheduler.block_manager().index().size(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().pool().free(), 16);
}

}  // namespace
}  // namespace hydrant
