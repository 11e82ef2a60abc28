// Who is let in, when, and with what is promised to them.
#include "scheduler/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

TEST(Admission, ImpossibleRequestsAreRefusedWhenAdded) {
  Scheduler scheduler(SmallOptions(8));
  const auto code = [&scheduler](const Request& request) { return scheduler.Add(request).status().code(); };
  EXPECT_EQ(code(MakeRequest(1, 0, 4)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, -1)), absl::StatusCode::kInvalidArgument);
  Request request = MakeRequest(1, 4, 4);
  request.min_tokens = 5;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(1, 4, 4);
  request.tenant = 1;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, 4, KvBudget::Periodic(16, 0))), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, std::numeric_limits<int32_t>::max(), KvBudget::Exact(16))),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, std::numeric_limits<int32_t>::max() - 4)), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(scheduler.waiting(), 0);
  EXPECT_TRUE(scheduler.idle());
}

TEST(Admission, TheWholePoolMayGoToOneRequestAndNoMore) {
  Driver driver(SmallOptions(8));  // 128 slots
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 100, 30)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(driver.scheduler.Add(MakeRequest(1, 100, 30)).status().message()), HasSubstr("9 blocks"));
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 129, 1, KvBudget::Exact(16))).status().code(),
            absl::StatusCode::kOutOfRange)
      << "a prompt is prefilled in full before its cut";
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 100, 29)).ok());
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 29u);
}

TEST(Admission, QueueIsBounded) {
  Scheduler scheduler(SmallOptions(64, 4));
  for (uint64_t id = 1; id <= 4 + 8; ++id) EXPECT_TRUE(scheduler.Add(MakeRequest(id, 4, 4)).ok());
  EXPECT_EQ(scheduler.Add(MakeRequest(99, 4, 4)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(scheduler.Cancel(7));
  EXPECT_TRUE(scheduler.Add(MakeRequest(99, 4, 4)).ok());
}

TEST(Admission, AReservationIsOnlyPromisedSpaceThatNobodyElseCanTake) {
  Driver driver(SmallOptions(8));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 10, 70)).ok());  // 79 slots: 5 blocks
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 10, 60)).ok());  // 69 slots: 5 blocks
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 1, 1)).ok());    // 1 block, and must not pass
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  EXPECT_EQ(driver.used(), 1) << "promised, not taken";
  EXPECT_EQ(driver.scheduler.waiting(), 2);
  while (!driver.finished.contains(1)) {
    EXPECT_FALSE(driver.finished.contains(3)) << "overtook the head of the line";
    driver.Step();
  }
  driver.Step();
  EXPECT_EQ(driver.scheduler.waiting(), 0);
  driver.Drain();
}

TEST(Admission, ThePromptCutLetsTheNextOneIn) {
  SchedulerOptions options = SmallOptions(10);
  options.prefill_tokens_max = 64;
  Driver driver(options);
  // 128 prompt slots: 8 blocks until the cut, then 33 slots: 3 blocks.
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 128, 50, KvBudget::Exact(32))).ok());
  }
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  driver.Step();  // the cut
  EXPECT_EQ(driver.scheduler.block_manager().promised(), 1);
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1) << "3 + 8 blocks are more than 10";
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 112, 50, KvBudget::Exact(32))).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2) << "3 + 7 blocks fit";
  driver.Drain();
}

TEST(Admission, APoolOfTwoFullSequencesHoldsTenBudgetedOnes) {
  const int32_t blocks = static_cast<int32_t>(2 * PeakBlocks(2000, 500, KvBudget::Unlimited()));
  for (const bool budgeted : {false, true}) {
    SchedulerOptions options = SmallOptions(blocks, 16);
    options.waiting_max = 32;
    options.tokens_max = 512;
    options.prefill_tokens_max = 512;
    Driver driver(options);
    for (uint64_t id = 1; id <= 12; ++id) {
      const KvBudget budget = budgeted ? KvBudget::Exact(256) : KvBudget::Unlimited();
      ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 2000, 500, budget)).ok());
    }
    int32_t most = 0;
    while (!driver.scheduler.idle()) {
      driver.Step();
      most = std::max(most, driver.scheduler.running());
    }
    if (budgeted) {
      EXPECT_GE(most, 10);
    } else {
      EXPECT_EQ(most, 2);
    }
  }
}

// Before its turn, and before those for whom budgets fell earlier and who could not be let in then.
TEST(Admission, WhatBudgetsGaveIsForWhomTheyFellLast) {
  std::vector<uint64_t> given = {0, 7, 8, 5};
  std::vector<Tenant> tenants(given.size());
  for (size_t i = 0; i < tenants.size(); ++i) {
    tenants[i].service = static_cast<double>(i);
    tenants[i].queue.push_back(static_cast<int32_t>(i));
  }
  const auto head_of = [&](const Tenant& tenant) {
    const auto index = static_cast<size_t>(tenant.queue.front());
    return HeadOfLine{.blocks = 1, .arrival = index, .given_room = given[index]};
  };
  for (const SchedulingPolicy policy : {SchedulingPolicy::kFair, SchedulingPolicy::kFcfs}) {
    Turns turns = {.policy = policy};
    const auto choose = [&] { return ChooseTenant(tenants, turns, {1000, 100, 1000}, head_of); };
    given = {0, 7, 8, 5};
    EXPECT_EQ(choose(), &tenants[2]);
    given = {0, 7, 0, 7};
    EXPECT_EQ(choose(), &tenants[1]) << "equals in their order";
  }
}

TEST(Admission, ALargeRequestIsNotStarvedBySmallOnes) {
  Driver driver(SmallOptions(8, 4));
  uint64_t next = 100;
  const auto refill = [&] {
    while (driver.scheduler.waiting() < 6) ASSERT_TRUE(driver.scheduler.Add(MakeRequest(next++, 10, 5)).ok());
  };
  refill();
  driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 120, 5)).ok());  // the whole pool
  for (int32_t step = 0; !driver.finished.contains(1); ++step) {
    ASSERT_LT(step, 60) << "starved";
    refill();
    driver.Step();
  }
}

TEST(Admission, ASecondPromptIsComputedFromWhereTheFirstOneEnds) {
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

TEST(Admission, ARequestThatDoesNotFitAloneMayFitBesideWhatItShares) {
  Driver driver(SmallOptions(8));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 65, 15)).ok());  // 5 blocks
  for (int step = 0; step < 3; ++step) driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 70, 4)).ok());  // 5 blocks, of which 4 are there
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2);
  driver.Drain();
  EXPECT_EQ(driver.finished[2].cached, 64);
}

TEST(Admission, WithoutRoomForCopiesARequestSharesNothingAndRuns) {
  Driver driver(SmallOptions(5));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 70, 4, KvBudget::Exact(20), ScoreNeed::kZeros)).ok());
  driver.Drain();
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kLength);
  EXPECT_EQ(driver.scheduler.block_manager().pool().cached(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().pool().free(), 5);
}

// A head of line that waits is not matched again as long as no block changes hands, and not at all where no prefix would do.
TEST(Admission, APrefixIsMatchedOncePerChange) {
  Driver driver(SmallOptions(40, 8));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 330, 20)).ok());  // leaves 20 blocks in the cache
  driver.Drain();
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 15, 300)).ok());  // 20 blocks, of which it takes one in 16 steps
  driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(Shared(3, 330, 200)).ok());  // 34 blocks: with 20 that are revived as many
  driver.Step();
  const uint64_t matches = driver.scheduler.counters().prefix_matches;
  for (int32_t step = 0; step < 8; ++step) driver.Step();
  EXPECT_EQ(driver.scheduler.waiting(), 1);
  EXPECT_LE(driver.scheduler.counters().prefix_matches, matches + 1);
  driver.Drain();
  EXPECT_EQ(driver.finished[3].cached, 320);
}

// Three sequences of a hold the same three blocks. Counted three times they would use up a's floor of 10.
TEST(Admission, WhatSequencesShareUsesAFloorOnce) {
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
  // One of the 15 blocks that are left belongs to a's floor.
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

// Three sequences of five blocks share three of them: together they take nine blocks of the pool, not fifteen.
TEST(Admission, WhatSequencesShareCountsOnceAgainstTheirTenantsCap) {
  for (const int32_t cap : {8, 9}) {
    SchedulerOptions options = SmallOptions(64, 16);
    options.tenants = {{.name = "a", .blocks_max = cap}};
    Driver driver(options);
    ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 30)).ok());
    driver.Step();
    driver.Step();
    for (uint64_t id : {2u, 3u}) ASSERT_TRUE(driver.scheduler.Add(Shared(id, 50, 30)).ok());
    driver.Step();
    const Tenant& a = driver.scheduler.tenant(0);
    EXPECT_EQ(a.running, cap == 9 ? 3 : 2) << "only with what it shares does the second one fit under the cap";
    EXPECT_EQ(a.claimed(), cap == 9 ? 9 : 7);
    driver.Drain();
    EXPECT_EQ(driver.finished[3].cached, 48);
  }
}

// What nobody holds any more is revived from the cache: that takes room, in the pool and under the cap.
TEST(Admission, WhatIsRevivedCountsAgainstTheCap) {
  SchedulerOptions options = SmallOptions(64, 16);
  options.tenants = {{.name = "a", .blocks_max = 9}};
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 3)).ok());
  driver.Drain();
  ASSERT_EQ(driver.scheduler.block_manager().pool().cached(), 3);
  Request other = MakeRequest(2, 64, 17);  // 5 blocks
  ASSERT_TRUE(driver.scheduler.Add(std::move(other)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Shared(3, 50, 30)).ok());  // 5 blocks, of which 3 are revived
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  driver.Drain();
  EXPECT_EQ(driver.finished[3].cached, 48);
}

// The prompts of n answers come at once; the first of them computes what the others then find.
TEST(Twins, ComputeTheirPromptOnce) {
  SchedulerOptions options = SmallOptions(/*blocks=*/512, /*sequences_max=*/8);
  Driver driver(options);
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(driver.scheduler.Add(Shared(id, 4096, 4)).ok());
  driver.Drain();
  EXPECT_EQ(driver.scheduler.counters().prompt_tokens, 4096u + 7 * 16) << "each its last block";
  EXPECT_EQ(driver.scheduler.counters().prefix_hits, 7u * 4080);
}

TEST(Twins, WaitNoLongerThanThePromptThatTheyWaitForLives) {
  Driver driver(SmallOptions(64, 4));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 200, 4)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 200, 4)).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  EXPECT_EQ(driver.scheduler.waiting(), 1);
  EXPECT_TRUE(driver.scheduler.Cancel(1));
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1) << "nobody computes it any more";
  EXPECT_EQ(driver.scheduler.waiting(), 0);
  ASSERT_TRUE(driver.scheduler.Add(Shared(3, 200, 4)).ok());
  driver.scheduler.ResetPrefixes();
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2) << "what the other computes will be found by nobody";
  driver.Drain();
}

// The prompts differ in their second block: the first is there after a step.
TEST(Twins, WaitForNoMoreThanTheyShare) {
  Driver driver(SmallOptions(64, 4));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 400, 4)).ok());
  Request other = Shared(2, 400, 4);
  std::vector<int32_t> prompt = other.prompt;
  prompt[20] = 1;
  other.prompt = std::move(prompt);
  ASSERT_TRUE(driver.scheduler.Add(other).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2);
  EXPECT_EQ(driver.scheduler.counters().prefix_hits, 16u);
  driver.Drain();
}

TEST(Twins, AreOnlyThoseThatMayShare) {
  Driver driver(SmallOptions(64, 4));
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 200, 4)).ok());
  Request salted = Shared(2, 200, 4);
  salted.prefix.salt = {1, 2};
  Request alone = Shared(3, 200, 4);
  alone.prefix.looks_up = false;
  ASSERT_TRUE(driver.scheduler.Add(salted).ok());
  ASSERT_TRUE(driver.scheduler.Add(alone).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 3);
  driver.Drain();
}

// The leader goes on from what was decoded, so that what it computes is nothing that the other one would find.
TEST(Twins, DoNotWaitForWhatTheyWouldNotFind) {
  Driver driver(SmallOptions(64, 4));
  driver.token_of = [](uint64_t) { return 7; };
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 40, 60)).ok());
  driver.Drain();
  std::vector<int32_t> text = Shared(1, 40, 60).prompt;
  text.resize(90, 7);
  text.resize(390, 8);
  Request leader = Shared(2, 390, 4);
  leader.prompt = text;
  leader.prefix.takes_generated = true;
  Request other = leader;
  other.id = 3;
  other.prefix.takes_generated = false;
  ASSERT_TRUE(driver.scheduler.Add(leader).ok());
  driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(other).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2);
  driver.Drain();
  EXPECT_EQ(driver.finished[2].cached, 80);
  EXPECT_EQ(driver.finished[3].cached, 32);
}

TEST(Twins, HoldUpNobodyElse) {
  SchedulerOptions options = With({{.name = "a", .floor_blocks = 16}, {.name = "b"}}, 256, 8);
  Driver driver(options);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(driver.scheduler.Add(Shared(id, 400, 4)).ok());
  for (uint64_t id = 4; id <= 6; ++id) ASSERT_TRUE(driver.scheduler.Add(Of(1, id)).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.tenant(0).running, 1);
  EXPECT_EQ(driver.scheduler.tenant(1).running, 3);
  EXPECT_TRUE(driver.scheduler.tenant(0).held_back) << "by itself, and no larger pool would let it in";
  driver.Drain();
  EXPECT_EQ(driver.scheduler.counters().prefix_hits, 2u * 384);
}

}  // namespace
}  // namespace hydrant
