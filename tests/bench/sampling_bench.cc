// What choosing one token costs, by what is asked of it: a row of 49,152 logits, one thread. Beside it what a sequence keeps
// to itself between two tokens (LogitShaper).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "server/engine/logit_shaper.h"

namespace hydrant {
namespace {

constexpr int32_t kVocab = 49152;  // SmolLM2's

struct Row {
  Row() : logits(kVocab), device(CpuDevice::Create({.threads = 1}).value()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (float& x : logits) x = normal(random);
    device->ReserveScratch({.vocab = kVocab});
  }
  void Sample(const SampleRequest& request) {
    SampleResult result;
    device->AwaitSample(
        device->Sample({.data = logits.data(), .rows = 1, .cols = kVocab}, {&request, 1}, {&result, 1}));
    benchmark::DoNotOptimize(result.id);
  }

  std::vector<float> logits;
  std::unique_ptr<CpuDevice> device;
};

// Rules that ask for everything, for a text of `length` tokens.
LogitShaper Everything(int64_t length) {
  LogitRules rules;
  for (int32_t id = 0; id < 1000; ++id) rules.options.logit_bias.push_back({id * 7, 0.5f});
  for (int32_t word = 0; word < 128; ++word) rules.bad_words.push_back({word, word + 1, word + 2});
  rules.stop_ids = {2};
  rules.min_tokens = 1 << 30;
  rules.options.repetition_penalty = 1.1f;
  rules.options.frequency_penalty = 0.1f;
  rules.options.presence_penalty = 0.1f;
  std::mt19937 random(2);
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t& id : prompt) id = static_cast<int32_t>(random() % kVocab);
  return LogitShaper(std::make_shared<const LogitRules>(std::move(rules)), prompt);
}

void BM_Sample(benchmark::State& state, SamplingParams params, int32_t logprobs) {
  Row row;
  for (auto _ : state) row.Sample({.params = &params, .logprobs = logprobs});
}

void BM_SampleAdjusted(benchmark::State& state, SamplingParams params, LogitAdjustments adjustments) {
  Row row;
  for (auto _ : state) row.Sample({.params = &params, .adjustments = &adjustments});
}

// The argument: tokens of the text.
void BM_SampleEverything(benchmark::State& state, SamplingParams params) {
  Row row;
  LogitShaper shaper = Everything(state.range(0));
  for (auto _ : state) row.Sample({.params = &params, .adjustments = shaper.Next()});
}

void BM_Shaper(benchmark::State& state) {
  LogitShaper shaper = Everything(state.range(0));
  int32_t token = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(shaper.Next());
    shaper.Push(token);
    token = (token * 5 + 1) % kVocab;
  }
}

const std::vector<TokenBias> kOneBias = {{5, 1.0f}};
const std::vector<int32_t> kAllowed = {1, 2, 3, 1000};
const std::vector<uint32_t> kFewBits((kVocab + 31) / 32, 1u);

const SamplingParams kGreedy = {.temperature = 0.0f};
const SamplingParams kFilters = {.temperature = 0.8f, .top_p = 0.95f, .top_k = 50, .min_p = 0.01f};

BENCHMARK_CAPTURE(BM_Sample, greedy, kGreedy, -1);
BENCHMARK_CAPTURE(BM_Sample, draw, SamplingParams{}, -1);
BENCHMARK_CAPTURE(BM_Sample, filters, kFilters, -1);
BENCHMARK_CAPTURE(BM_Sample, greedy_logprobs_0, kGreedy, 0);  // as turns that --kv-audit draws
BENCHMARK_CAPTURE(BM_Sample, greedy_logprobs_20, kGreedy, 20);
BENCHMARK_CAPTURE(BM_SampleAdjusted, greedy_one_bias, kGreedy, LogitAdjustments{.biases = kOneBias});
BENCHMARK_CAPTURE(BM_SampleAdjusted, greedy_allowed, kGreedy, LogitAdjustments{.allowed = kAllowed});
BENCHMARK_CAPTURE(BM_SampleAdjusted, greedy_bits, kGreedy, LogitAdjustments{.allowed_bits = kFewBits});
BENCHMARK_CAPTURE(BM_SampleAdjusted, filters_bits, kFilters, LogitAdjustments{.allowed_bits = kFewBits});
BENCHMARK_CAPTURE(BM_SampleEverything, greedy, kGreedy)->Arg(100)->Arg(8192);
BENCHMARK_CAPTURE(BM_SampleEverything, filters, kFilters)->Arg(100)->Arg(8192);
BENCHMARK(BM_Shaper)->Arg(100)->Arg(8192);

}  // namespace
}  // namespace hydrant

BENCHMARK_MAIN();
