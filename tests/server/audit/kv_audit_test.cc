#include "server/audit/kv_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using testing::IsEmpty;

KvAudit::Options OptionsOf(double share) {
  KvAudit::Options options;
  options.share = share;
  options.context = 100;
  options.policy_names = {"full", "h2o"};
  options.tenant_name = [](int32_t tenant) { return "tenant" + std::to_string(tenant); };
  return options;
}

// 10 tokens of history, and an answer of two: the best tokens were 1 and 2.
AuditedTurn TurnOf(uint64_t session = 0) {
  AuditedTurn turn;
  turn.policy = 1;
  turn.budget = 100;
  turn.session = session;
  turn.prompt = std::vector<int32_t>(10, 7);
  turn.answer = {1, 5};
  turn.kept = {{1, -0.5f}, {2, -1.0f}};
  return turn;
}

SampleResult ScoreOf(int32_t best, float logprob) {
  SampleResult score;
  score.logprob = logprob;
  score.best = best;
  return score;
}

uint64_t CountOf(const KvAudit& audit, AuditResult result) {
  return audit.counts().results[static_cast<size_t>(result)];
}

void Compute(KvAudit& audit, int32_t best, float logprob) {
  ASSERT_TRUE(audit.Next().has_value());
  const SampleResult scores[] = {ScoreOf(1, -0.25f), ScoreOf(best, logprob)};
  for (const SampleResult& score : scores) EXPECT_TRUE(audit.OnScores({&score, 1})) << "one step after the other";
  audit.OnEnd(ReplayEnd::kDone);
}

TEST(KvAudit, ComparesBestTokensAndLogProbabilities) {
  KvAudit audit(OptionsOf(1));
  int woken = 0;
  audit.SetWake([&] { ++woken; });
  EXPECT_FALSE(audit.has_text());
  audit.Add(TurnOf());
  audit.Add(TurnOf());
  EXPECT_EQ(woken, 2);
  EXPECT_TRUE(audit.has_text());
  const std::optional<ReplayText> text = audit.Next();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->tokens.vector(), (std::vector<int32_t>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 5}));
  EXPECT_EQ(text->begin, 10);
  const SampleResult scores[] = {ScoreOf(1, -0.25f), ScoreOf(5, -2.0f)};
  EXPECT_TRUE(audit.OnScores(scores));
  EXPECT_EQ(audit.counts().waiting, 2) << "one is being computed";
  EXPECT_THAT(audit.counts().series, IsEmpty());
  audit.OnEnd(ReplayEnd::kDone);
  Compute(audit, 2, -1.0f);
  const KvAudit::Counts counts = audit.counts();
  EXPECT_EQ(CountOf(audit, AuditResult::kDone), 2u);
  EXPECT_EQ(counts.computed_tokens, 24u);
  EXPECT_EQ(counts.waiting, 0);
  ASSERT_EQ(counts.series.size(), 1u);
  EXPECT_EQ(counts.series[0].tenant, "tenant0");
  EXPECT_EQ(counts.series[0].policy, "h2o");
  EXPECT_EQ(counts.series[0].budget, "128");
  EXPECT_EQ(counts.series[0].tokens, 4u);
  EXPECT_DOUBLE_EQ(counts.series[0].agreement, 0.75) << "5 was sampled, but 2 was the best of what was kept";
  EXPECT_DOUBLE_EQ(counts.series[0].logprob_gap, (0.25 - 1.0 + 0.25 + 0.0) / 4);
}

TEST(KvAudit, ASeriesIsOfItsLastTurnsAndSeriesAreBounded) {
  KvAudit audit(OptionsOf(1));
  for (size_t i = 0; i < KvAudit::kTurnsMean + 3; ++i) {
    audit.Add(TurnOf());
    Compute(audit, i < 3 ? 9 : 2, -1.0f);
  }
  EXPECT_DOUBLE_EQ(audit.counts().series[0].agreement, 1.0);
  EXPECT_EQ(audit.counts().series[0].tokens, 2 * (KvAudit::kTurnsMean + 3));
  for (int32_t tenant = 0; tenant < static_cast<int32_t>(KvAudit::kSeriesMax) + 10; ++tenant) {
    AuditedTurn turn = TurnOf();
    turn.tenant = tenant;
    turn.budget = 16;
    audit.Add(std::move(turn));
    Compute(audit, 2, -1.0f);
  }
  const KvAudit::Counts counts = audit.counts();
  EXPECT_EQ(counts.series.size(), KvAudit::kSeriesMax);
  for (const KvAudit::Series& series : counts.series) EXPECT_EQ(series.budget, "16") << "the oldest went first";
}

// What a turn lost that saw all of its conversation again says nothing about those that did not.
TEST(KvAudit, TurnsThatRecallAreASeriesOfTheirOwn) {
  KvAudit audit(OptionsOf(1));
  for (const bool recalls : {false, true}) {
    AuditedTurn turn = TurnOf();
    turn.recalls = recalls;
    audit.Add(std::move(turn));
    Compute(audit, recalls ? 2 : 9, -1.0f);
  }
  const std::vector<KvAudit::Series> series = audit.counts().series;
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].recall, "off");
  EXPECT_EQ(series[0].agreement, 0.5);
  EXPECT_EQ(series[1].recall, "turn");
  EXPECT_EQ(series[1].agreement, 1.0);
}

// Who is asked for a name may have to wait for somebody who ends a turn.
TEST(KvAudit, NamesAreFoundWhileTurnsEnd) {
  KvAudit::Options options = OptionsOf(1);
  KvAudit* self = nullptr;
  options.tenant_name = [&self](int32_t) {
    self->Skip(AuditResult::kNothingEvicted);
    return std::string("t");
  };
  KvAudit audit(std::move(options));
  self = &audit;
  audit.Add(TurnOf());
  Compute(audit, 2, -1.0f);
  EXPECT_EQ(audit.counts().series.at(0).tenant, "t");
  EXPECT_EQ(CountOf(audit, AuditResult::kNothingEvicted), 1u) << "of the call before";
}

TEST(KvAudit, DrawsItsShareWhateverTheSeed) {
  for (const double share : {0.01, 0.3, 1.0}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      KvAudit::Options options = OptionsOf(share);
      options.seed = seed;
      KvAudit audit(std::move(options));
      int drawn = 0;
      for (int i = 0; i < 100'000; ++i) drawn += audit.Draws() ? 1 : 0;
      EXPECT_NEAR(drawn, share * 100'000, 600);
    }
  }
}

TEST(KvAudit, TheOldestMakeRoomWhereTooManyWait) {
  KvAudit by_number(OptionsOf(1));
  for (size_t i = 0; i < KvAudit::kWaitingMax + 5; ++i) by_number.Add(TurnOf());
  EXPECT_EQ(by_number.counts().waiting, static_cast<int64_t>(KvAudit::kWaitingMax));
  EXPECT_EQ(CountOf(by_number, AuditResult::kCrowdedOut), 5u);

  KvAudit::Options options = OptionsOf(1);
  options.tokens_max = 30;
  KvAudit by_tokens(std::move(options));
  for (int i = 0; i < 5; ++i) {
    AuditedTurn turn = TurnOf();
    turn.prompt = std::vector<int32_t>(10, i);
    by_tokens.Add(std::move(turn));
  }
  EXPECT_EQ(by_tokens.counts().waiting, 2);
  EXPECT_EQ(by_tokens.Next()->tokens.front(), 3) << "the oldest that is left goes first";
  AuditedTurn large = TurnOf();
  large.prompt = std::vector<int32_t>(90, 1);
  by_tokens.Add(std::move(large));
  EXPECT_EQ(by_tokens.counts().waiting, 2) << "one of the context waits whatever there is room for";
}

TEST(KvAudit, WhatCanNeverBeComputedTakesNobodysPlace) {
  KvAudit::Options options = OptionsOf(1);
  options.room = 12;
  options.tokens_max = 30;
  KvAudit audit(std::move(options));
  audit.Add(TurnOf());
  audit.Add(TurnOf());
  AuditedTurn longer = TurnOf();
  longer.prompt = std::vector<int32_t>(11, 7);
  audit.Add(std::move(longer));
  EXPECT_EQ(CountOf(audit, AuditResult::kNoRoom), 1u);
  EXPECT_EQ(CountOf(audit, AuditResult::kCrowdedOut), 0u);
  EXPECT_EQ(audit.counts().waiting, 2);
}

// Whoever comes with more than there is room for loses their own.
TEST(KvAudit, ATenantWithManyTurnsLeavesTheOthersTheirs) {
  const auto add = [](KvAudit& audit, int32_t tenant, int32_t prompt) {
    AuditedTurn turn = TurnOf();
    turn.tenant = tenant;
    turn.prompt = std::vector<int32_t>(static_cast<size_t>(prompt), prompt);
    audit.Add(std::move(turn));
  };
  KvAudit by_number(OptionsOf(1));
  add(by_number, 7, 10);
  for (size_t i = 0; i < 2 * KvAudit::kWaitingMax; ++i) add(by_number, 3, 11);
  add(by_number, 9, 12);
  EXPECT_EQ(by_number.counts().waiting, static_cast<int64_t>(KvAudit::kWaitingMax));
  EXPECT_EQ(CountOf(by_number, AuditResult::kCrowdedOut), KvAudit::kWaitingMax + 2);
  EXPECT_EQ(by_number.Next()->tokens.size(), 12u) << "the one of who has few is still the first";

  KvAudit::Options options = OptionsOf(1);
  options.tokens_max = 100;
  KvAudit by_tokens(std::move(options));
  for (int i = 0; i < 4; ++i) add(by_tokens, 3, 10);
  add(by_tokens, 7, 60);
  EXPECT_EQ(by_tokens.counts().waiting, 4) << "the large one has most of them, and went";
  EXPECT_EQ(CountOf(by_tokens, AuditResult::kCrowdedOut), 1u);
  EXPECT_EQ(by_tokens.Next()->tokens.front(), 10);
}

TEST(KvAudit, NothingOfASessionStays) {
  KvAudit audit(OptionsOf(1));
  audit.Add(TurnOf(5));
  audit.Add(TurnOf(5));
  audit.Add(TurnOf());
  ASSERT_TRUE(audit.Next().has_value());
  audit.Forget(5);
  audit.Forget(0);
  EXPECT_EQ(CountOf(audit, AuditResult::kForgotten), 1u);
  const SampleResult score = ScoreOf(1, -1.0f);
  EXPECT_FALSE(audit.OnScores({&score, 1})) << "what is being computed is not wanted any more";
  EXPECT_EQ(CountOf(audit, AuditResult::kForgotten), 2u);
  EXPECT_EQ(audit.counts().waiting, 1);
  Compute(audit, 2, -1.0f);
  EXPECT_EQ(CountOf(audit, AuditResult::kDone), 1u) << "the next one is another's";

  KvAudit failed(OptionsOf(1));
  failed.Add(TurnOf(5));
  ASSERT_TRUE(failed.Next().has_value());
  failed.Forget(5);
  failed.OnEnd(ReplayEnd::kError);
  EXPECT_EQ(CountOf(failed, AuditResult::kForgotten), 1u);
}

TEST(KvAudit, SaysWhyATurnWasNotCompared) {
  KvAudit audit(OptionsOf(1));
  AuditedTurn longer = TurnOf();
  longer.prompt = std::vector<int32_t>(99, 1);
  audit.Add(std::move(longer));
  EXPECT_EQ(CountOf(audit, AuditResult::kTooLong), 1u);
  AuditedTurn adapted = TurnOf();
  adapted.has_adapter = true;
  auto slot = std::make_shared<AdapterSlot>();
  adapted.adapter = slot;
  audit.Add(adapted);
  EXPECT_EQ(slot.use_count(), 1) << "nobody keeps it for an audit";
  const std::optional<ReplayText> text = audit.Next();
  EXPECT_TRUE(text->has_adapter);
  EXPECT_EQ(text->adapter.lock(), slot);
  audit.OnEnd(ReplayEnd::kNoRoom);
  for (const auto& [end, result] :
       {std::pair(ReplayEnd::kNoRoom, AuditResult::kNoRoom), std::pair(ReplayEnd::kNoAdapter, AuditResult::kNoAdapter),
        std::pair(ReplayEnd::kNoMemory, AuditResult::kNoMemory), std::pair(ReplayEnd::kError, AuditResult::kError)}) {
    const uint64_t before = CountOf(audit, result);
    audit.Add(TurnOf());
    ASSERT_TRUE(audit.Next().has_value());
    audit.OnEnd(end);
    EXPECT_EQ(CountOf(audit, result), before + 1) << AuditResultName(result);
  }
  audit.Add(TurnOf());
  ASSERT_TRUE(audit.Next().has_value());
  SampleResult broken = ScoreOf(1, std::numeric_limits<float>::quiet_NaN());
  broken.finite = false;
  const SampleResult scores[] = {broken, ScoreOf(2, -1.0f)};
  EXPECT_TRUE(audit.OnScores(scores));
  audit.OnEnd(ReplayEnd::kDone);
  EXPECT_EQ(CountOf(audit, AuditResult::kError), 2u);
  EXPECT_THAT(audit.counts().series, IsEmpty());
}

}  // namespace
}  // namespace hydrant
