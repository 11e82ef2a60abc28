// Quantization is how a checkpoint's weights are quantised, in the words of --quantization. QuantiseOnLoad makes the tensors of
// a checkpoint that is not quantised read as if the file held them so.
//
// Thread: any.
#ifndef HYDRANT_MODEL_CHECKPOINT_QUANTIZATION_H_
#define HYDRANT_MODEL_CHECKPOINT_QUANTIZATION_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/types.h"
#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"

namespace hydrant {

enum class Quantization : uint8_t {
  kNone,  // nothing is asked for; of a checkpoint: it is not quantised
  // What a checkpoint becomes when it is loaded.
  kInt8,  // Q8_0
  kInt4,  // Q4_0; the embedding table and the head Q8_0
  // What a checkpoint has.
  kGguf,
  kCompressedTensors,
  kGptq,
  kAwq,
  kFp8,
  kMxfp4,
};

std::optional<Quantization> QuantizationFromName(std::string_view name);
std::string_view QuantizationName(Quantization quantization);  // empty: kNone
std::span<const std::string_view> QuantizationNames();         // of all others

// Whether any matrix is stored in a quantised format.
bool HasQuantised(const TensorTable& tensors, const ModelConfig& config);

// kInt8, kInt4: rounds every matrix that layers multiply, row by row when it is read, with nothing kept. Rows that are no whole
// number of blocks, and vectors, stay as they are. Errors: the weights are quantised already, as `stored` says; or what a
// checkpoint has is asked for, and it has something else.
absl::Status QuantiseOnLoad(Quantization quantization, Quantization stored, const ModelConfig& config,
                            TensorTable& tensors);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_QUANTIZATION_H_
