// Reading is what ReadHfConfig makes of a config.json.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_HF_READING_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_HF_READING_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint/hf_config.h"
#include "tests/model/checkpoint/tiny_directory.h"

namespace hydrant {

class Reading {
 public:
  // `generation` null: there is no such file.
  explicit Reading(const std::string& config, const nlohmann::json& generation = nullptr) {
    auto document = JsonDocument::Parse(config, {10000, 64}, "config.json");
    if (!document.ok()) {
      result_ = document.status();
      return;
    }
    std::optional<JsonDocument> second;
    std::optional<JsonValue> root;
    if (!generation.is_null()) {
      second.emplace(*JsonDocument::Parse(generation.dump(), {10000, 64}, "generation_config.json"));
      root = second->root();
    }
    result_ = ReadHfConfig(document->root(), root ? &*root : nullptr, warnings_);
  }
  explicit Reading(const nlohmann::json& config, const nlohmann::json& generation = nullptr)
      : Reading(config.dump(), generation) {}

  const absl::StatusOr<HfConfig>& result() const { return result_; }
  const ModelConfig& config() const { return result_->config; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::string> warnings_;
  absl::StatusOr<HfConfig> result_ = absl::UnknownError("not read");
};

// The config of TinyDirectory, changed.
inline nlohmann::json With(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json config = TinyDirectory().config;
  change(config);
  return config;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_HF_READING_H_
