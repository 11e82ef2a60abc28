// The oracle of H2O against histories small enough to work out by hand.
#include "kernels/reference/h2o_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrant::reference {
namespace {

using testing::ElementsAre;

EvictionPolicy Policy(int32_t heavy, int32_t recent) {
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = heavy;
  policy.recent = recent;
  return policy;
}

std::vector<double> Scores(const H2oHistory& history) {
  std::vector<double> scores;
  for (const auto& token : history.tokens()) scores.push_back(token.score);
  return scores;
}

// Zero queries spread a row evenly over what it sees: row i gives 1 / (i + 1) to each of i + 1 tokens.
void PromptOfZeros(H2oHistory& history, int32_t count, int64_t heads = 1) {
  for (int32_t i = 0; i < count; ++i) history.Prompt(Values(size_t(heads), 0.0), Values{1}, Values{1}, i, count);
}

TEST(H2oHistoryTest, PromptScoresAreColumnSums) {
  H2oHistory history(Policy(1, 1), 1, 1, 1.0);
  PromptOfZeros(history, 3);
  EXPECT_THAT(Scores(history), ElementsAre(1 + 1 / 2.0 + 1 / 3.0, 1 / 2.0 + 1 / 3.0, 1 / 3.0));
}

TEST(H2oHistoryTest, HeadsOfTheGroupAreSummedAveragedOrTheFirstAlone) {
  for (const auto& [reduce, factor] :
       {std::pair{GqaReduce::kSum, 3.0}, {GqaReduce::kMean, 1.0}, {GqaReduce::kFirst, 1.0}}) {
    EvictionPolicy policy = Policy(1, 1);
    policy.gqa_reduce = reduce;
    H2oHistory history(policy, 3, 1, 1.0);
    PromptOfZeros(history, 1, 3);
    EXPECT_DOUBLE_EQ(history.tokens()[0].score, factor);
  }
}

TEST(H2oHistoryTest, WindowDecayAndSquareShapeThePromptsScores) {
  EvictionPolicy policy = Policy(1, 1);
  policy.score_rows = 2;
  policy.decay = 0.5f;
  policy.square = true;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 3);
  const double second = 0.5 * (1 / 4.0), third = 1 / 9.0;
  EXPECT_THAT(Scores(history), ElementsAre(second + third, second + third, third));
}

TEST(H2oHistoryTest, DecodeDecaysBeforeItAdds) {
  EvictionPolicy policy = Policy(1, 1);
  policy.decay = 0.5f;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 1);
  history.Decode(Values{0}, Values{1}, Values{1}, 1);
  EXPECT_THAT(Scores(history), ElementsAre(1.0, 0.5));
}

TEST(H2oHistoryTest, VictimIsTheLowestScoreAndTheHighestPositionOnATie) {
  H2oHistory history(Policy(2, 2), 1, 1, 1.0);
  PromptOfZeros(history, 6);
  const double scores[] = {3, 1, 2, 1, 0, 0};
  for (size_t i = 0; i < 6; ++i) history.mutable_tokens()[i].score = scores[i];
  EXPECT_EQ(history.Victim(6), 3);
  EXPECT_EQ(history.VictimExcess(3, 6), 0.0);
  EXPECT_EQ(history.VictimExcess(1, 6), 0.0);  // a tie is not an excess
  EXPECT_DOUBLE_EQ(history.VictimExcess(2, 6), 0.5);
  EXPECT_EQ(history.VictimExcess(4, 6), std::numeric_limits<double>::infinity());
  history.Evict(3);
  EXPECT_THAT(history.Positions(), ElementsAre(0, 1, 2, 4, 5));
}

TEST(H2oHistoryTest, CutPoolsThePromptAndStoresThePooledScores) {
  EvictionPolicy policy = Policy(2, 1);
  policy.pool_width = 3;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 5);
  const double scores[] = {2, 1, 1, 4, 9};
  for (size_t i = 0; i < 5; ++i) history.mutable_tokens()[i].score = scores[i];
  EXPECT_THAT(history.CutSurvivors(5, false), ElementsAre(0, 3, 4));
  EXPECT_THAT(history.CutSurvivors(5, true), ElementsAre(2, 3, 4));
  EXPECT_EQ(history.CutExcess(std::vector<int32_t>{2, 3, 4}, 5, true), 0.0);
  EXPECT_DOUBLE_EQ(history.CutExcess(std::vector<int32_t>{0, 3, 4}, 5, true), 0.5);
  EXPECT_EQ(history.CutExcess(std::vector<int32_t>{2, 3}, 5, true), std::numeric_limits<double>::infinity());
  history.Keep(std::vector<int32_t>{2, 3, 4}, 5, true);
  EXPECT_THAT(Scores(history), ElementsAre(4, 4, 9));
}

TEST(H2oHistoryTest, CutMayPoolForItsChoiceAloneAndLeaveThePlainScores) {
  EvictionPolicy policy = Policy(2, 1);
  policy.pool_width = 3;
  policy.store_pooled = false;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 5);
  const double scores[] = {2, 1, 1, 4, 9};
  for (size_t i = 0; i < 5; ++i) history.mutable_tokens()[i].score = scores[i];
  EXPECT_THAT(history.CutSurvivors(5, true), ElementsAre(2, 3, 4));
  history.Keep(std::vector<int32_t>{2, 3, 4}, 5, true);
  EXPECT_THAT(Scores(history), ElementsAre(1, 4, 9));
}

TEST(H2oHistoryTest, PooledTiesKeepTheLowerPositions) {
  EvictionPolicy policy = Policy(2, 1);
  policy.pool_width = 5;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 8);
  const double scores[] = {1, 1, 1, 1, 7, 1, 1, 9};
  for (size_t i = 0; i < 8; ++i) history.mutable_tokens()[i].score = scores[i];
  // The peak at 4 makes 2 … 6 equal; the recent 9 at 7 lifts nobody.
  EXPECT_THAT(history.CutSurvivors(8, true), ElementsAre(2, 3, 7));
  EXPECT_EQ(history.CutExcess(std::vector<int32_t>{4, 5, 7}, 8, true), 0.0);
}

// The segment that is pointed at is pinned, and the one behind it as if it were at three quarters of that.
TEST(H2oHistoryTest, PinsSegmentsAndTheOneBehindThem) {
  EvictionPolicy policy = Policy(8, 2);
  policy.pin_rows = 1;
  policy.pin_tokens = 1;
  policy.pins_min = 64;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 12);
  const double points[] = {1, 0, 0, 8, 0, 0, 3, 0, 0, 0, 9, 9}, scores[] = {9, 1, 1, 0, 0, 0, 5, 4, 2, 3, 7, 7};
  for (int32_t i = 0; i < 12; ++i) {
    H2oHistory::Token& token = history.mutable_tokens()[static_cast<size_t>(i)];
    token.score = scores[i];
    // As much more than what every row gives it.
    token.pointed_at = points[i] * (scores[i] / (12 - i) + kUsualMin / 12);
  }
  // pins() is 4 of 8 heavy slots. {2, 3} has 8, {4, 5} three quarters of it, {6, 7} its own 3, and {0, 1} 1.
  const std::vector<int32_t> starts = {0, 2, 4, 6, 8};
  EXPECT_THAT(history.Pins(starts, 12), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(history.PinExcess(std::vector<int32_t>{2, 3, 4, 5}, starts, 12), 0.0);
  EXPECT_NEAR(history.PinExcess(std::vector<int32_t>{2, 3, 6, 7}, starts, 12), 0.5, 1e-6);
  EXPECT_EQ(history.PinExcess(std::vector<int32_t>{2, 3, 4}, starts, 12), std::numeric_limits<double>::infinity());
  EXPECT_EQ(history.PinExcess(std::vector<int32_t>{2, 3, 4, 11}, starts, 12), std::numeric_limits<double>::infinity());
  history.Pin(std::vector<int32_t>{3, 4});
  EXPECT_THAT(history.CutSurvivors(12, true), ElementsAre(0, 1, 3, 4, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(history.CutExcess(std::vector<int32_t>{0, 1, 2, 5, 6, 7, 8, 9, 10, 11}, 12, true), 1.0);
  EXPECT_EQ(history.Victim(12), 5);
  EXPECT_EQ(history.VictimExcess(3, 12), std::numeric_limits<double>::infinity());
  // The first token after the prompt still holds the pins, the second no more.
  history.Decode(Values{0}, Values{1}, Values{1}, 12);
  EXPECT_TRUE(history.tokens()[3].pinned);
  history.Decode(Values{0}, Values{1}, Values{1}, 13);
  EXPECT_FALSE(history.tokens()[3].pinned);
}

TEST(H2oHistoryTest, AScoreThatDecaysAwayIsExactlyZero) {
  EvictionPolicy policy = Policy(2, 1);
  policy.decay = 0.5f;
  H2oHistory history(policy, 1, 1, 1.0);
  PromptOfZeros(history, 3);
  history.mutable_tokens()[1].score = 2.5 * kScoreMin;
  // All attention goes to the first token.
  history.mutable_tokens()[0].key = {1000};
  history.Decode(Values{1}, Values{0}, Values{0}, 3);
  EXPECT_EQ(history.tokens()[1].score, 1.25 * kScoreMin);
  history.Decode(Values{1}, Values{0}, Values{0}, 4);
  EXPECT_EQ(history.tokens()[1].score, 0.0);
}

}  // namespace
}  // namespace hydrant::reference
