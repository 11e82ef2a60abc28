#include "server/sessions/past_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace hydrant {
namespace {

constexpr KvModelFacts kFacts = {.query_heads = 4, .kv_heads = 2, .budget_max = 512};
constexpr int32_t kVocab = 100;

SessionPast PastUnder(KvPreset preset, KvBudgetKind kind, int32_t tokens, double ratio = 0) {
  SessionPast past;
  past.tokens = {1, 2, 99};
  past.computed = 2;
  past.spec.preset = preset;
  past.spec.budget_kind = kind;
  past.spec.budget_tokens = tokens;
  past.spec.budget_ratio = ratio;
  past.kv = ResolveKvPolicy(past.spec, 200, 100, kFacts).value();
  return past;
}

std::string ParamOf(const SessionPast& past) {
  const std::optional<ApiError> error = CheckPast(past, kVocab, kFacts);
  return error.has_value() ? error->param : "";
}

TEST(PastCheck, WhatTheServerMakesItselfIsTaken) {
  for (int preset = 0; preset <= static_cast<int>(kKvPresetLast); ++preset) {
    const auto which = static_cast<KvPreset>(preset);
    if (which == KvPreset::kFull || which == KvPreset::kH2oReal) continue;
    EXPECT_EQ(ParamOf(PastUnder(which, KvBudgetKind::kTokens, 64)), "") << KvPresetName(which);
    EXPECT_EQ(ParamOf(PastUnder(which, KvBudgetKind::kRatioOfPrompt, 0, 0.3)), "") << KvPresetName(which);
    EXPECT_EQ(ParamOf(PastUnder(which, KvBudgetKind::kRatioOfTotal, 0, 0.3)), "") << KvPresetName(which);
  }
  EXPECT_EQ(ParamOf(PastUnder(KvPreset::kFull, KvBudgetKind::kUnset, 0)), "");
  EXPECT_EQ(ParamOf(PastUnder(KvPreset::kH2oStreaming, KvBudgetKind::kUnset, 0)), "");
  SessionPast whole = PastUnder(KvPreset::kFull, KvBudgetKind::kUnset, 0);
  whole.computed = 3;
  EXPECT_EQ(ParamOf(whole), "") << "a stop token that is not kept was the last";
}

TEST(PastCheck, ASessionThatRecallsHasWholeBlocksOfItsPromptComputed) {
  SessionPast past = PastUnder(KvPreset::kAuto, KvBudgetKind::kTokens, 64);
  past.spec.recall = true;
  past.tokens.assign(40, 7);
  for (const int32_t computed : {0, 16, 32}) {
    past.computed = computed;
    EXPECT_EQ(ParamOf(past), "") << computed;
  }
  for (const int32_t computed : {1, 39, 40, 48}) {
    past.computed = computed;
    EXPECT_EQ(ParamOf(past), "computed") << computed;
  }
  past.computed = 32;
  past.spec.position = KvPosition::kRolling;
  EXPECT_EQ(ParamOf(past), "kv.recall");
  past = PastUnder(KvPreset::kFull, KvBudgetKind::kUnset, 0);
  past.spec.recall = true;
  EXPECT_EQ(ParamOf(past), "");
  past.computed = 0;
  EXPECT_EQ(ParamOf(past), "computed") << "it evicts nothing, and recalls nothing";
}

TEST(PastCheck, AConversationMayHaveItemsAndNoTokensYet) {
  SessionPast past;
  past.notes.push_back(std::make_shared<const TurnNote>());
  EXPECT_EQ(ParamOf(past), "");
  past.computed = 1;
  EXPECT_EQ(ParamOf(past), "computed");
  past.computed = 0;
  past.text = "";
  EXPECT_EQ(ParamOf(past), "text");
  past.text.reset();
  past.kv.budget.keep = 5;
  EXPECT_EQ(ParamOf(past), "kv");
  past.spec.preset = KvPreset::kH2o;
  past.spec.budget_kind = KvBudgetKind::kTokens;
  past.spec.budget_tokens = 513;
  EXPECT_EQ(ParamOf(past), "kv.budget");
}

TEST(PastCheck, WhatItWouldNotMakeIsRefusedByField) {
  struct Case {
    const char* field;
    std::function<void(SessionPast*)> change;
  };
  const Case cases[] = {
      {"tokens", [](SessionPast* past) { past->tokens.clear(); }},
      {"tokens", [](SessionPast* past) { past->tokens[1] = kVocab; }},
      {"tokens", [](SessionPast* past) { past->tokens[1] = std::numeric_limits<int32_t>::max(); }},
      {"computed", [](SessionPast* past) { past->computed = 1; }},
      {"added_special_tokens", [](SessionPast* past) { past->added_special_tokens = 4; }},
      {"kv.budget", [](SessionPast* past) { past->spec.budget_tokens = 513; }},
      {"kv.budget",
       [](SessionPast* past) {
         past->spec.budget_kind = KvBudgetKind::kRatioOfTotal;
         past->spec.budget_ratio = std::numeric_limits<double>::quiet_NaN();
       }},
      {"kv.budget",
       [](SessionPast* past) {
         past->spec.budget_kind = KvBudgetKind::kRatioOfTotal;
         past->spec.budget_ratio = 0.5;
         past->kv.budget.keep = past->kv.budget.floor = 513;
       }},
      {"kv", [](SessionPast* past) { past->kv.budget.keep = past->kv.budget.floor = 1 << 20; }},
      {"kv", [](SessionPast* past) { past->kv.budget.floor = 1; }},
      {"kv", [](SessionPast* past) { past->kv.policy.heavy = 1 << 20; }},
      {"kv", [](SessionPast* past) { past->kv.policy.pool_width = 99'999; }},
      {"kv", [](SessionPast* past) { past->kv.policy.score_rows = 7; }},
      {"kv", [](SessionPast* past) { past->kv.policy.decay = 0.5f; }},
      {"kv", [](SessionPast* past) { past->kv.policy.evicts = false; }},
      {"kv", [](SessionPast* past) { past->kv.policy_label = 0; }},
      {"kv.policy", [](SessionPast* past) { past->spec.preset = KvPreset::kH2oReal; }},
  };
  for (const Case& row : cases) {
    SessionPast past = PastUnder(KvPreset::kH2o, KvBudgetKind::kTokens, 64);
    row.change(&past);
    EXPECT_EQ(ParamOf(past), row.field) << "case " << &row - cases;
  }
}

}  // namespace
}  // namespace hydrant
