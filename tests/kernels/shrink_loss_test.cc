// What lower budgets would cost, with planted scores: the definition cut by cut, on the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/planted_cache.h"

namespace hydrant {
namespace {

// The share of the scores that `policy`'s cut to `keep` slots would drop, from the definition.
double LossOfCut(const EvictionPolicy& policy, int32_t keep, const std::vector<int32_t>& positions,
                 const std::vector<float>& scores, int32_t logical_length) {
  H2oHistory oracle(policy.Lowered(keep), 1, 1, 1.0);
  std::map<int32_t, double> by_position;
  for (size_t i = 0; i < positions.size(); ++i) by_position[positions[i]] = static_cast<double>(scores[i]);
  double total = 0.0, kept = 0.0;
  for (const auto& [position, score] : by_position) {
    oracle.mutable_tokens().push_back({position, score, {}, {}});
    total += score;
  }
  for (int32_t position : oracle.CutSurvivors(logical_length, false)) kept += by_position.at(position);
  return 1.0 - kept / total;
}

TEST(ShrinkLossTest, IsTheShareOfTheScoresThatTheCutWouldDrop) {
  std::mt19937_64 random(23);
  for (int32_t round = 0; round < 60 / TestedDevices().front().share; ++round) {
    const bool many = round == 0;  // more slots than a device may order at once
    const int32_t keep = (many ? 4200 : 20) + static_cast<int32_t>(random() % 120);
    const int32_t slots = keep + 1;
    const int32_t recent = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(keep));
    const EvictionPolicy policy = Policy(keep - recent, recent);
    const int32_t logical_length = slots + static_cast<int32_t>(random() % 50);
    PlantedCache cache(slots, policy, 1 + round % 3);
    const int32_t cuts = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(many ? 3 : (keep - 1) / 16 + 1));
    const int32_t keep_max = std::min(keep, (cuts - 1) * 16 + 1 + static_cast<int32_t>(random() % 16));
    std::vector<double> expected(static_cast<size_t>(cuts));
    for (int32_t layer = 0; layer < kShape.layers; ++layer) {
      for (int32_t head = 0; head < kShape.kv_heads; ++head) {
        // The newest `recent` are live, and some of the others, in any order of slots; scores with many ties.
        std::vector<int32_t> positions;
        for (int32_t p = 0; p < logical_length - recent; ++p) positions.push_back(p);
        std::shuffle(positions.begin(), positions.end(), random);
        positions.resize(static_cast<size_t>(slots - recent));
        for (int32_t p = logical_length - recent; p < logical_length; ++p) positions.push_back(p);
        std::shuffle(positions.begin(), positions.end(), random);
        std::vector<float> scores(positions.size());
        for (float& score : scores) score = static_cast<float>(random() % 5 + (random() % 7 == 0 ? 40 : 0));
        cache.Plant(layer, head, positions, scores);
        for (int32_t cut = 0; cut < cuts; ++cut) {
          expected[static_cast<size_t>(cut)] +=
              LossOfCut(policy, keep_max - 16 * cut, positions, scores, logical_length) /
              (kShape.layers * kShape.kv_heads);
        }
      }
    }
    std::vector<float> losses(expected.size());
    const LossOp op{.live = slots,
                    .logical_length = logical_length,
                    .keep_max = keep_max,
                    .policy = policy,
                    .block_table = cache.sequence().block_table,
                    .losses = losses};
    cache.fixture().device->MeasureLosses({&op, 1}, cache.fixture().kv);
    for (size_t cut = 0; cut < losses.size(); ++cut) {
      ASSERT_NEAR(losses[cut], expected[cut], 1e-6) << "round " << round << ", keep " << keep << ", recent " << recent
                                                    << ", cut to " << keep_max - 16 * static_cast<int32_t>(cut);
    }
    EXPECT_TRUE(std::is_sorted(losses.begin(), losses.end())) << "a deeper cut never loses less";
  }
}

TEST(ShrinkLossTest, WithoutScoresEverySlotCountsTheSame) {
  const int32_t slots = 65;
  std::vector<int32_t> positions(slots);
  std::iota(positions.begin(), positions.end(), 100);
  EvictionPolicy sinks = Policy(4, 60);
  sinks.score_source = ScoreSource::kNone;
  for (const EvictionPolicy& policy : {sinks, Policy(32, 32)}) {
    PlantedCache cache(slots, policy);
    for (int32_t layer = 0; layer < kShape.layers; ++layer) {
      for (int32_t head = 0; head < kShape.kv_heads; ++head) {
        cache.Plant(layer, head, positions, std::vector<float>(slots, 0.0f));
      }
    }
    std::vector<float> losses(3);
    const LossOp op{.live = slots,
                    .logical_length = 165,
                    .keep_max = 47,
                    .policy = policy,
                    .block_table = cache.sequence().block_table,
                    .losses = losses};
    cache.fixture().device->MeasureLosses({&op, 1}, cache.fixture().kv);
    for (int32_t cut = 0; cut < 3; ++cut) {
      EXPECT_NEAR(losses[static_cast<size_t>(cut)], (65.0 - 47 + 16 * cut) / 65, 1e-6);
    }
  }
}

// The sign of a score says that its slot is pinned, and not that less of the scores is there.
TEST(ShrinkLossTest, APinGoesLastAndCountsWhatItWasScored) {
  const EvictionPolicy policy = [] {
    EvictionPolicy pins = Policy(20, 12);
    pins.pin_rows = 64;
    return pins;
  }();
  const int32_t slots = 33;
  PlantedCache cache(slots, policy);
  if (!cache.fixture().device->ChoosesPins()) GTEST_SKIP() << "a device that chooses no pins";
  std::vector<int32_t> positions(slots);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> scores(slots);
  for (int32_t slot = 0; slot < slots; ++slot) scores[static_cast<size_t>(slot)] = static_cast<float>(slots - slot);
  for (const size_t pin : {10, 11, 12, 13, 14, 15}) scores[pin] = -scores[pin];
  for (int32_t layer = 0; layer < kShape.layers; ++layer) {
    for (int32_t head = 0; head < kShape.kv_heads; ++head) cache.Plant(layer, head, positions, scores);
  }
  std::vector<float> losses(2);
  const LossOp op{.live = slots,
                  .logical_length = slots,
                  .keep_max = 24,
                  .policy = policy,
                  .block_table = cache.sequence().block_table,
                  .losses = losses};
  cache.fixture().device->MeasureLosses({&op, 1}, cache.fixture().kv);
  const double total = 33.0 * 34 / 2;
  // 24 slots: 9 recent ones, and of 15 others the six pins and the nine oldest, of the highest scores. 8: 3, and five pins.
  double kept = 0;
  for (int32_t slot = 0; slot < slots; ++slot)
    kept += slot < 9 || (slot >= 10 && slot < 16) || slot >= 24 ? slots - slot : 0;
  EXPECT_NEAR(losses[0], 1 - kept / total, 1e-6);
  kept = 0;
  for (int32_t slot = 0; slot < slots; ++slot) kept += (slot >= 10 && slot < 15) || slot >= 30 ? slots - slot : 0;
  EXPECT_NEAR(losses[1], 1 - kept / total, 1e-6);
}

TEST(ShrinkLossTest, WhatFitsLosesNothing) {
  PlantedCache cache(20, Policy(40, 24));
  std::vector<int32_t> positions(20);
  std::iota(positions.begin(), positions.end(), 0);
  for (int32_t layer = 0; layer < kShape.layers; ++layer) {
    for (int32_t head = 0; head < kShape.kv_heads; ++head) {
      cache.Plant(layer, head, positions, std::vector<float>(20, 1.0f));
    }
  }
  std::vector<float> losses(4);
  const LossOp op{.live = 20,
                  .logical_length = 20,
                  .keep_max = 63,
                  .policy = Policy(40, 24),
                  .block_table = cache.sequence().block_table,
                  .losses = losses};
  cache.fixture().device->MeasureLosses({&op, 1}, cache.fixture().kv);
  EXPECT_EQ(losses[0], 0.0f);
  EXPECT_EQ(losses[1], 0.0f);
  EXPECT_EQ(losses[2], 0.0f);
  EXPECT_NEAR(losses[3], 5.0 / 20, 1e-6) << "20 slots, of which 15 stay";
}

}  // namespace
}  // namespace hydrant
