#include "server/kv/kv_resolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrant {
namespace {

constexpr KvModelFacts kGrouped = {9, 3, 4096};
constexpr KvModelFacts kMultiHead = {8, 8, 4096};

KvSpec Tokens(KvPreset preset, int32_t budget) {
  KvSpec spec;
  spec.preset = preset;
  spec.budget_kind = KvBudgetKind::kTokens;
  spec.budget_tokens = budget;
  return spec;
}

TEST(KvResolution, LearnedPositionsDoNotRoll) {
  const KvModelFacts learned = {.query_heads = 8, .kv_heads = 8, .budget_max = 4096, .rotary = false};
  KvSpec spec = Tokens(KvPreset::kH2o, 100);
  EXPECT_TRUE(ResolveKvPolicy(spec, 300, 50, learned).ok());
  spec.position = KvPosition::kRolling;
  const ApiResult<KvResolution> refused = ResolveKvPolicy(spec, 300, 50, learned);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "kv.position");
  EXPECT_FALSE(ResolveKvPolicy(Tokens(KvPreset::kH2oStreaming, 100), 300, 50, learned).ok());
}

TEST(KvResolution, EveryPresetBecomesItsPolicy) {
  const struct {
    KvPreset preset;
    int32_t heavy, recent;
    ScoreSource source;
    GqaReduce reduce;
  } cases[] = {
      {KvPreset::kH2o, 50, 50, ScoreSource::kAttention, GqaReduce::kSum},
      {KvPreset::kH2oLlama3, 50, 50, ScoreSource::kAttention, GqaReduce::kFirst},
      {KvPreset::kWindow, 0, 100, ScoreSource::kNone, GqaReduce::kSum},
      {KvPreset::kSinks, 4, 96, ScoreSource::kNone, GqaReduce::kSum},
  };
  for (const auto& test : cases) {
    const ApiResult<KvResolution> result = ResolveKvPolicy(Tokens(test.preset, 100), 300, 50, kGrouped);
    ASSERT_TRUE(result.ok());
    const KvResolution& kv = result.value();
    EXPECT_EQ(kv.budget.keep, 100);
    EXPECT_EQ(kv.budget.slack, 1);
    EXPECT_FALSE(kv.budget.periodic);
    EXPECT_TRUE(kv.policy.evicts);
    EXPECT_EQ(kv.policy.heavy, test.heavy);
    EXPECT_EQ(kv.policy.recent, test.recent);
    EXPECT_EQ(kv.policy.keep(), kv.budget.keep) << "budget and policy describe one wish";
    EXPECT_EQ(kv.policy.score_source, test.source);
    EXPECT_EQ(kv.policy.gqa_reduce, test.reduce);
    EXPECT_EQ(KvPolicyLabels()[static_cast<size_t>(kv.policy_label)], KvPresetName(test.preset));
  }
}

TEST(KvResolution, ABudgetedPrefillHasTheOneStride) {
  KvSpec spec = Tokens(KvPreset::kH2o, 100);
  EXPECT_EQ(ResolveKvPolicy(spec, 300, 50, kGrouped).value().budget.prompt_stride, 0);
  spec.budgeted_prefill = true;
  EXPECT_EQ(ResolveKvPolicy(spec, 300, 50, kGrouped).value().budget.prompt_stride, kBudgetedPrefillStride);
}

// The table of presets and the two recipes of the design, word by word.
TEST(KvResolution, ScoringPresetsDifferInTheirValuesAlone) {
  const struct {
    KvPreset preset;
    int32_t heavy, recent;
    GqaReduce reduce;
    bool square;
    double decay;
    int32_t score_rows, pool_width;
    bool store_pooled;
  } cases[] = {
      {KvPreset::kH2o, 50, 50, GqaReduce::kSum, false, 1.0, 0, 1, true},
      {KvPreset::kSnapKv, 50, 50, GqaReduce::kMean, false, 1.0, 32, 7, false},
      {KvPreset::kH2oPlus, 67, 33, GqaReduce::kSum, true, 15.0 / 16.0, 64, 15, true},
      {KvPreset::kH2oDecay, 50, 50, GqaReduce::kSum, false, 1.0 - 1.0 / 128.0, 0, 1, true},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(KvPresetName(test.preset));
    const ApiResult<KvResolution> result = ResolveKvPolicy(Tokens(test.preset, 100), 300, 50, kGrouped);
    ASSERT_TRUE(result.ok());
    const EvictionPolicy& policy = result.value().policy;
    EXPECT_TRUE(policy.evicts);
    EXPECT_TRUE(policy.scores());
    EXPECT_EQ(policy.heavy, test.heavy);
    EXPECT_EQ(policy.recent, test.recent);
    EXPECT_EQ(policy.gqa_reduce, test.reduce);
    EXPECT_EQ(policy.square, test.square);
    EXPECT_EQ(policy.decay, test.decay);
    EXPECT_EQ(policy.score_rows, test.score_rows);
    EXPECT_EQ(policy.pool_width, test.pool_width);
    EXPECT_EQ(policy.store_pooled, test.store_pooled);
  }
}

TEST(KvResolution, EveryEvictingPresetCanRoll) {
  for (const KvPreset preset : {KvPreset::kH2o, KvPreset::kH2oLlama3, KvPreset::kWindow, KvPreset::kSinks,
                                KvPreset::kSnapKv, KvPreset::kH2oPlus, KvPreset::kH2oDecay}) {
    KvSpec spec = Tokens(preset, 100);
    EXPECT_FALSE(ResolveKvPolicy(spec, 300, 50, kGrouped).value().policy.rolling) << KvPresetName(preset);
    spec.position = KvPosition::kRolling;
    EXPECT_TRUE(ResolveKvPolicy(spec, 300, 50, kGrouped).value().policy.rolling) << KvPresetName(preset);
  }
}

TEST(KvResolution, AutoIsH2oWithPinsForTheWorkOfATurn) {
  const EvictionPolicy policy = ResolveKvPolicy(Tokens(KvPreset::kAuto, 256), 300, 50, kGrouped).value().policy;
  EXPECT_TRUE(policy.scores());
  EXPECT_EQ(policy.heavy, 171);
  EXPECT_EQ(policy.recent, 85);
  EXPECT_EQ(policy.decay, 15.0f / 16.0f);
  EXPECT_EQ(policy.prompt_decay(), 1.0f);
  EXPECT_EQ(policy.score_rows, 0);
  EXPECT_EQ(policy.pool_width, 1);
  EXPECT_EQ(policy.pin_rows, 64);
  EXPECT_EQ(policy.pin_decay, 15.0f / 16.0f);
  EXPECT_EQ(policy.pin_tokens, 64);
  // Half of the heavy slots, of few of them two thirds, of fewer 64, and of fewer still all but 4.
  EXPECT_EQ(ResolveKvPolicy(Tokens(KvPreset::kAuto, 512), 600, 50, kGrouped).value().policy.pins(), 171);
  EXPECT_EQ(policy.pins(), 114);
  EXPECT_EQ(ResolveKvPolicy(Tokens(KvPreset::kAuto, 128), 300, 50, kGrouped).value().policy.pins(), 64);
  EXPECT_EQ(ResolveKvPolicy(Tokens(KvPreset::kAuto, 60), 300, 50, kGrouped).value().policy.pins(), 36);
  EXPECT_EQ(ResolveKvPolicy(Tokens(KvPreset::kAuto, 9), 300, 50, kGrouped).value().policy.pins(), 3);
  EXPECT_EQ(policy.Lowered(128).pins(), 64);
  EXPECT_EQ(ResolveKvPolicy(Tokens(KvPreset::kH2o, 256), 300, 50, kGrouped).value().policy.pins(), 0);
}

TEST(KvResolution, AutoIsRefusedByNameWhereItCannotBe) {
  const KvSpec spec = Tokens(KvPreset::kAuto, 100);
  KvModelFacts facts = kGrouped;
  facts.pins = false;
  ApiResult<KvResolution> refused = ResolveKvPolicy(spec, 300, 50, facts);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "kv.policy");
  EXPECT_THAT(refused.error().message, testing::HasSubstr("'auto' is not available on this server's device"));
  EXPECT_TRUE(ResolveKvPolicy(Tokens(KvPreset::kH2oPlus, 100), 300, 50, facts).ok());
  facts.pins = true;
  facts.step_tokens = 79;
  EXPECT_TRUE(ResolveKvPolicy(spec, 300, 50, facts).ok());
  facts.step_tokens = 78;
  refused = ResolveKvPolicy(spec, 300, 50, facts);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("--max-num-batched-tokens"));
}

TEST(KvResolution, ADefaultIsRefusedWhereNoPromptCouldUseIt) {
  KvModelFacts facts = kGrouped;
  EXPECT_EQ(CheckKvDefault(KvSpec(), facts), std::nullopt);
  EXPECT_EQ(CheckKvDefault(Tokens(KvPreset::kAuto, 100), facts), std::nullopt);
  facts.step_tokens = 78;
  std::optional<ApiError> error = CheckKvDefault(Tokens(KvPreset::kAuto, 100), facts);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "kv.policy");
  error = CheckKvDefault(Tokens(KvPreset::kH2o, 5000), facts);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "kv.budget");
  KvSpec ratio;
  ratio.preset = KvPreset::kH2o;
  ratio.budget_kind = KvBudgetKind::kRatioOfPrompt;
  ratio.budget_ratio = 0.01;
  ratio.recent = 40;
  EXPECT_EQ(CheckKvDefault(ratio, facts), std::nullopt) << "a long prompt has a budget of 40";
  ratio.recent = 41;
  error = CheckKvDefault(ratio, facts);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "kv.recent");
}

TEST(KvResolution, OnlyPoliciesThatCanRunAreOffered) {
  KvModelFacts facts = kMultiHead;
  EXPECT_EQ(AvailableKvPolicies(facts), KvPolicyLabels());
  const auto missing = [](const KvModelFacts& model) {
    std::vector<std::string> names = KvPolicyLabels();
    for (const std::string& name : AvailableKvPolicies(model)) names.erase(std::find(names.begin(), names.end(), name));
    return names;
  };
  EXPECT_THAT(missing(kGrouped), testing::ElementsAre("h2o-real"));
  facts.pins = false;
  EXPECT_THAT(missing(facts), testing::ElementsAre("auto"));
  facts.pins = true;
  facts.step_tokens = 78;
  EXPECT_THAT(missing(facts), testing::ElementsAre("auto"));
  facts.step_tokens = 79;
  facts.rotary = false;
  EXPECT_THAT(missing(facts), testing::ElementsAre("h2o-streaming"));
}

TEST(KvResolution, StreamingKeeps48HeavyAnd2000RecentTokensAndRolls) {
  KvSpec spec;
  spec.preset = KvPreset::kH2oStreaming;
  const KvResolution kv = ResolveKvPolicy(spec, 300, 100'000, kGrouped).value();
  EXPECT_EQ(kv.budget.keep, 2048);
  EXPECT_EQ(kv.policy.heavy, 48);
  EXPECT_EQ(kv.policy.recent, 2000);
  EXPECT_TRUE(kv.policy.rolling);
  EXPECT_TRUE(kv.policy.scores());
  EXPECT_EQ(kv.policy.gqa_reduce, GqaReduce::kSum);
}

TEST(KvResolution, FullEvictsNothing) {
  const ApiResult<KvResolution> result = ResolveKvPolicy(KvSpec(), 300, 50, kGrouped);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result.value().budget.limited());
  EXPECT_FALSE(result.value().policy.evicts);
  EXPECT_EQ(KvPolicyLabels()[static_cast<size_t>(result.value().policy_label)], "full");
}

TEST(KvResolution, RatiosAndPeriodsBecomeSlots) {
  KvSpec spec = Tokens(KvPreset::kH2o, 0);
  spec.budget_kind = KvBudgetKind::kRatioOfPrompt;
  spec.budget_ratio = 0.2;
  EXPECT_EQ(ResolveKvPolicy(spec, 1000, 500, kGrouped).value().budget.keep, 200);
  spec.budget_kind = KvBudgetKind::kRatioOfTotal;
  spec.periodic_beta = 32;
  const KvResolution total = ResolveKvPolicy(spec, 1000, 500, kGrouped).value();
  EXPECT_EQ(total.budget.keep, 300);
  EXPECT_EQ(total.budget.slack, 32);
  EXPECT_TRUE(total.budget.periodic);
}

TEST(KvResolution, TheReferencePresetNeedsItsModelAndItsRecent) {
  KvSpec spec = Tokens(KvPreset::kH2oReal, 100);
  spec.recent = 30;
  const ApiResult<KvResolution> grouped = ResolveKvPolicy(spec, 300, 50, kGrouped);
  ASSERT_FALSE(grouped.ok());
  EXPECT_EQ(grouped.error().param, "kv.policy");
  const ApiResult<KvResolution> multi_head = ResolveKvPolicy(spec, 300, 50, kMultiHead);
  ASSERT_TRUE(multi_head.ok());
  EXPECT_EQ(multi_head.value().policy.recent, 30);
  EXPECT_EQ(multi_head.value().policy.heavy, 70);
  spec.recent.reset();
  const ApiResult<KvResolution> without = ResolveKvPolicy(spec, 300, 50, kMultiHead);
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().param, "kv.recent");
}

TEST(KvResolution, ARecentAboveTheResolvedBudgetIsRefused) {
  KvSpec spec = Tokens(KvPreset::kH2o, 0);
  spec.budget_kind = KvBudgetKind::kRatioOfPrompt;
  spec.budget_ratio = 0.1;
  spec.recent = 20;
  const ApiResult<KvResolution> result = ResolveKvPolicy(spec, 100, 5, kGrouped);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().param, "kv.recent");
}

TEST(KvResolution, LabelsNameEveryPresetOnce) {
  EXPECT_THAT(KvPolicyLabels(),
              testing::UnorderedElementsAre("full", "h2o", "h2o-real", "h2o-llama3", "window", "sinks", "snapkv",
                                            "h2o-plus", "h2o-decay", "h2o-streaming", "auto"));
}

}  // namespace
}  // namespace hydrant
