// Folders of adapters: what is read of sound ones, and in what words each kind of unsound one is refused.
#include "model/checkpoint/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int32_t kRankMaxInTest = 8;

// For a module of 6 x 4, and one that q, k and v of 2 rows each share, in turn.
AdapterTargets SmallTargets() {
  AdapterTargets targets;
  targets.Add("model.layers.0.mlp.down_proj", {.role = TensorRole::kDown, .rows = 6, .cols = 4});
  for (const auto& [role, first] : {std::pair(TensorRole::kQ, 0), {TensorRole::kK, 1}, {TensorRole::kV, 2}}) {
    targets.Add("model.layers.1.self_attn.qkv",
                {.role = role, .layer = 1, .rows = 2, .cols = 4, .stored_rows = {first, first + 3}});
  }
  return targets;
}

struct Folder {
  Folder() {
    config = {{"peft_type", "LORA"},
              {"r", 2},
              {"lora_alpha", 6},
              {"target_modules", {"down_proj", "qkv"}},
              {"bias", "none"},
              {"use_dora", false},
              {"rank_pattern", json::object()},
              {"modules_to_save", nullptr},
              {"task_type", "CAUSAL_LM"}};
    Add("model.layers.0.mlp.down_proj", 2);
    Add("model.layers.1.self_attn.qkv", 2);
  }
  void Add(const std::string& module, int64_t rank) {
    tensors.push_back(RandomTensor("base_model.model." + module + ".lora_A.weight", {rank, 4}));
    tensors.push_back(RandomTensor("base_model.model." + module + ".lora_B.weight", {6, rank}));
  }
  absl::StatusOr<Adapter> Parse() const {
    return ParseAdapter({config.dump(), SafetensorsBytes(tensors)}, SmallTargets(), kRankMaxInTest);
  }
  std::vector<float> ValuesOf(size_t tensor) const {
    std::vector<float> values(tensors[tensor].data.size() / sizeof(float));
    std::memcpy(values.data(), tensors[tensor].data.data(), tensors[tensor].data.size());
    return values;
  }

  json config;
  std::vector<TestTensor> tensors;
};

TEST(AdapterFolder, HasAAndBOfEveryMatrixInTheOrderOfTheLayers) {
  const Folder folder;
  const auto adapter = folder.Parse();
  ASSERT_THAT(adapter, IsOk());
  EXPECT_EQ(adapter->rank, 2);
  EXPECT_EQ(adapter->changes.size(), 4u);
  const AdapterChange* down = adapter->Find(0, TensorRole::kDown);
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->a.Values(), folder.ValuesOf(0));
  EXPECT_EQ(down->b.Values(), folder.ValuesOf(1));
  EXPECT_EQ(down->scale, 3.0f);
  const AdapterChange* v = adapter->Find(1, TensorRole::kV);
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->a.Values(), folder.ValuesOf(2));
  const std::vector<float> b = folder.ValuesOf(3);  // rows 2 and 5 of it
  EXPECT_EQ(v->b.Values(), (std::vector<float>{b[4], b[5], b[10], b[11]}));
  EXPECT_EQ(adapter->Find(0, TensorRole::kUp), nullptr);
}

// Gate and up in one tensor, one below the other: the first has the tensor's first rows, and no more of it.
TEST(AdapterFolder, HasTheRowsOfEachOfTwoStackedMatrices) {
  TinyDirectory tiny;
  tiny.config["model_type"] = "phi3";
  tiny.config["architectures"] = {"Phi3ForCausalLM"};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    for (const char* part : {"q", "k", "v"}) tiny.Remove(prefix + ".self_attn." + part + "_proj.weight");
    for (const char* part : {"gate", "up"}) tiny.Remove(prefix + ".mlp." + part + "_proj.weight");
    tiny.tensors.push_back(RandomTensor(prefix + ".self_attn.qkv_proj.weight", {64, 32}));
    tiny.tensors.push_back(RandomTensor(prefix + ".mlp.gate_up_proj.weight", {128, 32}));
  }
  const TempDir directory;
  tiny.WriteTo(directory.path());
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_THAT(checkpoint, IsOk());

  Folder folder;
  const std::string name = "base_model.model.model.layers.1.mlp.gate_up_proj.lora_";
  folder.tensors = {RandomTensor(name + "A.weight", {2, 32}), RandomTensor(name + "B.weight", {128, 2})};
  const auto adapter = ParseAdapter({folder.config.dump(), SafetensorsBytes(folder.tensors)},
                                    AdapterTargets::Of(**checkpoint), kRankMaxInTest);
  ASSERT_THAT(adapter, IsOk());
  const std::vector<float> b = folder.ValuesOf(1);
  const AdapterChange *gate = adapter->Find(1, TensorRole::kGate), *up = adapter->Find(1, TensorRole::kUp);
  ASSERT_TRUE(gate != nullptr && up != nullptr);
  EXPECT_EQ(gate->b.Values(), std::vector<float>(b.begin(), b.begin() + 128));
  EXPECT_EQ(up->b.Values(), std::vector<float>(b.begin() + 128, b.end()));
}

TEST(AdapterFolder, IsRefusedWhereAMatrixHasOtherRowsThanItsModule) {
  for (const std::vector<int32_t>& rows : {std::vector<int32_t>{0, 6}, {-1, 0}, {0, 1, 2}}) {
    AdapterTargets targets;
    targets.Add("model.layers.0.mlp.down_proj", {.role = TensorRole::kDown, .rows = 2, .cols = 4, .stored_rows = rows});
    targets.Add("model.layers.0.mlp.down_proj", {.role = TensorRole::kUp, .rows = 4, .cols = 4});
    Folder folder;
    folder.tensors.resize(2);
    const auto adapter =
        ParseAdapter({folder.config.dump(), SafetensorsBytes(folder.tensors)}, targets, kRankMaxInTest);
    ASSERT_FALSE(adapter.ok());
    EXPECT_THAT(std::string(adapter.status().message()), HasSubstr("the model's matrices are not made of its rows"));
  }
}

TEST(AdapterFolder, ScalesByRankOrItsRootAndByPatterns) {
  Folder folder;
  folder.config["use_rslora"] = true;
  folder.config["alpha_pattern"] = {{"down_proj", 10}};
  folder.config["rank_pattern"] = {{"layers.0.mlp.down_proj", 5}};
  folder.tensors.erase(folder.tensors.begin(), folder.tensors.begin() + 2);
  folder.Add("model.layers.0.mlp.down_proj", 5);
  const auto adapter = folder.Parse();
  ASSERT_THAT(adapter, IsOk());
  EXPECT_EQ(adapter->rank, 5);
  EXPECT_FLOAT_EQ(adapter->Find(0, TensorRole::kDown)->scale, 10 / std::sqrt(5.0f));
  EXPECT_FLOAT_EQ(adapter->Find(1, TensorRole::kQ)->scale, 6 / std::sqrt(2.0f));
}

TEST(AdapterFolder, ReadsHalfPrecision) {
  Folder folder;
  folder.tensors[0] = {
      folder.tensors[0].name, "BF16", {2, 4}, std::string("\x80\x3f\x00\xc0", 4) + std::string(12, '\0')};
  const auto adapter = folder.Parse();
  ASSERT_THAT(adapter, IsOk());
  EXPECT_EQ(adapter->Find(0, TensorRole::kDown)->a.Values()[0], 1.0f);
  EXPECT_EQ(adapter->Find(0, TensorRole::kDown)->a.Values()[1], -2.0f);
}

struct Refused {
  const char* name;
  std::function<void(Folder&)> spoil;
  const char* message;
};

std::vector<Refused> AllRefused() {
  const auto set = [](const char* field, json value) {
    return [field, value](Folder& folder) { folder.config[field] = value; };
  };
  return {
      {"another_method", set("peft_type", "IA3"), "adapter_config.json: 'peft_type': 'IA3' is not supported (LORA is)"},
      {"no_method", [](Folder& f) { f.config.erase("peft_type"); }, "adapter_config.json: 'peft_type': is missing"},
      {"dora", set("use_dora", true), "adapter_config.json: 'use_dora': is not supported"},
      {"saved_modules", set("modules_to_save", {"lm_head"}), "'modules_to_save': is not supported"},
      {"biases", set("bias", "lora_only"), "'bias': 'lora_only' is not supported"},
      {"lora_bias", set("lora_bias", true), "'lora_bias': is not supported"},
      {"new_tokens", set("trainable_token_indices", {1, 2}), "'trainable_token_indices': is not supported"},
      {"parameters", set("target_parameters", {"experts"}), "'target_parameters': is not supported"},
      {"activated", set("alora_invocation_tokens", {5}), "'alora_invocation_tokens': is not supported"},
      {"replicated", set("layer_replication", {{0, 1}}), "'layer_replication': is not supported"},
      {"of_tomorrow", set("use_what_comes", true), "'use_what_comes': is not supported"},
      {"changed_base", set("init_lora_weights", "pissa"), "'init_lora_weights': 'pissa' is not supported"},
      {"rank_zero", set("r", 0), "'r': 0 is out of range [1, 1024]"},
      {"rank_above", [](Folder& f) { f.config["r"] = 9; },
       "'r': rank 9 of 'model.layers.0.mlp.down_proj' is above the limit of 8"},
      {"no_scale", set("lora_alpha", "x"), "'lora_alpha': "},
      {"huge_scale", set("lora_alpha", 1e300), "'lora_alpha': is too large"},
      {"a_regex", set("alpha_pattern", {{".*down", 3}}), "the key is not a module's name"},
      {"half_a_rank", set("rank_pattern", {{"down_proj", 1.5}}), "'rank_pattern': 1.5 for"},
      {"two_values", set("alpha_pattern", {{"down_proj", 3}, {"mlp.down_proj", 4}}),
       "'alpha_pattern': has two values for 'model.layers.0.mlp.down_proj'"},
      {"another_rank", set("r", 3), "lora_A.weight': its shape is not [3, 4]"},
      {"a_alone", [](Folder& f) { f.tensors.erase(f.tensors.begin() + 1); }, "down_proj.lora_A.weight': has no lora_B"},
      {"b_alone", [](Folder& f) { f.tensors.erase(f.tensors.begin()); }, "down_proj.lora_B.weight': has no lora_A"},
      {"an_embedding",
       [](Folder& f) {
         f.tensors.push_back(RandomTensor("base_model.model.model.embed_tokens.lora_embedding_A", {2, 4}));
       },
       "lora_embedding_A': is no A or B of a module"},
      {"a_magnitude",
       [](Folder& f) {
         f.tensors.push_back(RandomTensor("base_model.model.model.layers.0.mlp.down_proj.lora_magnitude_vector", {6}));
       },
       "is no A or B of a module"},
      {"another_module", [](Folder& f) { f.Add("model.layers.7.mlp.down_proj", 2); },
       "is of no module that can be adapted"},
      {"the_head", [](Folder& f) { f.Add("lm_head", 2); }, "is of no module that can be adapted"},
      {"a_name_twice", [](Folder& f) { f.Add("layers.0.mlp.down_proj", 2); },
       "is of a module that another tensor is of, too"},
      {"integers", [](Folder& f) { f.tensors[0].dtype = "I32"; }, "dtype I32 is not supported"},
      {"a_nan", [](Folder& f) { std::memset(f.tensors[0].data.data(), 0xff, 4); }, "holds a NaN or an infinity"},
      {"nothing", [](Folder& f) { f.tensors.clear(); }, "adapter_model.safetensors: has no tensors"},
  };
}

TEST(AdapterFolder, IsRefusedByName) {
  for (const Refused& refused : AllRefused()) {
    Folder folder;
    refused.spoil(folder);
    const auto adapter = folder.Parse();
    ASSERT_FALSE(adapter.ok()) << refused.name;
    EXPECT_THAT(std::string(adapter.status().message()), HasSubstr(refused.message)) << refused.name;
  }
}

TEST(AdapterFolder, IsOfAModelAndReadFromAFolder) {
  TempDir directory;
  const TinyDirectory tiny;
  tiny.WriteTo(directory.path());
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_THAT(checkpoint, IsOk());
  const AdapterTargets targets = AdapterTargets::Of(**checkpoint);
  for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    ASSERT_EQ(targets.Find(std::string("model.layers.1.") + module).size(), 1u) << module;
    EXPECT_TRUE(targets.Find(std::string("layers.1.") + module).front().stored_rows.empty());
  }
  EXPECT_EQ(targets.Find("model.layers.1.self_attn.k_proj").front().rows, 16);
  EXPECT_TRUE(targets.Find("model.layers.2.self_attn.k_proj").empty());

  const std::string path = directory.path() + "/adapter";
  std::filesystem::create_directory(path);
  EXPECT_THAT(std::string(ReadAdapterFiles(path, targets, 4).status().message()), HasSubstr("adapter_config.json"));
  std::ofstream(path + "/adapter_config.json") << json{{"peft_type", "LORA"}, {"r", 4}};
  EXPECT_THAT(std::string(ReadAdapterFiles(path, targets, 4).status().message()),
              HasSubstr("adapter_model.safetensors"));
  const std::string name = "base_model.model.model.layers.1.self_attn.k_proj.lora_";
  std::ofstream(path + "/adapter_model.safetensors", std::ios::binary)
      << SafetensorsBytes({RandomTensor(name + "A.weight", {4, 32}), RandomTensor(name + "B.weight", {16, 4})});
  const auto files = ReadAdapterFiles(path, targets, 4);
  ASSERT_THAT(files, IsOk());
  const auto adapter = ParseAdapter(*files, targets, 4);
  ASSERT_THAT(adapter, IsOk());
  EXPECT_NE(adapter->Find(1, TensorRole::kK), nullptr);
  EXPECT_FALSE(ReadAdapterFiles(directory.path() + "/none", targets, 4).ok());
}

}  // namespace
}  // namespace hydrant
