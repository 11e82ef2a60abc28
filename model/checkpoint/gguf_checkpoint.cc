#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/gguf_architecture.h"
#include "model/config/rope_scaling.h"
#include "model/files/dequantize.h"
#include "model/files/file_error.h"
#include "model/files/gguf_file.h"
#include "model/files/gguf_parts.h"
#include "model/text/str_cat.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/gguf_tokenizer.h"

namespace hydrant {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";
constexpr std::string_view kShortRopeFactors = "rope_factors_short.weight";
constexpr std::string_view kLongRopeFactors = "rope_factors_long.weight";

// The metadata keys of one architecture.
struct GgufKeys {
  GgufKeys(std::string_view a, std::string_view norm_eps_key)
      : hidden(StrCat(a, ".embedding_length")),
        layers(StrCat(a, ".block_count")),
        query_heads(StrCat(a, ".attention.head_count")),
        kv_heads(StrCat(a, ".attention.head_count_kv")),
        key_length(StrCat(a, ".attention.key_length")),
        value_length(StrCat(a, ".attention.value_length")),
        ffn(StrCat(a, ".feed_forward_length")),
        vocab(StrCat(a, ".vocab_size")),
        context(StrCat(a, ".context_length")),
        norm_eps(StrCat(a, norm_eps_key)),
        parallel_residual(StrCat(a, ".use_parallel_residual")),
        sliding_window(StrCat(a, ".attention.sliding_window")),
        windowed_layers(StrCat(a, ".attention.sliding_window_pattern")),
        attention_softcap(StrCat(a, ".attn_logit_softcapping")),
        final_softcap(StrCat(a, ".final_logit_softcapping")),
        experts(StrCat(a, ".expert_count")),
        experts_used(StrCat(a, ".expert_used_count")),
        experts_ffn(StrCat(a, ".expert_feed_forward_length")),
        experts_shared(StrCat(a, ".expert_shared_count")),
        experts_scale(StrCat(a, ".expert_weights_scale")),
        experts_gating(StrCat(a, ".expert_gating_func")),
        rope_dims(StrCat(a, ".rope.dimension_count")),
        rope_theta(StrCat(a, ".rope.freq_base")),
        windowed_theta(StrCat(a, ".rope.freq_base_swa")),
        rope_kind(StrCat(a, ".rope.scaling.type")),
        rope_factor(StrCat(a, ".rope.scaling.factor")),
        rope_factor_old(StrCat(a, ".rope.scale_linear")),
        rope_attention_factor(StrCat(a, ".rope.scaling.attn_factor")),
        rope_original_context(StrCat(a, ".rope.scaling.original_context_length")),
        rope_beta_fast(StrCat(a, ".rope.scaling.yarn_beta_fast")),
        rope_beta_slow(StrCat(a, ".rope.scaling.yarn_beta_slow")) {}

  std::string hidden, layers, query_heads, kv_heads, key_length, value_length, ffn, vocab, context, norm_eps,
      parallel_residual, sliding_window, windowed_layers, attention_softcap, final_softcap, experts, experts_used,
      experts_ffn, experts_shared, experts_scale, experts_gating, rope_dims, rope_theta, windowed_theta, rope_kind,
      rope_factor, rope_factor_old, rope_attention_factor, rope_original_context, rope_beta_fast, rope_beta_slow;
};

// Tokens that end a turn or a text in the families that are read here. A file names one of them by its id, or three, where a
// model's own configuration has more: without the others an answer goes on behind its end.
constexpr std::string_view kEnds[] = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
                                      "<|end_of_text|>", "<end_of_turn>", "<|return|>", "<|call|>"};
// Phi's end of a turn. Between messages of one answer it is no end.
constexpr std::string_view kEndOfTurn = "<|end|>", kEndOfMessages = "<|return|>";

constexpr int64_t kFieldMin = std::numeric_limits<int32_t>::min();
constexpr int64_t kFieldMax = std::numeric_limits<int32_t>::max();

class GgufReader {
 public:
  GgufReader(const GgufParts& parts, const GgufArchitecture& architecture)
      : file_(parts.metadata()),
        tensors_(parts.tensors()),
        architecture_(architecture),
        keys_(architecture.name, architecture.norm_eps_key) {}

  absl::Status Read(Checkpoint& checkpoint) {
    HYDRANT_RETURN_IF_ERROR(ReadSizes(checkpoint.config));
    HYDRANT_RETURN_IF_ERROR(ReadExperts(checkpoint.config));
    HYDRANT_RETURN_IF_ERROR(RefuseUnsupported(checkpoint.config));
    HYDRANT_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadGgufTokenizer(file_, checkpoint.warnings));
    HYDRANT_RETURN_IF_ERROR(ReadVocabulary(spec, checkpoint.config));
    HYDRANT_RETURN_IF_ERROR(ReadRope(checkpoint.config));
    HYDRANT_RETURN_IF_ERROR(ReadWindow(checkpoint.config));
    const ConfigFieldNames names{keys_.hidden,
                                 keys_.layers,
                                 keys_.query_heads,
                                 keys_.kv_heads,
                                 keys_.key_length,
                                 keys_.ffn,
                                 keys_.vocab,
                                 keys_.context,
                                 keys_.norm_eps,
                                 keys_.rope_dims,
                                 "tokenizer.ggml.bos_token_id",
                                 "tokenizer.ggml.eos_token_id",
                                 "",
                                 keys_.experts,
                                 keys_.experts_used};
    HYDRANT_RETURN_IF_ERROR(ValidateModelConfig(checkpoint.config, file_.name(), names));
    checkpoint.config.tied_embeddings = FindTensor("output.weight") == nullptr;
    HYDRANT_ASSIGN_OR_RETURN(checkpoint.tensors, TensorTable::Bind(Naming(checkpoint.config), checkpoint.config, {},
                                                                   file_.name(), tensors_, checkpoint.warnings));
    checkpoint.config.stored_dtype = checkpoint.tensors.stored_dtype();
    if (HasQuantised(checkpoint.tensors, checkpoint.config)) checkpoint.quantization = Quantization::kGguf;
    spec.control_ids = checkpoint.config.control_ids();
    HYDRANT_ASSIGN_OR_RETURN(checkpoint.tokenizer, BpeTokenizer::Create(spec, checkpoint.config.vocab));
    HYDRANT_ASSIGN_OR_RETURN(const auto chat_template, file_.String("tokenizer.chat_template"));
    checkpoint.chat_template = std::string(chat_template.value_or(""));
    HYDRANT_ASSIGN_OR_RETURN(const auto tool_use_template, file_.String("tokenizer.chat_template.tool_use"));
    checkpoint.tool_use_template = std::string(tool_use_template.value_or(""));
    return absl::OkStatus();
  }

 private:
  const RawTensor* FindTensor(std::string_view name) const {
    for (const RawTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

  // A 32-bit integer; the range that makes sense is ValidateModelConfig's affair.
  absl::Status Number(std::string_view key, std::optional<int32_t> fallback, int32_t& out) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto value, file_.Int(key, kFieldMin, kFieldMax));
    if (!value && !fallback) return FileError(file_.name(), Quoted(key), "is missing");
    out = value ? static_cast<int32_t>(*value) : *fallback;
    return absl::OkStatus();
  }

  absl::Status ReadSizes(ModelConfig& config) const {
    config.norm = architecture_.norm;
    config.activation = architecture_.activation;
    config.gated = architecture_.gated;
    config.norm_place = architecture_.norm_place;
    config.norms_over_heads = architecture_.norms_over_heads;
    HYDRANT_ASSIGN_OR_RETURN(const auto parallel, file_.Bool(keys_.parallel_residual));
    if (!parallel && architecture_.says_parallel) {
      return FileError(file_.name(), Quoted(keys_.parallel_residual), "is missing");
    }
    config.parallel_residual = parallel.value_or(false);
    HYDRANT_RETURN_IF_ERROR(Number(keys_.hidden, {}, config.hidden));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.layers, {}, config.layers));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.query_heads, {}, config.query_heads));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.kv_heads, config.query_heads, config.kv_heads));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.ffn, {}, config.ffn));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.context, {}, config.context));
    if (architecture_.scales_embedding) {
      config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(std::max(config.hidden, 0))));
    }
    if (architecture_.layers_scaled_by_width == config.layers && config.query_heads > 0 && config.hidden > 0) {
      config.attention_scale = std::sqrt(static_cast<double>(config.query_heads) / config.hidden);
    }
    HYDRANT_RETURN_IF_ERROR(
        ReadSoftcap(keys_.attention_softcap, architecture_.attention_softcap, config.attention_softcap));
    HYDRANT_RETURN_IF_ERROR(ReadSoftcap(keys_.final_softcap, architecture_.final_softcap, config.final_softcap));
    HYDRANT_ASSIGN_OR_RETURN(const auto eps, file_.Float(keys_.norm_eps));
    if (!eps) return FileError(file_.name(), Quoted(keys_.norm_eps), "is missing");
    config.norm_eps = static_cast<float>(*eps);
    if (file_.Has(keys_.key_length)) return Number(keys_.key_length, {}, config.head_dim);
    if (config.query_heads <= 0) return absl::OkStatus();  // ValidateModelConfig refuses it
    if (config.hidden % config.query_heads != 0) {
      return FileError(file_.name(), Quoted(keys_.query_heads), config.query_heads, " does not divide the hidden size ",
                       config.hidden);
    }
    config.head_dim = config.hidden / config.query_heads;
    return absl::OkStatus();
  }

  const TensorNaming& Naming(const ModelConfig& config) const {
    return config.experts > 0 ? architecture_.experts_naming : architecture_.naming;
  }

  // Weights of a token's experts add up to 1 in these architectures; no key says so.
  absl::Status ReadExperts(ModelConfig& config) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto experts, file_.Int(keys_.experts, 0, kFieldMax));
    config.experts = static_cast<int32_t>(experts.value_or(0));
    if (Naming(config).names.empty()) {
      return FileError(file_.name(), Quoted(keys_.experts), config.experts, " is not supported for ",
                       architecture_.name);
    }
    if (config.experts == 0) return absl::OkStatus();
    config.normalised_experts = true;
    HYDRANT_RETURN_IF_ERROR(Number(keys_.experts_used, {}, config.experts_per_token));
    HYDRANT_RETURN_IF_ERROR(Number(keys_.experts_ffn, config.ffn, config.ffn));
    HYDRANT_ASSIGN_OR_RETURN(const auto shared, file_.Int(keys_.experts_shared, 0, kFieldMax));
    if (shared.value_or(0) > 0) return FileError(file_.name(), Quoted(keys_.experts_shared), "is not supported");
    HYDRANT_ASSIGN_OR_RETURN(const auto scale, file_.Float(keys_.experts_scale));
    if (scale.value_or(0) != 0 && *scale != 1) {
      return FileError(file_.name(), Quoted(keys_.experts_scale), *scale, " is not supported");
    }
    // 1 is softmax. 3 is one over the chosen experts alone: the same weights, since they add up to 1 either way.
    HYDRANT_ASSIGN_OR_RETURN(const auto gating, file_.Int(keys_.experts_gating, 0, kFieldMax));
    if (gating.value_or(1) > 1 && *gating != 3) {
      return FileError(file_.name(), Quoted(keys_.experts_gating), *gating, " is not supported");
    }
    return absl::OkStatus();
  }

  absl::Status ReadSoftcap(std::string_view key, double unsaid, float& out) const {
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(key, unsaid));
    out = static_cast<float>(unsaid);
    return absl::OkStatus();
  }

  absl::Status RefuseUnsupported(const ModelConfig& config) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto value_length, file_.Int(keys_.value_length, kFieldMin, kFieldMax));
    if (value_length && *value_length != config.head_dim) {
      return FileError(file_.name(), Quoted(keys_.value_length), *value_length, " differs from the ", config.head_dim,
                       " of keys");
    }
    return absl::OkStatus();
  }

  // The embedding table has the last word on the vocabulary's size; what the metadata says must fit it.
  absl::Status ReadVocabulary(const TokenizerSpec& spec, ModelConfig& config) const {
    const RawTensor* embedding = FindTensor("token_embd.weight");
    if (embedding == nullptr) return FileError(file_.name(), "tensor 'token_embd.weight'", "is missing");
    const int64_t rows = embedding->shape.front();
    HYDRANT_ASSIGN_OR_RETURN(const auto vocab, file_.Int(keys_.vocab, kFieldMin, kFieldMax));
    if (vocab && *vocab != rows) {
      return FileError(file_.name(), Quoted(keys_.vocab), *vocab, " differs from the ", rows,
                       " rows of 'token_embd.weight'");
    }
    if (static_cast<int64_t>(spec.pieces.size()) > rows) {
      return FileError(file_.name(), "'tokenizer.ggml.tokens'", spec.pieces.size(), " tokens for the ", rows,
                       " rows of 'token_embd.weight'");
    }
    config.vocab = static_cast<int32_t>(std::min<int64_t>(rows, kFieldMax));
    HYDRANT_ASSIGN_OR_RETURN(const auto bos, file_.Int("tokenizer.ggml.bos_token_id", 0, config.vocab - 1));
    config.bos_id = static_cast<int32_t>(bos.value_or(-1));
    HYDRANT_RETURN_IF_ERROR(file_.Int("tokenizer.ggml.padding_token_id", 0, config.vocab - 1).status());
    for (const std::string_view key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      HYDRANT_ASSIGN_OR_RETURN(const auto id, file_.Int(key, 0, config.vocab - 1));
      if (id && std::find(config.eos_ids.begin(), config.eos_ids.end(), *id) == config.eos_ids.end()) {
        config.eos_ids.push_back(static_cast<int32_t>(*id));
      }
    }
    const bool has_messages = std::ranges::find(spec.added, kEndOfMessages, &AddedToken::content) != spec.added.end();
    for (const AddedToken& token : spec.added) {
      const bool ends =
          std::ranges::find(kEnds, token.content) != std::end(kEnds) || (token.content == kEndOfTurn && !has_messages);
      if (ends && std::ranges::find(config.eos_ids, token.id) == config.eos_ids.end())
        config.eos_ids.push_back(token.id);
    }
    return absl::OkStatus();
  }

  absl::Status OptionalFloat(std::string_view key, double& out) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto value, file_.Float(key));
    if (value) out = *value;
    return absl::OkStatus();
  }

  absl::Status ReadRope(ModelConfig& config) const {
    HYDRANT_RETURN_IF_ERROR(Number(keys_.rope_dims, config.head_dim, config.rope_dims));
    if (Naming(config).interleaved_qk && config.rope_dims != config.head_dim) {
      return FileError(file_.name(), Quoted(keys_.rope_dims), "partial interleaved rotation (", config.rope_dims,
                       " of ", config.head_dim, ") is not supported");
    }
    RopeScaling scaling;
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_theta, scaling.theta));
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_factor_old, scaling.factor));
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_factor, scaling.factor));
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_beta_fast, scaling.beta_fast));
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_beta_slow, scaling.beta_slow));
    HYDRANT_ASSIGN_OR_RETURN(const auto original, file_.Int(keys_.rope_original_context, 0, kFieldMax));
    scaling.original_context = static_cast<double>(original.value_or(config.context));
    HYDRANT_ASSIGN_OR_RETURN(const auto kind, file_.String(keys_.rope_kind));
    HYDRANT_ASSIGN_OR_RETURN(const auto attention, file_.Float(keys_.rope_attention_factor));
    const bool lists = FindTensor(kShortRopeFactors) != nullptr || FindTensor(kLongRopeFactors) != nullptr;
    if (lists && (!kind || kind == "longrope" || kind == "none")) {
      scaling.kind = RopeKind::kLongRope;
      scaling.attention_factor = attention.value_or(1);
      HYDRANT_ASSIGN_OR_RETURN(scaling.short_factors, RopeFactors(kShortRopeFactors, config.rope_dims));
      HYDRANT_ASSIGN_OR_RETURN(scaling.long_factors, RopeFactors(kLongRopeFactors, config.rope_dims));
    } else if (attention && *attention != 1) {
      // It multiplies the one YaRN computes.
      return FileError(file_.name(), Quoted(keys_.rope_attention_factor), *attention, " is not supported");
    } else if (kind == "yarn") {
      scaling.kind = RopeKind::kYarn;
      scaling.truncate = architecture_.rounds_yarn;
    } else if (kind == "linear" || (!kind && scaling.factor != 1)) {
      scaling.kind = RopeKind::kLinear;
    } else if (kind && kind != "none") {
      return FileError(file_.name(), Quoted(keys_.rope_kind), Quoted(*kind),
                       " is not supported (none, linear and yarn are)");
    }
    HYDRANT_RETURN_IF_ERROR(ApplyRopeScaling(scaling, file_.name(), Quoted(keys_.rope_theta), config));
    if (architecture_.unrotated_period > 0) {
      config.unrotated_layers = AllButEvery(architecture_.unrotated_period, config.layers);
      config.unrotated_layers.flip();
    }
    return DivideByRopeFactors(config);
  }

  absl::Status ReadWindow(ModelConfig& config) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto window, file_.Int(keys_.sliding_window, 0, kFieldMax));
    config.window = static_cast<int32_t>(window.value_or(architecture_.window));
    if (config.window == 0) {
      config.window = kNoWindow;
      return absl::OkStatus();
    }
    HYDRANT_ASSIGN_OR_RETURN(config.windowed_layers, WindowedLayers(config.layers));
    if (!architecture_.windowed_rope) return absl::OkStatus();
    double theta = RopeScaling().theta;
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.rope_theta, theta));
    if (architecture_.windowed_theta > 0) theta = architecture_.windowed_theta;
    HYDRANT_RETURN_IF_ERROR(OptionalFloat(keys_.windowed_theta, theta));
    HYDRANT_ASSIGN_OR_RETURN(config.windowed_inv_freq,
                             PlainFrequencies(theta, config.rope_dims, file_.name(), Quoted(keys_.windowed_theta)));
    return absl::OkStatus();
  }

  // [layers]: the key is a list of them or a period.
  absl::StatusOr<std::vector<bool>> WindowedLayers(int32_t layers) const {
    std::vector<bool> windowed(LayersToList(layers), true);
    if (architecture_.window_period == 0) return windowed;
    if (file_.IsArray(keys_.windowed_layers)) {
      HYDRANT_ASSIGN_OR_RETURN(const auto listed, file_.Bools(keys_.windowed_layers, windowed.size()));
      if (listed->size() != windowed.size()) {
        return FileError(file_.name(), Quoted(keys_.windowed_layers), "has ", listed->size(), " entries for ",
                         windowed.size(), " layers");
      }
      return *listed;
    }
    HYDRANT_ASSIGN_OR_RETURN(const auto period, file_.Int(keys_.windowed_layers, 1, kFieldMax));
    return AllButEvery(static_cast<int32_t>(period.value_or(architecture_.window_period)), layers);
  }

  // Llama 3.1 and later: the scaling is stored as one divisor per frequency.
  absl::Status DivideByRopeFactors(ModelConfig& config) const {
    if (FindTensor(kRopeFactors) == nullptr) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(const std::vector<double> divisors, RopeFactors(kRopeFactors, config.rope_dims));
    for (size_t i = 0; i < config.rope_inv_freq.size(); ++i) config.rope_inv_freq[i] /= divisors[i];
    return absl::OkStatus();
  }

  // A divisor per frequency.
  absl::StatusOr<std::vector<double>> RopeFactors(std::string_view name, int32_t rope_dims) const {
    const std::string what = "tensor " + Quoted(name);
    const RawTensor* tensor = FindTensor(name);
    if (tensor == nullptr) return FileError(file_.name(), what, "is missing");
    const auto count = static_cast<size_t>(std::clamp(rope_dims, 0, 1 << 16) / 2);  // before ValidateModelConfig
    if (tensor->format != WeightFormat::kF32 || tensor->shape != std::vector<int64_t>{static_cast<int64_t>(count)}) {
      return FileError(file_.name(), what, "is not a vector of ", count, " F32 elements");
    }
    std::vector<float> divisors(count);
    DequantizeRow(tensor->format, tensor->data.data(), static_cast<int64_t>(count), divisors.data());
    for (size_t i = 0; i < count; ++i) {
      if (!(divisors[i] > 0) || !std::isfinite(divisors[i]))
        return FileError(file_.name(), what, "element ", i, " is ", divisors[i]);
    }
    return std::vector<double>(divisors.begin(), divisors.end());
  }

  const GgufFile& file_;
  const std::vector<RawTensor>& tensors_;
  const GgufArchitecture& architecture_;
  GgufKeys keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> ReadGgufCheckpoint(const std::string& path) {
  auto checkpoint = std::make_unique<Checkpoint>();
  HYDRANT_ASSIGN_OR_RETURN(GgufParts parts, GgufParts::Open(path));
  const GgufFile& file = parts.metadata();
  HYDRANT_ASSIGN_OR_RETURN(const auto named, file.String("general.architecture"));
  if (!named) return FileError(file.name(), "'general.architecture'", "is missing");
  for (const GgufArchitecture& architecture : GgufArchitectures()) {
    if (architecture.name != *named) continue;
    HYDRANT_RETURN_IF_ERROR(GgufReader(parts, architecture).Read(*checkpoint));
    checkpoint->files = std::move(parts).TakeFiles();
    return checkpoint;
  }
  return FileError(file.name(), "'general.architecture'", Quoted(*named),
                   " is not supported; these are: ", Joined(GgufArchitectures(), ", ", &GgufArchitecture::name));
}

}  // namespace hydrant
