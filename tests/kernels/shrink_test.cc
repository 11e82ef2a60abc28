// Cuts and victims with planted scores: exact ties, edges of the budget, and every preset's rule. No tolerance anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/h2o_reference.h"
#include "tests/kernels/planted_cache.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

TEST(EvictionPolicyTest, LoweredKeepsTheShareOfTheRecent) {
  const struct {
    const char* name;
    int32_t heavy, recent;
    ScoreSource source;
    int32_t to, lowered_heavy, lowered_recent;
  } cases[] = {
      {"half and half", 32, 32, ScoreSource::kAttention, 47, 24, 23},
      {"a third", 43, 21, ScoreSource::kAttention, 31, 21, 10},
      {"all recent", 0, 64, ScoreSource::kAttention, 31, 0, 31},
      {"one recent", 63, 1, ScoreSource::kAttention, 31, 30, 1},
      {"one slot", 32, 32, ScoreSource::kAttention, 1, 0, 1},
      {"sinks keep their number", 4, 60, ScoreSource::kNone, 31, 4, 27},
      {"window", 0, 64, ScoreSource::kNone, 31, 0, 31},
      {"not at all", 32, 32, ScoreSource::kAttention, 64, 32, 32},
  };
  for (const auto& c : cases) {
    EvictionPolicy policy = Policy(c.heavy, c.recent);
    policy.score_source = c.source;
    const EvictionPolicy lowered = policy.Lowered(c.to);
    EXPECT_EQ(lowered.heavy, c.lowered_heavy) << c.name;
    EXPECT_EQ(lowered.recent, c.lowered_recent) << c.name;
  }
}

TEST(ShrinkTest, RandomCutsWithManyTiesMatchTheOracleExactly) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 300 / TestedDevices().front().share; ++round) {
    const int32_t slots = std::vector{2, 15, 16, 17, 31, 33, 64, 100, 257, 400}[random() % 10];
    const int32_t recent = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(slots - 1));
    const int32_t heavy = static_cast<int32_t>(random() % static_cast<uint64_t>(slots - recent));
    EvictionPolicy policy = Policy(heavy, recent);
    policy.pool_width = std::vector{1, 3, 7, 15}[random() % 4];
    policy.store_pooled = random() % 2 == 0;
    const bool prompt_cut = random() % 2 == 0;
    const bool shuffled = !prompt_cut || random() % 2 == 0;
    PlantedCache cache(slots, policy, 1 + round % 3);
    const int32_t gap = static_cast<int32_t>(random() % 50);  // positions that were evicted before
    for (int32_t layer = 0; layer < kShape.layers; ++layer) {
      for (int32_t head = 0; head < kShape.kv_heads; ++head) {
        std::vector<int32_t> positions;
        // Old tokens have gaps between them; the newest `recent` are always all there.
        for (int32_t i = 0; i < slots - recent; ++i) positions.push_back(i);
        for (int32_t i = 0; i < recent; ++i) positions.push_back(slots - recent + gap + i);
        if (shuffled) std::shuffle(positions.begin(), positions.end(), random);
        std::vector<float> scores;
        for (int32_t i = 0; i < slots; ++i) scores.push_back(static_cast<float>(random() % 6) * 0.25f);
        cache.Plant(layer, head, positions, scores);
      }
    }
    cache.Cut(slots + gap, prompt_cut);
    for (int32_t layer = 0; layer < kShape.layers; ++layer) {
      for (int32_t head = 0; head < kShape.kv_heads; ++head) cache.ExpectOracle(layer, head, slots + gap, prompt_cut);
    }
    ASSERT_FALSE(HasFailure()) << "round " << round << " slots " << slots << " heavy " << heavy << " recent " << recent;
  }
}

std::vector<int32_t> Ascending(int32_t count) {
  std::vector<int32_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// Positions of `cache`'s last pair, and what the scores at these positions are.
std::map<int32_t, float> ScoresOf(PlantedCache& cache) {
  std::map<int32_t, float> scores;
  for (int32_t slot = 0; slot < cache.sequence().live; ++slot) {
    scores[cache.fixture().Position(cache.sequence(), 1, 2, slot)] =
        cache.fixture().Score(cache.sequence(), 1, 2, slot);
  }
  return scores;
}

std::vector<int32_t> KeptOf(const EvictionPolicy& policy, const std::vector<float>& scores, bool prompt_cut = true) {
  const int32_t slots = static_cast<int32_t>(scores.size());
  PlantedCache cache(slots, policy);
  for (int32_t layer = 0; layer < kShape.layers; ++layer) {
    for (int32_t head = 0; head < kShape.kv_heads; ++head) cache.Plant(layer, head, Ascending(slots), scores);
  }
  cache.Cut(slots, prompt_cut);
  return cache.fixture().Positions(cache.sequence(), 1, 2);
}

using testing::ElementsAre;

TEST(ShrinkTest, KeepsTheHighestScoresAndTheNewestTokens) {
  EXPECT_THAT(KeptOf(Policy(2, 2), {1, 5, 2, 4, 3, 0, 0, 0}), ElementsAre(1, 3, 6, 7));
}
TEST(ShrinkTest, EqualScoresKeepTheLowerPosition) {
  EXPECT_THAT(KeptOf(Policy(2, 1), {1, 2, 2, 2, 1, 9}), ElementsAre(1, 2, 5));
}
TEST(ShrinkTest, WindowKeepsTheNewestOnly) {
  EXPECT_THAT(KeptOf(Policy(0, 3), {9, 9, 9, 9, 0, 0, 0}), ElementsAre(4, 5, 6));
}
TEST(ShrinkTest, SinksKeepTheFirstFourAndTheNewest) {
  EvictionPolicy policy = Policy(4, 3);
  policy.score_source = ScoreSource::kNone;
  EXPECT_THAT(KeptOf(policy, std::vector<float>(20, 0.0f)), ElementsAre(0, 1, 2, 3, 17, 18, 19));
}
TEST(ShrinkTest, PoolingSpreadsAPeakOverItsNeighboursAmongTheCandidates) {
  EvictionPolicy policy = Policy(3, 2);
  policy.pool_width = 3;
  // The peak at 4 lifts 3 and 5; the higher score of the recent token 8 reaches nobody.
  EXPECT_THAT(KeptOf(policy, {1, 1, 1, 1, 5, 1, 1, 1, 9, 9}), ElementsAre(3, 4, 5, 8, 9));
}
TEST(ShrinkTest, PoolingAppliesToThePromptsCutOnly) {
  EvictionPolicy policy = Policy(3, 2);
  policy.pool_width = 3;
  EXPECT_THAT(KeptOf(policy, {1, 1, 1, 1, 5, 1, 1, 1, 9, 9}, false), ElementsAre(0, 1, 4, 8, 9));
}
TEST(ShrinkTest, APooledPlateauAtTheBorderKeepsItsLowerPositions) {
  EvictionPolicy policy = Policy(3, 1);
  policy.pool_width = 7;
  // 6 lifts 3 … 9 to one height, and only three of them have room.
  EXPECT_THAT(KeptOf(policy, {1, 1, 1, 0, 0, 0, 5, 0, 0, 0, 1, 9}), ElementsAre(3, 4, 5, 11));
}
TEST(ShrinkTest, PooledScoresStayOnlyWhereThePolicyStoresThem) {
  const std::vector<float> planted = {1, 2, 1, 1, 5, 1, 3, 1, 9, 8};
  using Scores = std::map<int32_t, float>;
  for (const auto& [store, expected] : {std::pair(true, Scores{{3, 5}, {4, 5}, {5, 5}, {8, 9}, {9, 8}}),
                                        std::pair(false, Scores{{3, 1}, {4, 5}, {5, 1}, {8, 9}, {9, 8}})}) {
    EvictionPolicy policy = Policy(3, 2);
    policy.pool_width = 3;
    policy.store_pooled = store;
    PlantedCache cache(10, policy);
    for (int32_t layer = 0; layer < kShape.layers; ++layer) {
      for (int32_t head = 0; head < kShape.kv_heads; ++head) cache.Plant(layer, head, Ascending(10), planted);
    }
    cache.Cut(10, true);
    EXPECT_EQ(ScoresOf(cache), expected) << "store_pooled " << store;
  }
}
TEST(ShrinkTest, NothingMovesWhenTheSequenceFits) {
  EXPECT_THAT(KeptOf(Policy(3, 2), {1, 2, 3, 4, 5}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(KeptOf(Policy(3, 2), {1, 2, 3}), ElementsAre(0, 1, 2));
}
TEST(ShrinkTest, DropsOneTokenAtOnePastTheBudget) {
  EXPECT_THAT(KeptOf(Policy(3, 2), {4, 1, 2, 3, 0, 0}), ElementsAre(0, 2, 3, 4, 5));
}

TEST(ShrinkTest, SurvivorsBelowTheCutStayInTheirSlots) {
  PlantedCache cache(40, Policy(10, 10));
  std::vector<float> scores(40, 0.0f);
  for (int32_t slot : {2, 3, 17, 19, 21, 22, 23, 24, 25, 26}) scores[static_cast<size_t>(slot)] = 1.0f;
  for (int32_t layer = 0; layer < kShape.layers; ++layer) {
    for (int32_t head = 0; head < kShape.kv_heads; ++head) cache.Plant(layer, head, Ascending(40), scores);
  }
  cache.Cut(40, true);
  for (int32_t slot : {2, 3, 17, 19}) EXPECT_EQ(cache.fixture().Position(cache.sequence(), 0, 0, slot), slot);
}

// --- victims ----------------------------------------------------------------------------------------------------------

class VictimTest : public testing::TestWithParam<TestedDevice> {};

// A decode step whose attention all goes to one token, so that the scores of the others stay the planted ones, ties and all.
TEST_P(VictimTest, PlantedTiesGoToTheHighestPositionAtEverySlotCount) {
  const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 2, .head_dim = 16, .type = KvType::kF32};
  std::mt19937_64 random(23);
  int64_t other_victims = 0, victims = 0;
  for (int32_t live : {2, 3, 15, 16, 17, 18, 31, 32, 33, 63, 65, 250, 257, 270, 319}) {
    for (int32_t recent : {1, 2, 7, live / 2, live - 1}) {
      if (recent < 1 || recent >= live) continue;
      KvFixture fixture(shape, GetParam(), 2, 24);
      TokenStream stream(shape, live + 1, 2);
      // Every query is along the first element, which only the first token has: logits 10,000 and 0, probabilities 1 and 0.
      for (int32_t t = 0; t <= live; ++t) {
        for (float& x : stream.Row(t, 0)) x = 0.0f;
        for (int32_t head = 0; head < 2; ++head) {
          stream.Q(t, 0, head)[0] = stream.Q(t, 0, head)[16] = 200.0f;
          stream.K(t, 0, head)[0] = t == 0 ? 200.0f : 0.0f;
        }
      }
      TestSequence sequence = fixture.Sequence(stream, Policy(live - recent, recent), live, 0, live + 1);
      const TestRow prompt{&sequence, live, true};
      fixture.Step({&prompt, 1});
      ASSERT_EQ(sequence.live, live);
      std::vector<H2oHistory> oracles;
      for (int32_t head = 0; head < 2; ++head) {
        H2oHistory oracle(sequence.policy, 2, 16, 0.25);
        for (int32_t slot = 0; slot < live; ++slot) {
          const float score = static_cast<float>(1 + random() % 3) * 0.5f;
          fixture.Score(sequence, 0, head, slot) = score;
          const auto k = reference::ToDouble(stream.K(slot, 0, head));
          oracle.mutable_tokens().push_back({slot, static_cast<double>(score), k, k});
        }
        oracles.push_back(oracle);
      }
      const TestRow decode{&sequence, 1, false};
      fixture.Step({&decode, 1});
      for (int32_t head = 0; head < 2; ++head) {
        oracles[static_cast<size_t>(head)].Decode(reference::ToDouble(stream.Q(live, 0, head)),
                                                  reference::ToDouble(stream.K(live, 0, head)),
                                                  reference::ToDouble(stream.V(live, 0, head)), live);
        const int32_t victim = fixture.Position(sequence, 0, head, fixture.VictimSlot(sequence, 0, head));
        EXPECT_EQ(victim, oracles[static_cast<size_t>(head)].Victim(live + 1))
            << "live " << live << " recent " << recent;
        ++victims;
        if (victim != live - recent) ++other_victims;
      }
    }
  }
  EXPECT_GE(other_victims * 3, victims);
}

// Scores that nobody adds to shrink from step to step and end at exactly 0, where the tie rule takes over.
TEST_P(VictimTest, ScoresThatDecayAwayBecomeTies) {
  const KvShape shape = {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 16, .type = KvType::kF32};
  constexpr int32_t kLive = 20, kSteps = 100;
  EvictionPolicy policy = Policy(kLive - 2, 2);
  policy.square = true;
  policy.decay = 15.0f / 16.0f;
  KvFixture fixture(shape, GetParam(), 1, 4);
  TokenStream stream(shape, kLive + kSteps, 2);
  for (int32_t t = 0; t < kLive + kSteps; ++t) {
    for (float& x : stream.Row(t, 0)) x = 0.0f;
    stream.Q(t, 0, 0)[0] = stream.Q(t, 0, 0)[16] = 200.0f;
    stream.K(t, 0, 0)[0] = t == 0 ? 200.0f : 0.0f;
  }
  TestSequence sequence = fixture.Sequence(stream, policy, kLive, 0, kLive + 1);
  const TestRow prompt{&sequence, kLive, true};
  fixture.Step({&prompt, 1});
  // 2^-120 (15/16)^100 is 2^-129.3, where fp32 has steps of 2^-149 and (15/16)^n would stay at 8 of them for ever.
  for (int32_t slot = 1; slot < kLive; ++slot)
    fixture.Score(sequence, 0, 0, slot) = 0x1p-120f * (1.0f + 0.01f * static_cast<float>(kLive - slot));
  float before = 1.0f;
  for (int32_t step = 0; step < kSteps; ++step) {
    const TestRow decode{&sequence, 1, false};
    fixture.Step({&decode, 1});
    const float score = fixture.Score(sequence, 0, 0, 1);
    if (score == 0.0f) {
      EXPECT_LT(before * policy.decay, kScoreMin * 1.001f);
      break;
    }
    EXPECT_GE(score, kScoreMin);
    EXPECT_LT(score, before);
    before = score;
  }
  EXPECT_EQ(fixture.Score(sequence, 0, 0, 1), 0.0f);
  // Zeros all of them but the first; the highest candidate goes, the token that leaves the window.
  EXPECT_EQ(fixture.Position(sequence, 0, 0, fixture.VictimSlot(sequence, 0, 0)), sequence.position - 1 - 2);
  EXPECT_NE(fixture.Score(sequence, 0, 0, 0), 0.0f);
}

// `sinks` has no scores: in every step the token that leaves the window goes, and the first four stay for ever.
TEST_P(VictimTest, SinksAndWindowSlideOverTheStream) {
  const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 2, .head_dim = 16, .type = KvType::kBF16};
  for (int32_t heavy : {0, 4}) {
    EvictionPolicy policy = Policy(heavy, 20);
    policy.score_source = heavy == 0 ? ScoreSource::kAttention : ScoreSource::kNone;
    KvFixture fixture(shape, GetParam(), 2, 24);
    TokenStream stream(shape, 200, 2);
    TestSequence sequence = fixture.Sequence(stream, policy, 50, 0, 200);
    const TestRow prompt{&sequence, 50, true};
    fixture.Step({&prompt, 1});
    while (sequence.position < 200) {
      const TestRow decode{&sequence, 1, false};
      fixture.Step({&decode, 1});
      std::vector<int32_t> expected;
      for (int32_t i = 0; i < heavy; ++i) expected.push_back(i);
      // The victim of this step, whose slot the next token takes, and the window.
      for (int32_t i = sequence.position - 21; i < sequence.position; ++i) expected.push_back(i);
      ASSERT_EQ(fixture.Positions(sequence, 0, 1), expected);
      ASSERT_EQ(fixture.Position(sequence, 0, 1, fixture.VictimSlot(sequence, 0, 1)), sequence.position - 21);
      ASSERT_EQ(sequence.live, policy.keep() + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, VictimTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace hydrant
