// The part of Swapping that says who asks for blocks and who steps aside for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/swapping.h"
#include "tests/scheduler/swap_driver.h"

namespace hydrant {
namespace {

// What befell each sequence, in steps.
struct Pauses {
  int32_t longest = 0;
  int32_t swaps_most = 0;
};

// Runs until all have ended, or for `steps_max` steps.
Pauses Watch(SwapDriver& driver, int32_t steps_max) {
  Pauses pauses;
  std::map<uint64_t, int32_t> gaps;
  std::map<uint64_t, size_t> tokens;
  for (int32_t steps = 0; !driver.scheduler.idle() && steps < steps_max; ++steps) {
    driver.StepAndMove();
    for (int32_t index : driver.scheduler.running_sequences()) {
      const Sequence& sequence = driver.scheduler.sequence(index);
      const uint64_t id = sequence.request.id;
      const size_t before = std::exchange(tokens[id], driver.tokens[id].size());
      gaps[id] = sequence.decodes() && tokens[id] == before ? gaps[id] + 1 : 0;
      pauses.longest = std::max(pauses.longest, gaps[id]);
      pauses.swaps_most = std::max(pauses.swaps_most, sequence.swaps);
    }
  }
  return pauses;
}

// Twenty chats of 46 blocks at most, where four find room when they are full.
SchedulerOptions FiveTimesAsMany(int32_t patience) {
  SchedulerOptions options = WithSwapSpace(200, 3000, 20);
  options.swap_patience = patience;
  return options;
}

// In the end one chat in five is in the pool. Turns make the longest pause shorter, and nobody leaves again and again.
TEST(Growth, WhoHasBeenOutsideForLongComesBackInTurns) {
  std::vector<int32_t> longest;
  for (const int32_t patience : {32, 1'000'000}) {
    SwapDriver driver(FiveTimesAsMany(patience));
    for (uint64_t id = 1; id <= 20; ++id) {
      ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 32 + static_cast<int32_t>(id), 700)).ok());
    }
    const Pauses pauses = Watch(driver, 20'000);
    for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ(driver.tokens[id].size(), 700u) << id;
    longest.push_back(pauses.longest);
    // The first time, then after 128 tokens, and then after 256 each: 64, 192, 448 and 704 of 700.
    EXPECT_LE(pauses.swaps_most, 4) << patience;
    std::cout << "patience " << patience << ": " << driver.now_us / 2 << " steps, at most " << driver.at_once
              << " at once, " << driver.scheduler.counters().swaps_out << " swaps, " << pauses.swaps_most
              << " of one, longest pause " << pauses.longest << " steps\n";
  }
  EXPECT_LT(3 * longest[0], 2 * longest[1]);
}

// Chats without end of which two fit, and one that is the anchor: all advance.
TEST(Growth, OfChatsWithoutEndEachHasItsTurn) {
  SchedulerOptions options = WithSwapSpace(20, 3000, 6);
  options.swap_patience = 2;
  SwapDriver driver(options);
  for (uint64_t id = 1; id <= 6; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 16, 1'000'000, KvBudget::Exact(15 * kBlockSlots))).ok());
  }
  std::vector<size_t> before(7);
  for (int32_t round = 0; round < 6; ++round) {
    (void)Watch(driver, 3000);
    for (uint64_t id = 1; id <= 6; ++id) {
      if (round > 0) {
        EXPECT_GT(driver.tokens[id].size(), before[id]) << "request " << id << " in round " << round;
      }
      before[id] = driver.tokens[id].size();
    }
  }
}

// Budgets that agreed to it fall before anybody steps aside, and nobody then has to: four chats of 17 blocks in 40.
TEST(Growth, BudgetsFallBeforeAnybodyStepsAside) {
  for (const bool elastic : {false, true}) {
    SwapDriver driver(WithSwapSpace(40, 300, 4));
    for (uint64_t id = 1; id <= 4; ++id) {
      KvBudget budget = KvBudget::Exact(16 * kBlockSlots);
      if (elastic) budget.floor = 4 * kBlockSlots;
      ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 16, 30 * kBlockSlots, budget)).ok());
    }
    driver.DrainAndMove();
    EXPECT_EQ(driver.at_once, 4);
    EXPECT_EQ(driver.scheduler.counters().swaps_out > 0, !elastic);
    EXPECT_EQ(driver.scheduler.counters().shrinks > 0, elastic);
    for (uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(driver.tokens[id].size(), 30u * kBlockSlots) << id;
  }
}

// A sequence that used up with its drafts what it asks with would stand still until somebody has stepped aside.
TEST(Growth, DraftsLeaveTheSlotsWithWhichBlocksAreAskedFor) {
  SchedulerOptions options = WithSwapSpace(64, 100, 2);
  options.drafts_max = 40;
  SwapDriver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 16, 300)).ok());
  driver.StepAndMove();
  const Sequence& sequence = *driver.Find(1);
  int32_t drafted = 0, waited = 0;
  for (int32_t left = -1; !driver.scheduler.idle();) {
    driver.scheduler.Draft(0, std::vector<int32_t>(16, 7));
    driver.between = [&] { left = sequence.blocks.reserved() * kBlockSlots - sequence.live; };
    const std::vector<PlanRow> rows = driver.Step();
    waited += rows.empty() ? 1 : 0;
    if (rows.empty() || rows[0].drafts() == 0) continue;
    drafted += rows[0].drafts();
    EXPECT_GE(left, Swapping::kAskBefore - 1);
  }
  EXPECT_GT(drafted, 150);
  EXPECT_EQ(waited, 0);
  EXPECT_EQ(driver.tokens[1].size(), 300u);
}

// Budgets of a tenant within its share do not fall for one above its own.
TEST(Growth, BudgetsOfATenantWithinItsShareStayAndSomebodyStepsAside) {
  SchedulerOptions options = WithSwapSpace(34, 300, 5);
  options.tenants = {{.name = "many"}, {.name = "one"}};
  SwapDriver driver(options);
  KvBudget budget = KvBudget::Exact(8 * kBlockSlots);
  budget.floor = kBlockSlots;
  Request agreed = MakeRequest(100, 160, 20 * kBlockSlots, budget);
  agreed.tenant = 1;
  ASSERT_TRUE(driver.scheduler.Add(std::move(agreed)).ok());
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  driver.DrainAndMove();
  EXPECT_EQ(driver.scheduler.counters().shrinks, 0u);
  EXPECT_GT(driver.scheduler.counters().swaps_out, 0u);
}

// Streams of one tenant without end, under any policy, fill the pool. Another tenant within its share waits for its patience and
// for the move; without that it would wait for ever.
TEST(Growth, StreamsWithoutEndStepAsideForATenantWithinItsShare) {
  const KvBudget policies[] = {KvBudget::Unlimited(), KvBudget::Exact(8 * kBlockSlots),
                               KvBudget::Periodic(7 * kBlockSlots, kBlockSlots)};
  for (const KvBudget& policy : policies) {
    for (const int32_t patience : {8, 1'000'000}) {
      for (const bool ahead : {false, true}) {
        SchedulerOptions options = WithSwapSpace(32, 3000, 12);
        options.swap_patience = patience;
        options.tenants = {{.name = "streams"}, {.name = "other"}};
        SwapDriver driver(options);
        driver.ahead = ahead;
        for (uint64_t id = 1; id <= 8; ++id) {
          ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 16, policy.limited() ? 100'000 : 480, policy)).ok());
        }
        // Until the pool is full, so that one of them has to leave.
        while (driver.begun.empty()) driver.StepAndMove();
        ASSERT_TRUE(driver.scheduler.Add(Of(/*tenant=*/1, 100, /*prompt=*/96, 4)).ok());
        int32_t steps = 0;
        while (!driver.finished.contains(100) && steps < 300) {
          driver.StepAndMove();
          ++steps;
        }
        if (patience == 8) {
          EXPECT_LE(steps, 8 + 64 + 32) << "patience, the tokens of who came back just now, and its own steps";
        } else if (policy.limited()) {
          EXPECT_EQ(steps, 300);
        }
      }
    }
  }
}

// What is outside of one tenant does not hold up another one within its share.
// Four rows, room for hundreds of blocks, and four streams without end of three blocks each.
TEST(Growth, StreamsWithoutEndGiveARowToATenantWithinItsShare) {
  for (const int64_t swap_blocks : {0, 11, 200}) {
    SchedulerOptions options = WithSwapSpace(100, swap_blocks, 4);
    options.tenants = {{.name = "many"}, {.name = "one"}};
    options.swap_patience = 8;
    SwapDriver driver(options);
    for (uint64_t id = 1; id <= 4; ++id) {
      ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 16, 1'000'000, KvBudget::Exact(2 * kBlockSlots))).ok());
    }
    for (int32_t i = 0; i < 100; ++i) driver.StepAndMove();
    int32_t waits_most = 0;
    for (uint64_t id = 11; id <= 12; ++id) {
      Request request = MakeRequest(id, 16, 1'000'000, KvBudget::Exact(2 * kBlockSlots));
      request.tenant = 1;
      ASSERT_TRUE(driver.scheduler.Add(request).ok());
      int32_t waits = 0;
      for (; driver.scheduler.waiting() > 0 && waits < 1000; ++waits) driver.StepAndMove();
      waits_most = std::max(waits_most, waits);
    }
    if (swap_blocks < 200) {
      EXPECT_EQ(waits_most, 1000) << "there is no room outside for all that run, and nobody ends";
      continue;
    }
    // The patience, a plan in which somebody is chosen, one in which it is let in.
    EXPECT_LE(waits_most, options.swap_patience + 3);
    std::vector<size_t> before;
    for (uint64_t id : {1, 2, 3, 4, 11, 12}) before.push_back(driver.tokens[id].size());
    (void)Watch(driver, 4000);
    size_t i = 0;
    // Two rows are for the first four, in turns, and two for the others.
    for (uint64_t id : {1, 2, 3, 4, 11, 12}) {
      EXPECT_GT(driver.tokens[id].size() - before[i++], id < 10 ? 800u : 3900u) << id;
    }
  }
}

TEST(Growth, ATenantWithinItsShareDoesNotWaitForThoseOutside) {
  SchedulerOptions options = WithSwapSpace(32, 3000, 12);
  options.tenants = {{.name = "many"}, {.name = "other"}};
  SwapDriver driver(options);
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(driver.scheduler.Add(Long(id)).ok());
  while (driver.scheduler.swapping().aside() == 0) driver.StepAndMove();
  int32_t let_in_beside = 0;
  for (uint64_t id = 100; id < 140; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(Of(/*tenant=*/1, id, /*prompt=*/8, 2)).ok());
    int32_t steps = 0;
    for (; !driver.finished.contains(id) && steps < 200; ++steps) {
      driver.StepAndMove();
      for (uint64_t admitted : driver.scheduler.admitted()) {
        if (admitted == id && driver.scheduler.swapping().HasOutside(0)) ++let_in_beside;
      }
    }
    EXPECT_LE(steps, options.swap_patience + Swapping::kGuard + 16) << id << ": patience, protected ones, the move";
  }
  EXPECT_GT(let_in_beside, 10);
}

// Four heads of line within their share that miss more than anybody may give keep out none for which nothing is missing.
TEST(Growth, HeadsThatNobodyCanHelpDoNotKeepAnotherOneFromAsking) {
  SchedulerOptions options = WithSwapSpace(100, 3000, 12);
  options.tenants = {{.name = "stream", .weight = 4},  {.name = "large1", .weight = 23},
                     {.name = "large2", .weight = 23}, {.name = "large3", .weight = 23},
                     {.name = "large4", .weight = 23}, {.name = "small", .weight = 4}};
  options.swap_patience = 8;
  SwapDriver driver(options);
  // A stream without end, alone and so never to step aside, leaves less than the large ones need.
  Request stream = MakeRequest(1, 80 * kBlockSlots, 1'000'000, KvBudget::Exact(80 * kBlockSlots));
  ASSERT_TRUE(driver.scheduler.Add(std::move(stream)).ok());
  while (driver.tokens[1].size() < 100) driver.StepAndMove();
  for (int32_t tenant = 1; tenant <= 4; ++tenant) {
    const auto id = static_cast<uint64_t>(10 + tenant);
    ASSERT_TRUE(driver.scheduler.Add(Of(tenant, id, 20 * kBlockSlots, 2 * kBlockSlots)).ok());
  }
  ASSERT_TRUE(driver.scheduler.Add(Of(/*tenant=*/5, 20)).ok());
  int32_t waits = 0;
  for (; driver.Find(20) == nullptr && waits < 200; ++waits) driver.StepAndMove();
  EXPECT_LE(waits, options.swap_patience + 4 + 3) << "the patience, a plan for each of the others, and its own";
  EXPECT_EQ(driver.scheduler.waiting(), 4);
}

// Budgets fell for a head of line that its tenant's cap, lowered then, holds back for as long as its streams run. Meanwhile they fall
// for others.
TEST(Growth, AHeadHeldBackByItsOwnCapKeepsBudgetsFromNobody) {
  SchedulerOptions options = WithSwapSpace(40, 300);
  options.swap_patience = 1'000'000;
  options.tenants = {{.name = "capped", .weight = 2}, {.name = "gives"}, {.name = "other", .weight = 2}};
  SwapDriver driver(options);
  const auto add_stream = [&driver](int32_t tenant, uint64_t id, int32_t blocks, int32_t floor_blocks) {
    KvBudget budget = KvBudget::Exact(blocks * kBlockSlots - 1);
    if (floor_blocks > 0) budget.floor = floor_blocks * kBlockSlots;
    Request request = MakeRequest(id, 16, 1'000'000, budget);
    request.tenant = tenant;
    return driver.scheduler.Add(std::move(request)).ok();
  };
  ASSERT_TRUE(add_stream(0, 1, 9, 0));
  ASSERT_TRUE(add_stream(1, 2, 13, 2));
  ASSERT_TRUE(add_stream(1, 3, 13, 2));
  while (driver.used() < 35) driver.StepAndMove();
  ASSERT_TRUE(driver.scheduler.Add(Of(/*tenant=*/0, 4, 6 * kBlockSlots, 100)).ok());
  for (int32_t steps = 0; driver.scheduler.shrinks_for() != 4 && steps < 20; ++steps) driver.StepAndMove();
  ASSERT_EQ(driver.scheduler.shrinks_for(), 4u);
  options.tenants[0].blocks_max = 4;
  driver.scheduler.SetTenants(options.tenants);
  ASSERT_TRUE(driver.scheduler.Add(Of(/*tenant=*/2, 5, 11 * kBlockSlots, 20)).ok());
  for (int32_t steps = 0; driver.Find(5) == nullptr && steps < 20; ++steps) driver.StepAndMove();
  EXPECT_NE(driver.Find(5), nullptr);
  EXPECT_EQ(driver.Find(4), nullptr);
}

// Budgets fell by what a head of line misses that shares its prompt. It is let in with that also when somebody waits outside by then:
// alone it has no room.
TEST(Growth, WhoWasGivenRoomSharesItsPromptWhoeverWaitsOutsideByThen) {
  SwapDriver driver(WithSwapSpace(15, 100));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 95, 5000, KvBudget::Exact(95))).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 16, 12 * kBlockSlots)).ok());
  ASSERT_NE(driver.Until(2, KvPlace::kOutside), nullptr);
  driver.scheduler.SetPaused(2, true);
  KvBudget elastic = KvBudget::Exact(63);
  elastic.floor = 15;
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 63, 5000, elastic)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Shared(4, 48, 17)).ok());
  driver.StepAndMove();
  driver.StepAndMove();
  ASSERT_TRUE(driver.scheduler.Add(Shared(5, 48, 10)).ok());
  for (int32_t steps = 0; steps < 10 && driver.scheduler.shrinks_for() != 5; ++steps) driver.StepAndMove();
  ASSERT_EQ(driver.scheduler.shrinks_for(), 5u);
  driver.scheduler.SetPaused(2, false);
  driver.StepAndMove();
  ASSERT_NE(driver.Find(5), nullptr);
  EXPECT_EQ(driver.Find(5)->cached, 32);
  driver.DrainAndMove();
}

// Floors that are raised keep nothing from who was let in before and has no room beside them, however long others stay within theirs.
TEST(Growth, RaisedFloorsHoldNobodyUpForEver) {
  for (const bool is_anchor : {false, true}) {
    SchedulerOptions options = WithSwapSpace(12, 100);
    options.tenants = {{.name = "before"}, {.name = "floor"}};
    SwapDriver driver(options);
    // A stream without end, of one block.
    Request stream = MakeRequest(1, 4, 1'000'000, KvBudget::Exact(kBlockSlots - 1));
    stream.tenant = 1;
    Request grows = MakeRequest(2, kBlockSlots, 9 * kBlockSlots);
    ASSERT_TRUE(driver.scheduler.Add(is_anchor ? grows : stream).ok());
    driver.StepAndMove();
    ASSERT_TRUE(driver.scheduler.Add(is_anchor ? stream : grows).ok());
    for (int32_t steps = 0; steps < 3 * kBlockSlots; ++steps) driver.StepAndMove();
    EXPECT_EQ(driver.scheduler.swapping().anchor(), 0);
    options.tenants[1].floor_blocks = 6;
    driver.scheduler.SetTenants(options.tenants);
    for (int32_t steps = 0; steps < 12 * kBlockSlots; ++steps) driver.StepAndMove();
    EXPECT_TRUE(driver.finished.contains(2)) << (is_anchor ? "the anchor" : "another one") << " waits for a floor";
  }
}

}  // namespace
}  // namespace hydrant
