#include "server/kv/kv_resolution.h"

#include <iterator>

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
};

static_assert(std::size(kPresets) == static_cast<size_t>(KvPreset::kH2oStreaming) + 1, "every preset has a row");

int32_t Label(KvPreset preset) {
  int32_t label = 0;
  while (kPresets[label].preset != preset) ++label;
  return label;
}

}  // namespace

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
  if (spec.preset == KvPreset::kH2oLlama3) resolution.budget.turn_heavy = count.heavy;
  resolution.policy = kPresets[resolution.policy_label].policy;
  resolution.policy.heavy = count.heavy;
  resolution.policy.recent = count.recent;
  resolution.policy.rolling = spec.rolls();
  return resolution;
}

std::vector<std::string> KvPolicyLabels() {
  std::vector<std::string> names;
  for (const PresetPolicy& row : kPresets) names.emplace_back(KvPresetName(row.preset));
  return names;
}

}  // namespace hydrant
