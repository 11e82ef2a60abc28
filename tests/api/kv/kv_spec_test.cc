#include "api/kv/kv_spec.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

KvSpec Tokens(KvPreset preset, int32_t budget, std::optional<int32_t> recent = std::nullopt) {
  KvSpec spec;
  spec.preset = preset;
  spec.budget_kind = KvBudgetKind::kTokens;
  spec.budget_tokens = budget;
  spec.recent = recent;
  return spec;
}

KvSpec Ratio(KvPreset preset, KvBudgetKind kind, double ratio, std::optional<int32_t> recent = std::nullopt) {
  KvSpec spec;
  spec.preset = preset;
  spec.budget_kind = kind;
  spec.budget_ratio = ratio;
  spec.recent = recent;
  return spec;
}

TEST(KvSpecTest, NamesRoundTrip) {
  for (int number = 0; number <= static_cast<int>(kKvPresetLast); ++number) {
    const auto preset = static_cast<KvPreset>(number);
    EXPECT_EQ(KvPresetFromName(KvPresetName(preset)), preset);
    EXPECT_NE(KvPresetNames().find(KvPresetName(preset)), std::string_view::npos);
  }
  EXPECT_EQ(KvPresetFromName("h2o_plus"), std::nullopt);
  EXPECT_EQ(KvPresetFromName(""), std::nullopt);
  EXPECT_EQ(KvPresetFromName("H2O"), std::nullopt);
}

TEST(KvSpecTest, StreamingHasABudgetOfItsOwn) {
  KvSpec streaming;
  streaming.preset = KvPreset::kH2oStreaming;
  ASSERT_EQ(CheckKvSpec(streaming, 8192), std::nullopt);
  KvSlots slots = ResolveKvSlots(streaming, 100, 100, 8192).value();
  EXPECT_EQ(slots.heavy, 48);
  EXPECT_EQ(slots.recent, 2000);
  // A decoding sequence holds one more than its budget: that must fit the context, too.
  EXPECT_EQ(ResolveKvSlots(streaming, 100, 100, 2048).value().budget, 2047);
  EXPECT_EQ(ResolveKvSlots(streaming, 100, 100, 2048).value().heavy, 48);
  streaming.recent = 300;
  slots = ResolveKvSlots(streaming, 100, 100, 8192).value();
  EXPECT_EQ(slots.heavy, 48);
  EXPECT_EQ(slots.recent, 300);
}

TEST(KvSpecTest, SlotsFollowThePreset) {
  struct Case {
    const char* name;
    KvSpec spec;
    KvSlots expected;
  };
  const Case cases[] = {
      {"full", KvSpec(), {0, 0, 0, 0}},
      {"h2o halves", Tokens(KvPreset::kH2o, 256), {256, 128, 128, 0}},
      {"h2o odd budget", Tokens(KvPreset::kH2o, 15), {15, 8, 7, 0}},
      {"h2o of one", Tokens(KvPreset::kH2o, 1), {1, 0, 1, 0}},
      {"h2o recent", Tokens(KvPreset::kH2o, 256, 32), {256, 224, 32, 0}},
      {"h2o all recent", Tokens(KvPreset::kH2o, 16, 16), {16, 0, 16, 0}},
      {"h2o-real", Tokens(KvPreset::kH2oReal, 64, 16), {64, 48, 16, 0}},
      {"h2o-llama3", Tokens(KvPreset::kH2oLlama3, 64), {64, 32, 32, 0}},
      {"window", Tokens(KvPreset::kWindow, 64), {64, 0, 64, 0}},
      {"sinks", Tokens(KvPreset::kSinks, 64), {64, 4, 60, 0}},
      {"smallest sinks", Tokens(KvPreset::kSinks, 5), {5, 4, 1, 0}},
      {"snapkv halves", Tokens(KvPreset::kSnapKv, 65), {65, 33, 32, 0}},
      {"h2o-decay halves", Tokens(KvPreset::kH2oDecay, 128), {128, 64, 64, 0}},
      {"h2o-plus has a third recent", Tokens(KvPreset::kH2oPlus, 128), {128, 86, 42, 0}},
      {"h2o-plus of three", Tokens(KvPreset::kH2oPlus, 3), {3, 2, 1, 0}},
      {"h2o-plus of two", Tokens(KvPreset::kH2oPlus, 2), {2, 1, 1, 0}},
      {"h2o-plus of one", Tokens(KvPreset::kH2oPlus, 1), {1, 0, 1, 0}},
      {"h2o-plus recent", Tokens(KvPreset::kH2oPlus, 64, 32), {64, 32, 32, 0}},
      {"auto has a third recent", Tokens(KvPreset::kAuto, 128), {128, 86, 42, 0}},
      {"auto of one", Tokens(KvPreset::kAuto, 1), {1, 0, 1, 0}},
      {"h2o-streaming recent", Tokens(KvPreset::kH2oStreaming, 500), {500, 48, 452, 0}},
      {"h2o-streaming small", Tokens(KvPreset::kH2oStreaming, 48), {48, 47, 1, 0}},
      {"h2o-streaming both", Tokens(KvPreset::kH2oStreaming, 500, 100), {500, 400, 100, 0}},
      {"h2o-plus ratio", Ratio(KvPreset::kH2oPlus, KvBudgetKind::kRatioOfPrompt, 0.2), {200, 134, 66, 0}},
      {"ratio of prompt rounds down", Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfPrompt, 0.2), {200, 100, 100, 0}},
      {"ratio of total", Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfTotal, 0.5), {550, 275, 275, 0}},
      {"tiny ratio", Ratio(KvPreset::kSinks, KvBudgetKind::kRatioOfPrompt, 1e-9), {5, 4, 1, 0}},
      {"whole ratio is capped", Ratio(KvPreset::kWindow, KvBudgetKind::kRatioOfTotal, 1.0), {1024, 0, 1024, 0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_EQ(CheckKvSpec(c.spec, 1024), std::nullopt);
    const ApiResult<KvSlots> slots = ResolveKvSlots(c.spec, 1003, 98, 1024);
    ASSERT_TRUE(slots.ok());
    EXPECT_EQ(slots.value().budget, c.expected.budget);
    EXPECT_EQ(slots.value().heavy, c.expected.heavy);
    EXPECT_EQ(slots.value().recent, c.expected.recent);
    EXPECT_EQ(slots.value().periodic_beta, c.expected.periodic_beta);
    EXPECT_EQ(slots.value().heavy + slots.value().recent, slots.value().budget);
  }
}

TEST(KvSpecTest, WrongSpecsNameTheirField) {
  KvSpec missing;
  missing.preset = KvPreset::kH2o;
  KvSpec full_with_recent;
  full_with_recent.recent = 4;
  KvSpec full_with_beta;
  full_with_beta.periodic_beta = 16;
  struct Case {
    const char* name;
    KvSpec spec;
    const char* param;
  };
  const Case cases[] = {
      {"no budget", missing, "kv.budget"},
      {"full with budget", Tokens(KvPreset::kFull, 64), "kv.budget"},
      {"full with recent", full_with_recent, "kv.recent"},
      {"full with cadence", full_with_beta, "kv.cadence"},
      {"zero", Tokens(KvPreset::kH2o, 0), "kv.budget"},
      {"above the most", Tokens(KvPreset::kH2o, 1025), "kv.budget"},
      {"sinks without a recent slot", Tokens(KvPreset::kSinks, 4), "kv.budget"},
      {"recent zero", Tokens(KvPreset::kH2o, 64, 0), "kv.recent"},
      {"recent above budget", Tokens(KvPreset::kH2o, 64, 65), "kv.recent"},
      {"h2o-plus recent above budget", Tokens(KvPreset::kH2oPlus, 64, 65), "kv.recent"},
      {"snapkv zero", Tokens(KvPreset::kSnapKv, 0), "kv.budget"},
      {"window with another recent", Tokens(KvPreset::kWindow, 64, 32), "kv.recent"},
      {"sinks with another recent", Tokens(KvPreset::kSinks, 64, 64), "kv.recent"},
      {"window ratio with recent", Ratio(KvPreset::kWindow, KvBudgetKind::kRatioOfPrompt, 0.5, 5), "kv.recent"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::optional<ApiError> error = CheckKvSpec(c.spec, 1024);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->param, c.param);
    EXPECT_EQ(error->status, 400);
  }
}

KvSpec Elastic(KvSpec spec, std::optional<int32_t> floor = std::nullopt) {
  spec.elastic = !floor.has_value();
  spec.floor = floor;
  return spec;
}

TEST(KvSpecTest, AFloorIsTheBudgetUnlessSomebodyAgreedToLess) {
  const struct {
    const char* name;
    KvSpec spec;
    int32_t floor;
  } cases[] = {
      {"a plain budget is a guarantee", Tokens(KvPreset::kH2o, 65), 65},
      {"elastic: half", Elastic(Tokens(KvPreset::kH2o, 65)), 32},
      {"given", Elastic(Tokens(KvPreset::kH2o, 65), 10), 10},
      {"given, the budget", Elastic(Tokens(KvPreset::kH2o, 65), 65), 65},
      {"half of a ratio", Elastic(Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfPrompt, 0.2)), 100},
      {"given, of a ratio", Elastic(Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfPrompt, 0.2), 199), 199},
      {"half of one is one", Elastic(Tokens(KvPreset::kH2o, 1)), 1},
      {"sinks need five", Elastic(Tokens(KvPreset::kSinks, 8)), 5},
      {"full", KvSpec(), 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_EQ(CheckKvSpec(c.spec, 1024), std::nullopt);
    const ApiResult<KvSlots> slots = ResolveKvSlots(c.spec, 1003, 98, 1024);
    ASSERT_TRUE(slots.ok());
    EXPECT_EQ(slots.value().floor, c.floor);
  }
  const KvSpec above = Elastic(Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfPrompt, 0.2), 201);
  ASSERT_EQ(CheckKvSpec(above, 1024), std::nullopt);
  const ApiResult<KvSlots> slots = ResolveKvSlots(above, 1003, 98, 1024);
  ASSERT_FALSE(slots.ok());
  EXPECT_EQ(slots.error().param, "kv.floor");
}

TEST(KvSpecTest, PositionsRollUnderWhatEvictsButNotByTheSentencesOfATextThatIsGone) {
  for (int number = 0; number <= static_cast<int>(kKvPresetLast); ++number) {
    const auto preset = static_cast<KvPreset>(number);
    SCOPED_TRACE(KvPresetName(preset));
    EXPECT_EQ(CanRoll(preset), preset != KvPreset::kFull && preset != KvPreset::kAuto);
    KvSpec spec = preset == KvPreset::kFull ? KvSpec() : Tokens(preset, 64);
    spec.position = KvPosition::kRolling;
    const std::optional<ApiError> error = CheckKvSpec(spec, 1024);
    EXPECT_EQ(error.has_value(), !CanRoll(preset));
    if (error.has_value()) {
      EXPECT_EQ(error->param, "kv.position");
    }
  }
}

TEST(KvSpecTest, RecentAboveAResolvedRatioIsRefused) {
  const KvSpec spec = Ratio(KvPreset::kH2o, KvBudgetKind::kRatioOfPrompt, 0.1, 20);
  ASSERT_EQ(CheckKvSpec(spec, 1024), std::nullopt);
  EXPECT_TRUE(ResolveKvSlots(spec, 200, 16, 1024).ok());
  const ApiResult<KvSlots> slots = ResolveKvSlots(spec, 199, 16, 1024);
  ASSERT_FALSE(slots.ok());
  EXPECT_EQ(slots.error().param, "kv.recent");
}

}  // namespace
}  // namespace hydrant
