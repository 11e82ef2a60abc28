// Steps that are planned before the one in front of them is committed: Scheduler::PlanAhead.
#include "scheduler/plan_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

struct AheadDriver : Driver {
  explicit AheadDriver(const SchedulerOptions& options = SmallOptions(64)) : Driver(options) { ahead = true; }

  void Add(Request request) { ASSERT_TRUE(scheduler.Add(std::move(request)).ok()); }
  // Until a plan is in flight after the one that was committed.
  void RunAhead() {
    for (int32_t steps = 0; in_flight.empty(); ++steps) {
      ASSERT_LT(steps, 20);
      Step();
    }
  }
};

Request OfSession(uint64_t session, Request request) {
  request.session = session;
  request.turn = request.id;
  return request;
}

SchedulerOptions WithParking(int32_t blocks) {
  SchedulerOptions options = SmallOptions(blocks);
  options.parked_blocks_max = 64;
  return options;
}

TEST(PlanAhead, ARowContinuesTheOneInFlight) {
  AheadDriver driver;
  driver.Add(MakeRequest(1, 20, 10));
  EXPECT_THAT(driver.Step(), SizeIs(1));
  EXPECT_THAT(driver.in_flight, IsEmpty()) << "behind a prompt nothing is certain";
  const PlanRow first = driver.Step().front();
  ASSERT_THAT(driver.in_flight, SizeIs(1));
  const PlanRow& ahead = driver.in_flight.front()->rows.front();
  EXPECT_EQ(ahead.tokens[0], kSampledId);
  EXPECT_EQ(ahead.position, first.position + 1);
  EXPECT_EQ(ahead.live, first.live + 1);
  EXPECT_EQ(ahead.state_row, first.state_row);
  EXPECT_TRUE(ahead.sample);
  EXPECT_EQ(driver.in_flight.front()->number, 3u);
  EXPECT_EQ(driver.step_events.front().live, 21) << "the row ahead is not in it";
}

TEST(PlanAhead, TheLastTokenIsNeverFedBack) {
  AheadDriver driver;
  driver.Add(MakeRequest(1, 10, 5));
  driver.Add(MakeRequest(2, 10, 3));
  EXPECT_EQ(driver.Drain(), 5);
  EXPECT_THAT(driver.tokens[1], SizeIs(5));
  EXPECT_THAT(driver.tokens[2], SizeIs(3));
  EXPECT_EQ(driver.scheduler.counters().steps, 5u) << "as many as without";
  EXPECT_EQ(driver.scheduler.counters().generated_tokens, 8u);
  EXPECT_EQ(driver.used(), 0);
}

// Whatever must be seen before the next step is planned.
TEST(PlanAhead, WhatIsNotCertainIsNotPlanned) {
  struct Case {
    std::string name;
    bool planned;
    std::function<void(AheadDriver&)> change;  // while two plain sequences are in progress
  };
  const Case cases[] = {
      {"nothing", true, [](AheadDriver&) {}},
      {"a prompt", false, [](AheadDriver& driver) { driver.Add(MakeRequest(9, 40, 5)); }},
      {"nobody is let in", true,
       [](AheadDriver& driver) {
         driver.scheduler.PauseAdmission(true);
         driver.Add(MakeRequest(9, 40, 5));
       }},
      {"a token that is needed", false,
       [](AheadDriver& driver) { driver.can_plan_ahead = [](int32_t i) { return i != 1; }; }},
      {"a paused one", true, [](AheadDriver& driver) { driver.scheduler.SetPaused(1, true); }},
      {"all are paused", false,
       [](AheadDriver& driver) {
         driver.scheduler.SetPaused(1, true);
         driver.scheduler.SetPaused(2, true);
       }},
      {"a cancelled one", true, [](AheadDriver& driver) { EXPECT_TRUE(driver.scheduler.Cancel(1)); }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    AheadDriver driver(WithParking(64));
    driver.Add(MakeRequest(1, 10, 20));
    driver.Add(MakeRequest(2, 10, 20));
    driver.RunAhead();
    each.change(driver);
    driver.Step();
    EXPECT_EQ(!driver.in_flight.empty(), each.planned);
    for (const StepPlan* plan : driver.in_flight) {
      for (const PlanRow& row : plan->rows) EXPECT_EQ(row.tokens[0], kSampledId);
    }
    driver.scheduler.PauseAdmission(false);
    driver.scheduler.SetPaused(1, false);
    driver.scheduler.SetPaused(2, false);
    driver.Drain();
    EXPECT_EQ(driver.used(), 0);
  }
}

TEST(PlanAhead, CutsAndFirstEvictionsAreStepsOfTheirOwn) {
  // A cut every four tokens: the step that cuts, and the one after it, are planned when the one before is over.
  AheadDriver driver;
  driver.Add(MakeRequest(1, 16, 13, KvBudget::Periodic(16, 4)));
  std::vector<bool> ahead;
  while (!driver.scheduler.idle()) {
    const PlanRow row = driver.Step().front();
    ahead.push_back(!driver.in_flight.empty());
    EXPECT_TRUE(row.shrink_to == 0 || driver.in_flight.empty());
  }
  EXPECT_THAT(ahead, ElementsAre(false, true, true, false, false, true, true, false, false, true, true, false, false));
}

// Who cannot be let in as things stand holds up nobody's steps: neither at its own cap nor where the pool is full.
TEST(PlanAhead, WhoWaitsForBlocksHoldsNobodyUp) {
  for (const int32_t cap : {0, 20}) {
    SchedulerOptions options = SmallOptions(512, 16);
    options.tenants = {{.name = "a", .blocks_max = cap}, {.name = "b"}};
    AheadDriver driver(options);
    for (uint64_t id = 1; id <= 8; ++id) driver.Add(Of(1, id, 16, 500));
    driver.Add(Of(0, 9, 16, 200));
    driver.RunAhead();
    driver.Add(Of(0, 10, 16, cap > 0 ? 200 : 400 * kBlockSlots));
    for (int32_t step = 0; step < 100; ++step) {
      driver.Step();
      ASSERT_THAT(driver.in_flight, SizeIs(1)) << "step " << step << ", cap " << cap;
      ASSERT_EQ(driver.scheduler.waiting(), 1);
    }
    driver.Drain();
    EXPECT_THAT(driver.tokens[10], SizeIs(cap > 0 ? 200 : 400 * kBlockSlots)) << "and it is let in";
  }
}

// Budgets may fall for who waits: that is a step of its own.
TEST(PlanAhead, WhoseBudgetMayFallIsNotPlannedAhead) {
  AheadDriver driver(SmallOptions(24, 4));
  KvBudget elastic = KvBudget::Exact(128);
  elastic.floor = 32;
  driver.Add(MakeRequest(1, 140, 100, elastic));
  driver.Add(MakeRequest(2, 16, 200));
  driver.RunAhead();
  driver.Add(MakeRequest(3, 16, 90));
  int32_t steps = 0;
  for (; driver.scheduler.waiting() > 0 && steps < 20; ++steps) driver.Step();
  EXPECT_LE(steps, 6) << "asked, lowered, let in, and what was in flight";
  driver.Drain();
}

// Everybody who runs has a row ahead: who waits waits for an end, and that is seen a step later.
TEST(PlanAhead, WhoWaitsForAPlaceHoldsNobodyUp) {
  AheadDriver driver(SmallOptions(64, 2));
  driver.Add(MakeRequest(1, 10, 6));
  driver.Add(MakeRequest(2, 10, 20));
  driver.Add(MakeRequest(3, 10, 4));
  driver.RunAhead();
  EXPECT_EQ(driver.scheduler.waiting(), 1);
  driver.Step();
  EXPECT_THAT(driver.in_flight, SizeIs(1));
  while (!driver.finished.contains(1)) driver.Step();
  EXPECT_THAT(driver.in_flight, IsEmpty()) << "that it would end was known";
  driver.Step();
  EXPECT_EQ(driver.scheduler.waiting(), 0);
  driver.Drain();
  EXPECT_THAT(driver.tokens[3], SizeIs(4));
}

TEST(PlanAhead, WhatEndsWithARowAheadEndsOnceThatIsOver) {
  AheadDriver driver;
  driver.Add(MakeRequest(1, 10, 20));
  driver.Add(MakeRequest(2, 10, 20));
  driver.RunAhead();
  driver.token_of = [](uint64_t id) { return id == 1 ? 2 : 7; };  // 2 is an eos
  driver.Step();
  ASSERT_THAT(driver.step_events, SizeIs(1));
  EXPECT_EQ(driver.step_events[0].id, 2u);
  const uint64_t generated = driver.scheduler.counters().generated_tokens;
  const size_t tokens = driver.tokens[1].size();
  EXPECT_FALSE(driver.scheduler.Cancel(1)) << "it has ended";
  driver.token_of = [](uint64_t) { return 9; };
  driver.Step();
  EXPECT_EQ(driver.tokens[1].size(), tokens + 1) << "nobody wants what came after it";
  ASSERT_TRUE(driver.finished.contains(1));
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kStop);
  EXPECT_EQ(driver.finished[1].token, 2) << "a token and its end are one event";
  EXPECT_EQ(driver.finished[1].generated, static_cast<int32_t>(tokens) + 1);
  EXPECT_EQ(driver.scheduler.counters().generated_tokens, generated + 1) << "the other one's";
  EXPECT_EQ(driver.scheduler.running(), 1);
  driver.scheduler.Cancel(2);
  driver.Drain();
  EXPECT_EQ(driver.used(), 0);
}

TEST(PlanAhead, ErrorsAndCancelsTakeTheRowAheadAlong) {
  AheadDriver driver;
  driver.Add(MakeRequest(1, 10, 20));
  driver.Add(MakeRequest(2, 10, 20));
  driver.Add(MakeRequest(3, 10, 20));
  driver.RunAhead();
  driver.failing = 1;
  EXPECT_TRUE(driver.scheduler.Cancel(2));
  EXPECT_FALSE(driver.scheduler.Cancel(2));
  driver.Step();
  EXPECT_EQ(driver.finished.size(), 1u) << "request 2 has no row in the plan that was made after Cancel";
  EXPECT_EQ(driver.finished[2].finish, FinishReason::kAbort);
  EXPECT_GT(driver.used(), 1) << "request 1 has";
  driver.Step();
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kError);
  EXPECT_EQ(driver.finished[1].token, -1);
  EXPECT_EQ(driver.used(), 1);
  driver.between = [&] { driver.scheduler.Cancel(3); };
  driver.Drain();
  EXPECT_EQ(driver.finished[3].finish, FinishReason::kAbort);
  EXPECT_EQ(driver.used(), 0);
}

// The last token is not fed back, and what a row ahead made of it stays behind.
TEST(PlanAhead, ASessionIsParkedWithoutItsRowAhead) {
  AheadDriver driver(WithParking(64));
  driver.Add(OfSession(5, MakeRequest(1, 10, 20)));
  driver.Add(MakeRequest(2, 10, 20));
  driver.RunAhead();
  for (int32_t i = 0; i < 4; ++i) driver.Step();
  driver.token_of = [](uint64_t id) { return id == 1 ? 2 : 7; };
  driver.Step();
  EXPECT_THAT(driver.scheduler.parks(), IsEmpty());
  EXPECT_THAT(driver.in_flight, SizeIs(1));
  driver.token_of = [](uint64_t) { return 7; };
  driver.Step();
  EXPECT_EQ(driver.finished[1].finish, FinishReason::kStop);
  EXPECT_THAT(driver.in_flight, IsEmpty()) << "it leaves when nothing is in flight";
  ASSERT_THAT(driver.scheduler.parks(), SizeIs(1));
  const PlanPark& park = driver.scheduler.parks().front();
  const int32_t computed = 10 + driver.finished[1].generated - 1;
  EXPECT_EQ(park.computed, computed);
  EXPECT_EQ(park.live, computed);
  EXPECT_EQ(park.cut_from, 0);
  driver.scheduler.FinishParks();
  Request next = OfSession(5, MakeRequest(3, computed + 1, 2));
  next.resumes = 1;
  driver.Add(next);
  while (!driver.finished.contains(3)) driver.Step();
  EXPECT_EQ(driver.finished[3].restored, computed);
  driver.scheduler.FinishParks();
  driver.Drain();
  EXPECT_EQ(driver.used(), 0);
}

// The executor leaves a row out after the ids it is told of; the counts are those of steps one by one.
TEST(PlanAhead, ASessionWithABudgetIsParkedAsIfItHadEndedAlone) {
  struct Parked {
    int32_t computed, live, cut_from;
    bool operator==(const Parked&) const = default;
  };
  for (const int32_t tokens : {4, 7, 8, 9, 12}) {  // below the budget, at it, with a victim that waits
    SCOPED_TRACE(tokens);
    Parked parked[2];
    for (const bool ahead : {false, true}) {
      AheadDriver driver(WithParking(64));
      driver.ahead = ahead;
      Request turn = OfSession(5, MakeRequest(1, 10, 40, KvBudget::Exact(16)));
      turn.stop_token_ids = {9};
      turn.min_tokens = 3;
      driver.Add(turn);
      driver.Add(MakeRequest(2, 10, 40));
      driver.token_of = [&](uint64_t id) {
        const bool last = id == 1 && std::ssize(driver.tokens[1]) + 1 == tokens;
        return last ? 9 : 7;
      };
      driver.between = [&] {
        for (const PlanRow& row : driver.in_flight.front()->rows) {
          const int32_t number =
              row.position + static_cast<int32_t>(std::ssize(row.tokens)) - 10;  // of what it samples
          const bool told = driver.scheduler.sequence(row.sequence).request.id == 1 && number + 1 >= turn.min_tokens;
          EXPECT_THAT(row.stop_ids, ElementsAreArray(told ? std::vector<int32_t>{2, 9} : std::vector<int32_t>()));
        }
      };
      bool behind = false;
      while (driver.scheduler.parks().empty()) {
        driver.Step();
        behind |= std::ssize(driver.tokens[1]) == tokens - 1 && driver.scheduler.sequence(0).retired();
        ASSERT_EQ(driver.finished.contains(1), !driver.scheduler.parks().empty());
      }
      EXPECT_EQ(behind, ahead) << "a row behind the end";
      const PlanPark& park = driver.scheduler.parks().front();
      parked[ahead] = {park.computed, park.live, park.cut_from};
      EXPECT_EQ(park.computed, 10 + tokens - 1);
      EXPECT_EQ(driver.finished[1].evicted, park.computed - (park.cut_from > 0 ? park.cut_from : park.live));
      driver.scheduler.FinishParks();
      driver.scheduler.Cancel(2);
      driver.Drain();
      EXPECT_EQ(driver.used(), 0);
    }
    EXPECT_EQ(parked[0], parked[1]);
  }
}

// What is copied out of the pool between two steps is copied when nothing is in flight.
TEST(PlanAhead, NobodyIsPlannedAheadWhileKvWaitsToBeParked) {
  AheadDriver driver(WithParking(64));
  StepLimits limits;
  limits.blocks_moved_max = 2;
  driver.scheduler.LimitSteps(limits);
  driver.Add(OfSession(5, MakeRequest(1, 60, 3)));
  driver.Add(MakeRequest(2, 10, 40));
  while (!driver.finished.contains(1)) driver.Step();
  ASSERT_THAT(driver.scheduler.parks(), SizeIs(1));
  driver.ahead = true;
  int32_t slices = 0;
  for (; !driver.scheduler.parks().empty(); ++slices) {
    driver.scheduler.FinishParks();
    driver.Step();
    EXPECT_EQ(driver.in_flight.empty(), !driver.scheduler.parks().empty());
  }
  EXPECT_EQ(slices, 2);
  driver.Drain();
  EXPECT_EQ(driver.used(), 0);
}

// A session that ends with its last token, or perhaps with a row after which it pauses, has none ahead: nor has anybody.
TEST(PlanAhead, ASessionLeavesWhenNothingIsInFlight) {
  AheadDriver driver(WithParking(64));
  driver.Add(OfSession(5, MakeRequest(1, 10, 6)));
  driver.Add(OfSession(6, MakeRequest(2, 10, 20)));
  driver.Add(MakeRequest(3, 10, 20));
  driver.RunAhead();
  driver.scheduler.SetPaused(2, true);
  driver.Step();
  EXPECT_THAT(driver.in_flight, IsEmpty());
  driver.Step();
  EXPECT_THAT(driver.in_flight, SizeIs(1)) << "paused, it has no row that might end it";
  while (!driver.finished.contains(1)) driver.Step();
  EXPECT_THAT(driver.in_flight, IsEmpty());
  EXPECT_EQ(driver.finished[1].token, 7) << "its last event at once";
  ASSERT_THAT(driver.scheduler.parks(), SizeIs(1));
  EXPECT_EQ(driver.scheduler.parks().front().computed, 15) << "the last token is never fed back";
  driver.scheduler.FinishParks();
  driver.RunAhead();
  driver.scheduler.DropSession(5);
  driver.Step();
  EXPECT_THAT(driver.in_flight, IsEmpty()) << "there is something to forget";
  driver.scheduler.FinishParks();
  driver.scheduler.Cancel(2);
  driver.Drain();
  EXPECT_EQ(driver.used(), 0);
}

// Blocks and events of a mixture are those of steps made one by one.
TEST(PlanAhead, EventsAreThoseOfStepsOneByOne) {
  std::map<uint64_t, std::vector<std::pair<int32_t, int32_t>>> seen[2];  // [ahead], by request: live and evicted
  for (const bool ahead : {false, true}) {
    AheadDriver driver;
    driver.ahead = ahead;
    driver.Add(MakeRequest(1, 30, 30, KvBudget::Exact(20)));
    driver.Add(MakeRequest(2, 10, 25, KvBudget::Exact(16)));
    driver.Add(MakeRequest(3, 20, 28, KvBudget::Periodic(18, 5)));
    driver.Add(MakeRequest(4, 3, 30));
    while (!driver.scheduler.idle()) {
      driver.Step();
      for (const SequenceEvent& event : driver.step_events) {
        seen[ahead][event.id].push_back({event.live, event.evicted});
        EXPECT_EQ(event.blocks, BlocksForSlots(event.live));
      }
    }
    EXPECT_EQ(driver.used(), 0);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace hydrant
