#include "model/weights/adapter_slots.h"

#include <cassert>
#include <initializer_list>
#include <span>
#include <stdexcept>

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

// Sizes are a file's: whoever read it, nothing is computed with others than the matrix has.
bool Fits(const AdapterChange& change, int64_t rows, int64_t cols, int32_t rank_max) {
  return change.rank > 0 && change.rank <= rank_max && change.a.count == change.rank && change.a.cols == cols &&
         change.b.count == rows && change.b.cols == change.rank;
}

// What `adapter` does to the parts of a matrix of `cols` columns.
class PartFactors {
 public:
  PartFactors(const Adapter& adapter, int32_t layer, const std::vector<TensorRole>& roles, const AdapterSpec& spec,
              int64_t cols) {
    values_.reserve(2 * roles.size());
    factors_.resize(roles.size());
    for (size_t i = 0; i < roles.size(); ++i) {
      const AdapterChange* change = adapter.Find(layer, roles[i]);
      if (change == nullptr) continue;
      if (!Fits(*change, spec.part_rows[i], cols, spec.rank_max)) {
        throw std::runtime_error("its sizes are not those of the model");
      }
      const std::vector<float>& a = values_.emplace_back(change->a.Values());
      const std::vector<float>& b = values_.emplace_back(change->b.Values());
      factors_[i] = {.rank = change->rank, .scale = change->scale, .a = a, .b = b};
    }
  }
  std::span<const AdapterFactors> factors() const { return factors_; }
  bool empty() const { return values_.empty(); }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<AdapterFactors> factors_;
};

}  // namespace

AdapterSlots::AdapterSlots(const ModelConfig& config, const Weights& weights, Device& device,
                           const AdapterLimits& limits)
    : device_(device),
      limits_(limits),
      hidden_(config.hidden),
      attention_cols_(config.q_cols()),
      ffn_(config.ffn),
      layers_(weights.layers.size()) {
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

int64_t AdapterSlots::ColsOf(WeightRole role) const {
  return role == WeightRole::kO ? attention_cols_ : role == WeightRole::kDown ? ffn_ : hidden_;
}

template <typename Call>
void AdapterSlots::ForEach(const Call& call) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto each = [&](const std::unique_ptr<AdapterWeight>& weight, WeightRole role) {
      if (weight != nullptr) call(*weight, static_cast<int32_t>(i), role);
    };
    each(layers_[i].qkv, WeightRole::kQkv);
    each(layers_[i].o, WeightRole::kO);
    each(layers_[i].up, WeightRole::kUp);
    each(layers_[i].down, WeightRole::kDown);
  }
}

void AdapterSlots::Put(int32_t slot, const Adapter& adapter) {
  const auto clear = [&] {
    ForEach([&](AdapterWeight& weight, int32_t, WeightRole) { device_.SetAdapter(weight, slot, {}); });
  };
  // First, so that it never has some of one adapter and some of another.
  clear();
  try {
    ForEach([&](AdapterWeight& weight, int32_t layer, WeightRole role) {
      const AdapterSpec& spec = weight.spec();
      const PartFactors parts(adapter, layer, RolesOf(role, spec.parts() == 2), spec, ColsOf(role));
      if (!parts.empty()) device_.SetAdapter(weight, slot, parts.factors());
    });
  } catch (...) {
    clear();
    throw;
  }
}

}  // namespace hydrant
