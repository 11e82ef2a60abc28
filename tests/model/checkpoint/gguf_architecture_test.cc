// What the architectures ask of their files. That they answer as their directories do is in families_test.cc.
#include "model/checkpoint/gguf_architecture.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

constexpr const char* kWindows = "olmo2.attention.sliding_window_pattern";

TEST(GgufArchitecture, WindowedLayersAreAListOrAPeriod) {
  const TempDir dir;
  GgufBuilder file = FamilyCheckpoint("olmo3").Gguf();
  const auto windowed = [&] {
    const auto read = Checkpoint::Open(dir.Write("a.gguf", file.Build()));
    EXPECT_THAT(read, IsOk());
    return read.ok() ? (*read)->config.windowed_layers : std::vector<bool>();
  };
  EXPECT_EQ(windowed(), (std::vector<bool>{true, false})) << "as the directory has it";
  file.SetBools(kWindows, {false, true});
  EXPECT_EQ(windowed(), (std::vector<bool>{false, true}));
  file.Set(kWindows, 2);
  EXPECT_EQ(windowed(), (std::vector<bool>{true, false}));
  file.Remove(kWindows);
  EXPECT_EQ(windowed(), (std::vector<bool>{true, true})) << "every fourth has none";
  file.Remove("olmo2.attention.sliding_window");
  EXPECT_EQ(windowed(), std::vector<bool>());
}

TEST(GgufArchitecture, Phi3sListsOfFactorsAreLongRope) {
  const TempDir dir;
  GgufBuilder file = FamilyCheckpoint("phi3").Gguf();
  const auto numbers = [](float a, float b, float c) { return Raw(a) + Raw(b) + Raw(c); };
  file.Set("phi3.rope.scaling.original_context_length", 64).SetFloat("phi3.rope.scaling.attn_factor", 1.25f);
  file.At("rope_factors_short.weight") = {"rope_factors_short.weight", {3}, GgufBuilder::kF32, numbers(1, 2, 4)};
  file.At("rope_factors_long.weight") = {"rope_factors_long.weight", {3}, GgufBuilder::kF32, numbers(2, 8, 16)};
  const auto read = Checkpoint::Open(dir.Write("a.gguf", file.Build()));
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE((*read)->warnings.empty());
  EXPECT_EQ((*read)->config.rope_frequencies(64)[0], 1);
  EXPECT_EQ((*read)->config.rope_frequencies(65)[0], 0.5);
  EXPECT_NEAR((*read)->config.rope_frequencies(65)[1] * 4, (*read)->config.rope_frequencies(64)[1], 1e-12);
  EXPECT_EQ((*read)->config.rope_attention_factor, 1.25);
  file.RemoveTensor("rope_factors_short.weight");
  EXPECT_THAT(Checkpoint::Open(dir.Write("b.gguf", file.Build())),
              RefusedWith("tensor 'rope_factors_short.weight': is missing"));
}

struct BadArchitecture {
  const char* name;
  const char* family;
  std::function<void(GgufBuilder&)> spoil;
  std::string part;
};
class GgufArchitectureRefusal : public testing::TestWithParam<BadArchitecture> {};
TEST_P(GgufArchitectureRefusal, NamesKeyOrTensor) {
  const TempDir dir;
  GgufBuilder file = FamilyCheckpoint(GetParam().family).Gguf();
  ASSERT_THAT(Checkpoint::Open(dir.Write("good.gguf", file.Build())), IsOk());
  GetParam().spoil(file);
  EXPECT_THAT(Checkpoint::Open(dir.Write("bad.gguf", file.Build())), RefusedWith("bad.gguf: ", GetParam().part));
}
INSTANTIATE_TEST_SUITE_P(
    , GgufArchitectureRefusal,
    testing::Values(
        BadArchitecture{"NeoxResidualUnsaid", "gpt_neox", [](auto& f) { f.Remove("gptneox.use_parallel_residual"); },
                        "'gptneox.use_parallel_residual': is missing"},
        BadArchitecture{"NeoxEpsMissing", "gpt_neox", [](auto& f) { f.Remove("gptneox.attention.layer_norm_epsilon"); },
                        "'gptneox.attention.layer_norm_epsilon': is missing"},
        BadArchitecture{"NeoxFusedShape", "gpt_neox",
                        [](auto& f) {
                          f.AddF32("blk.0.attn_qkv.weight", {32, 95});
                        },
                        "tensor 'blk.0.attn_qkv.weight': its shape is [95, 32], the config asks for [96, 32]"},
        BadArchitecture{"Phi3FusedShape", "phi3",
                        [](auto& f) {
                          f.AddF32("blk.1.ffn_up.weight", {32, 95});
                        },
                        "tensor 'blk.1.ffn_up.weight': its shape is [95, 32], the config asks for [96, 32]"},
        BadArchitecture{"Phi3FactorWithoutLists", "phi3",
                        [](auto& f) { f.SetFloat("phi3.rope.scaling.attn_factor", 1.5f); },
                        "'phi3.rope.scaling.attn_factor': 1.5 is not supported"},
        BadArchitecture{"Qwen2BiasMissing", "qwen2", [](auto& f) { f.RemoveTensor("blk.1.attn_k.bias"); },
                        "tensor 'blk.1.attn_k.bias': is missing"},
        BadArchitecture{"Qwen3NormMissing", "qwen3", [](auto& f) { f.RemoveTensor("blk.0.attn_q_norm.weight"); },
                        "tensor 'blk.0.attn_q_norm.weight': is missing"},
        BadArchitecture{"Olmo3TooFewWindows", "olmo3", [](auto& f) { f.SetBools(kWindows, {true}); },
                        "'olmo2.attention.sliding_window_pattern': has 1 entries for 2 layers"},
        BadArchitecture{"Olmo3TooManyWindows", "olmo3",
                        [](auto& f) {
                          f.SetBools(kWindows, {true, false, true});
                        },
                        "'olmo2.attention.sliding_window_pattern': has 3 elements; at most 2 make sense"},
        BadArchitecture{"Olmo3WindowsAreNumbers", "olmo3",
                        [](auto& f) {
                          f.SetInts(kWindows, {1, 0});
                        },
                        "'olmo2.attention.sliding_window_pattern': is not an array of bools"},
        BadArchitecture{"Olmo3NormOfOneHead", "olmo3", [](auto& f) { f.AddF32("blk.0.attn_q_norm.weight", {8}); },
                        "tensor 'blk.0.attn_q_norm.weight': its shape is [8], the config asks for [32]"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
