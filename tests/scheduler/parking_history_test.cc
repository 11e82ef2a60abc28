// Turns that leave the beginning of their prompts parked while they go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "scheduler/parking.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

// A turn of 100 prompt tokens with a budget of 24, which leaves the first `history` of them.
Request Recalling(uint64_t id, int32_t prompt_length, uint64_t resumes, int32_t history) {
  Request request = MakeRequest(id, prompt_length, 20, KvBudget::Exact(24));
  request.session = 1;
  request.turn = id;
  request.resumes = resumes;
  request.prefix.publishes = request.prefix.looks_up = true;
  request.prefix.scores = ScoreNeed::kSnapshot;
  request.prefix.salt.low = id;  // it finds nothing but what is parked
  request.history = history;
  return request;
}

SchedulerOptions RecallOptions(int64_t parked_blocks_max = 64) {
  SchedulerOptions options = SmallOptions(20);
  options.parked_blocks_max = parked_blocks_max;
  options.tokens_max = 256;
  options.spare_score_blocks = 20;
  return options;
}

// What came back is its session's alone: nobody finds it, or what is computed behind it.
TEST(ParkingHistory, NobodyWaitsForWhatATurnThatCameBackComputes) {
  SchedulerOptions options = RecallOptions();
  options.blocks = 80;
  options.tokens_max = 32;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
  driver.DrainParks();
  driver.scheduler.ResetPrefixes();
  ASSERT_TRUE(driver.scheduler.Add(Recalling(2, 600, 1, 592)).ok());
  const Sequence* leader = nullptr;
  do {
    driver.Step();
    driver.scheduler.FinishParks();
    ASSERT_EQ(driver.scheduler.running(), 1);
    leader = &driver.scheduler.sequence(driver.scheduler.running_sequences()[0]);
  } while (leader->computed <= 80);
  ASSERT_EQ(leader->restored, 80);
  Request twin = MakeRequest(3, 100, 4);
  twin.prefix.publishes = twin.prefix.looks_up = true;
  twin.prefix.salt.low = 2;
  ASSERT_TRUE(driver.scheduler.Add(twin).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2);
  driver.DrainParks();
}

TEST(ParkingHistory, ATurnThatRecallsLeavesItsPromptAsItIsBeforeTheCut) {
  Driver driver(RecallOptions());
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
  const std::vector<PlanRow> rows = driver.Step();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].shrink_to, 24);
  ASSERT_EQ(driver.scheduler.parks().size(), 1u) << "while it goes on";
  const PlanPark& park = driver.scheduler.parks()[0];
  EXPECT_EQ(park.live, 80);
  EXPECT_EQ(park.computed, 80);
  EXPECT_EQ(park.cut_from, 0);
  EXPECT_EQ(std::ssize(park.block_table), 5);
  const Sequence& sequence = driver.scheduler.sequence(driver.scheduler.running_sequences()[0]);
  for (int32_t block : sequence.blocks.blocks()) {
    EXPECT_EQ(std::count(park.block_table.begin(), park.block_table.end(), block), 0) << "what it keeps are copies";
  }
  EXPECT_EQ(driver.used(), 5 + 2);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.used(), 2);
  EXPECT_EQ(driver.scheduler.block_manager().score_blocks().handed_out(), 0);
  driver.DrainParks();
  EXPECT_EQ(driver.scheduler.counters().parks, 1u) << "nothing more is left at its end";
  EXPECT_EQ(driver.scheduler.parked().Find({1, 1})->live, 80);
  // The next turn has all of it, and leaves more.
  ASSERT_TRUE(driver.scheduler.Add(Recalling(2, 150, 1, 144)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 80);
  EXPECT_EQ(driver.finished[2].prompt_computed, 70);
  EXPECT_EQ(driver.finished[2].budget, 24);
  driver.scheduler.SettleTurn({1, 2}, /*keep=*/true);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->live, 144);
  EXPECT_EQ(driver.scheduler.parked().blocks(), 9);
  EXPECT_EQ(driver.used(), 0);
}

TEST(ParkingHistory, ATurnGivenUpLeavesNoHistory) {
  Driver driver(RecallOptions());
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
  driver.Step();
  ASSERT_EQ(driver.scheduler.parks().size(), 1u);
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/false);
  EXPECT_TRUE(driver.scheduler.parks().empty());
  ASSERT_TRUE(driver.scheduler.Cancel(1));
  driver.DrainParks();
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  EXPECT_EQ(driver.used(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().score_blocks().handed_out(), 0);
}

TEST(ParkingHistory, AHistoryForWhichThereIsNoRoomIsNotLeft) {
  Driver driver(RecallOptions(/*parked_blocks_max=*/4));
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kLength);
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  EXPECT_EQ(driver.used(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().score_blocks().handed_out(), 0);
  // The next turn computes it.
  ASSERT_TRUE(driver.scheduler.Add(Recalling(2, 150, 1, 144)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 0);
  EXPECT_EQ(driver.finished[2].prompt_computed, 150);
}

TEST(ParkingHistory, ATurnOfOneTokenLeavesItToo) {
  for (const int32_t max_tokens : {0, 1}) {
    Driver driver(RecallOptions());
    Request request = Recalling(1, 100, 0, 80);
    request.max_tokens = max_tokens;
    ASSERT_TRUE(driver.scheduler.Add(request).ok());
    driver.DrainParks();
    ASSERT_NE(driver.scheduler.parked().Find({1, 1}), nullptr) << max_tokens;
    EXPECT_EQ(driver.scheduler.parked().Find({1, 1})->live, 80);
    EXPECT_EQ(driver.used(), 0);
  }
}

TEST(ParkingHistory, ATurnGivenUpBeforeItLeavesSomethingLeavesNothing) {
  SchedulerOptions options = RecallOptions();
  options.tokens_max = 64;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
  EXPECT_EQ(driver.Step().size(), 1u) << "a part of its prompt";
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/false);
  driver.DrainParks();
  EXPECT_EQ(driver.scheduler.counters().parks, 0u);
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
}

TEST(ParkingHistory, WhatCameBackIsFoundByNobodyElse) {
  Driver driver(RecallOptions());
  ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 96)).ok());
  driver.DrainParks();
  driver.scheduler.ResetPrefixes();
  ASSERT_TRUE(driver.scheduler.Add(Recalling(2, 150, 1, 144)).ok());
  driver.DrainParks();
  ASSERT_EQ(driver.finished[2].restored, 96);
  EXPECT_EQ(driver.scheduler.parked().Find({1, 2})->live, 144);
  Request same = Recalling(3, 150, 0, 144);
  same.session = 2;
  same.prefix.salt.low = 2;
  ASSERT_TRUE(driver.scheduler.Add(same).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[3].cached, 0);
}

TEST(ParkingHistory, WithoutRoomForItATurnLeavesNothingAndRunsAllTheSame) {
  // 7 blocks for the prompt and 2 for what is kept of it.
  for (const int32_t blocks : {8, 9}) {
    SchedulerOptions options = RecallOptions();
    options.blocks = blocks;
    Driver driver(options);
    ASSERT_TRUE(driver.scheduler.Add(Recalling(1, 100, 0, 80)).ok());
    driver.DrainParks();
    EXPECT_EQ(driver.finished[1].finish, FinishReason::kLength);
    EXPECT_EQ(driver.scheduler.counters().parks, blocks == 9 ? 1u : 0u);
  }
}

TEST(ParkingHistory, OnlyAHistoryThatCanBeGoneOnFromIsLeft) {
  Driver driver(RecallOptions());
  const auto refused = [&](Request request) {
    return driver.scheduler.Add(request).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(Recalling(1, 100, 0, 81))) << "half a block";
  EXPECT_TRUE(refused(Recalling(1, 100, 0, 112))) << "more than there is";
  EXPECT_TRUE(refused(Recalling(1, 96, 0, 96))) << "all there is";
  Request request = Recalling(1, 100, 0, 80);
  request.prefix.scores = ScoreNeed::kZeros;
  EXPECT_TRUE(refused(request)) << "no scores to start from";
  request = Recalling(1, 100, 0, 80);
  request.prefix.publishes = false;
  EXPECT_TRUE(refused(request));
  request = Recalling(1, 100, 0, 80);
  request.budget.prompt_stride = 32;
  EXPECT_TRUE(refused(request)) << "cut on its way";
  request = Recalling(1, 100, 0, 80);
  request.session = 0;
  EXPECT_TRUE(refused(request)) << "of no session";
  EXPECT_FALSE(refused(Recalling(1, 100, 0, 96)));
}

}  // namespace
}  // namespace hydrant
