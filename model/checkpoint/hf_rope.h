// ReadHfRope reads how a config.json rotates positions: the part of a head, the base, and what stretches them.
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_CHECKPOINT_HF_ROPE_H_
#define HYDRANT_MODEL_CHECKPOINT_HF_ROPE_H_

#include "absl/status/status.h"
#include "model/checkpoint/hf_families.h"
#include "model/config/model_config.h"
#include "model/files/json_document.h"

namespace hydrant {

// Fills rope_dims, rope_inv_freq, rope_attention_factor and, where the family has any, windowed_inv_freq, and raises the
// context where the settings stretch it. REQUIRES: head_dim and context are read. Errors name the field.
absl::Status ReadHfRope(const JsonValue& root, const HfFamily& family, ModelConfig& config);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_HF_ROPE_H_
