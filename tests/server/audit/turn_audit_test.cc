#include "server/audit/turn_audit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace hydrant {
namespace {

class TurnAuditTest : public testing::Test {
 protected:
  TurnAuditTest() : audit_(OptionsOf(1)) {}
  static KvAudit::Options OptionsOf(double share) {
    KvAudit::Options options;
    options.share = share;
    options.context = 12;
    options.policy_names = {"full", "h2o"};
    options.tenant_name = [](int32_t) { return std::string("t"); };
    return options;
  }

  std::unique_ptr<TurnAudit> Start() {
    AuditedTurn turn;
    turn.policy = 1;
    turn.prompt = std::vector<int32_t>(10, 7);
    return TurnAudit::Draw(&audit_, std::move(turn));
  }
  static void Take(TurnAudit& turn, int32_t token, FinishReason finish, int32_t evicted = 3, bool scored = true) {
    TokenEvent event;
    event.token = token;
    event.finish = finish;
    if (scored) {
      event.best = token + 1;
      event.logprob = -2.0f;
    }
    SequenceProgress status;
    status.evicted = evicted;
    status.budget = 16;
    turn.Take(event, status);
  }
  uint64_t CountOf(AuditResult result) const { return audit_.counts().results[static_cast<size_t>(result)]; }

  KvAudit audit_;
};

TEST_F(TurnAuditTest, WhatWasSampledAndWhatWasBestIsCompared) {
  const auto turn = Start();
  Take(*turn, 1, FinishReason::kNone);
  Take(*turn, 2, FinishReason::kStop);
  const std::optional<ReplayText> text = audit_.Next();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->tokens.size(), 12u) << "the token that stops it is one that was sampled";
  EXPECT_EQ(text->begin, 10);
  SampleResult scores[2];
  scores[0].best = scores[1].best = 2;
  scores[0].logprob = scores[1].logprob = 0.0f;
  EXPECT_TRUE(audit_.OnScores(scores));
  audit_.OnEnd(ReplayEnd::kDone);
  EXPECT_DOUBLE_EQ(audit_.counts().series[0].agreement, 0.5);
  EXPECT_DOUBLE_EQ(audit_.counts().series[0].logprob_gap, 2.0);
  EXPECT_EQ(audit_.counts().series[0].budget, "16");
}

TEST_F(TurnAuditTest, NobodyIsDrawnWithoutAnAuditOrOutsideOfTheSample) {
  EXPECT_EQ(TurnAudit::Draw(nullptr, {}), nullptr);
  KvAudit rare(OptionsOf(1e-9));
  EXPECT_EQ(TurnAudit::Draw(&rare, {}), nullptr);
}

TEST_F(TurnAuditTest, OnlyFinishedTurnsThatLostSomethingAreCompared) {
  const auto cancelled = Start();
  Take(*cancelled, 1, FinishReason::kNone);
  Take(*cancelled, -1, FinishReason::kAbort);
  const auto failed = Start();
  Take(*failed, -1, FinishReason::kError);
  EXPECT_EQ(audit_.counts().results, (std::array<uint64_t, kAuditResults>{})) << "they are no finished turns";
  const auto whole = Start();
  Take(*whole, 1, FinishReason::kLength, /*evicted=*/0);
  EXPECT_EQ(CountOf(AuditResult::kNothingEvicted), 1u);
  const auto longer = Start();
  for (int i = 0; i < 3; ++i) Take(*longer, 1, FinishReason::kNone);
  Take(*longer, 1, FinishReason::kLength);
  EXPECT_EQ(CountOf(AuditResult::kTooLong), 1u);
  KvAudit::Options small = OptionsOf(1);
  small.context = 16;
  small.room = 12;
  KvAudit roomless(std::move(small));
  const auto longest = TurnAudit::Draw(&roomless, {.prompt = std::vector<int32_t>(10, 7)});
  for (int i = 0; i < 3; ++i) Take(*longest, 1, FinishReason::kNone);
  Take(*longest, 1, FinishReason::kLength);
  EXPECT_EQ(roomless.counts().results[static_cast<size_t>(AuditResult::kNoRoom)], 1u);
  const auto rolling = TurnAudit::Draw(&roomless, {.prompt = std::vector<int32_t>(10, 7)});
  for (int i = 0; i < 7; ++i) Take(*rolling, 1, i < 6 ? FinishReason::kNone : FinishReason::kLength);
  EXPECT_EQ(roomless.counts().results[static_cast<size_t>(AuditResult::kTooLong)], 1u) << "both, at its end";
  const auto unscored = Start();
  Take(*unscored, 1, FinishReason::kLength, 3, /*scored=*/false);
  EXPECT_EQ(CountOf(AuditResult::kError), 1u);
  EXPECT_FALSE(audit_.has_text());
}

}  // namespace
}  // namespace hydrant
