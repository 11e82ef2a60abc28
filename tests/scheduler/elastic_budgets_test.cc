// Budgets that fall so that a waiting request is let in: who, when, how far, and what is promised afterwards.
#include "scheduler/elastic_budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/scheduler/counting_new.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

KvBudget Elastic(int32_t keep, int32_t floor) {
  KvBudget budget = KvBudget::Exact(keep);
  budget.floor = floor;
  return budget;
}

const PlanRow* RowOf(const Driver& driver, const std::vector<PlanRow>& rows, uint64_t id) {
  for (const PlanRow& row : rows) {
    if (driver.scheduler.sequence(row.sequence).request.id == id) return &row;
  }
  return nullptr;
}

// Requests 1, 2, … in a pool that they fill: prompts of 63 tokens, a budget of 63, so 4 blocks each; then they decode.
class ElasticBudgetsTest : public testing::Test {
 protected:
  void Fill(const std::vector<KvBudget>& budgets, int32_t max_tokens = 200,
            std::vector<TenantOptions> tenants = {TenantOptions()}) {
    const auto count = static_cast<int32_t>(budgets.size());
    driver_.emplace(With(std::move(tenants), 4 * count, count + 2));
    for (const KvBudget& budget : budgets) {
      ASSERT_TRUE(driver().scheduler.Add(MakeRequest(++last_, 63, max_tokens, budget)).ok());
    }
    for (size_t i = 0; i <= 2 * budgets.size(); ++i) driver().Step();
    ASSERT_EQ(driver().scheduler.block_manager().pool().free(), 0);
  }
  // The next request, of so many blocks.
  uint64_t Ask(int32_t blocks, KvBudget budget = KvBudget::Unlimited()) {
    EXPECT_TRUE(driver().scheduler.Add(MakeRequest(++last_, 16 * blocks - 1, 2, budget)).ok());
    return last_;
  }
  Driver& driver() { return *driver_; }
  bool running(uint64_t id) {
    const std::span<const int32_t> all = driver().scheduler.running_sequences();
    return std::any_of(all.begin(), all.end(),
                       [&](int32_t index) { return driver().scheduler.sequence(index).request.id == id; });
  }
  std::vector<int32_t> Budgets() {
    std::vector<int32_t> budgets;
    for (int32_t index : driver().scheduler.running_sequences()) {
      budgets.push_back(driver().scheduler.sequence(index).request.budget.keep);
    }
    return budgets;
  }

  std::optional<Driver> driver_;
  uint64_t last_ = 0;
};

TEST_F(ElasticBudgetsTest, AskedInOneStepCutInTheNextLetInWithTheThird) {
  Fill({KvBudget::Exact(63), Elastic(63, 20)});
  const uint64_t waiting = Ask(1);
  const std::vector<PlanRow> asked = driver().Step();
  EXPECT_EQ(RowOf(driver(), asked, 1)->loss_cuts, 0) << "a plain budget is a guarantee";
  const PlanRow* row = RowOf(driver(), asked, 2);
  EXPECT_EQ(row->loss_keep_max, 47);
  EXPECT_EQ(row->loss_cuts, 2) << "to 47 and 31 slots: 15 are below the floor";
  EXPECT_FALSE(row->lowered);
  EXPECT_TRUE(row->choose_victim && row->reuse_victim);

  const std::vector<PlanRow> cut = driver().Step();
  row = RowOf(driver(), cut, 2);
  EXPECT_TRUE(row->lowered);
  EXPECT_EQ(row->keep, 47);
  EXPECT_EQ(row->shrink_to, 47);
  EXPECT_TRUE(row->reuse_victim) << "the victim chosen before is overwritten";
  EXPECT_FALSE(row->choose_victim);
  EXPECT_EQ(row->evicted, 64 + 1 - 47);
  EXPECT_EQ(driver().scheduler.shrinks_for(), waiting);
  EXPECT_THAT(Budgets(), ElementsAre(63, 47));
  EXPECT_FALSE(running(waiting));

  const std::vector<PlanRow> next = driver().Step();
  EXPECT_TRUE(running(waiting));
  row = RowOf(driver(), next, 2);
  EXPECT_FALSE(row->reuse_victim) << "a fresh slot: nothing waits to be overwritten";
  EXPECT_TRUE(row->choose_victim);
  EXPECT_EQ(row->live, 47);
  const SchedulerCounters& counters = driver().scheduler.counters();
  EXPECT_EQ(counters.shrinks, 1u);
  EXPECT_EQ(counters.freed_blocks[static_cast<size_t>(FreeCause::kShrink)], 1u);
  driver().Drain();
  EXPECT_EQ(driver().finished.at(2).budget, 47);
  EXPECT_EQ(driver().finished.at(2).live, 48);
  EXPECT_EQ(driver().finished.at(2).evicted, 63 + 199 - 48);
  EXPECT_EQ(driver().finished.at(1).evicted, 63 + 199 - 64) << "the guarantee was kept";
}

TEST_F(ElasticBudgetsTest, NobodyIsCutWhenAllFloorsTogetherAreNotEnough) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  Ask(5);
  for (int32_t step = 0; step < 20; ++step) {
    for (const PlanRow& row : driver().Step()) {
      EXPECT_EQ(row.loss_cuts, 0) << "nor is anybody asked";
      EXPECT_FALSE(row.lowered);
    }
  }
  EXPECT_EQ(driver().scheduler.counters().shrinks, 0u);
}

// The blocks of a turn that ends become free when its KV is parked: nothing is taken from anybody meanwhile, and for
// more than these nobody is promised what is still to be copied.
TEST_F(ElasticBudgetsTest, NobodyIsCutForBlocksThatAreOnTheirWay) {
  for (const int32_t blocks : {4, 5}) {
    SchedulerOptions options = With({TenantOptions()}, 8, 4);
    options.parked_blocks_max = 8;
    Driver driver(options);
    driver.scheduler.LimitSteps({.blocks_moved_max = 2});
    Request turn = MakeRequest(2, 60, 4);
    turn.session = turn.turn = 2;
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 63, 200, Elastic(63, 20))).ok());
    ASSERT_TRUE(driver.scheduler.Add(turn).ok());
    while (driver.tokens[2].size() < 3) driver.Step();
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 16 * blocks - 1, 2)).ok());
    int32_t steps = 0;
    for (; steps < 20 && !driver.tokens.contains(3); ++steps) {
      const bool on_their_way = driver.used() - 4 > 0 && blocks == 4;
      driver.Step();
      EXPECT_TRUE(!on_their_way || driver.scheduler.counters().shrinks == 0) << steps;
      driver.scheduler.FinishParks();
    }
    EXPECT_LT(steps, 20);
    EXPECT_EQ(driver.scheduler.counters().shrinks, blocks == 4 ? 0u : 1u);
    driver.scheduler.Cancel(1);
    driver.Drain();
  }
}

TEST_F(ElasticBudgetsTest, WaitingForWhatNobodyCanGiveAllocatesNothing) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  Ask(5);
  std::vector<RowResult> results(2);
  for (RowResult& result : results) result.token = 7;
  uint64_t before = 0;
  for (int32_t step = 0; step < 60; ++step) {
    if (step == 20) before = AllocationCount();
    const StepPlan& plan = driver().scheduler.Plan(1000 + step);
    ASSERT_EQ(plan.rows.size(), 2u);
    driver().scheduler.Commit(plan, results, 1001 + step);
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST_F(ElasticBudgetsTest, AllGiveWhatIsNeededAndStayThere) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  const uint64_t waiting = Ask(4);
  driver().Step();
  driver().Step();
  EXPECT_THAT(Budgets(), ElementsAre(31, 31));
  driver().Step();
  EXPECT_TRUE(running(waiting));
  driver().Drain();
  EXPECT_EQ(driver().finished.at(1).live, 32) << "a budget that fell does not grow again";
}

TEST_F(ElasticBudgetsTest, TheCheapestIsCut) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  driver().losses_of = [](uint64_t id) { return id == 1 ? 0.02f : 0.01f; };
  Ask(1);
  driver().Step();
  driver().Step();
  EXPECT_THAT(Budgets(), ElementsAre(63, 47));
}

// What will have ended with the step makes room at no loss, and who ends with it is not cut.
TEST_F(ElasticBudgetsTest, NobodyIsCutForWhatAnEndBringsAnyway) {
  Fill({Elastic(63, 31), Elastic(63, 31)}, /*max_tokens=*/10);
  while (driver().scheduler.sequence(0).generated() < 9) driver().Step();
  const uint64_t waiting = Ask(2);
  for (const PlanRow& row : driver().Step()) EXPECT_EQ(row.loss_cuts, 0);
  EXPECT_TRUE(driver().finished.contains(1));
  driver().Step();
  EXPECT_TRUE(running(waiting));
  EXPECT_EQ(driver().scheduler.counters().shrinks, 0u);
}

TEST_F(ElasticBudgetsTest, ACancelledOrPausedOneIsLeftAlone) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  driver().scheduler.SetPaused(1, true);
  Ask(3);
  for (const PlanRow& row : driver().Step()) EXPECT_EQ(row.loss_cuts, 0) << "the other one's two blocks are too few";
  driver().scheduler.SetPaused(1, false);
  EXPECT_EQ(driver().Step()[0].loss_cuts, 2);
  driver().between = [&] { driver().scheduler.Cancel(last_); };
  driver().Step();
  driver().between = nullptr;
  const uint64_t shrinks = driver().scheduler.counters().shrinks;
  for (int32_t step = 0; step < 5; ++step) driver().Step();
  EXPECT_EQ(driver().scheduler.counters().shrinks, shrinks) << "nobody waits any more";
}

// What is promised beyond what is held can be given back without a cut.
TEST_F(ElasticBudgetsTest, APromiseIsLoweredBeforeItIsUsed) {
  Driver small(SmallOptions(8));
  ASSERT_TRUE(small.scheduler.Add(MakeRequest(1, 15, 200, Elastic(127, 31))).ok());
  small.Step();
  EXPECT_EQ(small.scheduler.sequence(0).blocks.reserved(), 8);
  ASSERT_TRUE(small.scheduler.Add(MakeRequest(2, 63, 2)).ok());
  small.Step();
  const std::vector<PlanRow> rows = small.Step();
  EXPECT_TRUE(rows[0].lowered);
  EXPECT_EQ(rows[0].keep, 63);
  EXPECT_EQ(rows[0].shrink_to, 0);
  EXPECT_EQ(rows[0].evicted, 0);
  EXPECT_EQ(small.scheduler.sequence(0).blocks.reserved(), 4);
  small.Step();
  EXPECT_EQ(small.scheduler.running(), 2);
  EXPECT_EQ(small.scheduler.counters().freed_blocks[static_cast<size_t>(FreeCause::kShrink)], 0u);
  small.Drain();
  EXPECT_EQ(small.finished.at(1).live, 64);
}

// Between the cut and the next step comes somebody who goes before the one that waits, by priority or by turn.
TEST_F(ElasticBudgetsTest, WhatWasGivenIsForWhomItWasGiven) {
  for (const int32_t tenant : {0, 1}) {
    for (const bool paused : {false, true}) {
      SCOPED_TRACE(testing::Message() << "tenant " << tenant << (paused ? ", admission is paused for a step" : ""));
      Fill({Elastic(63, 31), Elastic(63, 31)}, 200, {{"a"}, {"b"}});
      const uint64_t waiting = Ask(2);
      driver().Step();
      driver().Step();
      const uint64_t shrinks = driver().scheduler.counters().shrinks;
      ASSERT_GT(shrinks, 0u);
      Request urgent = Of(tenant, ++last_, 31, 2);
      urgent.priority = -1;
      ASSERT_TRUE(driver().scheduler.Add(std::move(urgent)).ok());
      driver().scheduler.PauseAdmission(paused);
      if (paused) driver().Step();
      EXPECT_EQ(driver().scheduler.counters().shrinks, shrinks);
      driver().scheduler.PauseAdmission(false);
      driver().Step();
      EXPECT_TRUE(running(waiting));
      EXPECT_FALSE(running(last_));
    }
  }
}

// Who was to have it leaves: it is for the next in line, who goes by priority again.
TEST_F(ElasticBudgetsTest, WhatWasGivenToOneThatLeftIsForTheNext) {
  Fill({Elastic(63, 31), Elastic(63, 31)});
  const uint64_t waiting = Ask(2);
  driver().Step();
  driver().Step();
  Request next = MakeRequest(++last_, 30, 3);
  Request urgent = MakeRequest(++last_, 30, 3);
  urgent.priority = -1;
  ASSERT_TRUE(driver().scheduler.Add(std::move(next)).ok());
  ASSERT_TRUE(driver().scheduler.Add(std::move(urgent)).ok());
  driver().scheduler.Cancel(waiting);
  driver().Step();
  EXPECT_TRUE(running(last_));
  EXPECT_FALSE(running(last_ - 1));
}

TEST_F(ElasticBudgetsTest, APeriodicBudgetIsCutWhereItStands) {
  KvBudget periodic = KvBudget::Periodic(56, 8);
  periodic.floor = 20;
  Fill({periodic, KvBudget::Exact(63)});
  driver().Step();
  Ask(1);
  driver().Step();
  const std::vector<PlanRow> rows = driver().Step();
  const PlanRow* row = RowOf(driver(), rows, 1);
  EXPECT_EQ(row->keep, 40) << "40 + 8 slots fill three blocks";
  EXPECT_EQ(row->shrink_to, 40);
  driver().Drain();
  EXPECT_LE(driver().finished.at(1).live, 48);
  EXPECT_EQ(driver().finished.at(1).budget, 40);
}

// Who waits begins with the prompt of the one that gives: what it finds there is no room that it wins.
TEST_F(ElasticBudgetsTest, WhatTheHeadSharesWithTheGiverIsNotCountedTwice) {
  int32_t fell = 0;
  for (int32_t blocks = 8; blocks <= 20; ++blocks) {
    SCOPED_TRACE(blocks);
    Driver sharing(SmallOptions(blocks));
    if (!sharing.scheduler.Add(Shared(1, 48, 100, Elastic(63, 15))).ok()) continue;
    for (int32_t step = 0; step < 4; ++step) sharing.Step();
    Request waits = Shared(2, 16 * 6 - 1, 2);
    ASSERT_TRUE(sharing.scheduler.Add(waits).ok());
    for (int32_t step = 0; step < 12 && sharing.scheduler.waiting() > 0; ++step) {
      const uint64_t before = sharing.scheduler.counters().shrinks;
      sharing.Step();
      if (sharing.scheduler.counters().shrinks == before) continue;
      ++fell;
      sharing.Step();
      EXPECT_EQ(sharing.scheduler.running(), 2);
    }
    sharing.Drain();
  }
  EXPECT_GT(fell, 1);
}

// Two that read the same prompt: what is cut is copied first, and what the other one reads stays.
TEST_F(ElasticBudgetsTest, SharedBlocksAreCopiedBeforeACut) {
  Driver sharing(SmallOptions(18));
  for (uint64_t id : {1, 2}) {
    Request request = MakeRequest(id, 48, 100, id == 1 ? Elastic(63, 15) : KvBudget::Unlimited());
    request.prefix.publishes = request.prefix.looks_up = true;
    if (id == 2) request.max_tokens = 40;
    ASSERT_TRUE(sharing.scheduler.Add(request).ok());
    sharing.Step();
    sharing.Step();
  }
  ASSERT_EQ(sharing.scheduler.counters().prefix_hits, 32u);
  ASSERT_TRUE(sharing.scheduler.sequence(0).shares);
  Request third = MakeRequest(3, 16 * 8 - 1, 2);
  std::vector<int32_t> other = third.prompt;
  for (int32_t& token : other) token += 5000;
  third.prompt = std::move(other);
  ASSERT_TRUE(sharing.scheduler.Add(third).ok());
  size_t copies = 0;
  for (int32_t step = 0; step < 3; ++step) {
    for (const PlanRow& row : sharing.Step()) {
      if (row.lowered) copies = row.copies.size();
    }
  }
  EXPECT_EQ(sharing.scheduler.counters().shrinks, 1u);
  EXPECT_GT(copies, 0u);
  EXPECT_FALSE(sharing.scheduler.sequence(0).shares);
  EXPECT_EQ(sharing.scheduler.running(), 3);
  sharing.Drain();
}

}  // namespace
}  // namespace hydrant
