// GgufArchitecture says how the .gguf files of a model family name their tensors, and what their metadata leaves unsaid.
//
// Thread: any (constants).
#ifndef HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_
#define HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/types.h"
#include "model/checkpoint/tensor_names.h"
#include "model/config/model_config.h"

namespace hydrant {

struct GgufArchitecture {
  std::string_view name;        // `general.architecture`, and the prefix of its metadata keys
  TensorNaming naming;          // no names: it always has experts
  TensorNaming experts_naming;  // where its layers have experts; no names: they never do
  NormKind norm = NormKind::kRms;
  std::string_view norm_eps_key;  // after the prefix
  Activation activation = Activation::kSilu;
  bool rounds_yarn = true;  // the ends of YaRN's ramp are whole dimensions
  bool gated = true;
  NormPlace norm_place = NormPlace::kBefore;
  bool norms_over_heads = false;
  bool scales_embedding = false;  // by sqrt(hidden)
  // Where there are windows, every window_period-th layer has none, unless the file says which. 0: all layers are alike.
  int32_t window_period = 0;
  int32_t window = 0;            // where the file says none; 0: there are none
  bool windowed_rope = false;    // windowed layers rotate without scaling
  double windowed_theta = 0;     // their base; 0: that of the others
  int32_t unrotated_period = 0;  // every such layer has no positions at all; 0: none
  // Caps of scores and of logits where the file says none; 0: there are none.
  double attention_softcap = 0, final_softcap = 0;
  // A model of so many layers divides scores by the root of hidden / heads. 0: none does.
  int32_t layers_scaled_by_width = 0;
  bool says_parallel = false;  // `use_parallel_residual` is there
};

std::span<const GgufArchitecture> GgufArchitectures();

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_
