// What becomes of sequences when a step is over.
#include "scheduler/step_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

TEST(StepCommit, ABudgetHoldsItsBlocksHoweverLongItRuns) {
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
  const SequenceEvent& end = driver.finished.at(1);
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

TEST(StepCommit, SequencesEndWhereTheyShould) {
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

TEST(StepCommit, MaxTokensZeroComputesThePromptOnly) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 70, 0)).ok());
  EXPECT_FALSE(driver.Step().at(0).sample);
  EXPECT_FALSE(driver.Step().at(0).sample);
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kLength);
  EXPECT_EQ(driver.finished.at(1).token, -1);
  EXPECT_TRUE(driver.tokens.empty());
  EXPECT_EQ(driver.used(), 0);
}

TEST(StepCommit, AFailedRowEndsItsRequestOnly) {
  for (const bool starves : {false, true}) {
    Driver driver(SmallOptions(64));
    driver.failure = starves ? FinishReason::kNoMemory : FinishReason::kError;
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

TEST(StepCommit, AFailureInsideAPromptEndsIt) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 200, 4)).ok());
  driver.failing = 1;
  driver.Step();
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kError);
  EXPECT_EQ(driver.used(), 0);
}

TEST(StepCommit, CancelOfASequenceInFlightTakesEffectAtItsCommit) {
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

TEST(StepCommit, TimesAreThoseOfTheStepsThatDidIt) {
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

TEST(StepCommit, CountersAddUp) {
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

TEST(StepCommit, ACutCopiesTheFullBlocksThatItKeeps) {
  SchedulerOptions options = SmallOptions(32);
  options.spare_score_blocks = 32;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 60, 5, KvBudget::Exact(24), ScoreNeed::kZeros)).ok());
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

TEST(StepCommit, AFailedRowIsNotPublished) {
  Driver driver(SmallOptions(16));
  driver.failing = 1;
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 50, 3)).ok());
  driver.Drain();
  EXPECT_EQ(driver.scheduler.block_manager().index().size(), 0);
  EXPECT_EQ(driver.scheduler.block_manager().pool().free(), 16);
}

// Answers with 10, 11, 12, …; `guess` says what is drafted before each step.
class Counting {
 public:
  Counting(const SchedulerOptions& options, std::function<std::vector<int32_t>(int32_t next)> guess)
      : driver(options), guess_(std::move(guess)) {
    driver.token_of = [this](uint64_t id) { return 10 + said_[id]++; };
  }

  void Run() {
    while (!driver.scheduler.idle()) {
      for (const int32_t index : driver.scheduler.running_sequences()) {
        const Sequence& sequence = driver.scheduler.sequence(index);
        if (!sequence.continues()) continue;
        driver.scheduler.Draft(index, guess_(sequence.last_token + 1));
      }
      for (const PlanRow& row : driver.Step()) drafts_max = std::max(drafts_max, row.drafts());
      ++steps;
      for (const SequenceEvent& event : driver.step_events) {
        seen[event.id].push_back({event.token, event.generated, event.live, event.evicted, event.blocks});
      }
    }
  }

  Driver driver;
  int32_t steps = 0;
  int32_t drafts_max = 0;
  std::map<uint64_t, std::vector<std::array<int32_t, 5>>> seen;

 private:
  const std::function<std::vector<int32_t>(int32_t)> guess_;
  std::map<uint64_t, int32_t> said_;
};

TEST(StepCommit, DraftsChangeNoEvent) {
  const auto add = [](Counting& counting) {
    EXPECT_TRUE(counting.driver.scheduler.Add(MakeRequest(1, 5, 60)).ok());
    EXPECT_TRUE(counting.driver.scheduler.Add(MakeRequest(2, 20, 60, KvBudget::Exact(50))).ok());
    EXPECT_TRUE(counting.driver.scheduler.Add(MakeRequest(3, 30, 60, KvBudget::Periodic(18, 12))).ok());
    EXPECT_TRUE(counting.driver.scheduler.Add(Shared(4, 20, 60, KvBudget::Exact(64))).ok());
  };
  SchedulerOptions options = SmallOptions(40);
  Counting truth(options, [](int32_t) { return std::vector<int32_t>(); });
  add(truth);
  truth.Run();
  options.drafts_max = 12;
  const std::function<std::vector<int32_t>(int32_t)> guesses[] = {
      [](int32_t next) {
        return std::vector<int32_t>{next, next + 1, next + 2};
      },
      [](int32_t) { return std::vector<int32_t>{1, 1, 1, 1, 1, 1}; },
      [](int32_t next) {
        return std::vector<int32_t>{next, next + 1, 1, next + 3};
      },
  };
  for (const auto& guess : guesses) {
    Counting counting(options, guess);
    add(counting);
    counting.Run();
    EXPECT_EQ(counting.seen, truth.seen);
    EXPECT_GE(counting.drafts_max, 3);
    EXPECT_EQ(counting.driver.used(), 0);
    const SchedulerCounters& counters = counting.driver.scheduler.counters();
    EXPECT_EQ(counters.generated_tokens, truth.driver.scheduler.counters().generated_tokens);
    EXPECT_EQ(counting.driver.scheduler.tenant(0).charged, truth.driver.scheduler.tenant(0).charged);
    EXPECT_GT(counters.draft_tokens, 50u);
    EXPECT_EQ(counting.steps == truth.steps, counters.drafts_accepted == 0);
    uint64_t by_position = 0;
    for (const uint64_t accepted : counters.accepted_per_position) by_position += accepted;
    EXPECT_EQ(by_position, counters.drafts_accepted);
  }
}

// One whose only request has drafts for its next row.
class DriverWithDrafts : public Driver {
 public:
  explicit DriverWithDrafts(const KvBudget& budget = KvBudget()) : Driver(Options()) {
    EXPECT_TRUE(scheduler.Add(MakeRequest(1, 14, 40, budget)).ok());
    Step();
    while (budget.limited() && !scheduler.sequence(0).at_budget()) Step();
    scheduler.Draft(0, std::vector<int32_t>(20, 7));
  }

 private:
  static SchedulerOptions Options() {
    SchedulerOptions options = SmallOptions(16);
    options.drafts_max = 20;
    return options;
  }
};

TEST(StepCommit, ACancelledRowsDraftsAreNobodys) {
  DriverWithDrafts driver;
  driver.between = [&] {
    EXPECT_EQ(driver.used(), 3) << "for the drafts";
    driver.scheduler.Cancel(1);
  };
  driver.Step();
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kAbort);
  EXPECT_EQ(driver.finished.at(1).generated, 1);
  EXPECT_EQ(driver.finished.at(1).live, 15);
  EXPECT_EQ(driver.used(), 0);
}

TEST(StepCommit, AFailedRowsDraftsAreNobodys) {
  DriverWithDrafts driver;
  driver.failing = 1;
  driver.Step();
  EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kError);
  EXPECT_EQ(driver.finished.at(1).generated, 1);
  EXPECT_EQ(driver.used(), 0);
}

// Whether it is cancelled or fails, its one token has evicted one, and the drafts none.
TEST(StepCommit, WhatEndsAtItsBudgetHasEvictedForItsTokenAlone) {
  for (const bool cancelled : {false, true}) {
    DriverWithDrafts driver(KvBudget::Exact(10));
    const uint64_t before = driver.scheduler.counters().evicted_tokens;
    if (cancelled) {
      driver.between = [&] { driver.scheduler.Cancel(1); };
    } else {
      driver.failing = 1;
    }
    driver.Step();
    EXPECT_EQ(driver.scheduler.plan().rows.at(0).drafts(), 20);
    EXPECT_EQ(driver.finished.at(1).finish, cancelled ? FinishReason::kAbort : FinishReason::kError);
    EXPECT_EQ(driver.finished.at(1).live, 11);
    EXPECT_EQ(driver.scheduler.counters().evicted_tokens, before + 1);
    EXPECT_EQ(driver.used(), 0);
  }
}

}  // namespace
}  // namespace hydrant
