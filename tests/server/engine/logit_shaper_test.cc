#include "server/engine/logit_shaper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<int32_t> Banned(LogitShaper& shaper) {
  const LogitAdjustments* next = shaper.Next();
  return next == nullptr ? std::vector<int32_t>() : std::vector<int32_t>(next->banned.begin(), next->banned.end());
}

std::map<int32_t, int32_t> Counts(LogitShaper& shaper) {
  std::map<int32_t, int32_t> counts;
  const LogitAdjustments* next = shaper.Next();
  if (next == nullptr) return counts;
  for (const TokenCount& seen : next->counts) EXPECT_TRUE(counts.emplace(seen.id, seen.count).second) << seen.id;
  return counts;
}

LogitShaper Make(LogitRules rules, const std::vector<int32_t>& prompt = {}) {
  return LogitShaper(std::make_shared<const LogitRules>(std::move(rules)), prompt);
}

TEST(LogitRulesTest, NeutralRulesAskNothing) {
  EXPECT_TRUE(LogitRules().neutral());
  EXPECT_TRUE(LogitRules({.stop_ids = {2}}).neutral()) << "without min_tokens";
  EXPECT_TRUE(LogitRules({.min_tokens = 5}).neutral()) << "without an end";
  EXPECT_FALSE(LogitRules({.stop_ids = {2}, .min_tokens = 1}).neutral());
  EXPECT_FALSE(LogitRules({.options = {.allowed_token_ids = {1}}}).neutral());
  EXPECT_FALSE(LogitRules({.options = {.logit_bias = {{1, 1.0f}}}}).neutral());
  EXPECT_FALSE(LogitRules({.bad_words = {{1}}}).neutral());
  EXPECT_FALSE(LogitRules({.options = {.repetition_penalty = 1.1f}}).neutral());
  EXPECT_FALSE(LogitRules({.options = {.frequency_penalty = -0.1f}}).neutral());
  EXPECT_FALSE(LogitRules({.options = {.presence_penalty = 0.1f}}).neutral());
}

TEST(LogitRulesTest, EveryIdIsChecked) {
  const LogitRules rules[] = {{.options = {.allowed_token_ids = {9}}},
                              {.options = {.logit_bias = {{9, 1.0f}}}},
                              {.bad_words = {{1}, {2, 9, 3}}},
                              {.stop_ids = {9}}};
  for (const LogitRules& one : rules) {
    EXPECT_TRUE(one.IdsBelow(10));
    EXPECT_FALSE(one.IdsBelow(9));
  }
}

TEST(LogitShaperTest, CountsTheOutputAndKnowsThePrompt) {
  LogitShaper shaper = Make({.options = {.repetition_penalty = 1.2f}}, {5, 6, 5});
  EXPECT_EQ(Counts(shaper), (std::map<int32_t, int32_t>{{5, 0}, {6, 0}}));
  for (const int32_t token : {6, 7, 7}) shaper.Push(token);
  EXPECT_EQ(Counts(shaper), (std::map<int32_t, int32_t>{{5, 0}, {6, 1}, {7, 2}}));
}

TEST(LogitShaperTest, ThePromptCountsForRepetitionOnly) {
  LogitShaper shaper = Make({.options = {.frequency_penalty = 0.5f}}, {5, 6, 5});
  EXPECT_EQ(shaper.Next(), nullptr) << "nothing to penalise yet";
  shaper.Push(6);
  EXPECT_EQ(Counts(shaper), (std::map<int32_t, int32_t>{{6, 1}}));
}

TEST(LogitShaperTest, AheadTheTokenBeforeIsTheDevices) {
  LogitShaper shaper = Make({.options = {.frequency_penalty = 0.5f}, .stop_ids = {2}, .min_tokens = 2});
  EXPECT_TRUE(shaper.only_counts());
  const LogitAdjustments* next = shaper.Next(/*ahead=*/true);
  ASSERT_NE(next, nullptr) << "what is not counted yet";
  EXPECT_TRUE(next->counts_last);
  EXPECT_THAT(next->counts, IsEmpty());
  EXPECT_THAT(next->banned, ElementsAre(2)) << "the second token";
  shaper.Push(6);
  next = shaper.Next(/*ahead=*/true);
  EXPECT_THAT(next->banned, IsEmpty()) << "the third one";
  EXPECT_THAT(next->counts, testing::SizeIs(1));
  EXPECT_FALSE(shaper.Next()->counts_last);

  LogitShaper biased = Make({.options = {.allowed_token_ids = {1, 2}}});
  EXPECT_FALSE(biased.Next(/*ahead=*/true)->counts_last) << "nothing is counted";
  EXPECT_TRUE(Make({.bad_words = {{4}}}).only_counts());
  EXPECT_FALSE(Make({.bad_words = {{4}, {5, 6}}}).only_counts()) << "whether 6 may come depends on what came before";
}

TEST(LogitShaperTest, CountsAreThoseOfACountFromScratch) {
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> prompt(random() % 40);
    for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 20);
    LogitShaper shaper = Make({.options = {.repetition_penalty = 2.0f}}, prompt);
    std::map<int32_t, int32_t> expected;
    for (const int32_t id : prompt) expected[id] += 0;
    for (int step = 0; step < 60; ++step) {
      const auto token = static_cast<int32_t>(random() % 25);
      shaper.Push(token);
      expected[token] += 1;
      ASSERT_EQ(Counts(shaper), expected);
    }
  }
}

TEST(LogitShaperTest, EndsAreBannedUntilMinTokens) {
  LogitShaper shaper = Make({.stop_ids = {2, 9}, .min_tokens = 2});
  EXPECT_THAT(Banned(shaper), ElementsAre(2, 9));
  shaper.Push(4);
  EXPECT_THAT(Banned(shaper), ElementsAre(2, 9)) << "the second token may not be the end either";
  shaper.Push(4);
  EXPECT_EQ(shaper.Next(), nullptr);
}

TEST(LogitShaperTest, TheLastTokenOfABadWordIsBannedBehindTheOthers) {
  LogitShaper shaper = Make({.bad_words = {{7}, {1, 2}, {1, 2, 3}, {2, 2}}}, {1, 2});
  EXPECT_THAT(Banned(shaper), ElementsAre(7)) << "the prompt is not looked at";
  shaper.Push(1);
  EXPECT_THAT(Banned(shaper), ElementsAre(7, 2));
  shaper.Push(2);
  EXPECT_THAT(Banned(shaper), ElementsAre(7, 3, 2));
  shaper.Push(2);
  EXPECT_THAT(Banned(shaper), ElementsAre(7, 2));
  shaper.Push(5);
  EXPECT_THAT(Banned(shaper), ElementsAre(7));
  for (const int32_t token : {9, 9, 9, 1}) shaper.Push(token);
  EXPECT_THAT(Banned(shaper), UnorderedElementsAre(7, 2));
}

TEST(LogitShaperTest, WhatTheRequestSaysOnceIsThereEveryTime) {
  LogitShaper shaper =
      Make({.options = {.allowed_token_ids = {1, 2}, .logit_bias = {{3, 1.5f}}, .presence_penalty = 0.25f}});
  for (int step = 0; step < 3; ++step) {
    const LogitAdjustments* next = shaper.Next();
    ASSERT_NE(next, nullptr);
    EXPECT_THAT(next->allowed, ElementsAre(1, 2));
    ASSERT_EQ(next->biases.size(), 1u);
    EXPECT_EQ(next->biases[0].bias, 1.5f);
    EXPECT_EQ(next->presence, 0.25f);
    EXPECT_EQ(next->repetition, 1.0f);
    EXPECT_THAT(next->banned, IsEmpty());
    shaper.Push(1);
  }
}

TEST(LogitShaperTest, CopiesGoTheirOwnWays) {
  const LogitShaper base = Make({.options = {.repetition_penalty = 1.5f}}, {5});
  LogitShaper first = base, second = base;
  first.Push(6);
  second.Push(7);
  EXPECT_EQ(Counts(first), (std::map<int32_t, int32_t>{{5, 0}, {6, 1}}));
  EXPECT_EQ(Counts(second), (std::map<int32_t, int32_t>{{5, 0}, {7, 1}}));
}

}  // namespace
}  // namespace hydrant
