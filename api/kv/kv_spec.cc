#include "api/kv/kv_spec.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

struct PresetFacts {
  KvPreset preset;
  std::string_view name;
  // CanPrefillBudgeted. Not where only the last rows of a prompt are scored, or rows count less the longer ago they were.
  bool prefills_budgeted;
  bool rolls = true;  // CanRoll
};

constexpr PresetFacts kPresets[] = {
    {KvPreset::kFull, "full", false, false},   {KvPreset::kH2o, "h2o", true},
    {KvPreset::kH2oReal, "h2o-real", true},    {KvPreset::kH2oLlama3, "h2o-llama3", true},
    {KvPreset::kWindow, "window", true},       {KvPreset::kSinks, "sinks", true},
    {KvPreset::kSnapKv, "snapkv", false},      {KvPreset::kH2oPlus, "h2o-plus", false},
    {KvPreset::kH2oDecay, "h2o-decay", false}, {KvPreset::kH2oStreaming, "h2o-streaming", true},
    {KvPreset::kAuto, "auto", false, false},
};

const PresetFacts& FactsOf(KvPreset preset) {
  const auto* facts = std::find_if(std::begin(kPresets), std::end(kPresets),
                                   [&](const PresetFacts& row) { return row.preset == preset; });
  assert(facts != std::end(kPresets));
  return *facts;
}

std::string JoinNames(bool all) {
  std::string names;
  for (const PresetFacts& facts : kPresets) {
    if (all || facts.prefills_budgeted) absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(facts.name));
  }
  return names;
}

// The smallest budget with a recent token: the newest token is never a victim.
int32_t SmallestBudget(KvPreset preset) { return preset == KvPreset::kSinks ? kSinkSlots + 1 : 1; }

// The share of the newest tokens where nobody says otherwise.
int32_t DefaultRecent(KvPreset preset, int32_t budget) {
  if (preset == KvPreset::kH2oStreaming) return std::max(1, budget - kStreamingHeavy);
  const bool third = preset == KvPreset::kH2oPlus || preset == KvPreset::kAuto;
  return std::max(1, third ? budget / 3 : budget / 2);
}

// `window` and `sinks` have no heavy part to trade against: the preset and the budget fix `recent`.
std::optional<int32_t> FixedRecent(KvPreset preset, int32_t budget) {
  if (preset == KvPreset::kWindow) return budget;
  if (preset == KvPreset::kSinks) return budget - kSinkSlots;
  return std::nullopt;
}

std::optional<ApiError> CheckFloor(const KvSpec& spec, int32_t budget_max) {
  if (!spec.floor.has_value()) return std::nullopt;
  const int32_t least = SmallestBudget(spec.preset);
  const int32_t most = spec.budget_kind == KvBudgetKind::kTokens ? spec.budget_tokens : budget_max;
  if (*spec.floor >= least && *spec.floor <= most) return std::nullopt;
  return InvalidField("kv.floor", absl::StrCat("'kv.floor' must be at least ", least, " and at most 'kv.budget'."));
}

}  // namespace

std::string_view KvPresetName(KvPreset preset) { return FactsOf(preset).name; }

std::optional<KvPreset> KvPresetFromName(std::string_view name) {
  for (const PresetFacts& facts : kPresets) {
    if (facts.name == name) return facts.preset;
  }
  return std::nullopt;
}

std::string_view KvPresetNames() {
  static const std::string names = JoinNames(/*all=*/true);
  return names;
}

bool CanPrefillBudgeted(KvPreset preset) { return FactsOf(preset).prefills_budgeted; }

bool CanRoll(KvPreset preset) { return FactsOf(preset).rolls; }

std::optional<ApiError> CheckKvSpec(const KvSpec& spec, int32_t budget_max) {
  const std::string name(KvPresetName(spec.preset));
  if (spec.budgeted_prefill && !CanPrefillBudgeted(spec.preset)) {
    return InvalidField("kv.prefill", absl::StrCat("'kv.prefill': \"budgeted\" is not possible with policy ", name,
                                                   "; use one of ", JoinNames(/*all=*/false), "."));
  }
  if (spec.recalls() && (spec.rolls() || spec.budgeted_prefill)) {
    return InvalidField("kv.recall", absl::StrCat("'kv.recall': \"turn\" is not possible with ",
                                                  spec.rolls() ? "rolling positions." : "'kv.prefill': \"budgeted\"."));
  }
  if (!spec.evicts() && spec.rolls()) {
    return InvalidField("kv.position",
                        "'kv.position': \"rolling\" has no meaning with policy full, which evicts nothing. Choose a "
                        "'kv.policy' that evicts.");
  }
  if (spec.rolls() && !CanRoll(spec.preset)) {
    return InvalidField("kv.position", absl::StrCat("'kv.position': \"rolling\" is not possible with policy ", name,
                                                    ", which goes by the sentences of the text. Use "
                                                    "\"absolute\" or another policy."));
  }
  if (!spec.evicts()) {
    if (spec.elastic || spec.floor.has_value()) {
      return InvalidField(spec.floor.has_value() ? "kv.floor" : "kv.elastic",
                          "'kv.elastic' and 'kv.floor' have no meaning with policy full: there is no budget to lower.");
    }
    const bool has_budget = spec.budget_kind != KvBudgetKind::kUnset;
    if (!has_budget && !spec.recent.has_value() && spec.periodic_beta == 0) return std::nullopt;
    return InvalidField(has_budget                ? "kv.budget"
                        : spec.recent.has_value() ? "kv.recent"
                                                  : "kv.cadence",
                        "'kv.budget', 'kv.recent' and a periodic 'kv.cadence' have no meaning with policy full.");
  }
  if (spec.budget_kind == KvBudgetKind::kUnset && spec.preset != KvPreset::kH2oStreaming) {
    return InvalidField("kv.budget", absl::StrCat("'kv.budget' is required with policy ", name, "."), "missing_field");
  }
  const bool in_tokens = spec.budget_kind == KvBudgetKind::kTokens;
  const int32_t budget_min = SmallestBudget(spec.preset);
  if (in_tokens && (spec.budget_tokens < budget_min || spec.budget_tokens > budget_max)) {
    return InvalidField("kv.budget", absl::StrCat("'kv.budget' must be in [", budget_min, ", ", budget_max,
                                                  "] tokens with policy ", name, "."));
  }
  if (std::optional<ApiError> error = CheckFloor(spec, budget_max)) return error;
  if (!spec.recent.has_value()) return std::nullopt;
  if (spec.preset == KvPreset::kWindow || spec.preset == KvPreset::kSinks) {
    if (in_tokens && *spec.recent == *FixedRecent(spec.preset, spec.budget_tokens)) return std::nullopt;
    return InvalidField("kv.recent", absl::StrCat("'kv.recent' follows from 'kv.budget' with policy ", name, "."));
  }
  if (*spec.recent < 1 || *spec.recent > (in_tokens ? spec.budget_tokens : budget_max)) {
    return InvalidField("kv.recent", "'kv.recent' must be at least 1 and at most 'kv.budget'.");
  }
  return std::nullopt;
}

ApiResult<KvSlots> ResolveKvSlots(const KvSpec& spec, int32_t prompt_tokens, int32_t max_tokens, int32_t budget_max) {
  KvSlots slots;
  if (!spec.evicts()) return slots;
  int64_t budget = spec.budget_tokens;
  if (spec.budget_kind == KvBudgetKind::kRatioOfPrompt) {
    budget = static_cast<int64_t>(spec.budget_ratio * prompt_tokens);
  } else if (spec.budget_kind == KvBudgetKind::kRatioOfTotal) {
    budget = static_cast<int64_t>(spec.budget_ratio * (static_cast<double>(prompt_tokens) + max_tokens));
  } else if (spec.budget_kind == KvBudgetKind::kUnset) {
    budget = std::min(int64_t{kStreamingHeavy} + spec.recent.value_or(kStreamingRecent), int64_t{budget_max} - 1);
  }
  const int64_t budget_min = SmallestBudget(spec.preset);
  slots.budget =
      static_cast<int32_t>(std::clamp<int64_t>(budget, budget_min, std::max<int64_t>(budget_min, budget_max)));
  slots.recent =
      FixedRecent(spec.preset, slots.budget).value_or(spec.recent.value_or(DefaultRecent(spec.preset, slots.budget)));
  if (slots.recent > slots.budget) {
    return InvalidField("kv.recent", absl::StrCat("'kv.recent' is above the budget of ", slots.budget,
                                                  " tokens that 'kv.budget' came to."));
  }
  if (spec.floor.value_or(0) > slots.budget) {
    return InvalidField("kv.floor", absl::StrCat("'kv.floor' is above the budget of ", slots.budget,
                                                 " tokens that 'kv.budget' came to."));
  }
  slots.heavy = slots.budget - slots.recent;
  slots.floor = spec.floor.value_or(spec.elastic ? std::max<int32_t>(SmallestBudget(spec.preset), slots.budget / 2)
                                                 : slots.budget);
  slots.periodic_beta = spec.periodic_beta;
  return slots;
}

}  // namespace hydrant
