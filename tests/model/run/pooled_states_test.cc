// States of last tokens against the log-probabilities that come of them, and of means against last tokens.
#include "model/run/pooled_states.h"

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"

namespace hydrant {
namespace {

constexpr const char* kPooledModel = "gqa_tied";

std::vector<int32_t> PooledPrompt(int32_t length, int32_t vocab) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(2 + (i * 7919 + length) % (vocab - 2));
  return prompt;
}

// A request whose prompt's states are wanted, and nothing else.
SequenceRequest PooledRequest(uint64_t id, std::vector<int32_t> prompt, Pooling pooling) {
  SequenceRequest request = Greedy(id, std::move(prompt), 0);
  request.states = std::make_shared<PooledStates>(pooling);
  return request;
}

// A sum of states, one value after the other.
std::vector<double> StateOf(EngineHarness& harness, std::span<const int32_t> prompt, Pooling pooling) {
  const SequenceRequest request = PooledRequest(1, {prompt.begin(), prompt.end()}, pooling);
  EXPECT_EQ(harness.RunOne(request).finish, FinishReason::kLength);
  return {request.states->sum().begin(), request.states->sum().end()};
}

// A plain product with the head, and its softmax.
TEST(PooledStates, OfALastTokenAreWhatItsLogitsAreMadeOf) {
  for (const char* model : {"gqa_tied", "gqa_untied"}) {
    EngineHarness harness(GoldenPath(model), {});
    const ModelConfig& config = harness.checkpoint().config;
    const std::vector<int32_t> prompt = PooledPrompt(37, config.vocab);
    const std::vector<double> state = StateOf(harness, prompt, Pooling::kLast);
    ASSERT_EQ(std::ssize(state), config.hidden);
    const TensorTable& tensors = harness.checkpoint().tensors;
    const TensorSource* head = tensors.Find(TensorRole::kHead, 0);
    if (head == nullptr) head = tensors.Find(TensorRole::kEmbedding, 0);
    std::vector<float> row(state.size());
    std::vector<double> logits;
    double total = 0;
    for (int32_t id = 0; id < config.vocab; ++id) {
      head->ReadRows(id, id + 1, row.data());
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i) sum += static_cast<double>(row[i]) * state[i];
      logits.push_back(sum);
      total += std::exp(sum);
    }
    SequenceRequest asked = Greedy(2, prompt, 1);
    asked.logprobs = 20;
    const Generation generation = harness.RunOne(asked);
    ASSERT_EQ(generation.sampled.size(), 1u);
    for (const TokenLogprob& candidate : generation.sampled[0].top) {
      EXPECT_NEAR(static_cast<double>(candidate.logprob), logits[static_cast<size_t>(candidate.id)] - std::log(total),
                  1e-4);
    }
  }
}

// Every token's state is that of the last one of a shorter prompt: bit for bit, whatever the chunks.
TEST(PooledStates, OfAMeanAreThoseOfAllPrefixes) {
  EngineHarness harness(GoldenPath(kPooledModel), {.tokens_max = 32, .prefill_tokens_max = 24});
  const std::vector<int32_t> prompt = PooledPrompt(70, harness.checkpoint().config.vocab);
  PooledStates sum(Pooling::kMean);
  for (size_t length = 1; length <= prompt.size(); ++length) {
    const SequenceRequest prefix =
        PooledRequest(length, {prompt.begin(), prompt.begin() + static_cast<int64_t>(length)}, Pooling::kLast);
    harness.RunOne(prefix);
    sum.Add(std::vector<float>(prefix.states->sum().begin(), prefix.states->sum().end()));
  }
  EXPECT_EQ(StateOf(harness, prompt, Pooling::kMean), std::vector<double>(sum.sum().begin(), sum.sum().end()));
  double squares = 0;
  for (const float value : sum.Normalised()) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(PooledStates, AreTheSameInEveryCompany) {
  EngineHarness harness(GoldenPath(kPooledModel), {.spare_score_blocks = 8});
  const int32_t vocab = harness.checkpoint().config.vocab;
  std::vector<std::vector<double>> alone;
  std::vector<SequenceRequest> together = {Greedy(100, PooledPrompt(33, vocab), 12)};
  uint64_t id = 0;
  for (const int32_t length : {1, 15, 16, 17, 63, 64, 65, 150}) {
    for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
      alone.push_back(StateOf(harness, PooledPrompt(length, vocab), pooling));
      SequenceRequest request = PooledRequest(++id, PooledPrompt(length, vocab), pooling);
      // A last token needs no other token's state: of a prompt that is known, the rest is not computed.
      if (pooling == Pooling::kLast) request = Sharing(std::move(request));
      together.push_back(std::move(request));
    }
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 1; i < together.size(); ++i)
      together[i].states = std::make_shared<PooledStates>(together[i].states->pooling());
    const std::vector<Generation> generations = harness.Run(together);
    for (size_t i = 1; i < together.size(); ++i) {
      const std::span<const double> sum = together[i].states->sum();
      EXPECT_EQ(std::vector<double>(sum.begin(), sum.end()), alone[i - 1]) << "request " << i << " of round " << round;
    }
    EXPECT_EQ(generations[15].cached, round * 144) << "of 150 tokens, for a last one";
    EXPECT_EQ(generations[16].cached, 0) << "for a mean";
  }
}

}  // namespace
}  // namespace hydrant
