#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/sampling/sampling.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

constexpr double kUniform = 0.37;

// `top` best tokens with their log-probabilities and the rank of the one that is sampled; -1: none of it.
void Sampling(Bench& bench, int64_t vocab, int32_t rows, const SamplingParams& params, const std::string& name,
              int32_t top = -1) {
  const auto logits = Normal(static_cast<size_t>(rows * vocab), 9, 3.0f);
  const auto on_device = bench.Upload(logits);
  std::vector<SampleTask> tasks(static_cast<size_t>(rows));
  for (int32_t row = 0; row < rows; ++row) {
    SampleTask& task = tasks[static_cast<size_t>(row)];
    task = {};
    task.logits_row = row;
    task.scored_id = -1;
    task.state_row = row;
    task.top = top;
    task.rank = top >= 0;
    task.params = params;
    task.uniform = kUniform;
  }
  const auto at = bench.Upload(tasks);
  const CudaBuffer outcomes(sizeof(SampleOutcome) * static_cast<size_t>(rows)),
      tops(sizeof(TopToken) * static_cast<size_t>(rows * vocab)), ids(sizeof(int32_t) * static_cast<size_t>(rows));
  const CudaBuffer scratch(SampleScratchBytes(vocab));
  CheckCuda(cudaMemsetAsync(scratch.data(), 0, scratch.bytes(), bench.stream()), "cudaMemsetAsync");
  bench.Poison(outcomes);
  const double seconds = bench.Time([&](int) {
    LaunchSample(bench.stream(), static_cast<const float*>(on_device->data()), vocab, tasks,
                 static_cast<const SampleTask*>(at->data()), static_cast<SampleOutcome*>(outcomes.data()),
                 static_cast<TopToken*>(tops.data()), scratch.data(), static_cast<int32_t*>(ids.data()));
  });
  const auto done = bench.Read<SampleOutcome>(outcomes.data(), static_cast<size_t>(rows));
  bool correct = true;
  for (int32_t row = 0; row < rows; ++row) {
    const auto begin = logits.begin() + row * vocab;
    const auto best = static_cast<int32_t>(std::max_element(begin, begin + vocab) - begin);
    const int32_t id = done[static_cast<size_t>(row)].id;
    correct = correct && (params.temperature == 0.0f ? id == best : id >= 0 && id < vocab);
  }
  // The share of the row that lies before the drawn id, and before the next: the oracle's weights are of more digits.
  for (const int32_t row : {0, rows - 1}) {
    if (params.temperature == 0.0f || !correct) continue;
    const reference::Values p = reference::SamplingDistribution(
        Doubles(&logits[static_cast<size_t>(row * vocab)], static_cast<size_t>(vocab)), params);
    const auto id = p.begin() + done[static_cast<size_t>(row)].id;
    const double below = std::accumulate(p.begin(), id, 0.0);
    correct = correct && below - 1e-3 <= kUniform && kUniform < below + *id + 1e-3;
  }
  for (const int32_t row : {0, rows - 1}) {
    if (top < 0 || !correct) continue;
    const float* of_row = &logits[static_cast<size_t>(row * vocab)];
    const SampleOutcome& outcome = done[static_cast<size_t>(row)];
    const auto ranked = reference::Ranked(Doubles(of_row, static_cast<size_t>(vocab)));
    double sum = 0.0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(of_row[i] - outcome.largest));
    const auto rank = std::find(ranked.begin(), ranked.end(), outcome.id) - ranked.begin() + 1;
    auto best = std::vector<int32_t>(ranked.begin(), ranked.begin() + top);
    std::sort(best.begin(), best.end());  // they come by ascending id
    const auto reported =
        bench.Read<TopToken>(static_cast<TopToken*>(tops.data()) + row * vocab, static_cast<size_t>(top));
    for (size_t i = 0; i < reported.size(); ++i) {
      correct = correct && reported[i].id == best[i] && reported[i].logit == of_row[best[i]];
    }
    correct = correct && outcome.rank == rank && std::abs(outcome.log_total - std::log(sum)) < 1e-5;
  }
  bench.Bytes("L2: sampling " + name + ", " + std::to_string(rows) + " rows", seconds,
              static_cast<double>(rows) * static_cast<double>(vocab) * 4, correct);
}

}  // namespace

void BenchSampling(Bench& bench) {
  const int64_t vocab = bench.small() ? 700 : 128256;
  const int32_t rows = bench.small() ? 2 : 64;
  Sampling(bench, vocab, 1, {.temperature = 0.0f}, "greedy");
  Sampling(bench, vocab, rows, {.temperature = 0.0f}, "greedy");
  Sampling(bench, vocab, rows, {.temperature = 0.8f}, "plain");
  Sampling(bench, vocab, 1, {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50}, "top_k and top_p");
  Sampling(bench, vocab, rows, {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50}, "top_k and top_p");
  Sampling(bench, vocab, rows, {.temperature = 0.8f, .top_p = 0.9f}, "top_p");
  Sampling(bench, vocab, rows, {.temperature = 2.0f, .top_p = 0.95f}, "top_p, hot");
  Sampling(bench, vocab, rows, {.temperature = 0.0f}, "greedy, 20 log-probs", 20);
  Sampling(bench, vocab, rows, {.temperature = 0.8f}, "plain, 20 log-probs", 20);
}

}  // namespace hydrant::cuda
