#include "model/hf_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "model/file_error.h"
#include "model/rope_scaling.h"

namespace hydrant {
namespace {

constexpr TensorName kLlamaNames[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "model.embed_tokens.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "lm_head.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "model.norm.weight"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "model.layers.#.input_layernorm.weight"},
    {TensorRole::kQ, Presence::kRequired, "model.layers.#.self_attn.q_proj.weight"},
    {TensorRole::kQBias, Presence::kAttentionBias, "model.layers.#.self_attn.q_proj.bias"},
    {TensorRole::kK, Presence::kRequired, "model.layers.#.self_attn.k_proj.weight"},
    {TensorRole::kKBias, Presence::kAttentionBias, "model.layers.#.self_attn.k_proj.bias"},
    {TensorRole::kV, Presence::kRequired, "model.layers.#.self_attn.v_proj.weight"},
    {TensorRole::kVBias, Presence::kAttentionBias, "model.layers.#.self_attn.v_proj.bias"},
    {TensorRole::kO, Presence::kRequired, "model.layers.#.self_attn.o_proj.weight"},
    {TensorRole::kOBias, Presence::kAttentionBias, "model.layers.#.self_attn.o_proj.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "model.layers.#.post_attention_layernorm.weight"},
    {TensorRole::kGate, Presence::kRequired, "model.layers.#.mlp.gate_proj.weight"},
    {TensorRole::kGateBias, Presence::kMlpBias, "model.layers.#.mlp.gate_proj.bias"},
    {TensorRole::kUp, Presence::kRequired, "model.layers.#.mlp.up_proj.weight"},
    {TensorRole::kUpBias, Presence::kMlpBias, "model.layers.#.mlp.up_proj.bias"},
    {TensorRole::kDown, Presence::kRequired, "model.layers.#.mlp.down_proj.weight"},
    {TensorRole::kDownBias, Presence::kMlpBias, "model.layers.#.mlp.down_proj.bias"},
};
// Old files store the rotary frequencies; a tied head may be stored all the same.
constexpr std::string_view kLlamaKnown[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", "lm_head.weight"};

// A family: its name in `model_type`, its tensors, and the defaults of its configuration class in transformers, which
// apply where config.json is silent.
struct Family {
  std::string_view model_type;
  TensorNaming naming;
  NormKind norm;
  bool gated;
  std::string_view activation;
  double norm_eps;
  double rope_theta;
  int32_t context;
};
constexpr Family kFamilies[] = {
    {"llama", {kLlamaNames, kLlamaKnown, /*interleaved_qk=*/false}, NormKind::kRms, true, "silu", 1e-6, 10000, 2048},
};

constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
};

constexpr ConfigFieldNames kFieldNames{
    "hidden_size",  "num_hidden_layers",     "num_attention_heads", "num_key_value_heads",
    "head_dim",     "intermediate_size",     "vocab_size",          "max_position_embeddings",
    "rms_norm_eps", "partial_rotary_factor", "bos_token_id",        "eos_token_id"};

constexpr int32_t kIntMin = std::numeric_limits<int32_t>::min();
constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

class HfReader {
 public:
  HfReader(const JsonValue& root, const Family& family) : root_(root), family_(family) {}

  absl::StatusOr<HfConfig> Run(const JsonValue* generation) {
    ModelConfig& config = result_.config;
    config.norm = family_.norm;
    config.gated = family_.gated;
    result_.naming = &family_.naming;
    HYDRANT_RETURN_IF_ERROR(RefuseUnsupported());
    HYDRANT_RETURN_IF_ERROR(ReadSizes());
    HYDRANT_RETURN_IF_ERROR(ReadFlags());
    HYDRANT_RETURN_IF_ERROR(ReadRope());
    HYDRANT_RETURN_IF_ERROR(ReadIds(root_));
    if (generation != nullptr) {
      HYDRANT_RETURN_IF_ERROR(ReadIds(*generation));
      HYDRANT_RETURN_IF_ERROR(ReadGenerationDefaults(*generation));
    }
    return std::move(result_);
  }

 private:
  // A required 32-bit integer; the range that makes sense is ValidateModelConfig's affair.
  absl::Status Required(std::string_view key, int32_t& out) const {
    HYDRANT_RETURN_IF_ERROR(root_.At(key).status());
    return root_.Read(key, kIntMin, kIntMax, out);
  }

  absl::Status RefuseUnsupported() const {
    if (const auto quantization = root_.Find("quantization_config")) {
      return quantization->Error("quantised directories are not supported; use the original or a .gguf file");
    }
    bool uses_window = true;
    HYDRANT_RETURN_IF_ERROR(root_.Read("use_sliding_window", uses_window));
    int32_t window = kIntMax;
    int32_t context = family_.context;
    HYDRANT_RETURN_IF_ERROR(root_.Read("sliding_window", 0, kIntMax, window));
    HYDRANT_RETURN_IF_ERROR(root_.Read("max_position_embeddings", kIntMin, kIntMax, context));
    if (uses_window && window < context) {
      return root_.Find("sliding_window")->Error("sliding-window attention is not supported");
    }
    return absl::OkStatus();
  }

  absl::Status ReadSizes() {
    ModelConfig& config = result_.config;
    HYDRANT_RETURN_IF_ERROR(Required("hidden_size", config.hidden));
    HYDRANT_RETURN_IF_ERROR(Required("num_hidden_layers", config.layers));
    HYDRANT_RETURN_IF_ERROR(Required("num_attention_heads", config.query_heads));
    HYDRANT_RETURN_IF_ERROR(Required("intermediate_size", config.ffn));
    HYDRANT_RETURN_IF_ERROR(Required("vocab_size", config.vocab));
    config.kv_heads = config.query_heads;
    HYDRANT_RETURN_IF_ERROR(root_.Read("num_key_value_heads", kIntMin, kIntMax, config.kv_heads));
    config.context = family_.context;
    HYDRANT_RETURN_IF_ERROR(root_.Read("max_position_embeddings", kIntMin, kIntMax, config.context));
    double eps = family_.norm_eps;
    HYDRANT_RETURN_IF_ERROR(root_.Read(kFieldNames.norm_eps, eps));
    config.norm_eps = static_cast<float>(eps);
    if (root_.Find("head_dim")) return root_.Read("head_dim", kIntMin, kIntMax, config.head_dim);
    if (config.query_heads <= 0) return absl::OkStatus();  // ValidateModelConfig refuses it
    if (config.hidden % config.query_heads != 0) {
      return root_.Find("num_attention_heads")
          ->Error(config.query_heads, " does not divide the hidden size ", config.hidden);
    }
    config.head_dim = config.hidden / config.query_heads;
    return absl::OkStatus();
  }

  absl::Status ReadFlags() {
    HYDRANT_RETURN_IF_ERROR(root_.Read("tie_word_embeddings", result_.config.tied_embeddings));
    HYDRANT_RETURN_IF_ERROR(root_.Read("attention_bias", result_.expectation.attention_bias));
    HYDRANT_RETURN_IF_ERROR(root_.Read("mlp_bias", result_.expectation.mlp_bias));
    std::string_view name = family_.activation;
    const auto field = root_.Find("hidden_act");
    if (field) {
      HYDRANT_ASSIGN_OR_RETURN(name, field->String());
    }
    const auto* known =
        std::find_if(std::begin(kActivations), std::end(kActivations), [&](const auto& a) { return a.first == name; });
    if (known == std::end(kActivations)) return field->Error("activation ", Quoted(name), " is not supported");
    result_.config.activation = known->second;
    return absl::OkStatus();
  }

  // Rotary settings are in `rope_parameters` since transformers 5, before that in `rope_scaling` and beside it.
  absl::Status ReadRope() {
    ModelConfig& config = result_.config;
    const auto parameters = root_.Find("rope_parameters");
    const auto scaling_field = parameters ? parameters : root_.Find("rope_scaling");
    const JsonValue& source = scaling_field ? *scaling_field : root_;
    RopeScaling scaling;
    scaling.theta = family_.rope_theta;
    HYDRANT_RETURN_IF_ERROR(root_.Read("rope_theta", scaling.theta));
    double fraction = 1;
    HYDRANT_RETURN_IF_ERROR(root_.Read("partial_rotary_factor", fraction));
    std::string_view kind = "default";
    if (scaling_field) {
      HYDRANT_RETURN_IF_ERROR(source.Read("rope_theta", scaling.theta));
      HYDRANT_RETURN_IF_ERROR(source.Read("partial_rotary_factor", fraction));
      const auto type = source.Find("rope_type") ? source.Find("rope_type") : source.Find("type");
      if (!type && !parameters) return source.Error("has no rope_type");
      if (type) {
        HYDRANT_ASSIGN_OR_RETURN(kind, type->String());
      }
    }
    if (!(fraction > 0 && fraction <= 1))
      return source.Error("partial_rotary_factor ", fraction, " is not between 0 and 1");
    config.rope_dims = static_cast<int32_t>(config.head_dim * fraction);
    HYDRANT_RETURN_IF_ERROR(ReadRopeKind(source, kind, scaling));
    if (scaling.kind == RopeKind::kYarn) {
      // Configs state the context before stretching.
      const double stretched = std::clamp(scaling.original_context * scaling.factor, 0.0, static_cast<double>(kIntMax));
      config.context = std::max(config.context, static_cast<int32_t>(stretched));
    }
    return ApplyRopeScaling(scaling, "config.json",
                            scaling_field ? (parameters ? "'rope_parameters'" : "'rope_scaling'") : "'rope_theta'",
                            config);
  }

  absl::Status ReadRopeKind(const JsonValue& source, std::string_view kind, RopeScaling& scaling) const {
    if (kind == "default") return absl::OkStatus();
    if (kind == "linear") {
      scaling.kind = RopeKind::kLinear;
    } else if (kind == "llama3") {
      scaling.kind = RopeKind::kLlama3;
    } else if (kind == "yarn") {
      scaling.kind = RopeKind::kYarn;
    } else {
      return source.Error("rope_type ", Quoted(kind), " is not supported (default, linear, llama3 and yarn are)");
    }
    scaling.original_context = result_.config.context;
    HYDRANT_RETURN_IF_ERROR(source.Read("original_max_position_embeddings", scaling.original_context));
    HYDRANT_RETURN_IF_ERROR(root_.Read("original_max_position_embeddings", scaling.original_context));
    if (const auto factor = source.Find("factor")) {
      HYDRANT_ASSIGN_OR_RETURN(scaling.factor, factor->Number());
    } else if (scaling.kind == RopeKind::kYarn && scaling.original_context > 0) {
      scaling.factor = result_.config.context / scaling.original_context;
    } else {
      return source.Error("has no factor");
    }
    if (scaling.kind == RopeKind::kLlama3) {
      HYDRANT_RETURN_IF_ERROR(source.At("low_freq_factor").status());
      HYDRANT_RETURN_IF_ERROR(source.At("high_freq_factor").status());
    }
    HYDRANT_RETURN_IF_ERROR(source.Read("low_freq_factor", scaling.low_freq_factor));
    HYDRANT_RETURN_IF_ERROR(source.Read("high_freq_factor", scaling.high_freq_factor));
    HYDRANT_RETURN_IF_ERROR(source.Read("beta_fast", scaling.beta_fast));
    HYDRANT_RETURN_IF_ERROR(source.Read("beta_slow", scaling.beta_slow));
    HYDRANT_RETURN_IF_ERROR(source.Read("truncate", scaling.truncate));
    HYDRANT_RETURN_IF_ERROR(ReadOptional(source, "attention_factor", scaling.attention_factor));
    HYDRANT_RETURN_IF_ERROR(ReadOptional(source, "mscale", scaling.mscale));
    return ReadOptional(source, "mscale_all_dim", scaling.mscale_all_dim);
  }

  static absl::Status ReadOptional(const JsonValue& source, std::string_view key, std::optional<double>& out) {
    const auto field = source.Find(key);
    if (!field) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(out, field->Number());
    return absl::OkStatus();
  }

  // Ends of sequence add up over both files: generation stops at any of them. -1 is how some files write "none".
  absl::Status ReadIds(const JsonValue& source) {
    ModelConfig& config = result_.config;
    if (config.vocab <= 0) return absl::OkStatus();  // ValidateModelConfig refuses it
    const int32_t last = config.vocab - 1;
    int32_t pad = -1;
    HYDRANT_RETURN_IF_ERROR(source.Read("pad_token_id", -1, last, pad));
    HYDRANT_RETURN_IF_ERROR(source.Read("bos_token_id", -1, last, config.bos_id));
    const auto eos = source.Find("eos_token_id");
    if (!eos) return absl::OkStatus();
    if (eos->IsArray() && eos->size() == 0) return eos->Error("no end-of-sequence token is given");
    for (size_t i = 0; i < std::max<size_t>(eos->size(), 1); ++i) {
      HYDRANT_ASSIGN_OR_RETURN(const int64_t id, (eos->IsArray() ? (*eos)[i] : *eos).Int(0, last));
      const auto known = std::find(config.eos_ids.begin(), config.eos_ids.end(), id);
      if (known == config.eos_ids.end()) config.eos_ids.push_back(static_cast<int32_t>(id));
    }
    return absl::OkStatus();
  }

  absl::Status ReadGenerationDefaults(const JsonValue& generation) {
    Checkpoint::GenerationDefaults& defaults = result_.generation_defaults;
    bool samples = false;
    HYDRANT_RETURN_IF_ERROR(generation.Read("do_sample", samples));
    // Without do_sample transformers decodes greedily whatever else the file says; then it has no say here either.
    if (!samples) return absl::OkStatus();
    HYDRANT_RETURN_IF_ERROR(generation.Read("temperature", defaults.temperature));
    HYDRANT_RETURN_IF_ERROR(generation.Read("top_p", defaults.top_p));
    HYDRANT_RETURN_IF_ERROR(generation.Read("min_p", defaults.min_p));
    HYDRANT_RETURN_IF_ERROR(generation.Read("top_k", 0, kIntMax, defaults.top_k));
    HYDRANT_RETURN_IF_ERROR(generation.Read("repetition_penalty", defaults.repetition_penalty));
    const auto in_range = [](double x, double min, double max) { return x == -1 || (x >= min && x <= max); };
    if (!in_range(defaults.temperature, 0, 1e6) || !in_range(defaults.top_p, 0, 1) || !in_range(defaults.min_p, 0, 1)) {
      return generation.Error("temperature, top_p or min_p is out of range");
    }
    // As far as a request may go (api/sampling_fields.cc).
    if (!in_range(defaults.repetition_penalty, 1e-3, 10)) return generation.Error("repetition_penalty is out of range");
    return absl::OkStatus();
  }

  JsonValue root_;
  const Family& family_;
  HfConfig result_;
};

}  // namespace

absl::StatusOr<HfConfig> ReadHfConfig(const JsonValue& config, const JsonValue* generation,
                                      std::vector<std::string>& warnings) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue type_field, config.At("model_type"));
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, type_field.String());
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return f.model_type == type; });
  if (family == std::end(kFamilies)) return type_field.Error(Quoted(type), " is not supported ('llama' is)");
  for (const std::string_view key : {"auto_map", "trust_remote_code"}) {
    if (config.Find(key))
      warnings.push_back(Cat("config.json: ", Quoted(key), ": is ignored; no code of a checkpoint is ever run"));
  }
  HYDRANT_ASSIGN_OR_RETURN(HfConfig result, HfReader(config, *family).Run(generation));
  HYDRANT_RETURN_IF_ERROR(ValidateModelConfig(result.config, "config.json", kFieldNames));
  return result;
}

}  // namespace hydrant
