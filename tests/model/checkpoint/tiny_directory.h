// TinyDirectory is a Hugging Face model directory with random weights, to be broken at will before it is written.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_TINY_DIRECTORY_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_TINY_DIRECTORY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hydrant {

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A .safetensors file with this header and data, whatever they are.
std::string SafetensorsBytes(const std::string& header, const std::string& data);
// A sound one.
std::string SafetensorsBytes(const std::vector<TestTensor>& tensors);
// Random F32.
TestTensor RandomTensor(const std::string& name, const std::vector<int64_t>& shape);

// A tokenizer.json of every byte, <s> (256) and </s> (257); <s> is put before the text.
nlohmann::json TinyTokenizerJson();
// The same with <s> and </s> in the vocabulary, so that more tokens may follow them there, from id 258.
nlohmann::json GrowingTokenizerJson();

struct TinyDirectory {
  TinyDirectory();  // hidden 32, 2 layers, 4 query and 2 KV heads of 8, FFN 64, vocabulary 258, context 128, untied

  TestTensor& At(const std::string& name);
  void Remove(const std::string& name);
  // config.json, tokenizer.json and model.safetensors.
  void WriteTo(const std::string& path) const;

  nlohmann::json config;
  nlohmann::json tokenizer;
  std::vector<TestTensor> tensors;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_TINY_DIRECTORY_H_
