// WeightPlan says what becomes of a checkpoint's matrices on a device: of which tensors each is made, in which formats, and in
// how many bytes. LoadWeights walks it, sizing adds it up, the log describes it.
//
// Thread: any (plain data, pure functions).
//
// Invariants
//  1. A part that keeps a quantised format is stored in it, can be had as stored, and the device supports it; every other part is
//     expanded, all of them to one type.
//  2. PlannedWeight::bytes is LinearWeight::bytes() of what LoadWeights makes of it, and the sum of its parts' bytes.
#ifndef HYDRANT_MODEL_WEIGHTS_WEIGHT_PLAN_H_
#define HYDRANT_MODEL_WEIGHTS_WEIGHT_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"

namespace hydrant {

// What a matrix is for. The field of Weights or LayerWeights that it goes to has the same name.
enum class WeightRole : uint8_t {
  kEmbedding,
  kOwnHead,
  kProjectIn,
  kProjectOut,
  kQkv,
  kO,
  kUp,
  kDown,
  kRouter,
  kExpertUp,  // this and kExpertDown go to LayerWeights::experts
  kExpertDown,
  kPositions,
};

// The rows that one tensor gives a matrix.
struct WeightPart {
  TensorRole tensor = TensorRole::kEmbedding;
  std::optional<TensorRole> bias = {};  // of these rows; none: the checkpoint has no such tensor
  int64_t first_row = 0;                // of the tensor
  int64_t rows = 0;
  WeightFormat stored = WeightFormat::kF32;    // in the file
  WeightFormat computed = WeightFormat::kF32;  // on the device
  int64_t bytes = 0;                           // of these rows there
};

struct PlannedWeight {
  WeightRole role = WeightRole::kEmbedding;
  int32_t layer = 0;   // of roles within layers
  int32_t expert = 0;  // of roles within experts
  int64_t cols = 0;
  bool gated = false;
  bool multiplied = true;         // false: a table that is no head
  std::vector<WeightPart> parts;  // one after the other
  int64_t bytes = 0;

  int64_t rows() const;
  bool biased() const;
  LinearSpec Spec() const;
};

struct WeightPlan {
  std::vector<PlannedWeight> weights;
  int32_t positions_max = 0;  // of a rotary table, or of that of learned positions
  int64_t rope_bytes = 0;     // of the rotary tables; 0 beside learned positions
  bool balance_keys = false;  // as HeadNorms::balance says, for a cache in which a key's elements share a scale

  // The bytes of all matrices, learned positions aside. Norms are not worth counting.
  int64_t bytes() const;
  // The bytes of learned positions, or of the rotary table.
  int64_t position_bytes() const;
  // StepBounds::quantised_cols_max.
  int64_t quantised_cols_max() const;
  // For the log: the types that are multiplied and, where they are others, those that are stored: "bfloat16 (stored as Q8_0, Q4_1)".
  std::string Formats() const;
  // The types that are multiplied, by their names there, each with its part of bytes().
  std::vector<std::pair<std::string, int64_t>> BytesByFormat() const;
};

// The types that weights are computed with.
struct WeightChoice {
  DType expanded = DType::kF32;  // what is not kept as it is stored
  // Quantised rows stay as they are stored where the device supports their format, and where it takes a weight's other rows beside
  // them. Otherwise they are expanded.
  bool keep_quantised = false;
};

// The questions that a plan asks a device.
struct WeightDevice {
  std::function<bool(WeightFormat)> supports;                           // Device::Supports
  std::function<int64_t(const LinearSpec&, bool biased)> linear_bytes;  // Device::LinearBytes
  bool mixes_quantised = true;                                          // Device::MixesQuantised
  int64_t copies = 1;                                                   // Device::copies

  static WeightDevice Of(const Device& device);  // which must outlive it
};

// `positions_max` bounds the rotary table, or that of learned positions.
// REQUIRES: `tensors` has every tensor that the config calls for, with its shape.
WeightPlan PlanWeights(const ModelConfig& config, const TensorTable& tensors, const WeightDevice& device,
                       WeightChoice choice, int32_t positions_max);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_WEIGHTS_WEIGHT_PLAN_H_
