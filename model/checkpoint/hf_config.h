// ReadHfConfig turns a Hugging Face config.json (and generation_config.json) into a validated ModelConfig. What a family
// calls its fields and tensors is data in hf_config.cc.
#ifndef HYDRANT_MODEL_CHECKPOINT_HF_CONFIG_H_
#define HYDRANT_MODEL_CHECKPOINT_HF_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/hf_quantization.h"
#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"
#include "model/files/json_document.h"

namespace hydrant {

struct HfConfig {
  ModelConfig config;  // stored_dtype is not known yet
  TensorExpectation expectation;
  const TensorNaming* naming = nullptr;  // of the family, static
  GenerationDefaults generation_defaults;
  HfQuantization quantization;
};

// `generation` is null when there is no generation_config.json. Everything that changes the mathematics and is not
// supported is refused by name.
absl::StatusOr<HfConfig> ReadHfConfig(const JsonValue& config, const JsonValue* generation,
                                      std::vector<std::string>& warnings);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_HF_CONFIG_H_
