#include "server/engine/step_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hydrant {
namespace {

// A device that takes `fixed_us` and `token_us` per prompt token, and `decode_us` when there are decodes. A shared step is one of
// 8 decodes that cost as much as prompt tokens.
struct PacedDevice {
  int64_t fixed_us = 1000;
  int64_t token_us = 100;
  int64_t decode_us = 0;
  bool shared = false;

  StepReport Step(double cost) const {
    StepReport report;
    report.rows = 1;
    report.decode_tokens = decode_us > 0 || shared ? 8 : 0;
    report.decode_cost = report.decode_tokens;
    report.prefill_tokens = std::max(0, static_cast<int32_t>(cost) - (shared ? 8 : 0));
    report.prefill_cost = report.prefill_tokens;
    report.several_tenants = shared;
    report.device_us = fixed_us + (report.prefill_tokens + (shared ? 8 : 0)) * token_us + decode_us;
    return report;
  }
};

// The most prompt tokens of a step without decodes, once so many steps were seen.
double Settle(StepPacer& pacer, const PacedDevice& device, int steps = 50) {
  for (int i = 0; i < steps; ++i) {
    const StepLimits limits = pacer.limits();
    pacer.Observe(device.Step(device.shared          ? limits.shared
                              : device.decode_us > 0 ? limits.beside_decodes
                                                     : limits.alone));
  }
  return pacer.limits().alone;
}

TEST(StepPacer, AFullStepComesToItsTimeOrOfFewTokensToHalfASecond) {
  const struct {
    int64_t token_us;
    int32_t low, high;  // tokens
  } cases[] = {{1, 8192, 200'000}, {100, 1450, 1500}, {1000, 140, 150},
               {5000, 60, 64},     {10'000, 45, 51},  {1'000'000, 16, 16}};
  for (const auto& test : cases) {
    StepPacer pacer(8192);
    const double alone = Settle(pacer, {.token_us = test.token_us});
    EXPECT_GE(alone, test.low) << test.token_us;
    EXPECT_LE(alone, test.high) << test.token_us;
    EXPECT_GE(pacer.limits().beside_decodes, 16);
    EXPECT_LE(pacer.limits().beside_decodes, alone);
  }
}

TEST(StepPacer, ALargeModelsWeightsDoNotTakeEveryStepForThemselves) {
  StepPacer pacer(8192);
  // Reading them takes longer than a step is to; four blocks at least share it.
  EXPECT_GE(Settle(pacer, {.fixed_us = 250'000, .token_us = 1000}), 60);
  EXPECT_GE(pacer.limits().beside_decodes, 16);
}

TEST(StepPacer, ShortPromptsSayNothingAboutLongOnes) {
  StepPacer pacer(8192);
  const double before = pacer.limits().alone;
  PacedDevice cold{.fixed_us = 400'000};
  for (int i = 0; i < 20; ++i) pacer.Observe(cold.Step(16));
  EXPECT_EQ(pacer.limits().alone, before);
}

TEST(StepPacer, OneSlowStepIsNotBelievedAndSoonMadeUpFor) {
  StepPacer pacer(4096);
  const PacedDevice device{.token_us = 200};
  const double before = Settle(pacer, device);
  pacer.Observe({.rows = 1, .prefill_tokens = static_cast<int32_t>(before), .device_us = 60'000'000});
  EXPECT_GE(pacer.limits().alone, before / 4);
  EXPECT_GE(Settle(pacer, device, 3), before * 9 / 10);
}

TEST(StepPacer, SlowDecodesDoNotStarveThePrefillBesideThem) {
  StepPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  EXPECT_GE(pacer.limits().alone, 140);
  Settle(pacer, {.token_us = 1000, .decode_us = 2'000'000});
  EXPECT_GE(pacer.limits().beside_decodes, 45) << "50 ms of prompt";
  EXPECT_GE(pacer.limits().alone, 140) << "decodes say nothing about steps without them";
}

TEST(StepPacer, AStepBesideDecodesTakesSoLongInAll) {
  StepPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  Settle(pacer, {.token_us = 1000, .decode_us = 100'000});
  EXPECT_NEAR(pacer.limits().beside_decodes, 100, 8) << "the decodes take half of the time";
  Settle(pacer, {.token_us = 1000, .decode_us = 10'000});
  EXPECT_NEAR(pacer.limits().beside_decodes, 190, 8) << "and it grows again";
}

TEST(StepPacer, AStepThatTenantsShareIsShorterAndBoundedAsAWhole) {
  StepPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  const double beside = pacer.limits().beside_decodes;
  Settle(pacer, {.token_us = 1000, .shared = true});
  EXPECT_NEAR(pacer.limits().shared, 124, 8);
  EXPECT_EQ(pacer.limits().beside_decodes, beside) << "not what one tenant gets";
}

// A step with the end of a session's turn, or the beginning of one.
StepReport Moving(const PacedDevice& device, double cost, int64_t move_us, int64_t blocks) {
  StepReport report = device.Step(cost);
  report.move_us = move_us;
  report.blocks_moved = blocks;
  return report;
}

TEST(StepPacer, MovedKvIsNoReasonForSmallerSteps) {
  const PacedDevice device{.token_us = 1000, .decode_us = 50'000};
  StepPacer pacer(4096);
  Settle(pacer, device);
  const StepLimits before = pacer.limits();
  for (int i = 0; i < 20; ++i) pacer.Observe(Moving(device, pacer.limits().beside_decodes, 400'000, 512));
  EXPECT_NEAR(pacer.limits().beside_decodes, before.beside_decodes, 1);
  EXPECT_EQ(pacer.limits().shared, before.shared);
}

TEST(StepPacer, AMovedBlockCostsWhatItsTimeWouldCompute) {
  const PacedDevice device{.token_us = 1000};
  StepPacer pacer(4096);
  const double alone = Settle(pacer, device);
  EXPECT_EQ(pacer.limits().block_moved, 0) << "nobody knows";
  pacer.Observe(Moving(device, alone, 256'000, 512));
  EXPECT_NEAR(pacer.limits().block_moved, 0.5, 0.01);
  for (int i = 0; i < 40; ++i) pacer.Observe(Moving(device, alone, 1'024'000, 512));
  EXPECT_NEAR(pacer.limits().block_moved, 2, 0.02);
  for (int i = 0; i < 40; ++i) pacer.Observe(Moving(device, alone, 100'000'000, 512));
  EXPECT_EQ(pacer.limits().block_moved, 16) << "its tokens would have been computed by then";
}

TEST(StepPacer, MovedKvMakesAStepAFifthLonger) {
  const struct {
    int64_t step_us, block_us;
    int64_t blocks;
  } cases[] = {{50'000, 500, 20}, {10'000, 400, 5},  {100, 100, 10},
               {100, 10, 100},    {10'000, 5000, 2}, {1'000'000, 1000, 25}};
  for (const auto& test : cases) {
    SCOPED_TRACE(testing::Message() << test.step_us << " " << test.block_us);
    StepPacer pacer(4096);
    EXPECT_EQ(pacer.limits().blocks_moved_max, 8) << "nobody knows";
    const StepReport step = {.rows = 1, .decode_tokens = 1, .device_us = test.step_us};
    for (int i = 0; i < 20; ++i) pacer.Observe(step);
    EXPECT_EQ(pacer.limits().blocks_moved_max, 8);
    // In a step without rows.
    pacer.Observe({.move_us = 8 * test.block_us, .blocks_moved = 8});
    EXPECT_NEAR(static_cast<double>(pacer.limits().blocks_moved_max), static_cast<double>(test.blocks), 1);
  }
}

TEST(StepPacer, SharedStepsFollowTheShortestOnesThereAre) {
  const struct {
    int64_t shortest_us;
    double tokens;  // of 100 us: what shared steps come to
  } cases[] = {{1000, 190}, {6000, 350}, {9000, 530}, {12'000, 710}};
  for (const auto& test : cases) {
    StepPacer pacer(8192);
    pacer.Observe({.rows = 1, .decode_tokens = 1, .device_us = test.shortest_us});
    pacer.Observe({.rows = 0, .device_us = 1});
    Settle(pacer, {.token_us = 100, .shared = true});
    EXPECT_NEAR(pacer.limits().shared, test.tokens, 12) << test.shortest_us;
    const double step_s = 1e-4 * (test.tokens + 10);
    EXPECT_NEAR(pacer.limits().shared_lag * step_s, 0.375, 0.01) << "whatever a step takes";
  }
}

TEST(StepPacer, SharedStepsOfDecodesAloneAreLearnedFromToo) {
  StepPacer pacer(4096);
  PacedDevice slow{.token_us = 20'000, .shared = true};
  for (int i = 0; i < 50; ++i) pacer.Observe(slow.Step(8));
  EXPECT_LT(pacer.limits().shared, 33);
}

TEST(StepPacer, ItAlsoGrowsWhenNoStepIsEverWithoutDecodes) {
  StepPacer pacer(8192);
  Settle(pacer, {.fixed_us = 100, .token_us = 1, .decode_us = 1000});
  EXPECT_GE(pacer.limits().alone, 8192);
}

TEST(StepPacer, ItStartsWithinTheConfiguredMost) {
  StepPacer pacer(50);
  EXPECT_EQ(pacer.limits().alone, 50);
}

// A pass over weights on a disk takes two seconds, whatever it computes.
TEST(StepPacer, WhereEveryStepTakesSecondsPromptsStillGoOn) {
  StepPacer alone(2048, true), beside(2048, true), shared(2048, true);
  EXPECT_GT(Settle(alone, {.fixed_us = 2'000'000, .token_us = 2000}), 800);
  Settle(beside, {.fixed_us = 2'000'000, .token_us = 2000, .decode_us = 100'000});
  EXPECT_GT(beside.limits().beside_decodes, 700);
  Settle(shared, {.fixed_us = 2'000'000, .token_us = 2000, .shared = true});
  EXPECT_GT(shared.limits().shared, 700);
  // And no step takes more than about twice that.
  EXPECT_LT(alone.limits().alone, 1300);
}

}  // namespace
}  // namespace hydrant
