#include "server/engine/prefix_sharing.h"

#include <gtest/gtest.h>

#include <set>

namespace hydrant {
namespace {

constexpr PrefixSalt kSalt{1, 2};

TEST(SharePrefixes, FollowsWhatThePolicyReads) {
  const EvictionPolicy h2o{.evicts = true, .heavy = 8, .recent = 8};
  EvictionPolicy sinks = h2o, window_rows = h2o, decayed = h2o;
  sinks.score_source = ScoreSource::kNone;
  window_rows.score_rows = 64;
  window_rows.decay = 15.0f / 16;
  decayed.decay = 127.0f / 128;
  EvictionPolicy pins = h2o;
  pins.pin_rows = 64;
  pins.decay = 15.0f / 16;
  pins.decays_prompt = false;
  const struct {
    const char* name;
    EvictionPolicy policy;
    bool looks_up;
    ScoreNeed scores;
    int32_t rows;
  } cases[] = {{"full", EvictionPolicy(), true, ScoreNeed::kNothing, 1},
               {"h2o", h2o, true, ScoreNeed::kSnapshot, 1},
               {"pins", pins, true, ScoreNeed::kSnapshot, 64},
               {"sinks", sinks, true, ScoreNeed::kZeros, 1},
               {"window of rows", window_rows, true, ScoreNeed::kZeros, 64},
               {"decay over all rows", decayed, false, ScoreNeed::kZeros, 1}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const PrefixUse use = SharePrefixes(c.policy, kSalt, false);
    EXPECT_TRUE(use.publishes);
    EXPECT_EQ(use.looks_up, c.looks_up);
    EXPECT_EQ(use.scores, c.scores);
    EXPECT_EQ(use.rows_computed_min, c.rows);
    EXPECT_EQ(use.salt, kSalt);
    EXPECT_FALSE(SharePrefixes(c.policy, kSalt, true).looks_up);
    EXPECT_TRUE(SharePrefixes(c.policy, kSalt, true).publishes);
  }
}

TEST(SharePrefixes, ScoresThatAreMadeDifferentlyNeverMeet) {
  std::set<ScoreKind> kinds;
  for (GqaReduce reduce : {GqaReduce::kSum, GqaReduce::kMean, GqaReduce::kFirst}) {
    for (bool square : {false, true}) {
      const EvictionPolicy policy{.evicts = true, .heavy = 8, .recent = 8, .gqa_reduce = reduce, .square = square};
      const PrefixUse use = SharePrefixes(policy, kSalt, false);
      EXPECT_LT(use.score_kind, kScoreKinds);
      EXPECT_TRUE(kinds.insert(use.score_kind).second);
    }
  }
}

}  // namespace
}  // namespace hydrant
