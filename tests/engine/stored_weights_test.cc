// A model whose weights CudaDevice keeps as they are stored, from its file to its answers: beside the same file expanded to fp32.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/kernels/stored_rows.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

// A format with its number in a file, and halves that make random codes weights of +-1/8.
struct StoredKind {
  uint32_t type;
  WeightFormat format;
  std::vector<uint16_t> halves;
};
// Embeddings are the head, too: larger, so that logits differ by some units.
const StoredKind kStoredHead{8, WeightFormat::kQ8_0, {0x1C00}}, kStored80{8, WeightFormat::kQ8_0, {0x1400}},
    kStored40{2, WeightFormat::kQ4_0, {0x2400}}, kStored41{3, WeightFormat::kQ4_1, {0x2400, 0xAF80}},
    kStored50{6, WeightFormat::kQ5_0, {0x2000}}, kStored51{7, WeightFormat::kQ5_1, {0x2000, 0xB000}},
    kStored4K{12, WeightFormat::kQ4_K, {0x0800, 0x1400}}, kStored6K{14, WeightFormat::kQ6_K, {0x0200}};

void MakeStored(GgufBuilder& file, const std::string& name, const StoredKind& kind, uint32_t seed) {
  GgufBuilder::Tensor& tensor = file.At(name);
  std::vector<std::byte> rows =
      RandomStoredRows(kind.format, static_cast<int64_t>(tensor.dims[1]), static_cast<int64_t>(tensor.dims[0]), seed);
  const std::vector<size_t> places = HalvesOf(kind.format);
  for (size_t block = 0; block < rows.size(); block += static_cast<size_t>(InfoOf(kind.format).block_bytes)) {
    for (size_t i = 0; i < places.size(); ++i) std::memcpy(&rows[block + places[i]], &kind.halves[i], 2);
  }
  tensor.type = kind.type;
  tensor.data.assign(reinterpret_cast<const char*>(rows.data()), rows.size());
}

// 2^-9 of each number is what rounding to bf16 takes: of what is multiplied, and of weights in steps of more than 128 tokens. Some
// eight roundings a layer, two layers: 0.005 in fact. A weight in a wrong place moves a logit by a tenth and more.
constexpr float kLogprobsApart = 0.02f;

// Prompts that are one small step, the largest one and the smallest of those that unpack weights; then tokens one by one.
TEST(StoredWeights, AnswerAsTheyDoExpanded) {
  const TempDir dir;
  GgufBuilder file = TinyGguf();
  file.Set("llama.context_length", 512).Set("llama.feed_forward_length", 256);
  uint32_t seed = 0;
  MakeStored(file, "token_embd.weight", kStoredHead, ++seed);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    MakeStored(file, block + "attn_q.weight", kStored41, ++seed);
    MakeStored(file, block + "attn_k.weight", kStored41, ++seed);
    MakeStored(file, block + "attn_v.weight", kStored80, ++seed);
    MakeStored(file, block + "attn_output.weight", kStored50, ++seed);
    // Blocks of the larger formats are as wide as this.
    file.At(block + "ffn_gate.weight").dims = file.At(block + "ffn_up.weight").dims = {32, 256};
    file.At(block + "ffn_down.weight").dims = {256, 32};
    MakeStored(file, block + "ffn_gate.weight", kStored40, ++seed);
    MakeStored(file, block + "ffn_up.weight", block == "blk.0." ? kStored40 : kStored51, ++seed);
    MakeStored(file, block + "ffn_down.weight", block == "blk.0." ? kStored4K : kStored6K, ++seed);
  }
  const std::string path = dir.Write("stored.gguf", file.Build());
  EngineHarness stored(path, {.keep_quantised = true, .prefill_tokens_max = 192}),
      expanded(path, {.prefill_tokens_max = 192});
  std::mt19937 random(3);
  int compared = 0;
  for (const int32_t length : {20, 128, 129}) {
    std::vector<int32_t> prompt(static_cast<size_t>(length));
    for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 256);
    SequenceRequest request = Greedy(static_cast<uint64_t>(length), prompt, 6);
    request.prompt_logprobs = 1;
    request.logprobs = 2;
    const Generation actual = stored.RunOne(request), expected = expanded.RunOne(request);
    ASSERT_EQ(actual.prompt.size(), expected.prompt.size());
    for (size_t i = 0; i < expected.prompt.size(); ++i) {
      EXPECT_NEAR(actual.prompt[i].logprob, expected.prompt[i].logprob, kLogprobsApart) << i << " of " << length;
    }
    ASSERT_EQ(actual.sampled.size(), expected.sampled.size());
    for (size_t i = 0; i < expected.sampled.size(); ++i) {
      const SampleResult& sampled = expected.sampled[i];
      if (sampled.top[0].logprob - sampled.top[1].logprob < 2 * kLogprobsApart) break;  // either may be chosen
      ASSERT_EQ(actual.sampled[i].id, sampled.id) << i << " after " << length;
      EXPECT_NEAR(actual.sampled[i].logprob, sampled.logprob, kLogprobsApart) << i << " after " << length;
      ++compared;
    }
  }
  EXPECT_GE(compared, 9);
}

}  // namespace
}  // namespace hydrant
