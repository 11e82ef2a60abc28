// ReadHfQuantization says how a Hugging Face directory's weights are quantised, from `quantization_config` of its config.json (or
// `compression_config`, its older name).
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_CHECKPOINT_HF_QUANTIZATION_H_
#define HYDRANT_MODEL_CHECKPOINT_HF_QUANTIZATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "model/checkpoint/quantization.h"
#include "model/files/json_document.h"

namespace hydrant {

// Which tensors a matrix `x.weight` is stored in.
enum class HfPacking : uint8_t {
  kNone,    // x.weight
  kPacked,  // compressed-tensors: x.weight_packed, x.weight_scale, x.weight_shape, x.weight_zero_point, x.weight_g_idx
  kBytes,   // compressed-tensors, fp8: x.weight in int8 or FP8, x.weight_scale or x.weight_scale_inv
  kGptq,    // x.qweight, x.scales, x.qzeros, x.g_idx
  kAwq,     // x.qweight, x.scales, x.qzeros
  kMxfp4,   // of experts: x_blocks, x_scales (mxfp4_tensors.h)
};

struct HfQuantization {
  Quantization method = Quantization::kNone;  // in the words of --quantization
  HfPacking packing = HfPacking::kNone;
  int32_t bits = 8;          // of a code: 4 or 8
  bool fp8 = false;          // codes are numbers in FP8 (E4M3)
  bool symmetric = true;     // zero points are in the middle of the codes
  int32_t zero_offset = 0;   // what is added to a stored zero point
  bool group_index = false;  // a tensor says which group a column is in
  // A scale is of so many columns and rows. 0: all.
  int32_t group_cols = 0, group_rows = 1;
};

// A config without either field has HfPacking::kNone. What is not supported or not known is refused by name, so that no weight is
// ever read as something that it is not.
absl::StatusOr<HfQuantization> ReadHfQuantization(const JsonValue& config);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_HF_QUANTIZATION_H_
