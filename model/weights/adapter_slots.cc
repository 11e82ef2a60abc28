#include "model/weights/adapter_slots.h"

#include <cassert>
#include <initializer_list>
#include <span>

namespace hydrant {
namespace {

using enum TensorRole;

// The roles that the parts of a matrix come from, in their order.
std::vector<TensorRole> RolesOf(WeightRole role, bool gated) {
  switch (role) {
    case WeightRole::kQkv:
      return {kQ, kK, kV};
    case WeightRole::kO:
      return {kO};
    case WeightRole::kUp:
      return gated ? std::vector{kGate, kUp} : std::vector{kUp};
    case WeightRole::kDown:
      return {kDown};
    default:
      return {};
  }
}

// What `adapter` does to the parts of a matrix; empty: nothing.
std::vector<AdapterFactors> FactorsOf(const Adapter& adapter, int32_t layer, const std::vector<TensorRole>& roles) {
  std::vector<AdapterFactors> factors(roles.size());
  bool any = false;
  for (size_t i = 0; i < roles.size(); ++i) {
    const AdapterChange* change = adapter.Find(layer, roles[i]);
    if (change == nullptr) continue;
    factors[i] = {.rank = change->rank, .scale = change->scale, .a = change->a, .b = change->b};
    any = true;
  }
  if (!any) factors.clear();
  return factors;
}

}  // namespace

AdapterSlots::AdapterSlots(const ModelConfig& config, const Weights& weights, Device& device,
                           const AdapterLimits& limits)
    : device_(device), limits_(limits), layers_(weights.layers.size()) {
  assert(limits.slots > 0 && limits.rank_max > 0);
  const auto make = [&](const std::unique_ptr<LinearWeight>& weight, std::vector<int64_t> part_rows) {
    if (weight == nullptr) return std::unique_ptr<AdapterWeight>();
    return device.MakeAdapterWeight(
        weight->spec(),
        {.part_rows = std::move(part_rows), .slots = limits.slots, .rank_max = limits.rank_max, .dtype = limits.dtype});
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& from = weights.layers[i];
    layers_[i].qkv = make(from.qkv, {config.q_cols(), config.kv_cols(), config.kv_cols()});
    layers_[i].o = make(from.o, {config.hidden});
    layers_[i].up =
        make(from.up, config.gated ? std::vector<int64_t>{config.ffn, config.ffn} : std::vector<int64_t>{config.ffn});
    layers_[i].down = make(from.down, {config.hidden});
  }
}

int64_t AdapterSlots::Bytes(const WeightPlan& plan, const AdapterLimits& limits,
                            const std::function<int64_t(const LinearSpec&, const AdapterSpec&)>& bytes_of) {
  if (limits.slots == 0) return 0;
  int64_t bytes = 0;
  for (const PlannedWeight& weight : plan.weights) {
    if (RolesOf(weight.role, weight.gated).empty()) continue;
    AdapterSpec spec = {.part_rows = {}, .slots = limits.slots, .rank_max = limits.rank_max, .dtype = limits.dtype};
    for (const WeightPart& part : weight.parts) spec.part_rows.push_back(part.rows);
    bytes += bytes_of(weight.Spec(), spec);
  }
  return bytes;
}

void AdapterSlots::Put(int32_t slot, const Adapter& adapter) {
  assert(adapter.rank <= limits_.rank_max);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const auto put = [&](const std::unique_ptr<AdapterWeight>& weight, WeightRole role) {
      if (weight == nullptr) return;
      const bool gated = weight->spec().parts() == 2;
      device_.SetAdapter(*weight, slot, FactorsOf(adapter, static_cast<int32_t>(i), RolesOf(role, gated)));
    };
    put(layer.qkv, WeightRole::kQkv);
    put(layer.o, WeightRole::kO);
    put(layer.up, WeightRole::kUp);
    put(layer.down, WeightRole::kDown);
  }
}

}  // namespace hydrant
