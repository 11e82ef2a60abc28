#include "server/live_view/kv_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr KvShape kShape = {.layers = 2, .kv_heads = 2};
constexpr int32_t kLive = 20;  // two blocks, the second one not full
constexpr int32_t kKnown = 40;

// A running sequence of 39 computed tokens and one more, of which pair p holds [0, 8 + p) and the newest 12 - p; token i's
// score is its position, in pair 3 twice that.
KvReading Running() {
  KvReading reading;
  reading.source = KvReading::Source::kRunning;
  reading.turn = 1;
  reading.computed = kKnown - 1;
  reading.live = kLive;
  reading.blocks = 2;
  reading.budget = KvBudget::Exact(kLive - 1);
  reading.policy = {.evicts = true, .heavy = 10, .recent = 9};
  reading.policy_label = 0;
  for (int32_t i = 0; i < kKnown; ++i) reading.tokens.push_back('a' + i % 26);
  reading.score_blocks_read = true;
  reading.score_blocks.blocks = 2;
  reading.score_blocks.positions.assign(2 * 4 * 16, 1 << 20);
  reading.score_blocks.scores.assign(2 * 4 * 16, 1e9f);
  for (int32_t slot = 0; slot < kLive; ++slot) {
    for (int32_t pair = 0; pair < 4; ++pair) {
      const int32_t first = 8 + pair;
      const auto at = static_cast<size_t>((slot / 16 * 4 + pair) * 16 + slot % 16);
      // Newest first: the cache keeps no order.
      const int32_t position = slot < kLive - first ? reading.computed - 1 - slot : kLive - 1 - slot;
      reading.score_blocks.positions[at] = position;
      reading.score_blocks.scores[at] = static_cast<float>(pair == 3 ? 2 * position : position);
    }
  }
  return reading;
}

SessionStore::View BusyView() {
  SessionStore::View view;
  view.card.state = SessionState::kBusy;
  return view;
}

SessionStore::View ParkedView(uint64_t turn, const EvictionPolicy& policy) {
  SessionStore::View view;
  view.card.state = SessionState::kParked;
  auto past = std::make_shared<SessionPast>();
  past->turn = turn;
  past->tokens.assign(kKnown, 'x');
  past->kv.policy = policy;
  past->kv.budget = KvBudget::Exact(policy.keep());
  past->spec.preset = KvPreset::kH2o;
  view.past = past;
  return view;
}

class KvMap : public testing::Test {
 protected:
  SessionKv Make(const SessionStore::View& view, const KvReading& reading, const SessionKvQuery& query = {}) {
    return MakeSessionKv("s", view, reading, kShape, tokenizer_, query);
  }
  ByteTokenizer tokenizer_;
};

TEST_F(KvMap, EveryTokenIsCountedInThePairsThatHoldIt) {
  const SessionKv kv = Make(BusyView(), Running());
  EXPECT_EQ(kv.unknown, KvUnknown::kNothing);
  EXPECT_EQ(kv.known, kKnown);
  EXPECT_EQ(kv.logical, kKnown - 1);
  EXPECT_EQ(kv.live, kLive);
  EXPECT_EQ(kv.budget, kLive - 1);
  EXPECT_EQ(kv.heavy, 10);
  EXPECT_EQ(kv.recent, 9);
  ASSERT_THAT(kv.held, SizeIs(kKnown));
  EXPECT_EQ(std::accumulate(kv.held.begin(), kv.held.end(), 0), kLive * kShape.layer_heads()) << "every slot once";
  EXPECT_EQ(kv.held[0], 4);
  EXPECT_THAT(std::vector<int32_t>(kv.held.begin() + 7, kv.held.begin() + 13), ElementsAre(4, 3, 2, 1, 0, 0));
  EXPECT_THAT(std::vector<int32_t>(kv.held.begin() + 26, kv.held.end()),
              ElementsAre(0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0))
      << "the last token is not computed yet";
}

TEST_F(KvMap, ScoresAreMeansOfSharesInUnitsOfAnEqualOne) {
  const SessionKv kv = Make(BusyView(), Running());
  // Pair p holds 0 … 7 + p and the newest 12 - p before position 39; what all scores are multiplied by changes nothing.
  double expected = 0;
  for (int32_t pair = 0; pair < 4; ++pair) {
    double sum = 0;
    for (int32_t i = 0; i < 8 + pair; ++i) sum += i;
    for (int32_t i = 27 + pair; i < 39; ++i) sum += i;
    expected += 38.0 * kLive / sum / 4;
  }
  EXPECT_NEAR(kv.scores[38], expected, 1e-5);
  EXPECT_EQ(kv.scores[0], 0);
  EXPECT_EQ(kv.scores[20], 0) << "nobody holds it";
}

TEST_F(KvMap, TheWindowIsTheNewestTokensUnlessAskedOtherwise) {
  const SessionKv whole = Make(BusyView(), Running());
  const SessionKv newest = Make(BusyView(), Running(), {.limit = 3});
  EXPECT_EQ(newest.after, kKnown - 3);
  EXPECT_THAT(newest.held, ElementsAre(4, 4, 0));
  const SessionKv first = Make(BusyView(), Running(), {.after = 6, .limit = 4});
  EXPECT_THAT(first.pieces, ElementsAre("g", "h", "i", "j"));
  EXPECT_THAT(first.held, ElementsAre(4, 4, 3, 2));
  EXPECT_EQ(first.scores[1], whole.scores[7]);
  EXPECT_EQ(first.reach, whole.reach) << "of all slots, whatever is shown";
  EXPECT_THAT(Make(BusyView(), Running(), {.after = 1000}).tokens, IsEmpty());
}

TEST_F(KvMap, APairsTokensComeInOrderWithTheScoresTheCacheHas) {
  const SessionKv kv = Make(BusyView(), Running(), {.after = 9, .limit = 22, .layer = 1, .head = 1});
  ASSERT_TRUE(kv.pair.has_value());
  EXPECT_THAT(kv.pair->positions, ElementsAre(9, 10, 30));
  EXPECT_THAT(kv.pair->scores, ElementsAre(18, 20, 60));
}

TEST_F(KvMap, ATokenIsLookedForInEveryPair) {
  const SessionKv kv = Make(BusyView(), Running(), {.token = 9});
  ASSERT_TRUE(kv.token.has_value());
  EXPECT_THAT(kv.token->scores, SizeIs(4));
  EXPECT_LT(kv.token->scores[0], 0);
  EXPECT_LT(kv.token->scores[1], 0);
  EXPECT_GT(kv.token->scores[2], 0);
  EXPECT_GT(kv.token->scores[3], 0);
}

TEST_F(KvMap, APolicyWithoutScoresHasNone) {
  KvReading reading = Running();
  reading.policy.score_source = ScoreSource::kNone;
  const SessionKv kv = Make(BusyView(), reading, {.layer = 0, .head = 0});
  EXPECT_THAT(kv.scores, IsEmpty());
  EXPECT_THAT(kv.pair->scores, IsEmpty());
  EXPECT_THAT(kv.pair->positions, SizeIs(kLive));
}

TEST_F(KvMap, WhatDropsNothingHoldsAllThatWasComputed) {
  KvReading reading = Running();
  reading.policy = EvictionPolicy();
  reading.budget = KvBudget::Unlimited();
  reading.score_blocks_read = false;
  reading.live = reading.computed;
  const SessionKv kv = Make(BusyView(), reading, {.after = 37, .layer = 0, .head = 1, .token = 39});
  EXPECT_THAT(kv.held, ElementsAre(4, 4, 0));
  EXPECT_THAT(kv.scores, IsEmpty());
  EXPECT_THAT(kv.pair->positions, ElementsAre(37, 38));
  EXPECT_THAT(kv.token->scores, ElementsAre(-1, -1, -1, -1));
  EXPECT_EQ(kv.budget, 0);
}

TEST_F(KvMap, WhatASessionHasParkedIsOfItsLastTurn) {
  KvReading reading = Running();
  reading.source = KvReading::Source::kParked;
  reading.turn = 5;
  const SessionKv kv = Make(ParkedView(5, reading.policy), reading);
  EXPECT_EQ(kv.unknown, KvUnknown::kNothing);
  EXPECT_EQ(kv.blocks, 2);
  EXPECT_EQ(kv.policy, "h2o");
  EXPECT_EQ(kv.pieces[3], "x") << "the tokens are the store's";
  const SessionKv of_another = Make(ParkedView(6, reading.policy), reading);
  EXPECT_EQ(of_another.unknown, KvUnknown::kCold);
  EXPECT_THAT(of_another.held, IsEmpty());
  EXPECT_THAT(of_another.tokens, SizeIs(kKnown));
  EXPECT_EQ(of_another.live, 0);
}

TEST_F(KvMap, ATurnThatWaitsSaysHowManyAreBeforeIt) {
  KvReading reading;
  reading.ahead = 3;
  EXPECT_EQ(Make(BusyView(), reading).ahead, 3);
  EXPECT_EQ(Make(ParkedView(1, reading.policy), reading).ahead, std::nullopt) << "its turn has ended meanwhile";
  KvReading running = Running();
  running.ahead = 3;
  EXPECT_EQ(Make(BusyView(), running).ahead, std::nullopt);
}

TEST_F(KvMap, WhoHasSteppedAsideHasNothingToBeLookedAt) {
  KvReading reading = Running();
  EXPECT_FALSE(Make(BusyView(), reading).aside);
  reading.aside = true;
  reading.score_blocks_read = false;
  const SessionKv kv = Make(BusyView(), reading);
  EXPECT_TRUE(kv.aside);
  EXPECT_EQ(kv.unknown, KvUnknown::kAside);
  EXPECT_THAT(kv.tokens, SizeIs(kKnown));
  reading.policy = {};
  EXPECT_EQ(Make(BusyView(), reading).unknown, KvUnknown::kNothing)
      << "what drops nothing holds it all, wherever that is";
}

TEST_F(KvMap, SaysWhyItDoesNotKnow) {
  EXPECT_EQ(Make(BusyView(), KvReading()).unknown, KvUnknown::kQueued);
  KvReading rolling = Running();
  rolling.policy.rolling = true;
  EXPECT_EQ(Make(BusyView(), rolling).unknown, KvUnknown::kRolling);
  rolling.score_blocks.logical = true;
  EXPECT_EQ(Make(BusyView(), rolling).unknown, KvUnknown::kNothing);
  KvReading large = Running();
  large.score_blocks_read = false;
  EXPECT_EQ(Make(BusyView(), large).unknown, KvUnknown::kTooMany);
}

TEST_F(KvMap, AReadingFitsWhatTheStoreSaysOfTheSameMoment) {
  KvReading reading = Running();
  EXPECT_TRUE(KvReadingFits(reading, BusyView()));
  SessionStore::View view = ParkedView(1, reading.policy);
  EXPECT_FALSE(KvReadingFits(reading, view)) << "the turn has ended meanwhile";
  view.card.state = SessionState::kBusy;
  EXPECT_FALSE(KvReadingFits(reading, view)) << "and another one has begun";
  reading.source = KvReading::Source::kNone;
  EXPECT_TRUE(KvReadingFits(reading, view));
  view.card.state = SessionState::kParked;
  EXPECT_FALSE(KvReadingFits(reading, view));
}

}  // namespace
}  // namespace hydrant
