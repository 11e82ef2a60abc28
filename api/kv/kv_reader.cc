#include "api/kv/kv_reader.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

KvPreset ReadPreset(ObjectReader* kv, const KvSpec& default_value) {
  if (!kv->Has("policy")) {
    const bool speaks_of_budgets = kv->Has("budget") || kv->Has("recent") || kv->Has("cadence");
    return !default_value.evicts() && speaks_of_budgets ? KvPreset::kH2o : default_value.preset;
  }
  const JsonView name = kv->Raw("policy");
  const std::optional<KvPreset> preset = name.is_string() ? KvPresetFromName(name.string()) : std::nullopt;
  if (!preset.has_value())
    kv->Fail("policy", absl::StrCat("'kv.policy' must be one of: ", std::string(KvPresetNames()), "."));
  return preset.value_or(default_value.preset);
}

void ReadBudget(ObjectReader* kv, int32_t budget_max, KvSpec* spec) {
  const JsonView value = kv->Raw("budget");
  if (!value.valid()) return;
  if (value.is_integer()) {
    spec->budget_kind = KvBudgetKind::kTokens;
    spec->budget_tokens = static_cast<int32_t>(kv->Integer("budget", 1, 1, budget_max));
    return;
  }
  ObjectReader ratios = value.is_object() ? kv->Object("budget") : ObjectReader(JsonView(), "", nullptr);
  const bool of_prompt = value.is_object() && ratios.Has("ratio_of_prompt");
  const bool of_total = value.is_object() && ratios.Has("ratio_of_total");
  if (of_prompt == of_total) {
    kv->Fail("budget", "'kv.budget' must be a number of tokens, {\"ratio_of_prompt\": r} or {\"ratio_of_total\": r}.");
    return;
  }
  ratios.RefuseOthers({"ratio_of_prompt", "ratio_of_total"});
  spec->budget_kind = of_prompt ? KvBudgetKind::kRatioOfPrompt : KvBudgetKind::kRatioOfTotal;
  spec->budget_ratio =
      ratios.Number(of_prompt ? "ratio_of_prompt" : "ratio_of_total", 1.0, 0.0, 1.0, /*min_open=*/true);
}

void ReadCadence(ObjectReader* kv, int32_t budget_max, KvSpec* spec) {
  const JsonView value = kv->Raw("cadence");
  if (!value.valid()) return;
  if (value.is_string() && value.string() == "exact") {
    spec->periodic_beta = 0;
    return;
  }
  if (!value.is_object()) {
    kv->Fail("cadence", "'kv.cadence' must be \"exact\" or {\"periodic\": beta}.");
    return;
  }
  ObjectReader periodic = kv->Object("cadence");
  periodic.RefuseOthers({"periodic"});
  if (!periodic.Has("periodic")) {
    kv->Fail("cadence", "'kv.cadence' must be \"exact\" or {\"periodic\": beta}.");
    return;
  }
  spec->periodic_beta = static_cast<int32_t>(periodic.Integer("periodic", 1, 1, budget_max));
}

void ReadPosition(ObjectReader* kv, KvSpec* spec) {
  const JsonView value = kv->Raw("position");
  if (!value.valid()) return;
  const std::string_view word = value.is_string() ? value.string() : std::string_view();
  if (word != "absolute" && word != "rolling") {
    return kv->Fail("position", "'kv.position' must be \"absolute\" or \"rolling\".");
  }
  spec->position = word == "rolling" ? KvPosition::kRolling : KvPosition::kAbsolute;
}

void ReadPrefill(ObjectReader* kv, KvSpec* spec) {
  const JsonView value = kv->Raw("prefill");
  if (!value.valid()) return;
  spec->budgeted_prefill = value.is_string() && value.string() == "budgeted";
  if (!spec->budgeted_prefill && !(value.is_string() && value.string() == "full")) {
    kv->Fail("prefill", "'kv.prefill' must be \"full\" or \"budgeted\".");
  }
}

// What the default says of recall and this request of the other two, or the reverse, does not contradict it.
void ReadRecall(ObjectReader* kv, KvSpec* spec) {
  const JsonView value = kv->Raw("recall");
  if (value.valid()) {
    spec->recall = value.is_string() && value.string() == "turn";
    if (!spec->recall && !(value.is_string() && value.string() == "off")) {
      return kv->Fail("recall", "'kv.recall' must be \"off\" or \"turn\".");
    }
    if (spec->recall && !kv->Has("prefill")) spec->budgeted_prefill = false;
    if (spec->recall && !kv->Has("position")) spec->position.reset();
  } else if (spec->rolls() || spec->budgeted_prefill) {
    spec->recall = false;
  }
}

// A floor below the budget is consent of its own, and says how far.
void ReadFloor(ObjectReader* kv, KvSpec* spec) {
  const bool says_elastic = kv->Has("elastic");
  if (says_elastic) {
    spec->elastic = kv->Bool("elastic", false);
    spec->floor.reset();
  }
  const std::optional<int64_t> floor = kv->OptionalInteger("floor", 1, std::numeric_limits<int32_t>::max());
  if (!floor.has_value()) return;
  spec->floor = static_cast<int32_t>(*floor);
  const bool is_budget = spec->budget_kind == KvBudgetKind::kTokens && spec->floor == spec->budget_tokens;
  if (says_elastic && !spec->elastic && !is_budget) {
    kv->Fail("floor", "'kv.floor' other than 'kv.budget' contradicts 'kv.elastic': false.");
  }
}

}  // namespace

void RefuseOtherKvMembers(ObjectReader* request) {
  if (request->Has("kv")) request->Object("kv").RefuseOthers(kKvMembers);
}

KvSpec ReadKvSpec(ObjectReader* request, const KvSpec& default_value, int32_t budget_max) {
  if (!request->Has("kv")) return default_value;
  ObjectReader kv = request->Object("kv");
  KvSpec spec;
  spec.preset = ReadPreset(&kv, default_value);
  spec.recall = default_value.recall;
  if (spec.evicts() && default_value.evicts()) {
    const KvPreset preset = spec.preset;
    spec = default_value;
    spec.preset = preset;
    if (preset != default_value.preset || kv.Has("budget")) spec.recent.reset();
    if (kv.Has("budget")) spec.floor.reset();
    // Nobody asked this preset for them.
    if (!CanPrefillBudgeted(preset)) spec.budgeted_prefill = false;
    if (!CanRoll(preset)) spec.position.reset();
  }
  ReadBudget(&kv, budget_max, &spec);
  const std::optional<int64_t> recent = kv.OptionalInteger("recent", 1, budget_max);
  if (recent.has_value()) spec.recent = static_cast<int32_t>(*recent);
  ReadCadence(&kv, budget_max, &spec);
  ReadPrefill(&kv, &spec);
  ReadPosition(&kv, &spec);
  ReadRecall(&kv, &spec);
  ReadFloor(&kv, &spec);
  if (request->failed()) return default_value;
  if (std::optional<ApiError> error = CheckKvSpec(spec, budget_max)) {
    error->param = request->Path(error->param);
    request->FailWith(*std::move(error));
    return default_value;
  }
  return spec;
}

}  // namespace hydrant
