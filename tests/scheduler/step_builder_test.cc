// Who has rows in a step, what is in them, and how much of the step each tenant has.
#include "scheduler/step_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

TEST(StepBuilder, ChunksEndOnBlockEdgesButTheLast) {
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

// What the last rows of a prompt say together is not kept from step to step.
TEST(StepBuilder, TheTailOfAPromptComesInOneChunk) {
  for (const int32_t tail : {1, 30, 33, 64}) {
    for (int32_t prompt = 1; prompt < 170; ++prompt) {
      SchedulerOptions options = SmallOptions(64);
      options.tokens_max = 96;
      options.sequences_max = 8;
      Driver driver(options);
      driver.scheduler.LimitSteps({.alone = 16, .beside_decodes = 16});
      Request request = MakeRequest(1, prompt, 1);
      request.tail_tokens = tail;
      ASSERT_TRUE(driver.scheduler.Add(request).ok());
      int32_t end = 0;
      while (!driver.scheduler.idle()) {
        const std::vector<PlanRow> rows = driver.Step();
        ASSERT_EQ(rows.size(), 1u);
        end = rows[0].position + static_cast<int32_t>(rows[0].tokens.size());
        EXPECT_TRUE(end == prompt || (end <= prompt - tail && end % kBlockSlots == 0)) << end << " of " << prompt;
        EXPECT_LT(static_cast<int32_t>(rows[0].tokens.size()), tail + kBlockSlots);
      }
      EXPECT_EQ(end, prompt);
    }
  }
}

// However few tokens of prompts a step may have beside decodes, and however little of its time is left for them.
TEST(StepBuilder, TheTailOfAPromptComesBesideDecodes) {
  SchedulerOptions options = SmallOptions(64);
  options.tokens_max = 96;
  options.sequences_max = 8;
  options.prefill_tokens_max = 16;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 200)).ok());
  driver.Step();
  Request request = MakeRequest(2, 140, 1);
  request.tail_tokens = 64;
  ASSERT_TRUE(driver.scheduler.Add(request).ok());
  int32_t steps = 0;
  std::vector<int32_t> ends;
  int32_t longest = 0;
  while (driver.finished.count(2) == 0 && ++steps < 20) {
    for (const PlanRow& row : driver.Step()) {
      if (!row.prefill) continue;
      ends.push_back(row.position + static_cast<int32_t>(row.tokens.size()));
      longest = std::max(longest, static_cast<int32_t>(row.tokens.size()));
    }
  }
  EXPECT_THAT(ends, ElementsAre(16, 32, 48, 64, 140));
  EXPECT_GT(longest, options.prefill_tokens_max) << "it is one chunk all the same";
  EXPECT_LT(longest, request.tail_tokens + kBlockSlots);
}

// What it makes others wait for is bounded: two tails that are due pass the limit one step after the other.
TEST(StepBuilder, OneTailAStepPassesTheLimit) {
  SchedulerOptions options = SmallOptions(64);
  options.tokens_max = 256;
  options.sequences_max = 8;
  options.prefill_tokens_max = 16;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 200)).ok());
  driver.Step();
  Request request = MakeRequest(2, 79, 1);
  request.tail_tokens = 64;
  ASSERT_TRUE(driver.scheduler.Add(request).ok());
  request.id = 3;
  ASSERT_TRUE(driver.scheduler.Add(request).ok());
  int32_t steps = 0, tails = 0;
  while (driver.finished.size() < 2 && ++steps < 20) {
    int32_t tokens = 0;
    for (const PlanRow& row : driver.Step()) tokens += row.prefill ? static_cast<int32_t>(row.tokens.size()) : 0;
    EXPECT_LE(tokens, 79);
    if (tokens > options.prefill_tokens_max) ++tails;
  }
  EXPECT_EQ(tails, 2);
}

TEST(StepBuilder, ATailThatNoStepHasRoomForIsRefused) {
  SchedulerOptions options = SmallOptions(64);
  options.tokens_max = 96;
  options.sequences_max = 8;
  Driver driver(options);
  Request request = MakeRequest(1, 100, 1, KvBudget::Exact(40));
  request.tail_tokens = 96 - 8 - 15;
  EXPECT_TRUE(driver.scheduler.Add(request).ok());
  request.id = 2;
  ++request.tail_tokens;
  EXPECT_EQ(driver.scheduler.Add(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.tail_tokens = 64;
  request.budget.prompt_stride = 32;
  EXPECT_EQ(driver.scheduler.Add(request).status().code(), absl::StatusCode::kInvalidArgument);
}

// With a stride, no chunk crosses a multiple of it, and what is above the budget there goes at once: a prompt of 1,000 tokens
// passes through 8 blocks.
TEST(StepBuilder, ABudgetedPromptIsCutOnTheWay) {
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
    EXPECT_TRUE(stops || live % kBlockSlots == 0) << live;
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

TEST(StepBuilder, DecodesComeFirstAndPrefillTakesABoundedRest) {
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

TEST(StepBuilder, PrefillIsNotBoundedWithoutDecodes) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 100, 1)).ok());
  EXPECT_EQ(driver.Step()[0].tokens.size(), 64u);
}

TEST(StepBuilder, LimitStepsShortensChunksAndNeverLengthensThem) {
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

TEST(StepBuilder, ChunksGetShorterTheDeeperTheyAre) {
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

TEST(StepBuilder, EveryDecodeAndAPrefillBlockFitTheSmallestStep) {
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

TEST(StepBuilder, VictimsAreChosenOneStepBeforeTheyAreReused) {
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

TEST(StepBuilder, PeriodicCutsInTheStepThatReachesTheLimit) {
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

TEST(StepBuilder, PromptWithinTheBudgetIsNotCut) {
  for (int32_t prompt_length : {1, 15, 16, 17}) {
    Driver driver(SmallOptions(64));
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, prompt_length, 2, KvBudget::Exact(16))).ok());
    EXPECT_EQ(driver.Step().at(0).shrink_to, prompt_length == 17 ? 16 : 0) << prompt_length;
    EXPECT_EQ(driver.used(), 1) << prompt_length;
  }
}

TEST(StepBuilder, AScoredPromptLeavesSnapshotsOnALadder) {
  SchedulerOptions options = SmallOptions(64);
  options.tokens_max = 512;
  options.spare_score_blocks = 256;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(Shared(1, 200, 2, KvBudget::Exact(32), ScoreNeed::kSnapshot)).ok());
  driver.Step();
  // 64, 80, 96, 112, 128, 160, 192: and 192 is also where the same prompt would be taken up again.
  EXPECT_EQ(driver.scheduler.block_manager().score_blocks().snapshots(), 7);
  EXPECT_EQ(driver.scheduler.block_manager().score_blocks().in_snapshots(),
            (64 + 80 + 96 + 112 + 128 + 160 + 192) / 16);
  driver.Drain();
  ASSERT_TRUE(driver.scheduler.Add(Shared(2, 150, 2, KvBudget::Exact(32), ScoreNeed::kSnapshot)).ok());
  EXPECT_EQ(driver.Step()[0].position, 128) << "rounded down to a snapshot";
}

TEST(StepBuilder, APromptSentAgainResumesWhereItsLastRowsBegin) {
  for (const int32_t last_rows : {1, 64}) {
    SchedulerOptions options = SmallOptions(64);
    options.tokens_max = 512;
    options.spare_score_blocks = 256;
    Driver driver(options);
    for (const uint64_t id : {1, 2}) {
      Request request = Shared(id, 250, 2, KvBudget::Exact(32), ScoreNeed::kSnapshot);
      request.prefix.rows_computed_min = last_rows;
      ASSERT_TRUE(driver.scheduler.Add(request).ok());
      EXPECT_EQ(driver.Step()[0].position, id == 1 ? 0 : (250 - last_rows) / 16 * 16) << last_rows;
      driver.Drain();
    }
  }
}

// A tenant with two streams has them in every step beside one with thirty, whose rows take turns.
TEST(StepBuilder, ABoundedStepIsDividedBetweenItsTenants) {
  Driver driver(With({{"a"}, {"b"}}, 256, 40));
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i, 8, 60)).ok());
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i, 8, 60)).ok());
  for (int i = 0; i < 20; ++i) driver.Step();  // all prompts are computed
  driver.scheduler.LimitSteps({.shared = 16});
  std::map<int32_t, int> rows_of;
  for (int i = 0; i < 10; ++i) {
    const std::vector<PlanRow> rows = driver.Step();
    EXPECT_EQ(rows.size(), 16u);
    for (const PlanRow& row : rows) ++rows_of[row.sequence];
  }
  ASSERT_EQ(rows_of.size(), 32u);
  for (const auto& [index, rows] : rows_of) {
    if (driver.scheduler.sequence(index).request.tenant == 1) {
      EXPECT_EQ(rows, 10);
    } else {
      EXPECT_NEAR(rows, 10 * 14 / 30.0, 1) << "sequence " << index;
    }
  }
  driver.Drain();
  EXPECT_EQ(driver.finished.size(), 32u);
}

TEST(StepBuilder, APromptFindsItsPartOfAStepFullOfAnothersRows) {
  Driver driver(With({{"a"}, {"b"}}, 256, 40));
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i, 8, 60)).ok());
  for (int i = 0; i < 10; ++i) driver.Step();
  driver.scheduler.LimitSteps({.shared = 48});
  ASSERT_TRUE(driver.scheduler.Add(Of(1, 200, 24, 4)).ok());
  const std::vector<PlanRow> rows = driver.Step();
  EXPECT_EQ(rows.size(), 25u) << "24 of a, and";
  EXPECT_EQ(rows.back().tokens.size(), 24u);
}

TEST(StepBuilder, FirstComeFirstServedDividesNoSteps) {
  SchedulerOptions options = With({{"a"}, {"b"}}, 256, 40);
  options.policy = SchedulingPolicy::kFcfs;
  Driver driver(options);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(i % 2 == 0 ? 0 : 1, 100 + i, 8, 60)).ok());
  for (int i = 0; i < 20; ++i) driver.Step();
  driver.scheduler.LimitSteps({.shared = 16});
  EXPECT_EQ(driver.Step().size(), 30u);
}

// The drafts of each row of a step for which all sequences have ten.
std::vector<int32_t> DraftsOfStep(Driver& driver) {
  for (const int32_t index : driver.scheduler.running_sequences()) {
    driver.scheduler.Draft(index, std::vector<int32_t>(10, 1));
  }
  std::vector<int32_t> drafts;
  for (const PlanRow& row : driver.Step()) drafts.push_back(row.drafts());
  return drafts;
}

SchedulerOptions Drafting(int32_t drafts_max) {
  SchedulerOptions options = SmallOptions(64);
  options.drafts_max = drafts_max;
  return options;
}

TEST(StepBuilder, DraftsFillTheStepInOrder) {
  Driver driver(Drafting(15));
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 4, 60)).ok());
  driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10, 5, 0));
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10, 5, 0)) << "again, and nothing is left of the first ones";
}

TEST(StepBuilder, DraftsStopBeforeTheLastToken) {
  Driver driver(Drafting(100));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 4, 6)).ok());
  driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(4)) << "two are known then, and four come";
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(3));
}

TEST(StepBuilder, DraftsStopBeforeACut) {
  Driver driver(Drafting(100));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 4, 60, KvBudget::Periodic(8, 4))).ok());
  driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(6));
  for (int i = 0; i < 20; ++i) {
    DraftsOfStep(driver);
    EXPECT_LE(driver.scheduler.sequence(0).live, 12);
  }
}

// Before a sequence comes to its budget, in the step in which it does, and at it.
TEST(StepBuilder, DraftsAtTheBudgetAllOverwriteVictims) {
  Driver driver(Drafting(100));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 4, 60, KvBudget::Exact(10))).ok());
  driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(5));
  while (driver.scheduler.sequence(0).live < 10) EXPECT_LE(DraftsOfStep(driver).at(0), 5);
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(0)) << "the first to evict";
  const int32_t blocks = driver.used();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10));
    const PlanRow& row = driver.scheduler.plan().rows[0];
    EXPECT_TRUE(row.reuse_victim && row.choose_victim);
    EXPECT_EQ(row.live, 11);
    EXPECT_EQ(row.evicted, 11);
    EXPECT_EQ(row.evicted_with(3), 4);
    EXPECT_EQ(driver.scheduler.sequence(0).live, 11);
    EXPECT_EQ(driver.used(), blocks);
  }
}

// At the budget, too, a row with drafts that score has no more slots than there is memory for.
TEST(StepBuilder, DraftsHaveRoomInSoManySlots) {
  const auto room = [](int32_t keep, int32_t slots_max) {
    Sequence sequence;
    sequence.request.prompt = std::vector<int32_t>(8, 1);
    sequence.request.max_tokens = 9000;
    sequence.request.budget = KvBudget::Exact(keep);
    sequence.scheduled = 8000;
    sequence.live = keep + 1;
    EXPECT_TRUE(sequence.at_budget());
    return sequence.room_for_drafts(slots_max);
  };
  EXPECT_EQ(room(4095, 4096), 9000 - 1 - (8000 - 8) - 1);
  EXPECT_EQ(room(4096, 4096), 0);
  EXPECT_EQ(room(4096, 5000), room(4095, 4096));
}

TEST(StepBuilder, ADividedStepHasNoDrafts) {
  SchedulerOptions options = With({{"a"}, {"b"}}, 64, 4);
  options.drafts_max = 40;
  Driver driver(options);
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(Of(static_cast<int32_t>(id % 2), id, 8, 60)).ok());
  }
  for (int i = 0; i < 4; ++i) driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10, 10, 10, 10));
  driver.scheduler.LimitSteps({.shared = 2});
  for (const int32_t drafts : DraftsOfStep(driver)) EXPECT_EQ(drafts, 0);
}

// Nobody is charged for what turns out wrong, and who computes a prompt would wait for it.
TEST(StepBuilder, AStepWithAPromptHasNoDrafts) {
  SchedulerOptions options = Drafting(40);
  options.prefill_tokens_max = 16;
  Driver driver(options);
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 60)).ok());
  driver.Step();
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 48, 4)).ok());
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(driver.scheduler.RowsForDrafts(), chunk == 0 ? 1 : 0) << "who waits is let in with the first chunk";
    EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(0, 0)) << chunk;
  }
  EXPECT_EQ(driver.scheduler.RowsForDrafts(), 2);
  EXPECT_THAT(DraftsOfStep(driver), testing::ElementsAre(10, 2)) << "both have theirs again";
}

TEST(StepBuilder, NothingIsPlannedAheadOfDrafts) {
  Driver driver(Drafting(40));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 4, 60)).ok());
  driver.Step();
  driver.scheduler.Draft(0, std::vector<int32_t>(3, 1));
  driver.ahead = true;
  driver.Step();
  EXPECT_TRUE(driver.in_flight.empty());
  driver.Step();
  EXPECT_EQ(driver.in_flight.size(), 1u);
}

}  // namespace
}  // namespace hydrant
