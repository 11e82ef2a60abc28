// GgufArchitecture says how the .gguf files of a model family name their tensors, and what their metadata leaves unsaid.
//
// Thread: any (constants).
#ifndef HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_
#define HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_

#include <span>
#include <string_view>

#include "kernels/types.h"
#include "model/checkpoint/tensor_names.h"

namespace hydrant {

struct GgufArchitecture {
  std::string_view name;  // `general.architecture`, and the prefix of its metadata keys
  TensorNaming naming;
  NormKind norm = NormKind::kRms;
  std::string_view norm_eps_key;  // after the prefix
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool says_parallel = false;  // `use_parallel_residual` is there
};

std::span<const GgufArchitecture> GgufArchitectures();

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_GGUF_ARCHITECTURE_H_
