// The tensors that a configuration calls for, made up: for what looks at shapes and formats, and for random weights.
#ifndef HYDRANT_TESTS_MODEL_WEIGHTS_SHAPED_TENSORS_H_
#define HYDRANT_TESTS_MODEL_WEIGHTS_SHAPED_TENSORS_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"
#include "model/weights/weight_plan.h"

namespace hydrant {

// All but biases, each as make(role, layer, rows, cols) makes it; those of experts are all alike.
template <typename Make>
TensorTable TensorsFor(const ModelConfig& config, const Make& make) {
  using enum TensorRole;
  std::vector<TensorRole> outside = {kEmbedding};
  if (!config.tied_embeddings) outside.push_back(kHead);
  if (config.position_rows > 0) outside.push_back(kPositions);
  if (config.projected()) outside.insert(outside.end(), {kProjectIn, kProjectOut});
  if (config.final_norm) outside.push_back(kFinalNorm);
  std::vector<TensorRole> inside = {kAttentionNorm, kMlpNorm, kQ, kK, kV, kO};
  if (config.experts > 0) {
    inside.insert(inside.end(), {kRouter, kExpertGate, kExpertUp, kExpertDown});
  } else {
    inside.insert(inside.end(), {kUp, kDown});
    if (config.gated) inside.push_back(kGate);
  }
  TensorTable tensors;
  const auto set = [&](TensorRole role, int32_t layer) {
    const std::vector<int64_t> shape = ShapeOf(role, config);
    for (int32_t expert = 0; expert < (InExperts(role) ? config.experts : 1); ++expert) {
      tensors.Set(role, layer, make(role, layer, shape.size() == 1 ? 1 : shape[0], shape.back()), expert);
    }
  };
  for (const TensorRole role : outside) set(role, 0);
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    for (const TensorRole role : inside) set(role, layer);
  }
  return tensors;
}

// Has a shape and a format, and nothing to read.
class HollowTensor final : public TensorSource {
 public:
  HollowTensor(int64_t rows, int64_t cols, WeightFormat format, bool has_stored_rows = true)
      : TensorSource("hollow", rows, cols, format), has_stored_rows_(has_stored_rows) {}
  void ReadRows(int64_t, int64_t, float*) const override { assert(false); }
  bool has_stored_rows() const override { return has_stored_rows_; }

 private:
  bool has_stored_rows_;
};

inline TensorTable HollowTensors(const ModelConfig& config, WeightFormat format = WeightFormat::kBF16) {
  return TensorsFor(config, [format](TensorRole, int32_t, int64_t rows, int64_t cols) {
    return std::make_unique<HollowTensor>(rows, cols, format);
  });
}

// A device that counts neither padding nor biases, and multiplies `quantised` formats as they are stored.
inline WeightDevice PlainDevice(std::vector<WeightFormat> quantised = {}) {
  return {[quantised](WeightFormat format) {
            return !IsQuantised(format) || std::find(quantised.begin(), quantised.end(), format) != quantised.end();
          },
          [](const LinearSpec& spec, bool) {
            int64_t bytes = spec.parts.empty() ? spec.rows * RowBytes(spec.format, spec.cols) : 0;
            for (const LinearPart& part : spec.parts) bytes += part.rows * RowBytes(part.format, spec.cols);
            return bytes;
          }};
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_WEIGHTS_SHAPED_TENSORS_H_
