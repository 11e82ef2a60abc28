#include "server/kv/kv_resolution.h"

#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// A preset is a value of EvictionPolicy; `heavy` and `recent` follow from the request. The order is that of the labels.
struct PresetPolicy {
  KvPreset preset;
  EvictionPolicy policy;
};

constexpr PresetPolicy kPresets[] = {
    {KvPreset::kFull, {}},
    {KvPreset::kH2o, {.evicts = true}},
    {KvPreset::kH2oReal, {.evicts = true}},
    {KvPreset::kH2oLlama3, {.evicts = true, .gqa_reduce = GqaReduce::kFirst}},
    {KvPreset::kWindow, {.evicts = true, .score_source = ScoreSource::kNone}},
    {KvPreset::kSinks, {.evicts = true, .score_source = ScoreSource::kNone}},
    {KvPreset::kSnapKv,
     {.evicts = true, .gqa_reduce = GqaReduce::kMean, .score_rows = 32, .pool_width = 7, .store_pooled = false}},
    {KvPreset::kH2oPlus, {.evicts = true, .square = true, .decay = 15.0f / 16.0f, .score_rows = 64, .pool_width = 15}},
    {KvPreset::kH2oDecay, {.evicts = true, .decay = 1.0f - 1.0f / 128.0f}},
    {KvPreset::kH2oStreaming, {.evicts = true}},
    {KvPreset::kAuto,
     {.evicts = true,
      .decay = 15.0f / 16.0f,
      .decays_prompt = false,
      .pin_rows = 64,
      .pin_decay = 15.0f / 16.0f,
      .pin_tokens = 64,
      .pins_min = 64}},
};

static_assert(std::size(kPresets) == static_cast<size_t>(kKvPresetLast) + 1, "every preset has a row");

int32_t Label(KvPreset preset) {
  int32_t label = 0;
  while (kPresets[label].preset != preset) ++label;
  return label;
}

}  // namespace

std::optional<ApiError> CheckPins(const KvSpec& spec, const KvModelFacts& model) {
  const int32_t rows = kPresets[Label(spec.preset)].policy.pin_rows;
  if (rows == 0) return std::nullopt;
  const std::string name(KvPresetName(spec.preset));
  if (!model.pins) {
    return InvalidField("kv.policy",
                        absl::StrCat("'", name, "' is not available on this server's device. Use 'h2o-plus'."));
  }
  if (model.step_tokens < rows + kBlockSlots - 1) {
    return InvalidField("kv.policy", absl::StrCat("'", name, "' needs steps with room for ", rows + kBlockSlots - 1,
                                                  " prompt tokens; this server's have ", model.step_tokens,
                                                  " (--max-num-batched-tokens less --max-num-seqs)."));
  }
  return std::nullopt;
}

ApiResult<KvResolution> ResolveKvPolicy(const KvSpec& spec, int32_t prompt_tokens, int32_t max_tokens,
                                        const KvModelFacts& model) {
  if (spec.preset == KvPreset::kH2oReal) {
    if (model.query_heads != model.kv_heads) {
      return InvalidField(
          "kv.policy",
          "'h2o-real' reproduces a reference that knows only multi-head attention; this model groups its "
          "query heads. Use 'h2o'.");
    }
    if (!spec.recent.has_value()) return InvalidField("kv.recent", "'h2o-real' needs 'kv.recent'.");
  }
  if (spec.evicts() && spec.rolls() && !model.rotary) {
    return InvalidField(
        "kv.position",
        "\"rolling\" turns cached keys to new positions; this model adds learned positions to its tokens, "
        "which cannot be changed later. Use \"absolute\".");
  }
  if (std::optional<ApiError> error = CheckPins(spec, model)) return *std::move(error);
  ApiResult<KvSlots> slots = ResolveKvSlots(spec, prompt_tokens, max_tokens, model.budget_max);
  if (!slots.ok()) return slots.error();
  const KvSlots& count = slots.value();

  KvResolution resolution;
  resolution.policy_label = Label(spec.preset);
  if (count.budget == 0) return resolution;
  resolution.budget =
      count.periodic_beta > 0 ? KvBudget::Periodic(count.budget, count.periodic_beta) : KvBudget::Exact(count.budget);
  resolution.budget.floor = count.floor;
  if (spec.budgeted_prefill) resolution.budget.prompt_stride = kBudgetedPrefillStride;
  // What a turn recalls is cut when its rows are there.
  if (spec.preset == KvPreset::kH2oLlama3 && !spec.recalls()) resolution.budget.turn_heavy = count.heavy;
  resolution.policy = kPresets[resolution.policy_label].policy;
  resolution.policy.heavy = count.heavy;
  resolution.policy.recent = count.recent;
  resolution.policy.rolling = spec.rolls();
  return resolution;
}

std::optional<ApiError> CheckKvDefault(const KvSpec& spec, const KvModelFacts& model) {
  if (std::optional<ApiError> error = CheckKvSpec(spec, model.budget_max)) return error;
  const ApiResult<KvResolution> longest = ResolveKvPolicy(spec, model.budget_max, 1, model);
  return longest.ok() ? std::nullopt : std::optional(longest.error());
}

std::vector<std::string> AvailableKvPolicies(const KvModelFacts& model) {
  std::vector<std::string> names;
  for (const PresetPolicy& row : kPresets) {
    KvSpec spec;
    spec.preset = row.preset;
    if (spec.evicts()) {
      spec.budget_kind = KvBudgetKind::kTokens;
      spec.budget_tokens = model.budget_max;
    }
    if (row.preset == KvPreset::kH2oReal) spec.recent = 1;
    if (!CheckKvDefault(spec, model).has_value()) names.emplace_back(KvPresetName(row.preset));
  }
  return names;
}

std::vector<std::string> KvPolicyLabels() {
  std::vector<std::string> names;
  for (const PresetPolicy& row : kPresets) names.emplace_back(KvPresetName(row.preset));
  return names;
}

}  // namespace hydrant
