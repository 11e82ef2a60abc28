#include "tests/model/checkpoint/family_checkpoint.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include "kernels/reference/reference.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/golden_file.h"
#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;

// Element `index` of a tensor in [-1, 1): `values` of make_family_goldens.py.
double Fraction(const std::string& tensor, uint64_t index) {
  uint64_t state = 0xCBF29CE484222325u;
  for (const char c : tensor) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  uint64_t z = state + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return static_cast<double>(z >> 40) / 0x1p23 - 1.0;
}

uint16_t F16Bits(float x) {
  const double rounded = std::abs(reference::RoundTo(DType::kF16, x));
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  int exponent = 0;
  const double fraction = std::frexp(rounded, &exponent);  // in [0.5, 1)
  if (exponent < -13) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(rounded, 24)));
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) |
                               (static_cast<uint16_t>(std::ldexp(fraction, 11)) & 0x3FF));
}

uint16_t Bf16Bits(float x) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(reference::RoundTo(DType::kBF16, x))) >> 16);
}

// Codes and scales of MXFP4 are bytes whatever the rest is stored as.
bool IsBytes(const std::string& tensor) { return tensor.ends_with("_blocks") || tensor.ends_with("_scales"); }

std::string Stored(const std::vector<float>& values, const std::string& dtype) {
  std::string data;
  if (dtype == "U8") {
    for (const float x : values) data += static_cast<char>(static_cast<uint8_t>(std::floor(x)));
    return data;
  }
  for (const float x : values) data += dtype == "F32" ? Raw(x) : Raw(dtype == "F16" ? F16Bits(x) : Bf16Bits(x));
  return data;
}

int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

constexpr uint32_t kGgufMxfp4 = 39;

// What llama.cpp's converter calls the tensors of config.json's family.
const std::map<std::string, std::string>& GgufNames() {
  static const std::map<std::string, std::string> names = {
      {"model.embed_tokens", "token_embd"},
      {"lm_head", "output"},
      {"model.norm", "output_norm"},
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.gate", "ffn_gate_inp"},
      {"mlp.router", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
      {"gpt_neox.embed_in", "token_embd"},
      {"embed_out", "output"},
      {"gpt_neox.final_layer_norm", "output_norm"},
      {"attention.query_key_value", "attn_qkv"},
      {"attention.dense", "attn_output"},
      {"mlp.dense_h_to_4h", "ffn_up"},
      {"mlp.dense_4h_to_h", "ffn_down"},
  };
  return names;
}

// Where layers have norms of what they add, one of them has another name than elsewhere.
const std::map<std::string, std::string>& OutNormNames() {
  static const std::map<std::string, std::string> names = {
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
  };
  return names;
}

// "model.layers.1.mlp.up_proj.weight" -> "blk.1.ffn_up.weight"
std::string GgufName(const std::string& name, bool norms_outputs) {
  const size_t dot = name.rfind('.');
  std::string stem = name.substr(0, dot), prefix;
  if (const size_t layers = stem.find(".layers."); layers != stem.npos) {
    const size_t number = layers + 8, end = stem.find('.', number);
    prefix = "blk." + stem.substr(number, end - number) + ".";
    stem = stem.substr(end + 1);
  }
  if (name.ends_with(".sinks")) return prefix + "attn_sinks.weight";
  const auto norm = OutNormNames().find(stem);
  const bool named = norms_outputs && norm != OutNormNames().end();
  return prefix + (named ? norm->second : GgufNames().at(stem)) + name.substr(dot);
}

// What a tensor of one expert is for; the names of Mixtral's are its own.
enum class ExpertPart { kNone, kGate, kUp, kDown };

ExpertPart ExpertPartOf(const std::string& name) {
  if (name.find(".experts.") == name.npos) return ExpertPart::kNone;
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  if (has(".gate_proj.") || has(".w1.")) return ExpertPart::kGate;
  return has(".up_proj.") || has(".w3.") ? ExpertPart::kUp : ExpertPart::kDown;
}

// The part of a name that its layer's tensors begin with.
std::string LayerPrefix(const std::string& name) {
  const size_t number = name.find(".layers.") + 8;
  return name.substr(0, name.find('.', number) + 1);
}

// A tensor of one expert becomes part of one that all experts of its layer share. They come one after the other, gates before up
// projections.
void AddFused(const TestTensor& one, std::vector<TestTensor>& tensors) {
  const ExpertPart part = ExpertPartOf(one.name);
  const bool both = part != ExpertPart::kDown;
  const std::string name = LayerPrefix(one.name) + (both ? "mlp.experts.gate_up_proj" : "mlp.experts.down_proj");
  auto all =
      std::find_if(tensors.begin(), tensors.end(), [&](const TestTensor& tensor) { return tensor.name == name; });
  if (all == tensors.end()) {
    tensors.push_back({name, one.dtype, {0, one.shape[0] * (both ? 2 : 1), one.shape[1]}, {}});
    all = tensors.end() - 1;
  }
  if (part != ExpertPart::kUp) ++all->shape[0];
  all->data += one.data;
}

// `values` [rows, cols] with row `order(row)` in place of row `row`.
template <typename Order>
std::vector<float> Reordered(const std::vector<float>& values, int64_t rows, Order order) {
  const int64_t cols = std::ssize(values) / rows;
  std::vector<float> out;
  for (int64_t row = 0; row < rows; ++row) {
    const auto from = values.begin() + order(row) * cols;
    out.insert(out.end(), from, from + cols);
  }
  return out;
}

}  // namespace

FamilyCheckpoint::FamilyCheckpoint(const std::string& name)
    : golden_(ReadJson(SourceDir() + "/tests/golden/families/" + name + ".json")) {}

std::vector<float> FamilyCheckpoint::Values(const std::string& tensor) const {
  for (const json& entry : golden_.at("tensors")) {
    if (entry[0] != tensor) continue;
    std::vector<float> values(static_cast<size_t>(Count(entry[1].get<std::vector<int64_t>>())));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(entry[3].get<double>() + entry[2].get<double>() * Fraction(tensor, i));
    }
    return values;
  }
  throw std::out_of_range(tensor);
}

void FamilyCheckpoint::WriteTo(const std::string& directory, const std::string& dtype, size_t shards,
                               bool fused_experts) const {
  std::ofstream(directory + "/config.json") << golden_.at("config").dump();
  std::ofstream(directory + "/tokenizer.json") << TinyTokenizerJson().dump();
  std::vector<std::vector<TestTensor>> parts(shards);
  json map = json::object();
  size_t next = 0;
  for (const json& entry : golden_.at("tensors")) {
    const auto name = entry[0].get<std::string>();
    const size_t shard = next++ % shards;
    const std::string stored_as = IsBytes(name) ? "U8" : dtype;
    TestTensor tensor = {name, stored_as, entry[1].get<std::vector<int64_t>>(), Stored(Values(name), stored_as)};
    if (fused_experts && ExpertPartOf(name) != ExpertPart::kNone) {
      AddFused(tensor, parts[shard]);
      continue;
    }
    parts[shard].push_back(std::move(tensor));
    map[name] = "model-" + std::to_string(shard) + ".safetensors";
  }
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string file = shards == 1 ? "model.safetensors" : "model-" + std::to_string(shard) + ".safetensors";
    std::ofstream(directory + "/" + file, std::ios::binary) << SafetensorsBytes(parts[shard]);
  }
  if (shards > 1) std::ofstream(directory + "/model.safetensors.index.json") << json{{"weight_map", map}}.dump();
}

// Those of gpt-oss: columns become rows, gates and up projections that take turns tensors of their own.
void FamilyCheckpoint::AddGptOssExperts(const std::string& name, const std::vector<int64_t>& shape,
                                        GgufBuilder& file) const {
  if (name.ends_with("_scales")) return;  // with their blocks
  const bool packed = name.ends_with("_blocks"), bias = name.ends_with("_bias");
  const bool both = name.find("gate_up_proj") != name.npos;
  const std::string layer = "blk." + name.substr(name.find(".layers.") + 8, 1) + ".ffn_";
  const int64_t experts = shape[0], rows = packed || bias ? shape[1] : shape[2];
  const int64_t cols = bias ? 1 : packed ? shape[2] * 32 : shape[1];
  const std::vector<float> values = Values(name);
  const std::vector<float> scales = packed ? Values(name.substr(0, name.size() - 7) + "_scales") : std::vector<float>();
  const auto row_data = [&](int64_t expert, int64_t row) {
    std::vector<float> elements;
    if (bias) elements.push_back(values[static_cast<size_t>(expert * rows + row)]);
    for (int64_t col = 0; !bias && !packed && col < cols; ++col) {
      elements.push_back(values[static_cast<size_t>((expert * cols + col) * rows + row)]);
    }
    std::string data = Stored(elements, "F32");
    for (int64_t block = 0; packed && block < shape[2]; ++block) {
      const int64_t at = (expert * rows + row) * shape[2] + block;
      const auto code = [&](int64_t i) {
        return static_cast<int>(std::floor(values[static_cast<size_t>(at * 16 + i / 2)])) >> i % 2 * 4 & 15;
      };
      data += static_cast<char>(static_cast<uint8_t>(std::floor(scales[static_cast<size_t>(at)])));
      for (int64_t i = 0; i < 16; ++i) data += static_cast<char>(static_cast<uint8_t>(code(i) | code(i + 16) << 4));
    }
    return data;
  };
  for (const char* part : {"gate", "up", "down"}) {
    if (both == (std::string(part) == "down")) continue;
    const int64_t first = std::string(part) == "up" ? 1 : 0, step = both ? 2 : 1;
    std::string data;
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (int64_t row = first; row < rows; row += step) data += row_data(expert, row);
    }
    std::vector<uint64_t> dims = {static_cast<uint64_t>(rows / step), static_cast<uint64_t>(experts)};
    if (!bias) dims.insert(dims.begin(), static_cast<uint64_t>(cols));
    const std::string stored = layer + part + (bias ? "_exps.bias" : "_exps.weight");
    file.At(stored) = {stored, dims, packed ? kGgufMxfp4 : GgufBuilder::kF32, data};
  }
}

void FamilyCheckpoint::AddToGguf(const std::string& name, const std::vector<int64_t>& shape, GgufBuilder& file) const {
  const json& config = golden_.at("config");
  const int64_t heads = config.at("num_attention_heads").get<int64_t>();
  const json stated = config.value("head_dim", json());  // null in some families
  const int64_t head_dim = stated.is_number() ? stated.get<int64_t>() : config.at("hidden_size").get<int64_t>() / heads;
  const int64_t rows = shape[0];
  const std::string type = config.at("model_type").get<std::string>();
  if (type == "gpt_oss" && name.find(".experts.") != name.npos) return AddGptOssExperts(name, shape, file);
  std::vector<float> values = Values(name);
  if (name.find("query_key_value") != name.npos) {
    // Head by head q, k, v -> all of q, all of k, all of v.
    values = Reordered(values, rows, [&](int64_t row) {
      const int64_t part = row / (heads * head_dim), in_part = row % (heads * head_dim);
      return (in_part / head_dim * 3 + part) * head_dim + in_part % head_dim;
    });
  }
  const bool rotated = name.find("q_proj") != name.npos || name.find("k_proj") != name.npos;
  if (rotated && (type == "llama" || type == "mistral" || type == "mixtral" || type == "smollm3")) {
    // Rotary pairs side by side.
    values = Reordered(values, rows, [&](int64_t row) {
      const int64_t in_head = row % head_dim;
      return row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
    });
  }
  if (const ExpertPart part = ExpertPartOf(name); part != ExpertPart::kNone) {
    const size_t number = LayerPrefix(name).size();
    const char* stem = part == ExpertPart::kGate ? "gate" : part == ExpertPart::kUp ? "up" : "down";
    const std::string layer = name.substr(name.find(".layers.") + 8, number - name.find(".layers.") - 8);
    const std::string stored = "blk." + layer + "ffn_" + stem + "_exps.weight";
    GgufBuilder::Tensor& all = file.At(stored);
    const uint64_t before = all.dims.empty() ? 0 : all.dims[2];
    all = {stored,
           {static_cast<uint64_t>(shape[1]), static_cast<uint64_t>(rows), before + 1},
           GgufBuilder::kF32,
           all.data + Stored(values, "F32")};
    return;
  }
  const bool gemma = type.starts_with("gemma");
  if (gemma && name.find("norm") != name.npos) {
    for (float& value : values) value += 1;
  }
  const std::vector<uint64_t> dims(shape.rbegin(), shape.rend());
  const std::string stored = GgufName(name, gemma || type.starts_with("olmo") || type == "gpt_oss");
  file.At(stored) = {stored, dims, GgufBuilder::kF32, Stored(values, "F32")};
}

GgufBuilder FamilyCheckpoint::Gguf() const {
  const json& config = golden_.at("config");
  const auto number = [&](const char* key) { return config.at(key).get<uint32_t>(); };
  std::string arch = config.at("model_type").get<std::string>();
  if (arch == "mistral" || arch == "mixtral") arch = "llama";
  if (arch == "qwen3_moe") arch = "qwen3moe";
  if (arch == "gpt_neox") arch = "gptneox";
  if (arch == "gemma3_text") arch = "gemma3";
  if (arch == "olmo3") arch = "olmo2";
  if (arch == "gpt_oss") arch = "gpt-oss";
  const bool neox = arch == "gptneox";
  const char* epsilon = neox ? "layer_norm_eps" : arch == "starcoder2" ? "norm_epsilon" : "rms_norm_eps";
  GgufBuilder file = TinyGguf();  // its tokenizer; the rest is replaced
  const std::vector<GgufBuilder::Tensor> tensors = file.tensors();
  for (const GgufBuilder::Tensor& tensor : tensors) file.RemoveTensor(tensor.name);
  for (const char* key :
       {"embedding_length", "block_count", "attention.head_count", "attention.head_count_kv", "feed_forward_length",
        "context_length", "attention.layer_norm_rms_epsilon", "rope.freq_base", "vocab_size"}) {
    file.Remove(std::string("llama.") + key);
  }
  arch += ".";
  file.SetText("general.architecture", arch.substr(0, arch.size() - 1))
      .Set(arch + "embedding_length", number("hidden_size"))
      .Set(arch + "block_count", number("num_hidden_layers"))
      .Set(arch + "attention.head_count", number("num_attention_heads"))
      .Set(arch + "feed_forward_length", number("intermediate_size"))
      .Set(arch + "context_length", number("max_position_embeddings"))
      .SetFloat(arch + (config.contains("rms_norm_eps") ? "attention.layer_norm_rms_epsilon"
                                                        : "attention.layer_norm_epsilon"),
                config.at(epsilon).get<float>());
  if (config.contains("num_experts_per_tok")) {
    file.Set(arch + "expert_count",
             config.contains("num_experts") ? number("num_experts") : number("num_local_experts"))
        .Set(arch + "expert_used_count", number("num_experts_per_tok"));
  }
  if (config.contains("moe_intermediate_size")) {
    file.Set(arch + "expert_feed_forward_length", number("moe_intermediate_size"));
  }
  const json& rope = config.at("rope_parameters");
  if (neox) {
    const double share = rope.at("partial_rotary_factor").get<double>();
    file.SetBool(arch + "use_parallel_residual", config.at("use_parallel_residual").get<bool>())
        .Set(arch + "rope.dimension_count",
             static_cast<uint32_t>(share * number("hidden_size") / number("num_attention_heads")));
  } else {
    const json& full = rope.contains("full_attention") ? rope.at("full_attention") : rope;
    file.Set(arch + "attention.head_count_kv", number("num_key_value_heads"))
        .SetFloat(arch + "rope.freq_base", full.at("rope_theta").get<float>());
    if (full.contains("partial_rotary_factor")) {
      const double share = full.at("partial_rotary_factor").get<double>();
      file.Set(arch + "rope.dimension_count",
               static_cast<uint32_t>(share * number("hidden_size") / number("num_attention_heads")));
    }
    const auto scaling = full.at("rope_type").get<std::string>();
    if (scaling == "linear" || scaling == "yarn") {
      file.SetText(arch + "rope.scaling.type", scaling)
          .SetFloat(arch + "rope.scaling.factor", full.at("factor").get<float>());
    }
    if (scaling == "yarn") {
      file.Set(arch + "rope.scaling.original_context_length",
               full.at("original_max_position_embeddings").get<uint32_t>());
    }
    const json window = config.value("sliding_window", json());
    if (window.is_number() && config.value("use_sliding_window", true)) {
      file.Set(arch + "attention.sliding_window", window.get<uint32_t>());
    }
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (arch == "gemma2.") file.SetFloat(arch + key, config.at(key).get<float>());
    }
    if (arch == "gemma3.") file.Set(arch + "attention.sliding_window_pattern", 2);
    if (arch == "olmo2." && window.is_number()) {
      std::vector<bool> windowed;
      for (const json& kind : config.at("layer_types")) windowed.push_back(kind == "sliding_attention");
      file.SetBools(arch + "attention.sliding_window_pattern", windowed);
    }
    if (config.value("head_dim", json()).is_number()) {
      file.Set(arch + "attention.key_length", number("head_dim"))
          .Set(arch + "attention.value_length", number("head_dim"))
          .Set(arch + "rope.dimension_count", number("head_dim"));
    }
  }
  for (const json& entry : golden_.at("tensors")) {
    AddToGguf(entry[0].get<std::string>(), entry[1].get<std::vector<int64_t>>(), file);
  }
  return file;
}

}  // namespace hydrant
