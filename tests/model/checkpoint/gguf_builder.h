// GgufBuilder writes .gguf files, sound or broken. TinyGguf() is a sound Llama with random weights.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_GGUF_BUILDER_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_GGUF_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant {

template <typename T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

class GgufBuilder {
 public:
  // The numbers of the format.
  enum Type : uint32_t {
    kUint8,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64
  };
  enum TensorType : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ8_0 = 8,
    kIQ2_XXS = 16,
    kBF16 = 30
  };

  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // fastest first, as in the file
    uint32_t type = kF32;
    std::string data;
  };

  static std::string Text(std::string_view text) { return Raw<uint64_t>(text.size()) + std::string(text); }

  // Adds a value, or replaces the one of this key. `payload` is what follows the type in the file.
  GgufBuilder& SetRaw(const std::string& key, uint32_t type, std::string payload) {
    Remove(key);
    values_.push_back({key, Raw(type) + std::move(payload)});
    return *this;
  }
  GgufBuilder& Remove(const std::string& key) {
    std::erase_if(values_, [&](const auto& value) { return value.first == key; });
    return *this;
  }
  GgufBuilder& Set(const std::string& key, uint32_t value) { return SetRaw(key, kUint32, Raw(value)); }
  GgufBuilder& SetInt(const std::string& key, int32_t value) { return SetRaw(key, kInt32, Raw(value)); }
  GgufBuilder& SetFloat(const std::string& key, float value) { return SetRaw(key, kFloat32, Raw(value)); }
  GgufBuilder& SetBool(const std::string& key, bool value) { return SetRaw(key, kBool, Raw(value)); }
  GgufBuilder& SetText(const std::string& key, std::string_view value) { return SetRaw(key, kString, Text(value)); }
  GgufBuilder& SetTexts(const std::string& key, const std::vector<std::string>& values) {
    std::string payload = Raw<uint32_t>(kString) + Raw<uint64_t>(values.size());
    for (const std::string& value : values) payload += Text(value);
    return SetRaw(key, kArray, payload);
  }
  GgufBuilder& SetInts(const std::string& key, const std::vector<int32_t>& values) {
    std::string payload = Raw<uint32_t>(kInt32) + Raw<uint64_t>(values.size());
    for (const int32_t value : values) payload += Raw(value);
    return SetRaw(key, kArray, payload);
  }

  GgufBuilder& SetBools(const std::string& key, const std::vector<bool>& values) {
    std::string payload = Raw<uint32_t>(kBool) + Raw<uint64_t>(values.size());
    for (const bool value : values) payload += Raw(value);
    return SetRaw(key, kArray, payload);
  }

  // The tensor of this name; a new, empty one if there is none.
  Tensor& At(const std::string& name) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    tensors_.push_back({name, {}, kF32, {}});
    return tensors_.back();
  }
  GgufBuilder& RemoveTensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  // Random fp32 of this shape, fastest dimension first.
  GgufBuilder& AddF32(const std::string& name, const std::vector<uint64_t>& dims) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::string data;
    for (uint64_t i = 0; i < count; ++i) data += Raw(std::uniform_real_distribution<float>(-1, 1)(random_));
    At(name) = {name, dims, kF32, data};
    return *this;
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  std::string Build(uint32_t version = 3) const {
    std::string out = "GGUF" + Raw(version) + Raw<uint64_t>(tensors_.size()) + Raw<uint64_t>(values_.size());
    for (const auto& [key, payload] : values_) out += Text(key) + payload;
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      out += Text(tensor.name) + Raw(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) out += Raw(dim);
      out += Raw(tensor.type) + Raw(offset);
      offset += Padded(tensor.data.size());
    }
    out.resize(Padded(out.size()));
    for (const Tensor& tensor : tensors_) {
      out += tensor.data;
      out.resize(Padded(out.size()));
    }
    return out;
  }

 private:
  static uint64_t Padded(uint64_t bytes) { return (bytes + 31) / 32 * 32; }

  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<Tensor> tensors_;
  std::mt19937 random_{42};
};

// hidden 32, 2 layers, 4 query and 2 KV heads of 8, FFN 64, vocabulary 258 (every byte, <s>, </s>), context 128.
GgufBuilder TinyGguf();

// The 256 characters that spell the bytes 0 to 255.
std::vector<std::string> ByteAlphabet();

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_GGUF_BUILDER_H_
