#include "tests/model/checkpoint/tiny_directory.h"

#include <cassert>
#include <fstream>
#include <random>

#include "tests/model/checkpoint/gguf_builder.h"

namespace hydrant {

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  return Raw<uint64_t>(header.size()) + header + data;
}

std::string SafetensorsBytes(const std::vector<TestTensor>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return SafetensorsBytes(header.dump(), data);
}

TestTensor RandomTensor(const std::string& name, const std::vector<int64_t>& shape) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::string data;
  for (int64_t i = 0; i < count; ++i) data += Raw(std::uniform_real_distribution<float>(-1, 1)(random));
  return {name, "F32", shape, data};
}

nlohmann::json TinyTokenizerJson() {
  nlohmann::json vocab = nlohmann::json::object();
  int32_t id = 0;
  for (const std::string& piece : ByteAlphabet()) vocab[piece] = id++;
  const auto special = [](int32_t token, const char* content) {
    return nlohmann::json{{"id", token},     {"content", content}, {"special", true},    {"single_word", false},
                          {"lstrip", false}, {"rstrip", false},    {"normalized", false}};
  };
  return {
      {"version", "1.0"},
      {"added_tokens", {special(256, "<s>"), special(257, "</s>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {256}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}},
  };
}

nlohmann::json GrowingTokenizerJson() {
  nlohmann::json tokenizer = TinyTokenizerJson();
  for (const nlohmann::json& added : tokenizer["added_tokens"]) {
    tokenizer["model"]["vocab"][added["content"].get<std::string>()] = added["id"];
  }
  return tokenizer;
}

TinyDirectory::TinyDirectory() : tokenizer(TinyTokenizerJson()) {
  config = {
      {"model_type", "llama"},    {"hidden_size", 32},       {"num_hidden_layers", 2}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"intermediate_size", 64}, {"vocab_size", 258},      {"max_position_embeddings", 128},
      {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},   {"hidden_act", "silu"},   {"tie_word_embeddings", false},
      {"bos_token_id", 256},      {"eos_token_id", 257}};
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors.push_back(RandomTensor(name, shape));
  };
  add("model.embed_tokens.weight", {258, 32});
  add("lm_head.weight", {258, 32});
  add("model.norm.weight", {32});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {32});
    add(prefix + "self_attn.q_proj.weight", {32, 32});
    add(prefix + "self_attn.k_proj.weight", {16, 32});
    add(prefix + "self_attn.v_proj.weight", {16, 32});
    add(prefix + "self_attn.o_proj.weight", {32, 32});
    add(prefix + "post_attention_layernorm.weight", {32});
    add(prefix + "mlp.gate_proj.weight", {64, 32});
    add(prefix + "mlp.up_proj.weight", {64, 32});
    add(prefix + "mlp.down_proj.weight", {32, 64});
  }
}

TestTensor& TinyDirectory::At(const std::string& name) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  tensors.push_back({name, "F32", {}, {}});
  return tensors.back();
}

void TinyDirectory::Remove(const std::string& name) {
  std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
}

void TinyDirectory::WriteTo(const std::string& path) const {
  std::ofstream(path + "/config.json") << config.dump();
  std::ofstream(path + "/tokenizer.json") << tokenizer.dump();
  std::ofstream(path + "/model.safetensors", std::ios::binary) << SafetensorsBytes(tensors);
}

}  // namespace hydrant
