// What both formats have in common: they end in the same checkpoint, and files that change while they are read do no harm.
#include "model/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/tokenizer.h"
#include "model/weights/weights.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/peak_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

TEST(Checkpoint, RefusesAPathThatLeadsNowhere) {
  EXPECT_THAT(Checkpoint::Open("/nonexistent/model"), RefusedWith("/nonexistent/model: No such file"));
  EXPECT_THAT(Checkpoint::Open(""), RefusedWith("No such file"));
  EXPECT_THAT(Checkpoint::Open("/dev/zero"), RefusedWith("zero: is not a regular file"));
}

TEST(Checkpoint, RefusesAFileOfAnotherKindAndAnEmptyDirectory) {
  const TempDir dir;
  EXPECT_THAT(Checkpoint::Open(dir.path()), RefusedWith("config.json: no such file"));
  EXPECT_THAT(Checkpoint::Open(dir.Write("model.bin", "PK\3\4")), RefusedWith("model.bin: is not a GGUF file"));
}

// The guard of the refusal tests can fail.
TEST(PeakMemory, SeesAnAllocationThatIsAlreadyGone) {
  const PeakMemory peak;
  std::make_unique<std::vector<char>>(3 << 20)->back() = 1;
  EXPECT_GE(peak.bytes(), 3 << 20);
  EXPECT_LT(peak.bytes(), 4 << 20);
}

// The GGUF file of TinyDirectory: other names, and the rows of q and k interleaved.
GgufBuilder AsGguf(TinyDirectory& tiny) {
  GgufBuilder file = TinyGguf();
  const auto put = [&](const std::string& name, const TestTensor& tensor) {
    GgufBuilder::Tensor& to = file.At(name);
    to = {name, {tensor.shape.rbegin(), tensor.shape.rend()}, GgufBuilder::kF32, tensor.data};
    if (!name.ends_with("attn_q.weight") && !name.ends_with("attn_k.weight")) return;
    const size_t row_bytes = 4 * 32;
    for (size_t row = 0; row < static_cast<size_t>(tensor.shape[0]); ++row) {
      const size_t half = row % 8 / 4, i = row % 4, stored = row / 8 * 8 + 2 * i + half;
      to.data.replace(stored * row_bytes, row_bytes, tensor.data.substr(row * row_bytes, row_bytes));
    }
  };
  put("token_embd.weight", tiny.At("model.embed_tokens.weight"));
  put("output.weight", tiny.At("lm_head.weight"));
  put("output_norm.weight", tiny.At("model.norm.weight"));
  for (const std::string layer : {"0", "1"}) {
    const std::string to = "blk." + layer + ".", from = "model.layers." + layer + ".";
    for (const auto& [gguf, hf] :
         {std::pair("attn_norm", "input_layernorm"), std::pair("attn_q", "self_attn.q_proj"),
          std::pair("attn_k", "self_attn.k_proj"), std::pair("attn_v", "self_attn.v_proj"),
          std::pair("attn_output", "self_attn.o_proj"), std::pair("ffn_norm", "post_attention_layernorm"),
          std::pair("ffn_gate", "mlp.gate_proj"), std::pair("ffn_up", "mlp.up_proj"),
          std::pair("ffn_down", "mlp.down_proj")}) {
      put(to + gguf + ".weight", tiny.At(from + hf + ".weight"));
    }
  }
  file.SetBool("tokenizer.ggml.add_bos_token", true);
  return file;
}

TEST(Checkpoint, NothingTellsTheFormatsApartOnceTheyAreOpen) {
  const TempDir dir;
  TinyDirectory tiny;
  tiny.WriteTo(dir.path());
  const auto hf = Checkpoint::Open(dir.path());
  const auto gguf = Checkpoint::Open(dir.Write("tiny.gguf", AsGguf(tiny).Build()));
  ASSERT_THAT(hf, IsOk());
  ASSERT_THAT(gguf, IsOk());
  const ModelConfig &a = (*hf)->config, &b = (*gguf)->config;
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.gated, b.gated);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.rope_inv_freq, b.rope_inv_freq);
  EXPECT_EQ(a.bos_id, b.bos_id);
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_EQ(a.stored_dtype, b.stored_dtype);
  for (int role = 0; role <= static_cast<int>(TensorRole::kDownBias); ++role) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      const TensorSource* one = (*hf)->tensors.Find(static_cast<TensorRole>(role), layer);
      const TensorSource* other = (*gguf)->tensors.Find(static_cast<TensorRole>(role), layer);
      ASSERT_EQ(one == nullptr, other == nullptr) << role;
      if (one == nullptr) continue;
      ASSERT_EQ(one->rows(), other->rows()) << role;
      ASSERT_EQ(one->cols(), other->cols()) << role;
      std::vector<float> x(static_cast<size_t>(one->rows() * one->cols())), y(x.size());
      one->ReadRows(0, one->rows(), x.data());
      other->ReadRows(0, one->rows(), y.data());
      EXPECT_EQ(x, y) << role;
    }
  }
  for (const char* text : {"", "Hello, world", "é\xff</s>\n"}) {
    EXPECT_EQ((*hf)->tokenizer->Encode(text, {}), (*gguf)->tokenizer->Encode(text, {})) << text;
  }
  EXPECT_EQ((*hf)->tokenizer->leading_specials(), 1);
  EXPECT_EQ((*gguf)->tokenizer->leading_specials(), 1);
}

// --- row E11: files that change under the reader -----------------------------------------------------------------------

struct Format {
  const char* name;
  std::string (*write)(const TempDir& dir);  // returns what to open
  const char* weights;                       // the file with the tensors
};
const Format kFormats[] = {
    {"Directory",
     [](const TempDir& dir) {
       TinyDirectory().WriteTo(dir.path());
       return dir.path();
     },
     "model.safetensors"},
    {"Gguf", [](const TempDir& dir) { return dir.Write("t.gguf", TinyGguf().Build()); }, "t.gguf"},
};
constexpr auto kCheckpointName = [](const auto& test) { return test.param.name; };

class ChangingFile : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(, ChangingFile, testing::ValuesIn(kFormats), kCheckpointName);
using ChangingFileDeathTest = ChangingFile;
INSTANTIATE_TEST_SUITE_P(, ChangingFileDeathTest, testing::ValuesIn(kFormats), kCheckpointName);

Weights Load(const Checkpoint& checkpoint) {
  auto device = CpuDevice::Create(CpuDeviceOptions{.threads = 1});
  return LoadWeights(checkpoint, **device, PlanWeights(checkpoint, **device, {DType::kF32}, 128));
}

TEST_P(ChangingFileDeathTest, CutShortWhileItIsPackedItEndsTheProcessWithItsName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const std::string path = GetParam().write(dir);
  EXPECT_EXIT(
      {
        const auto checkpoint = Checkpoint::Open(path);
        if (!checkpoint.ok() || truncate(dir.File(GetParam().weights).c_str(), 4096) != 0) _exit(1);
        Load(**checkpoint);
        _exit(2);
      },
      testing::ExitedWithCode(kExitBadModelFile), std::string(GetParam().weights) + ": the file was cut short");
}

// Whatever stands there now is read, where the checked table said, and no farther.
TEST_P(ChangingFile, RewrittenAfterTheCheckItLoadsAndIsReportedAsNotFinite) {
  const TempDir dir;
  const auto checkpoint = Checkpoint::Open(GetParam().write(dir));
  ASSERT_THAT(checkpoint, IsOk());
  const auto bytes = std::filesystem::file_size(dir.File(GetParam().weights));
  {
    std::fstream file(dir.File(GetParam().weights), std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(bytes, '\xff');
  }
  const Weights weights = Load(**checkpoint);
  EXPECT_EQ(weights.layers.size(), 2u);
  EXPECT_GE((*checkpoint)->tensors.NonFinite().size(), 20u);
}

// The weights are copies: they are the same whatever happens to the files and the checkpoint.
TEST_P(ChangingFile, RemovedAfterLoadingItIsNotMissed) {
  const TempDir dir;
  auto checkpoint = Checkpoint::Open(GetParam().write(dir));
  ASSERT_THAT(checkpoint, IsOk());
  const std::shared_ptr<const Tokenizer> tokenizer = (*checkpoint)->tokenizer;
  auto device = CpuDevice::Create(CpuDeviceOptions{.threads = 1});
  const Weights weights = LoadWeights(**checkpoint, **device, PlanWeights(**checkpoint, **device, {DType::kF32}, 128));
  std::vector<float> norm(32), expected(32);
  (*checkpoint)->tensors.Find(TensorRole::kFinalNorm, 0)->ReadRows(0, 1, expected.data());
  checkpoint->reset();
  std::filesystem::resize_file(dir.File(GetParam().weights), 0);
  (*device)->CopyToHost(norm.data(), weights.final_norm.weight, 32 * sizeof(float));
  EXPECT_EQ(norm, expected);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("still here", {.add_special_tokens = false}), false), "still here");
}

}  // namespace
}  // namespace hydrant
