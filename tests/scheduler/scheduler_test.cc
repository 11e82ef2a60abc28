#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/scheduler/counting_new.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Scheduler, ChunksEndOnBlockEdgesButTheLast) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 150, 1)).ok());
  std::vector<int32_t> ends;
  while (!driver.scheduler.idle()) {
    for (const PlanRow& row : driver.Step()) {
      EXPECT_TRUE(row.prefill);
      EXPECT_EQ(row.live, row.position);
      ends.push_back(row.position + static_cast<int32_t>(row.tokens.size()));
      EXPECT_EQ(row.sample, ends.back() == 150);
    }
  }
  EXPECT_THAT(ends, ElementsAre(64, 128, 150));
}

// With a stride, no chunk crosses a multiple of it, and what is above the budget there goes at once: a prompt of 1,000 tokens
// passes through 8 blocks.
TEST(Scheduler, ABudgetedPromptIsCutOnTheWay) {
  Driver driver(SmallOptions(8));
  Request request = MakeRequest(1, 1000, 3, KvBudget::Exact(40));
  EXPECT_EQ(driver.scheduler.Add(request).status().code(), absl::StatusCode::kOutOfRange);
  request.budget.prompt_stride = 80;
  ASSERT_TRUE(driver.scheduler.Add(request).ok());
  int32_t computed = 0, live = 0;
  while (driver.scheduler.sequence(0).generated() == 0) {
    const PlanRow row = driver.Step()[0];
    EXPECT_EQ(row.position, computed);
    EXPECT_EQ(row.live, live);
    const int32_t tokens = static_cast<int32_t>(row.tokens.size());
    EXPECT_LE(tokens, 80 - computed % 80);
    computed += tokens;
    live += tokens;
    const bool stops = computed % 80 == 0 || computed == 1000;
    EXPECT_TRUE(stops || live % kSlotsPerBlock == 0) << live;
    EXPECT_EQ(row.shrink_to, stops && live > 40 ? 40 : 0);
    EXPECT_EQ(row.evicted, stops ? live - 40 : 0);
    EXPECT_EQ(row.sample, computed == 1000);
    if (stops) live = 40;
    EXPECT_EQ(driver.used(), BlocksForSlots(live));
  }
  EXPECT_EQ(driver.scheduler.sequence(0).blocks.reserved(), 3) << "41 slots from here on";
  driver.Drain();
  EXPECT_EQ(driver.finished.at(1).evicted, 1002 - 41);
}

TEST(Scheduler, DecodesComeFirstAndPrefillTakesABoundedRest) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 50)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 50)).ok());
  EXPECT_EQ(driver.Step().size(), 2u) << "two short prompts share a step";
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 100, 1)).ok());
  const std::vector<PlanRow> rows = driver.Step();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].prefill);
  EXPECT_FALSE(rows[1].prefill);
  EXPECT_TRUE(rows[2].prefill);
  EXPECT_EQ(rows[2].tokens.size(), 32u) << "prefill_tokens_max";
}

TEST(Scheduler, PrefillIsNotBoundedWithoutDecodes) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 100, 1)).ok());
  EXPECT_EQ(driver.Step()[0].tokens.size(), 64u);
}

TEST(Scheduler, LimitStepsShortensChunksAndNeverLengthensThem) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 200, 50)).ok());
  driver.scheduler.LimitSteps({.alone = 48, .beside_decodes = 16});
  EXPECT_EQ(driver.Step()[0].tokens.size(), 48u);
  driver.scheduler.LimitSteps({.alone = 1000, .beside_decodes = 1000});
  EXPECT_EQ(driver.Step()[0].tokens.size(), 64u) << "tokens_max";
  driver.scheduler.LimitSteps({.alone = 100, .beside_decodes = 16});
  while (driver.scheduler.sequence(0).generated() == 0) driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 100, 1)).ok());
  EXPECT_EQ(driver.Step()[1].tokens.size(), 16u);
  driver.scheduler.LimitSteps({.alone = 1000, .beside_decodes = 1000});
  EXPECT_EQ(driver.Step()[1].tokens.size(), 32u) << "prefill_tokens_max";
}

TEST(Scheduler, ChunksGetShorterTheDeeperTheyAre) {
  SchedulerOptions options = SmallOptions(64);
  options.attention_slots_per_token = 32;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 200, 1)).ok());
  driver.scheduler.LimitSteps({.alone = 64, .beside_decodes = 16});
  const PrefillCost cost(32);
  int32_t live = 0;
  size_t before = 64;
  while (driver.scheduler.sequence(0).generated() == 0) {
    const std::vector<PlanRow> rows = driver.Step();
    ASSERT_EQ(rows.size(), 1u);
    const size_t tokens = rows[0].tokens.size();
    EXPECT_TRUE(tokens <= 16 || cost.Of(live, static_cast<int32_t>(tokens)) <= 64) << tokens << " behind " << live;
    EXPECT_LE(tokens, before);
    before = tokens;
    live += static_cast<int32_t>(tokens);
    if (live == 200) return;
  }
}

TEST(Scheduler, EveryDecodeAndAPrefillBlockFitTheSmallestStep) {
  SchedulerOptions options = SmallOptions(64, 4);
  options.tokens_max = 4 + 15;
  options.prefill_tokens_max = 16;
  Driver driver(options);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 3, 100)).ok());
  driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(4, 40, 1)).ok());
  for (size_t expected : {16u, 16u, 8u}) {
    const std::vector<PlanRow> rows = driver.Step();
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[3].tokens.size(), expected);
  }
}

TEST(Scheduler, ABudgetHoldsItsBlocksHoweverLongItRuns) {
  SchedulerOptions options = SmallOptions(200);
  options.tokens_max = 512;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 2000, 500, KvBudget::Exact(256))).ok());
  std::vector<int32_t> used;
  int32_t evicted_by_rows = 0;
  while (!driver.scheduler.idle()) {
    for (const PlanRow& row : driver.Step()) evicted_by_rows += row.evicted;
    used.push_back(driver.used());
  }
  ASSERT_EQ(used.size(), 4u + 499u);
  EXPECT_THAT(std::vector<int32_t>(used.begin(), used.begin() + 5), ElementsAre(32, 64, 96, 16, 17));
  for (size_t i = 4; i + 1 < used.size(); ++i) EXPECT_EQ(used[i], 17) << "step " << i;
  EXPECT_EQ(used.back(), 0);
  const SchedulerEvent& end = driver.finished.at(1);
  EXPECT_EQ(end.live, 257);
  EXPECT_EQ(end.evicted, 2000 + 499 - 257);
  EXPECT_EQ(evicted_by_rows, end.evicted);
  EXPECT_EQ(end.blocks, 17);
  const SchedulerCounters& counters = driver.scheduler.counters();
  EXPECT_EQ(counters.evicted_tokens, static_cast<uint64_t>(end.evicted));
  EXPECT_EQ(counters.freed_blocks[static_cast<size_t>(FreeCause::kPrefill)], 125u - 16u);
  EXPECT_EQ(counters.freed_blocks[static_cast<size_t>(FreeCause::kPeriodic)], 0u);
  EXPECT_EQ(counters.freed_blocks[static_cast<size_t>(FreeCause::kFinish)], 17u);
}

TEST(Scheduler, VictimsAreChosenOneStepBeforeTheyAreReused) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 15, 6, KvBudget::Exact(16))).ok());
  driver.Step();
  struct Expected {
    int32_t position, live;
    bool reuse, choose;
    int32_t evicted;
  };
  for (const Expected& e : {Expected{15, 15, false, false, 0},
                            {16, 16, false, true, 0},
                            {17, 17, true, true, 1},
                            {18, 17, true, true, 1},
                            {19, 17, true, true, 1}}) {
    const PlanRow row = driver.Step().at(0);
    EXPECT_EQ(row.position, e.position);
    EXPECT_EQ(row.live, e.live) << e.position;
    EXPECT_EQ(row.reuse_victim, e.reuse) << e.position;
    EXPECT_EQ(row.choose_victim, e.choose) << e.position;
    EXPECT_EQ(row.evicted, e.evicted) << e.position;
    EXPECT_EQ(row.shrink_to, 0);
  }
  EXPECT_TRUE(driver.scheduler.idle());
}

TEST(Scheduler, PeriodicCutsInTheStepThatReachesTheLimit) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 40, 40, KvBudget::Periodic(32, 16))).ok());
  EXPECT_EQ(driver.Step().at(0).shrink_to, 32) << "the prompt's cut";
  EXPECT_EQ(driver.used(), 2);
  for (int32_t i = 1; i <= 39; ++i) {
    const PlanRow row = driver.Step().at(0);
    EXPECT_FALSE(row.reuse_victim || row.choose_victim);
    EXPECT_EQ(row.shrink_to, i % 16 == 0 ? 32 : 0) << i;
    if (i < 39) {
      EXPECT_EQ(driver.used(), i % 16 == 0 ? 2 : 3) << i;
    }
  }
  EXPECT_EQ(driver.scheduler.counters().freed_blocks[static_cast<size_t>(FreeCause::kPeriodic)], 2u);
}

TEST(Scheduler, PromptWithinTheBudgetIsNotCut) {
  for (int32_t prompt_length : {1, 15, 16, 17}) {
    Driver driver(SmallOptions(64));
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, prompt_length, 2, KvBudget::Exact(16))).ok());
    EXPECT_EQ(driver.Step().at(0).shrink_to, prompt_length == 17 ? 16 : 0) << prompt_length;
    EXPECT_EQ(driver.used(), 1) << prompt_length;
  }
}

struct EndCase {
  const char* name;
  std::vector<int32_t> tokens;  // what the model says
  int32_t max_tokens;
  int32_t min_tokens;
  bool ignore_eos;
  std::vector<int32_t> stop_token_ids;
  size_t generated;
  FinishReason finish;
  int32_t stop_token;
};

TEST(Scheduler, SequencesEndWhereTheyShould) {
  const EndCase cases[] = {
      {"length", {5, 5, 5, 5}, 3, 0, false, {}, 3, FinishReason::kLength, -1},
      {"one token", {5}, 1, 0, false, {}, 1, FinishReason::kLength, -1},
      {"eos", {5, 2, 5}, 3, 0, false, {}, 2, FinishReason::kStop, -1},
      {"eos ignored", {5, 2, 5}, 3, 0, true, {}, 3, FinishReason::kLength, -1},
      {"stop token", {5, 9, 5}, 3, 0, false, {8, 9}, 2, FinishReason::kStop, 9},
      {"stop token though eos is ignored", {5, 9, 5}, 3, 0, true, {9}, 2, FinishReason::kStop, 9},
      {"eos as an explicit stop token though ignored", {5, 2, 5}, 3, 0, true, {2}, 2, FinishReason::kStop, 2},
      {"a stop on the last token is a stop", {5, 5, 2}, 3, 0, false, {}, 3, FinishReason::kStop, -1},
      {"min_tokens holds eos back", {2, 2, 2, 2}, 4, 3, false, {}, 3, FinishReason::kStop, -1},
      {"min_tokens holds stop tokens back", {9, 9, 9, 9}, 4, 2, false, {9}, 2, FinishReason::kStop, 9},
      {"eos as the first token", {2}, 5, 0, false, {}, 1, FinishReason::kStop, -1},
  };
  for (const EndCase& c : cases) {
    SCOPED_TRACE(c.name);
    Driver driver(SmallOptions(8));
    driver.token_of = [&](uint64_t id) { return c.tokens.at(driver.tokens[id].size()); };
    Request request = MakeRequest(1, 3, c.max_tokens);
    request.min_tokens = c.min_tokens;
    request.ignore_eos = c.ignore_eos;
    request.stop_token_ids = c.stop_token_ids;
    ASSERT_TRUE(driver.scheduler.Add(request).ok());
    driver.Drain();
    EXPECT_EQ(driver.tokens[1],
              std::vector<int32_t>(c.tokens.begin(), c.tokens.begin() + static_cast<long>(c.generated)));
    EXPECT_EQ(driver.finished.at(1).finish, c.finish);
    EXPECT_EQ(driver.finished.at(1).stop_token, c.stop_token);
    EXPECT_EQ(driver.finished.at(1).generated, static_cast<int32_t>(c.generated));
    EXPECT_EQ(driver.used(), 0);
  }
}

TEST(Scheduler, MaxTokensZeroComputesThePromptOnly) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 70, 0)).ok());
  EXPECT_FALSE(driver.Step().at(0).sample);
  EXPECT_FALSE(driver.Step().at(0).sample);
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kLength);
  EXPECT_EQ(driver.finished.at(1).token, -1);
  EXPECT_TRUE(driver.tokens.empty());
  EXPECT_EQ(driver.used(), 0);
}

TEST(Scheduler, AFailedRowEndsItsRequestOnly) {
  for (const bool starves : {false, true}) {
    Driver driver(SmallOptions(64));
    driver.failure = starves ? RowFailure::kNoMemory : RowFailure::kNumbers;
    for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 5, 4)).ok());
    driver.Step();
    driver.failing = 2;
    driver.Step();
    EXPECT_EQ(driver.finished.at(2).finish, starves ? FinishReason::kNoMemory : FinishReason::kError);
    EXPECT_EQ(driver.finished.at(2).token, -1);
    EXPECT_EQ(driver.tokens[2].size(), 1u);
    driver.Drain();
    EXPECT_EQ(driver.tokens[1].size(), 4u);
    EXPECT_EQ(driver.tokens[3].size(), 4u);
  }
}

TEST(Scheduler, AFailureInsideAPromptEndsIt) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 200, 4)).ok());
  driver.failing = 1;
  driver.Step();
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kError);
  EXPECT_EQ(driver.used(), 0);
}

TEST(Scheduler, CancelWhileWaitingFreesTheQueueAtOnce) {
  Driver driver(SmallOptions(64, 1));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 4)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 4)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 5, 4)).ok());
  driver.Step();
  EXPECT_TRUE(driver.scheduler.Cancel(2));
  EXPECT_FALSE(driver.scheduler.Cancel(2)) << "already ended";
  EXPECT_EQ(driver.scheduler.waiting(), 1);
  driver.Step();
  EXPECT_EQ(driver.finished.at(2).finish, FinishReason::kAbort);
  EXPECT_EQ(driver.finished.at(2).times.admitted_us, -1);
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 4u);
  EXPECT_EQ(driver.tokens[3].size(), 4u);
}

TEST(Scheduler, CancelBetweenStepsFreesBlocksAtOnce) {
  for (const char* moment : {"prefill", "decode"}) {
    Driver driver(SmallOptions(64));
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, moment[0] == 'p' ? 100 : 5, 40)).ok());
    driver.Step();
    EXPECT_GT(driver.used(), 0);
    EXPECT_TRUE(driver.scheduler.Cancel(1));
    EXPECT_EQ(driver.used(), 0) << moment;
    EXPECT_FALSE(driver.scheduler.idle()) << "the event is still to be delivered";
    EXPECT_TRUE(driver.Step().empty());
    EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kAbort);
    EXPECT_TRUE(driver.scheduler.idle());
    EXPECT_GT(driver.scheduler.counters().freed_blocks[static_cast<size_t>(FreeCause::kCancel)], 0u);
  }
}

TEST(Scheduler, CancelOfASequenceInFlightTakesEffectAtItsCommit) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 40, 40, KvBudget::Exact(16))).ok());
  driver.between = [&] {
    EXPECT_TRUE(driver.scheduler.Cancel(1));
    EXPECT_FALSE(driver.scheduler.Cancel(1));
    EXPECT_EQ(driver.used(), 3) << "the device still writes into them";
  };
  driver.Step();
  EXPECT_EQ(driver.used(), 0);
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kAbort);
  EXPECT_TRUE(driver.tokens.empty()) << "its token is dropped";
  EXPECT_TRUE(driver.scheduler.idle());
}

TEST(Scheduler, AddBetweenPlanAndCommitWaitsForTheNextPlan) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 3)).ok());
  driver.between = [&] { ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 3)).ok()); };
  EXPECT_EQ(driver.Step().size(), 1u);
  driver.between = nullptr;
  EXPECT_EQ(driver.Step().size(), 2u);
}

TEST(Scheduler, AnIdMayReturnOnceItsRequestEnded) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 1)).ok());
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 5, 1)).status().code(), absl::StatusCode::kAlreadyExists);
  driver.Drain();
  driver.finished.clear();
  EXPECT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 1)).ok());
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 2u);
}

TEST(Scheduler, StateRowsAreDistinctAndStable) {
  Driver driver(SmallOptions(64, 3));
  for (uint64_t id = 1; id <= 7; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 3, static_cast<int32_t>(2 + id % 4))).ok());
  }
  std::map<uint64_t, int32_t> row_of;
  while (!driver.scheduler.idle()) {
    const StepPlan& plan = driver.scheduler.Plan(0);
    std::vector<bool> taken(3, false);
    std::vector<RowResult> results;
    for (const PlanRow& row : plan.rows) {
      ASSERT_TRUE(row.state_row >= 0 && row.state_row < 3);
      EXPECT_FALSE(taken[static_cast<size_t>(row.state_row)]);
      taken[static_cast<size_t>(row.state_row)] = true;
      const uint64_t id = driver.scheduler.sequence(row.sequence).request.id;
      EXPECT_EQ(row_of.emplace(id, row.state_row).first->second, row.state_row);
      results.push_back({7});
    }
    driver.scheduler.Commit(plan, results, 0);
  }
  EXPECT_EQ(row_of.size(), 7u);
}

TEST(Scheduler, TimesAreThoseOfTheStepsThatDidIt) {
  Driver driver(SmallOptions(64, 1));
  Request first = MakeRequest(1, 5, 2);
  first.arrival_us = -5;
  ASSERT_TRUE(driver.scheduler.Add(first).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 2)).ok());
  driver.Drain();  // steps plan at 1, 3, 5, 7 and commit at 2, 4, 6, 8
  const RequestTimes& one = driver.finished.at(1).times;
  EXPECT_EQ(one.arrival_us, -5);
  EXPECT_EQ(one.admitted_us, 1);
  EXPECT_EQ(one.first_token_us, 2);
  EXPECT_EQ(one.last_token_us, 4);
  EXPECT_EQ(driver.finished.at(2).times.admitted_us, 5);
  EXPECT_EQ(driver.finished.at(2).times.last_token_us, 8);
}

TEST(Scheduler, CountersAddUp) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 20, 5)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 7, 3)).ok());
  driver.Drain();
  const SchedulerCounters& counters = driver.scheduler.counters();
  EXPECT_EQ(counters.admitted, 2u);
  EXPECT_EQ(counters.prompt_tokens, 27u);
  EXPECT_EQ(counters.generated_tokens, 8u);
  EXPECT_EQ(counters.finished[static_cast<size_t>(FinishReason::kLength)], 2u);
  EXPECT_EQ(counters.steps, 5u);
  const Tenant& tenant = driver.scheduler.tenant(0);
  EXPECT_EQ(tenant.prompt_tokens, 27u);
  EXPECT_EQ(tenant.generated_tokens, 8u);
  EXPECT_DOUBLE_EQ(tenant.service, 27 * 1.0 + 8 * 2.0);
}

class SteadyState : public testing::TestWithParam<int32_t> {};  // tenants

TEST_P(SteadyState, StepsAllocateNothing) {
  SchedulerOptions options = SmallOptions(256, 16);
  options.waiting_max = 32;
  options.tenants = {{.name = "a", .floor_blocks = 4}};
  if (GetParam() == 2) options.tenants.push_back({.name = "b"});
  Scheduler scheduler(options);
  scheduler.LimitSteps({.shared = 40});
  for (uint64_t id = 1; id <= 32; ++id) {
    // Prompts of several chunks, growth over block edges, cuts of both kinds, ends, and admissions from the queue.
    const KvBudget budget = id % 3 == 0   ? KvBudget::Unlimited()
                            : id % 3 == 1 ? KvBudget::Exact(33)
                                          : KvBudget::Periodic(17, 16);
    Request request = MakeRequest(id, static_cast<int32_t>(20 + 7 * id), static_cast<int32_t>(id * 5), budget);
    request.tenant = static_cast<int32_t>(id) % GetParam();
    ASSERT_TRUE(scheduler.Add(std::move(request)).ok());
  }
  std::vector<RowResult> results;
  results.reserve(16);
  // The first admissions give their tables memory, once and for all.
  const auto run = [&](int32_t steps) {
    for (int32_t i = 0; i < steps; ++i) {
      const StepPlan& plan = scheduler.Plan(i);
      results.assign(plan.rows.size(), RowResult{7});
      scheduler.Commit(plan, results, i);
    }
  };
  run(40);
  ASSERT_EQ(scheduler.running(), 16);
  const uint64_t admitted_before = scheduler.counters().admitted;
  const uint64_t before = AllocationCount();
  run(60);
  const uint64_t during = AllocationCount() - before;
  // Only a table that was never used may ask for memory: its blocks and its side blocks, per sequence admitted meanwhile.
  EXPECT_LE(during, 2 * (scheduler.counters().admitted - admitted_before));
  EXPECT_GT(scheduler.counters().evicted_tokens, 0u);

  while (scheduler.waiting() > 0) run(1);
  const uint64_t then = AllocationCount();
  run(20);
  EXPECT_GT(scheduler.running(), 0) << "nothing ran any more";
  EXPECT_EQ(AllocationCount() - then, 0u);
  EXPECT_GT(AllocationCount(), 0u) << "nothing is counted";
}

INSTANTIATE_TEST_SUITE_P(Tenants, SteadyState, testing::Values(1, 2));

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

TEST(SchedulerDeathTest, CommittingWithoutAPlanDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Scheduler scheduler(SmallOptions(4));
        const StepPlan& plan = scheduler.Plan(0);
        scheduler.Commit(plan, {}, 0);
        scheduler.Commit(plan, {}, 0);
      },
      "planned_");
}

}  // namespace
}  // namespace hydrant
