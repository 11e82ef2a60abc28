#include "model/checkpoint/hf_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "model/checkpoint/hf_families.h"
#include "model/checkpoint/hf_rope.h"
#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python", Activation::kGelu},   {"gelu_python_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu},          {"gelu_accurate", Activation::kGeluTanh},
};

constexpr std::string_view kExpertsField = "num_local_experts";

constexpr int32_t kIntMin = std::numeric_limits<int32_t>::min();
constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

class HfReader {
 public:
  HfReader(const JsonValue& root, const HfFamily& family) : root_(root), family_(family) {}

  absl::StatusOr<HfConfig> Run(const JsonValue* generation) {
    result_.naming = &family_.naming;
    HYDRANT_ASSIGN_OR_RETURN(result_.quantization, ReadHfQuantization(root_));
    HYDRANT_RETURN_IF_ERROR(RefuseUnsupported());
    HYDRANT_RETURN_IF_ERROR(ReadSizes());
    HYDRANT_RETURN_IF_ERROR(ReadExperts());
    HYDRANT_RETURN_IF_ERROR(ReadHeads());
    HYDRANT_RETURN_IF_ERROR(ReadFlags());
    HYDRANT_RETURN_IF_ERROR(ReadActivation());
    HYDRANT_RETURN_IF_ERROR(ReadPositions());
    HYDRANT_RETURN_IF_ERROR(ReadUnrotatedLayers());
    HYDRANT_RETURN_IF_ERROR(ReadWindow());
    HYDRANT_RETURN_IF_ERROR(ReadIds(root_));
    if (generation != nullptr) {
      HYDRANT_RETURN_IF_ERROR(ReadIds(*generation));
      HYDRANT_RETURN_IF_ERROR(ReadGenerationDefaults(*generation));
    }
    UseDefaultIds();
    return std::move(result_);
  }

 private:
  // A required 32-bit integer; the range that makes sense is ValidateModelConfig's affair.
  absl::Status Required(std::string_view key, int32_t& out) const {
    HYDRANT_RETURN_IF_ERROR(root_.At(key).status());
    return root_.Read(key, kIntMin, kIntMax, out);
  }

  absl::Status RefuseUnsupported() const {
    for (const std::string_view key : family_.refused) {
      const auto field = root_.Find(key);
      if (!field) continue;
      const auto number = field->Number();
      const auto flag = field->Bool();
      if ((number.ok() && *number == 0) || (flag.ok() && !*flag)) continue;
      return field->Error("is not supported");
    }
    if (const auto field = root_.Find("is_causal"); field && field->Bool().ok() && !*field->Bool()) {
      return field->Error("false is not supported: texts are read forwards");
    }
    for (const HfNumber& number : family_.fixed) {
      double value = number.value;
      HYDRANT_RETURN_IF_ERROR(root_.Read(number.name, value));
      if (value != number.value) {
        return root_.Find(number.name)->Error(value, " is not supported (", number.value, " is)");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadSizes() {
    ModelConfig& config = result_.config;
    const ConfigFieldNames& fields = family_.fields;
    HYDRANT_RETURN_IF_ERROR(Required(fields.hidden, config.hidden));
    HYDRANT_RETURN_IF_ERROR(Required(fields.layers, config.layers));
    HYDRANT_RETURN_IF_ERROR(Required(fields.query_heads, config.query_heads));
    HYDRANT_RETURN_IF_ERROR(Required(fields.ffn, config.ffn));
    HYDRANT_RETURN_IF_ERROR(Required(fields.vocab, config.vocab));
    config.context = family_.context;
    HYDRANT_RETURN_IF_ERROR(root_.Read(fields.context, kIntMin, kIntMax, config.context));
    if (!family_.embedding_dim_field.empty()) {
      config.embedding_dim = config.hidden;
      HYDRANT_RETURN_IF_ERROR(root_.Read(family_.embedding_dim_field, 1, kIntMax, config.embedding_dim));
    }
    if (family_.scales_embedding) {
      config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(std::max(config.hidden, 0))));
    }
    config.norm = family_.norm;
    config.norm_offset = family_.norm_offset;
    config.norm_place = family_.norm_place;
    config.norms_over_heads = family_.norms_over_heads;
    double eps = family_.norm_eps;
    if (family_.reads_norm_eps) HYDRANT_RETURN_IF_ERROR(root_.Read(fields.norm_eps, eps));
    config.norm_eps = static_cast<float>(eps);
    return absl::OkStatus();
  }

  absl::Status ReadExperts() {
    ModelConfig& config = result_.config;
    if (family_.experts == 0) return absl::OkStatus();
    config.experts = family_.experts;
    // transformers 5 writes the name that its classes have in common.
    for (const std::string_view key : {family_.fields.experts, kExpertsField}) {
      HYDRANT_RETURN_IF_ERROR(root_.Read(key, 1, kExpertsMax, config.experts));
    }
    config.experts_per_token = family_.experts_per_token;
    HYDRANT_RETURN_IF_ERROR(root_.Read(family_.fields.experts_per_token, kIntMin, kIntMax, config.experts_per_token));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.normalised_experts, config.normalised_experts));
    int32_t step = 1;
    HYDRANT_RETURN_IF_ERROR(root_.Read("decoder_sparse_step", kIntMin, kIntMax, step));
    if (step != 1) return root_.Find("decoder_sparse_step")->Error(step, " is not supported: every layer has experts");
    const auto plain = root_.Find("mlp_only_layers");
    if (plain && !(plain->IsArray() && plain->size() == 0)) {
      return plain->Error("is not supported: every layer has experts");
    }
    return absl::OkStatus();
  }

  absl::Status ReadHeads() {
    ModelConfig& config = result_.config;
    HYDRANT_RETURN_IF_ERROR(ReadAttentionScale());
    HYDRANT_RETURN_IF_ERROR(ReadSoftcap(family_.attention_softcap, config.attention_softcap));
    HYDRANT_RETURN_IF_ERROR(ReadSoftcap(family_.final_softcap, config.final_softcap));
    const ConfigFieldNames& fields = family_.fields;
    config.kv_heads = config.query_heads;
    if (family_.reads_kv_heads) {
      // null is how files say "as many as query heads"; silence may mean another number.
      if (family_.kv_heads > 0 && !root_.Has(fields.kv_heads)) config.kv_heads = family_.kv_heads;
      HYDRANT_RETURN_IF_ERROR(root_.Read(fields.kv_heads, kIntMin, kIntMax, config.kv_heads));
    }
    if (family_.reads_head_dim) {
      config.head_dim = family_.head_dim;
      HYDRANT_RETURN_IF_ERROR(root_.Read(fields.head_dim, kIntMin, kIntMax, config.head_dim));
      if (family_.head_dim > 0 || root_.Find(fields.head_dim)) return absl::OkStatus();
    }
    if (config.query_heads <= 0) return absl::OkStatus();  // ValidateModelConfig refuses it
    if (config.hidden % config.query_heads != 0) {
      return root_.Find(fields.query_heads)
          ->Error(config.query_heads, " does not divide the hidden size ", config.hidden);
    }
    config.head_dim = config.hidden / config.query_heads;
    return absl::OkStatus();
  }

  absl::Status ReadAttentionScale() {
    const std::string_view key = family_.attention_scalar_field;
    if (key.empty()) return absl::OkStatus();
    double scalar = family_.attention_scalar;
    HYDRANT_RETURN_IF_ERROR(root_.Read(key, scalar));
    if (!(scalar > 0)) return root_.Find(key)->Error(scalar, " is not above 0");
    result_.config.attention_scale = 1 / std::sqrt(scalar);
    return absl::OkStatus();
  }

  absl::Status ReadSoftcap(const HfNumber& field, float& out) const {
    if (field.name.empty()) return absl::OkStatus();
    double cap = root_.Has(field.name) ? 0 : field.value;
    HYDRANT_RETURN_IF_ERROR(root_.Read(field.name, cap));
    if (root_.Find(field.name) && !(cap > 0)) return root_.Find(field.name)->Error(cap, " is not above 0");
    out = static_cast<float>(cap);
    return absl::OkStatus();
  }

  absl::Status ReadFlag(const HfFlag& flag, bool& out) const {
    out = flag.value;
    return flag.name.empty() ? absl::OkStatus() : root_.Read(flag.name, out);
  }

  absl::Status ReadFlags() {
    ModelConfig& config = result_.config;
    config.gated = family_.gated;
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.tied, config.tied_embeddings));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.attention_bias, result_.expectation.attention_bias));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.mlp_bias, result_.expectation.mlp_bias));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.affine_norms, result_.expectation.affine_norms));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.parallel_residual, config.parallel_residual));
    bool pre_norm = true, without_final_norm = false;
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.pre_norm, pre_norm));
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.without_final_norm, without_final_norm));
    if (!pre_norm) config.norm_place = NormPlace::kAfterSum;
    config.final_norm = pre_norm && !without_final_norm;
    return absl::OkStatus();
  }

  absl::Status ReadActivation() {
    std::string_view name = family_.activation;
    const auto field = root_.Find(family_.activation_field);
    if (field) {
      HYDRANT_ASSIGN_OR_RETURN(name, field->String());
    }
    const auto* known =
        std::find_if(std::begin(kActivations), std::end(kActivations), [&](const auto& a) { return a.first == name; });
    if (known == std::end(kActivations)) return field->Error("activation ", Quoted(name), " is not supported");
    result_.config.activation = known->second;
    if (family_.clamps_gates) {
      if (known->second != Activation::kSilu)
        return field->Error("activation ", Quoted(name), " is not supported here");
      result_.config.activation = Activation::kClampedSwish;
    }
    return absl::OkStatus();
  }

  absl::Status ReadPositions() {
    ModelConfig& config = result_.config;
    if (family_.position_offset < 0) return ReadHfRope(root_, family_, config);
    config.position_offset = family_.position_offset;
    // A context that overflows is refused by ValidateModelConfig.
    config.position_rows =
        static_cast<int32_t>(std::clamp<int64_t>(int64_t{config.context} + family_.position_offset, 1, kIntMax));
    return absl::OkStatus();
  }

  absl::Status ReadUnrotatedLayers() {
    int32_t period = family_.unrotated_period;
    if (period == 0) return absl::OkStatus();
    HYDRANT_RETURN_IF_ERROR(root_.Read("no_rope_layer_interval", 1, kIntMax, period));
    std::vector<bool> rotated = AllButEvery(period, result_.config.layers);
    if (const auto list = root_.Find("no_rope_layers")) {
      if (list->size() < rotated.size()) {
        return list->Error("has ", list->size(), " entries for ", rotated.size(), " layers");
      }
      for (size_t i = 0; i < rotated.size(); ++i) {
        HYDRANT_ASSIGN_OR_RETURN(const int64_t flag, (*list)[i].Int(0, 1));
        rotated[i] = flag != 0;
      }
    }
    result_.config.unrotated_layers = std::move(rotated);
    result_.config.unrotated_layers.flip();
    return absl::OkStatus();
  }

  // [layers]: the layers' own words, else the family's rule.
  absl::StatusOr<std::vector<bool>> WindowedLayers() const {
    const size_t layers = LayersToList(result_.config.layers);
    std::vector<bool> windowed(layers, family_.has_window);
    const bool ruled = family_.reads_layer_types || family_.max_window_layers > 0 || family_.window_period > 0 ||
                       family_.unrotated_period > 0;
    if (const auto kinds = root_.Find("layer_types")) {
      if (ruled && kinds->size() != layers) {
        return kinds->Error("has ", kinds->size(), " entries for ", layers, " layers");
      }
      for (size_t i = 0; i < kinds->size(); ++i) {
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view kind, (*kinds)[i].String());
        if (kind != "full_attention" && kind != "sliding_attention") {
          return (*kinds)[i].Error(Quoted(kind), " is not supported (full_attention and sliding_attention are)");
        }
        // Where a family has no rule of its own, transformers goes by the window alone.
        if (ruled) windowed[i] = kind == "sliding_attention";
      }
      return windowed;
    }
    if (int32_t period = family_.window_period; period > 0) {
      HYDRANT_RETURN_IF_ERROR(root_.Read("sliding_window_pattern", 1, kIntMax, period));
      HYDRANT_RETURN_IF_ERROR(root_.Read("_sliding_window_pattern", 1, kIntMax, period));
      return AllButEvery(period, result_.config.layers);
    }
    if (family_.unrotated_period > 0) return result_.config.unrotated_layers;
    if (int32_t full_layers = family_.max_window_layers; full_layers > 0) {
      HYDRANT_RETURN_IF_ERROR(root_.Read("max_window_layers", 0, kIntMax, full_layers));
      std::fill_n(windowed.begin(), std::min(layers, static_cast<size_t>(full_layers)), false);
    }
    return windowed;
  }

  absl::Status ReadWindow() {
    ModelConfig& config = result_.config;
    HYDRANT_ASSIGN_OR_RETURN(std::vector<bool> windowed, WindowedLayers());
    bool uses_window = family_.has_window;
    HYDRANT_RETURN_IF_ERROR(ReadFlag(family_.uses_window, uses_window));
    constexpr std::string_view kField = "sliding_window";
    int32_t window = root_.Has(kField) ? 0 : family_.window;  // null: none
    HYDRANT_RETURN_IF_ERROR(root_.Read(kField, 1, kIntMax, window));
    const bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
    if (any && uses_window && window > 0) config.window = window;
    // Layers that rotate in another way do so without a window, too.
    if (config.window != kNoWindow || !config.windowed_inv_freq.empty()) config.windowed_layers = std::move(windowed);
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

  // What the configuration class says counts where both files are silent, and not where one says "none".
  void UseDefaultIds() {
    ModelConfig& config = result_.config;
    if (!root_.Has(family_.fields.bos_id) && config.bos_id < 0 && family_.bos_id < config.vocab) {
      config.bos_id = family_.bos_id;
    }
    const bool silent = config.eos_ids.empty() && !root_.Has(family_.fields.eos_id);
    if (silent && family_.eos_id >= 0 && family_.eos_id < config.vocab) config.eos_ids.push_back(family_.eos_id);
  }

  absl::Status ReadGenerationDefaults(const JsonValue& generation) {
    GenerationDefaults& defaults = result_.generation_defaults;
    HYDRANT_RETURN_IF_ERROR(generation.Read("max_new_tokens", 1, kIntMax, defaults.max_new_tokens));
    bool samples = false;
    HYDRANT_RETURN_IF_ERROR(generation.Read("do_sample", samples));
    // Without do_sample transformers decodes greedily whatever else the file says; then it has no say here either.
    if (!samples) return absl::OkStatus();
    // As far as transformers' logits processors go: what they refuse when they are made is refused here. -1 is no way to write
    // "none"; null is. A temperature of 0, which transformers refuses and vLLM serves, is greedy, as in a request.
    HYDRANT_RETURN_IF_ERROR(ReadInRange(generation, "temperature", 0, 1e6, defaults.temperature));
    HYDRANT_RETURN_IF_ERROR(ReadInRange(generation, "top_p", 0, 1, defaults.top_p));
    HYDRANT_RETURN_IF_ERROR(ReadInRange(generation, "min_p", 0, 1, defaults.min_p));
    HYDRANT_RETURN_IF_ERROR(generation.Read("top_k", 0, kIntMax, defaults.top_k));
    // As far as a request may go (api/request/sampling_fields.cc).
    return ReadInRange(generation, "repetition_penalty", 1e-3, 10, defaults.repetition_penalty);
  }

  static absl::Status ReadInRange(const JsonValue& from, std::string_view key, double min, double max, double& out) {
    const auto field = from.Find(key);
    if (!field) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(const double value, field->Number());
    if (!(value >= min && value <= max)) return field->Error(value, " is out of range [", min, ", ", max, "]");
    out = value;
    return absl::OkStatus();
  }

  JsonValue root_;
  const HfFamily& family_;
  HfConfig result_;
};

}  // namespace

absl::StatusOr<HfConfig> ReadHfConfig(const JsonValue& config, const JsonValue* generation,
                                      std::vector<std::string>& warnings) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue type_field, config.At("model_type"));
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, type_field.String());
  const std::span<const HfFamily> families = HfFamilies();
  const auto family =
      std::find_if(families.begin(), families.end(), [&](const HfFamily& f) { return f.model_type == type; });
  if (family == families.end()) {
    return type_field.Error(Quoted(type),
                            " is not supported; these are: ", Joined(families, ", ", &HfFamily::model_type));
  }
  for (const std::string_view key : {"auto_map", "trust_remote_code"}) {
    if (config.Find(key))
      warnings.push_back(StrCat("config.json: ", Quoted(key), ": is ignored; no code of a checkpoint is ever run"));
  }
  HYDRANT_ASSIGN_OR_RETURN(HfConfig result, HfReader(config, *family).Run(generation));
  HYDRANT_RETURN_IF_ERROR(ValidateModelConfig(result.config, "config.json", family->fields));
  return result;
}

}  // namespace hydrant
