#include "model/weights/weight_plan.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string_view>
#include <utility>

namespace hydrant {
namespace {

struct PartNames {
  TensorRole tensor;
  std::optional<TensorRole> bias = {};
};

class Planner {
 public:
  Planner(const TensorTable& tensors, const WeightDevice& device, WeightChoice choice, bool own_head)
      : tensors_(tensors), device_(device), choice_(choice), own_head_(own_head) {}

  void Add(WeightRole role, int32_t layer, const std::vector<PartNames>& names, bool gated = false,
           int32_t expert = 0) {
    PlannedWeight weight{.role = role, .layer = layer, .expert = expert, .gated = gated};
    weight.multiplied = role != WeightRole::kEmbedding || !own_head_;
    for (const PartNames& name : names) {
      const TensorSource& source = Source(name.tensor, layer, expert);
      assert(weight.parts.empty() || weight.cols == source.cols());
      weight.cols = source.cols();
      weight.parts.push_back(PartOf(source, name, layer, expert));
    }
    if (!device_.mixes_quantised && Mixes(weight)) {
      for (WeightPart& part : weight.parts) part.computed = FormatOf(choice_.expanded);
    }
    Push(std::move(weight));
  }

  // Rows [first, first + rows) of a tensor outside layers.
  void AddSlice(WeightRole role, TensorRole tensor, int64_t first, int64_t rows) {
    const TensorSource& source = Source(tensor, 0);
    assert(first + rows <= source.rows());
    WeightPart part = PartOf(source, {tensor}, 0, 0);
    part.first_row = first;
    part.rows = rows;
    Push({.role = role, .cols = source.cols(), .multiplied = false, .parts = {part}});
  }

  WeightPlan Done(int32_t positions_max, int64_t rope_bytes) {
    plan_.positions_max = positions_max;
    plan_.rope_bytes = device_.copies * rope_bytes;
    return std::move(plan_);
  }

 private:
  const TensorSource& Source(TensorRole role, int32_t layer, int32_t expert = 0) const {
    const TensorSource* source = tensors_.Find(role, layer, expert);
    assert(source != nullptr);
    return *source;
  }

  // Whether it has parts that Device::MixesQuantised is about.
  static bool Mixes(const PlannedWeight& weight) {
    const WeightFormat first = weight.parts.front().computed;
    return std::any_of(weight.parts.begin(), weight.parts.end(), [&](const WeightPart& part) {
      return IsQuantised(part.computed) != IsQuantised(first) ||
             (weight.role == WeightRole::kExpertUp && part.computed != first);
    });
  }

  WeightPart PartOf(const TensorSource& source, const PartNames& name, int32_t layer, int32_t expert) const {
    const bool kept = choice_.keep_quantised && IsQuantised(source.format()) && source.has_stored_rows() &&
                      device_.supports(source.format());
    WeightPart part{.tensor = name.tensor,
                    .rows = source.rows(),
                    .stored = source.format(),
                    .computed = kept ? source.format() : FormatOf(choice_.expanded)};
    if (name.bias.has_value() && tensors_.Find(*name.bias, layer, expert) != nullptr) part.bias = name.bias;
    return part;
  }

  void Push(PlannedWeight weight) {
    weight.bytes = device_.linear_bytes(weight.Spec(), weight.biased());
    // A format's rows as a weight of their own; padding and biases that are left over are the first part's.
    int64_t left = weight.bytes;
    for (WeightPart& part : weight.parts) {
      if (&part == &weight.parts.front()) continue;
      const LinearSpec alone{.rows = part.rows, .cols = weight.cols, .format = part.computed};
      part.bytes = std::min(left, device_.linear_bytes(alone, false));
      left -= part.bytes;
    }
    weight.parts.front().bytes = left;
    plan_.weights.push_back(std::move(weight));
  }

  const TensorTable& tensors_;
  const WeightDevice& device_;
  WeightChoice choice_;
  const bool own_head_;  // the embedding table is not the head
  WeightPlan plan_;
};

std::string NameOf(WeightFormat format) {
  return IsQuantised(format) ? std::string(InfoOf(format).name) : DTypeName(DTypeOf(format));
}

// The names of a set of formats, in their order.
std::string Names(std::vector<WeightFormat> formats) {
  std::sort(formats.begin(), formats.end());
  formats.erase(std::unique(formats.begin(), formats.end()), formats.end());
  std::string text;
  for (const WeightFormat format : formats) {
    if (!text.empty()) text += ", ";
    text += NameOf(format);
  }
  return text;
}

}  // namespace

int64_t PlannedWeight::rows() const {
  int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.rows;
  return rows;
}

bool PlannedWeight::biased() const {
  return std::any_of(parts.begin(), parts.end(), [](const WeightPart& part) { return part.bias.has_value(); });
}

LinearSpec PlannedWeight::Spec() const {
  LinearSpec spec{.rows = rows(), .cols = cols, .format = parts.front().computed, .gated = gated};
  if (role == WeightRole::kQkv) spec.key_rows = parts[1].rows;
  if (role == WeightRole::kEmbedding || role == WeightRole::kPositions) {
    spec.use = multiplied ? LinearUse::kTableAndProduct : LinearUse::kTable;
  }
  const bool mixed =
      std::any_of(parts.begin(), parts.end(), [&](const WeightPart& part) { return part.computed != spec.format; });
  if (!mixed) return spec;
  for (const WeightPart& part : parts) spec.parts.push_back({part.rows, part.computed});
  return spec;
}

int64_t WeightPlan::bytes() const {
  int64_t sum = 0;
  for (const PlannedWeight& weight : weights) {
    if (weight.role != WeightRole::kPositions) sum += weight.bytes;
  }
  return sum;
}

int64_t WeightPlan::position_bytes() const {
  int64_t sum = rope_bytes;
  for (const PlannedWeight& weight : weights) {
    if (weight.role == WeightRole::kPositions) sum += weight.bytes;
  }
  return sum;
}

int64_t WeightPlan::quantised_cols_max() const {
  int64_t cols = 0;
  for (const PlannedWeight& weight : weights) {
    const bool of_expert = weight.role == WeightRole::kExpertUp || weight.role == WeightRole::kExpertDown;
    if (weight.multiplied && !of_expert && weight.Spec().quantised()) cols = std::max(cols, weight.cols);
  }
  return cols;
}

std::string WeightPlan::Formats() const {
  std::vector<WeightFormat> stored, computed;
  for (const PlannedWeight& weight : weights) {
    for (const WeightPart& part : weight.parts) {
      stored.push_back(part.stored);
      computed.push_back(part.computed);
    }
  }
  const std::string multiplied = Names(std::move(computed)), in_file = Names(std::move(stored));
  return multiplied == in_file ? multiplied : multiplied + " (stored as " + in_file + ")";
}

std::vector<std::pair<std::string, int64_t>> WeightPlan::BytesByFormat() const {
  int64_t bytes[std::size(kWeightFormats)] = {};
  for (const PlannedWeight& weight : weights) {
    if (weight.role == WeightRole::kPositions) continue;
    for (const WeightPart& part : weight.parts) bytes[static_cast<size_t>(part.computed)] += part.bytes;
  }
  std::vector<std::pair<std::string, int64_t>> named;
  for (size_t i = 0; i < std::size(bytes); ++i) {
    if (bytes[i] > 0) named.emplace_back(NameOf(static_cast<WeightFormat>(i)), bytes[i]);
  }
  return named;
}

WeightDevice WeightDevice::Of(const Device& device) {
  return {[&device](WeightFormat format) { return device.Supports(format); },
          [&device](const LinearSpec& spec, bool biased) { return device.LinearBytes(spec, biased); },
          device.MixesQuantised(), device.copies()};
}

WeightPlan PlanWeights(const ModelConfig& config, const TensorTable& tensors, const WeightDevice& device,
                       WeightChoice choice, int32_t positions_max) {
  using enum TensorRole;
  Planner planner(tensors, device, choice, !config.tied_embeddings);
  planner.Add(WeightRole::kEmbedding, 0, {{kEmbedding}});
  if (!config.tied_embeddings) planner.Add(WeightRole::kOwnHead, 0, {{kHead}});
  if (config.projected()) {
    planner.Add(WeightRole::kProjectIn, 0, {{kProjectIn}});
    planner.Add(WeightRole::kProjectOut, 0, {{kProjectOut}});
  }
  for (int32_t i = 0; i < config.layers; ++i) {
    planner.Add(WeightRole::kQkv, i, {{kQ, kQBias}, {kK, kKBias}, {kV, kVBias}});
    planner.Add(WeightRole::kO, i, {{kO, kOBias}});
    if (config.experts > 0) {
      planner.Add(WeightRole::kRouter, i, {{kRouter, kRouterBias}});
      for (int32_t expert = 0; expert < config.experts; ++expert) {
        planner.Add(WeightRole::kExpertUp, i, {{kExpertGate, kExpertGateBias}, {kExpertUp, kExpertUpBias}},
                    /*gated=*/true, expert);
        planner.Add(WeightRole::kExpertDown, i, {{kExpertDown, kExpertDownBias}}, /*gated=*/false, expert);
      }
      continue;
    }
    if (config.gated) {
      planner.Add(WeightRole::kUp, i, {{kGate, kGateBias}, {kUp, kUpBias}}, /*gated=*/true);
    } else {
      planner.Add(WeightRole::kUp, i, {{kUp, kUpBias}});
    }
    planner.Add(WeightRole::kDown, i, {{kDown, kDownBias}});
  }
  if (config.position_rows == 0) {
    const int64_t tables = config.windowed_inv_freq.empty() ? 1 : 2;
    return planner.Done(positions_max, tables * positions_max * config.rope_dims * static_cast<int64_t>(sizeof(float)));
  }
  planner.AddSlice(WeightRole::kPositions, kPositions, config.position_offset, std::min(positions_max, config.context));
  return planner.Done(positions_max, 0);
}

}  // namespace hydrant
