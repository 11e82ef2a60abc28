#include "server/kv_resolution.h"

namespace hydrant {
namespace {

constexpr KvPreset kPresets[] = {KvPreset::kFull,      KvPreset::kH2o,    KvPreset::kH2oReal,
                                 KvPreset::kH2oLlama3, KvPreset::kWindow, KvPreset::kSinks};

int32_t Label(KvPreset preset) {
  int32_t label = 0;
  while (kPresets[label] != preset) ++label;
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
  ApiResult<KvSlots> slots = ResolveKv(spec, prompt_tokens, max_tokens, model.budget_max);
  if (!slots.ok()) return slots.error();
  const KvSlots& count = slots.value();

  KvResolution resolution;
  resolution.policy_label = Label(spec.preset);
  if (count.budget == 0) return resolution;
  resolution.budget =
      count.periodic_beta > 0 ? KvBudget::Periodic(count.budget, count.periodic_beta) : KvBudget::Exact(count.budget);
  EvictionPolicy& policy = resolution.policy;
  policy.evicts = true;
  policy.heavy = count.heavy;
  policy.recent = count.recent;
  policy.score_source = spec.preset == KvPreset::kSinks || spec.preset == KvPreset::kWindow ? ScoreSource::kNone
                                                                                            : ScoreSource::kAttention;
  policy.gqa_reduce = spec.preset == KvPreset::kH2oLlama3 ? GqaReduce::kFirst : GqaReduce::kSum;
  return resolution;
}

std::vector<std::string> KvPolicyLabels() {
  std::vector<std::string> names;
  for (const KvPreset preset : kPresets) names.emplace_back(KvPresetName(preset));
  return names;
}

}  // namespace hydrant
