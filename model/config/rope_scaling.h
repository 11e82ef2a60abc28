// RopeScaling says how a checkpoint stretches rotary positions beyond its original context, and computes the frequencies.
//
// Thread: any (pure). Formulas: YaRN, arXiv 2309.00071 section 3; LongRoPE, arXiv 2402.13753; llama3, the Llama 3.1 release; with
// the defaults and rounding of Hugging Face transformers, formed in fp64.
#ifndef HYDRANT_MODEL_CONFIG_ROPE_SCALING_H_
#define HYDRANT_MODEL_CONFIG_ROPE_SCALING_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/model_config.h"

namespace hydrant {

// kDynamic raises the rotary base as a text outgrows the model's context, and not before: transformers computes
// base * (factor * length / context - (factor - 1))^(dims / (dims - 2)) with a length of at least the context. Nothing longer is
// served, so its frequencies are the plain ones.
//
// kLongRope divides every frequency by a factor of its own, of one list for texts that fit the original context and of another
// for longer ones.
enum class RopeKind : uint8_t { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongRope };

struct RopeScaling {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double factor = 1;
  double original_context = 0;                   // llama3, yarn, longrope
  double low_freq_factor = 1;                    // llama3
  double high_freq_factor = 4;                   // llama3
  double beta_fast = 32;                         // yarn
  double beta_slow = 1;                          // yarn
  bool truncate = true;                          // yarn: round the ramp's ends outwards to whole dimensions
  std::optional<double> attention_factor;        // yarn, longrope; computed when absent
  std::optional<double> mscale, mscale_all_dim;  // yarn
  std::vector<double> short_factors = {}, long_factors = {};  // longrope: [dims / 2]
};

// Fills rope_inv_freq, rope_attention_factor and, under kLongRope, what holds for long texts, from rope_dims. Errors name `field`
// of `file`: theta not finite and above 0, factor below 1 or not finite, frequency factors that are equal or out of order, a
// list of factors that is too short or long or has one that is not a positive number.
absl::Status ApplyRopeScaling(const RopeScaling& scaling, std::string_view file, std::string_view field,
                              ModelConfig& config);

// The frequencies [dims / 2] of layers without scaling, whose rotary base is `theta`. Errors as above.
absl::StatusOr<std::vector<double>> PlainFrequencies(double theta, int32_t dims, std::string_view file,
                                                     std::string_view field);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CONFIG_ROPE_SCALING_H_
