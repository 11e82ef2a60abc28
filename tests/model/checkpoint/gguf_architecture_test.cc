// What the architectures ask of their files. That they answer as their directories do is in families_test.cc.
#include "model/checkpoint/gguf_architecture.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

struct Wrong {
  const char* name;
  const char* family;
  std::function<void(GgufBuilder&)> spoil;
  std::string part;
};
class GgufArchitectureRefusal : public testing::TestWithParam<Wrong> {};
TEST_P(GgufArchitectureRefusal, NamesKeyOrTensor) {
  const TempDir dir;
  GgufBuilder file = FamilyCheckpoint(GetParam().family).Gguf();
  ASSERT_THAT(Checkpoint::Open(dir.Write("good.gguf", file.Build())), IsOk());
  GetParam().spoil(file);
  EXPECT_THAT(Checkpoint::Open(dir.Write("bad.gguf", file.Build())), RefusedWith("bad.gguf: ", GetParam().part));
}
INSTANTIATE_TEST_SUITE_P(
    , GgufArchitectureRefusal,
    testing::Values(Wrong{"NeoxResidualUnsaid", "gpt_neox", [](auto& f) { f.Remove("gptneox.use_parallel_residual"); },
                          "'gptneox.use_parallel_residual': is missing"},
                    Wrong{"NeoxEpsMissing", "gpt_neox",
                          [](auto& f) { f.Remove("gptneox.attention.layer_norm_epsilon"); },
                          "'gptneox.attention.layer_norm_epsilon': is missing"},
                    Wrong{"NeoxFusedShape", "gpt_neox",
                          [](auto& f) {
                            f.AddF32("blk.0.attn_qkv.weight", {32, 95});
                          },
                          "tensor 'blk.0.attn_qkv.weight': its shape is [95, 32], the config asks for [96, 32]"},
                    Wrong{"Qwen2BiasMissing", "qwen2", [](auto& f) { f.RemoveTensor("blk.1.attn_k.bias"); },
                          "tensor 'blk.1.attn_k.bias': is missing"},
                    Wrong{"Qwen3NormMissing", "qwen3", [](auto& f) { f.RemoveTensor("blk.0.attn_q_norm.weight"); },
                          "tensor 'blk.0.attn_q_norm.weight': is missing"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
