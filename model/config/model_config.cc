#include "model/config/model_config.h"

#include <cmath>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

// Several times the largest published models (126 layers, 128 heads, hidden 18,432, FFN 73,728, vocabulary 262,144, context
// 10 M), and small enough that rows x cols x bytes of any tensor stays far below 2^63.
constexpr int64_t kHiddenMax = 1 << 17;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kHeadDimMax = 256;  // what the attention kernels hold of a head; no published model here has more
constexpr int64_t kFfnMax = 1 << 20;
constexpr int64_t kVocabMax = 1 << 22;
constexpr int64_t kContextMax = 1 << 24;
// Factors of attention's scores; published ones lie between 1 / 16 and 1. Within these bounds a factor is a positive fp32 number,
// and the -1e30 that stands for a hidden slot becomes nothing but a weight of 0.
constexpr double kAttentionScaleMin = 1.0 / (1 << 16), kAttentionScaleMax = 1 << 16;
// Published caps are 30 and 50. Within these bounds they stay fp32 numbers when such a factor divides them.
constexpr float kSoftcapMin = 1.0f / (1 << 16), kSoftcapMax = 1 << 16;

struct Range {
  std::string_view field;
  int64_t value, min, max;
};

absl::Status ValidateRope(const ModelConfig& config, std::string_view file, const ConfigFieldNames& names) {
  if (config.rope_dims < 2 || config.rope_dims % 2 != 0 || config.rope_dims > config.head_dim) {
    return FileError(file, Quoted(names.rope_dims), config.rope_dims, " is not an even number from 2 to the ",
                     config.head_dim, " elements of a head");
  }
  if (config.rope_inv_freq.size() != static_cast<size_t>(config.rope_dims / 2)) {
    return FileError(file, Quoted(names.rope_dims), "needs ", config.rope_dims / 2, " rotary frequencies, not ",
                     config.rope_inv_freq.size());
  }
  if (!config.windowed_inv_freq.empty() && (config.windowed_inv_freq.size() != config.rope_inv_freq.size() ||
                                            config.windowed_layers.size() != static_cast<size_t>(config.layers))) {
    return FileError(file, Quoted(names.rope_dims), "windowed layers lack rotary frequencies");
  }
  if (!config.unrotated_layers.empty() && config.unrotated_layers.size() != static_cast<size_t>(config.layers)) {
    return FileError(file, Quoted(names.layers), "rotation is known of ", config.unrotated_layers.size(), " layers");
  }
  if (!config.rope_long_inv_freq.empty() && config.rope_long_inv_freq.size() != config.rope_inv_freq.size()) {
    return FileError(file, Quoted(names.rope_dims), "needs ", config.rope_dims / 2,
                     " rotary frequencies for long texts, not ", config.rope_long_inv_freq.size());
  }
  for (const std::vector<double>* frequencies :
       {&config.rope_inv_freq, &config.windowed_inv_freq, &config.rope_long_inv_freq}) {
    for (const double frequency : *frequencies) {
      if (!std::isfinite(frequency) || frequency < 0) {
        return FileError(file, Quoted(names.rope_dims), "a rotary frequency is ", frequency);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePositionTable(const ModelConfig& config, std::string_view file, const ConfigFieldNames& names) {
  if (config.rope_dims != 0 || !config.rope_inv_freq.empty() || !config.unrotated_layers.empty()) {
    return FileError(file, Quoted(names.rope_dims), "positions are both learned and rotary");
  }
  if (config.position_offset < 0 || config.position_rows - config.position_offset < config.context) {
    return FileError(file, Quoted(names.context), config.context, " positions from row ", config.position_offset,
                     " of a table of ", config.position_rows);
  }
  return absl::OkStatus();
}

}  // namespace

size_t LayersToList(int32_t layers) { return static_cast<size_t>(std::clamp(layers, 0, 1 << 12)); }

std::vector<bool> AllButEvery(int32_t period, int32_t layers) {
  std::vector<bool> list;
  for (size_t i = 1; i <= LayersToList(layers); ++i) list.push_back(i % static_cast<size_t>(period) != 0);
  return list;
}

absl::Status ValidateModelConfig(const ModelConfig& config, std::string_view file, const ConfigFieldNames& names) {
  const Range ranges[] = {
      {names.hidden, config.hidden, 1, kHiddenMax},
      {names.layers, config.layers, 1, kLayersMax},
      {names.query_heads, config.query_heads, 1, kHeadsMax},
      {names.kv_heads, config.kv_heads, 1, config.query_heads},
      {names.head_dim, config.head_dim, 2, kHeadDimMax},
      {names.ffn, config.ffn, 1, kFfnMax},
      {names.experts, config.experts, 0, kExpertsMax},
      {names.experts_per_token, config.experts_per_token, config.experts > 0 ? 1 : 0, config.experts},
      {names.vocab, config.vocab, 1, kVocabMax},
      {names.context, config.context, 1, kContextMax},
      {names.bos_id, config.bos_id, -1, config.vocab - 1},
  };
  for (const Range& range : ranges) {
    if (range.value < range.min || range.value > range.max) {
      return FileError(file, Quoted(range.field), range.value, " is out of range [", range.min, ", ", range.max, "]");
    }
  }
  if (config.embedding_dim < 0 || config.embedding_dim > kHiddenMax) {
    return FileError(file, Quoted(names.embedding_dim), config.embedding_dim, " is out of range [1, ", kHiddenMax, "]");
  }
  if (config.query_heads % config.kv_heads != 0) {
    return FileError(file, Quoted(names.kv_heads), config.kv_heads, " does not divide the ", config.query_heads,
                     " query heads");
  }
  if (config.head_dim % 2 != 0) {
    return FileError(file, Quoted(names.head_dim), config.head_dim, " is odd; kernels take its elements in pairs");
  }
  if (!std::isfinite(config.norm_eps) || config.norm_eps <= 0 || config.norm_eps >= 1) {
    return FileError(file, Quoted(names.norm_eps), config.norm_eps, " is not between 0 and 1");
  }
  const double scale = config.attention_scale;
  if (scale != 0 && !(scale >= kAttentionScaleMin && scale <= kAttentionScaleMax)) {
    return FileError(file, Quoted(names.head_dim), "attention would be scaled by ", scale, ", which is out of range [",
                     kAttentionScaleMin, ", ", kAttentionScaleMax, "]");
  }
  for (const float softcap : {config.attention_softcap, config.final_softcap}) {
    if (softcap != 0 && !(softcap >= kSoftcapMin && softcap <= kSoftcapMax)) {
      return FileError(file, "", "logits would be capped at ", softcap, ", which is out of range [", kSoftcapMin, ", ",
                       kSoftcapMax, "]");
    }
  }
  const bool layers_known =
      config.windowed_layers.empty() || config.windowed_layers.size() == static_cast<size_t>(config.layers);
  if (config.window < 1 || !layers_known || (config.windowed_layers.empty() && config.window != kNoWindow)) {
    return FileError(file, Quoted(names.layers), "windows of ", config.window, " tokens in ",
                     config.windowed_layers.size(), " layers");
  }
  if (config.eos_ids.empty()) return FileError(file, Quoted(names.eos_id), "no end-of-sequence token is given");
  for (const int32_t id : config.eos_ids) {
    if (id < 0 || id >= config.vocab) {
      return FileError(file, Quoted(names.eos_id), id, " is out of range [0, ", config.vocab - 1, "]");
    }
  }
  return config.position_rows > 0 ? ValidatePositionTable(config, file, names) : ValidateRope(config, file, names);
}

}  // namespace hydrant
