// Reads what independent implementations answer (tests/golden/README.md), and records what ours keeps, to compare.
#ifndef HYDRANT_TESTS_SUPPORT_GOLDEN_FILE_H_
#define HYDRANT_TESTS_SUPPORT_GOLDEN_FILE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/eviction_policy.h"
#include "model/run/model_executor.h"
#include "nlohmann/json.hpp"

namespace hydrant {

inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return nlohmann::json::parse(file);
}

inline std::vector<int32_t> Ids(const nlohmann::json& array) {
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : array) ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  return ids;
}

inline EvictionPolicy PolicyOf(const nlohmann::json& from) {
  EvictionPolicy policy{.evicts = true};
  policy.heavy = from.at("heavy").get<int32_t>();
  policy.recent = from.at("recent").get<int32_t>();
  const std::string reduce = from.at("gqa_reduce").get<std::string>();
  policy.gqa_reduce = reduce == "first" ? GqaReduce::kFirst : reduce == "mean" ? GqaReduce::kMean : GqaReduce::kSum;
  policy.score_source =
      from.at("score_source").get<std::string>() == "none" ? ScoreSource::kNone : ScoreSource::kAttention;
  policy.square = from.at("square").get<bool>();
  policy.decay = from.at("decay").get<float>();
  policy.score_rows = from.at("score_rows").get<int32_t>();
  policy.pool_width = from.at("pool_width").get<int32_t>();
  policy.store_pooled = from.at("store_pooled").get<bool>();
  policy.rolling = from.value("rolling", false);
  return policy;
}

// What the cache kept and whom it evicted, of one sequence at a time.
class Recorder : public KvDumpSink {
 public:
  void OnPromptDone(int32_t, Positions kept_positions) override { kept = std::move(kept_positions); }
  void OnDecode(int32_t, std::optional<std::vector<std::vector<int32_t>>> step) override { victims.push_back(step); }

  Positions kept;
  std::vector<std::optional<std::vector<std::vector<int32_t>>>> victims;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_GOLDEN_FILE_H_
