// HfFamilies says what the config.json of each supported model family calls its fields, what silence means, and how its
// tensors are named. A family is data: supporting one more is one more row here, as long as its mathematics is made of what
// ModelConfig describes.
//
// Thread: any (constants).
#ifndef HYDRANT_MODEL_CHECKPOINT_HF_FAMILIES_H_
#define HYDRANT_MODEL_CHECKPOINT_HF_FAMILIES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "model/checkpoint/tensor_names.h"
#include "model/config/model_config.h"

namespace hydrant {

// A field of config.json and the value that its absence stands for. No name: the family has no such field, and the value holds.
struct HfFlag {
  std::string_view name;
  bool value = false;
};

// The same of a number.
struct HfNumber {
  std::string_view name;
  double value = 0;
};

struct HfFamily {
  std::string_view model_type;
  TensorNaming naming;
  ConfigFieldNames fields;  // always named, for messages; which of them are read, the flags below and the reader say

  NormKind norm = NormKind::kRms;
  double norm_eps = 1e-6;
  bool reads_norm_eps = true;
  NormPlace norm_place = NormPlace::kBefore;  // unless `pre_norm` says kAfterSum
  bool norms_over_heads = false;
  float norm_offset = 0;
  bool scales_embedding = false;  // by sqrt(hidden)
  bool gated = true;
  std::string_view activation_field = "hidden_act";
  std::string_view activation = "silu";
  bool clamps_gates = false;  // an activation of silu stands for Activation::kClampedSwish

  // How many experts a layer has, and of them a token, where the fields are missing. 0: the family has none.
  int32_t experts = 0;
  int32_t experts_per_token = 0;
  HfFlag normalised_experts;

  int32_t context = 2048;
  bool reads_kv_heads = true;
  int32_t kv_heads = 0;  // 0: as many as query heads
  bool reads_head_dim = true;
  int32_t head_dim = 0;  // 0: hidden / query heads

  HfFlag tied = {"tie_word_embeddings", false};
  HfFlag attention_bias;
  HfFlag mlp_bias;
  HfFlag parallel_residual;
  HfFlag pre_norm = {"", true};
  HfFlag affine_norms = {"", true};
  HfFlag without_final_norm;
  std::string_view embedding_dim_field = "";

  int32_t position_offset = -1;  // at least 0: positions are learned, and position 0 has this row of their table
  std::string_view theta_field = "rope_theta";
  double theta = 10'000;  // where the field is missing
  // Silence stands for a stretched rotation that no file can have meant: refused.
  bool says_rotation = false;
  std::string_view rotated_share_field = "partial_rotary_factor";
  double rotated_share = 1;

  // The scores are divided by the root of this field's value. No name: by that of the head's elements.
  std::string_view attention_scalar_field = "";
  double attention_scalar = 0;  // where the field is missing

  // Layers without rotation: those with a 0 in `no_rope_layers`, else every `no_rope_layer_interval`-th. This is the interval
  // where the file has neither. 0: the family rotates in all layers.
  int32_t unrotated_period = 0;

  // Caps of scores and of logits; null: none. No name: the family has no such field.
  HfNumber attention_softcap;
  HfNumber final_softcap;

  // Windowed layers: those that `layer_types` says, else those from number `max_window_layers` on where there is such a field,
  // else all but every `window_period`th where there is one, else those that are not rotated where there are such, else all. Families
  // of the latter kind do not look at `layer_types`, unless they say so.
  bool has_window = false;
  bool reads_layer_types = false;
  int32_t window_period = 0;
  std::string_view windowed_theta_field = "";  // rotary base of windowed layers; empty: that of all
  double windowed_theta = 0;                   // where the field is missing
  int32_t window = 0;                          // 0: none
  HfFlag uses_window = {"", true};
  int32_t max_window_layers = 0;  // 0: no such field

  // Fields that change the mathematics, which is supported without: any value but null, false and 0 is refused.
  std::span<const std::string_view> refused = {};
  // Fields that are supported with this value alone, which is that of their absence, too.
  std::span<const HfNumber> fixed = {};

  int32_t bos_id = -1;  // -1: none
  int32_t eos_id = -1;
};

std::span<const HfFamily> HfFamilies();

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_HF_FAMILIES_H_
