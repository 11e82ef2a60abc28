#include "kernels/cuda/sampling/sample_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.h"

namespace hydrant {
namespace {

// How often the host waited for the device: only a simulated one counts.
int64_t Waits() {
#ifdef HYDRANT_TESTS_SIMT_INCLUDE_CUDA_RUNTIME_H_
  return simt::Waits();
#else
  return 0;
#endif
}

// Steps in which every row goes on from what it sampled in the last one.
struct Streak {
  static constexpr int32_t kRows = 70;  // more than one launch of the sampler
  static constexpr int64_t kVocab = 90, kCols = 24;

  explicit Streak(bool fed_by_device) : fed(fed_by_device), device(CudaDevice::Create({}).value()) {
    device->ReserveScratch({.tokens_max = 80,
                            .rows_max = kRows,
                            .slots_max = 32,
                            .cols_max = kCols,
                            .query_heads = 1,
                            .head_dim = 8,
                            .vocab = kVocab});
    std::vector<float> values(static_cast<size_t>(kVocab * kCols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 101) - 50.0f;
    const RowReader reader = [&values](int64_t begin, int64_t end, float* out) {
      std::copy(values.begin() + begin * kCols, values.begin() + end * kCols, out);
    };
    words = device->MakeLinear({.rows = kVocab, .cols = kCols}, reader, {});
    std::reverse(values.begin(), values.end());
    head = device->MakeLinear({.rows = kVocab, .cols = kCols}, reader, {});
    x = device->Allocate(80 * kCols * sizeof(float));
    last = device->Allocate(64 * kCols * sizeof(float));
    logits = device->Allocate(64 * kVocab * sizeof(float));
    for (int32_t i = 0; i < kRows; ++i) ids[0].push_back(i);
  }

  // Step `step`, 1 being the first. ids[step] are there when Await has returned for it.
  void Launch(size_t step) {
    std::vector<BatchRow> rows;
    for (int32_t i = 0; i < kRows; ++i) {
      rows.push_back({{.state_row = kRows - 1 - i, .position = 5, .live = 5},
                      {.block_table = table},
                      /*token_begin=*/i,
                      /*token_count=*/1});
    }
    const std::vector<int32_t> tokens = fed && step > 1 ? std::vector<int32_t>(kRows, kSampledId) : ids[step - 1];
    const Matrix all{.data = x->data(), .rows = device->BeginStep({.token_ids = tokens, .rows = rows}), .cols = kCols};
    device->RunLayers(this, [&] { device->Embed(words.get(), 1, nullptr, all); });
    results[step % 2].assign(kRows, SampleResult());
    for (int32_t begin = 0; begin < kRows; begin += 64) {
      const int32_t count = std::min(64, kRows - begin);
      std::vector<int32_t> places;
      std::vector<SampleRequest> requests;
      for (int32_t i = 0; i < count; ++i) {
        places.push_back(begin + i);
        requests.push_back({.logits_row = i,
                            .params = &params,
                            .position = int64_t{begin + i} + 1000 * static_cast<int64_t>(step),
                            .logprobs = i % 5 - 1,
                            .state_row = kRows - 1 - begin - i});
      }
      const Matrix gathered{.data = last->data(), .rows = count, .cols = kCols};
      const Matrix out{.data = logits->data(), .rows = count, .cols = kVocab};
      device->GatherRows(all, places, gathered);
      device->Linear(*head, gathered, out, /*accumulate=*/false);
      number[step % 2] = device->Sample(
          out, requests, std::span(results[step % 2]).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)));
    }
  }
  void Await(size_t step) {
    device->AwaitSample(number[step % 2]);
    for (const SampleResult& result : results[step % 2]) {
      ids[step].push_back(result.id);
      logprobs.push_back(result.logprob);
      for (const TokenLogprob& top : result.top) logprobs.push_back(top.logprob);
    }
  }

  const bool fed;
  std::unique_ptr<CudaDevice> device;
  SamplingParams params = {.temperature = 1.5f, .key = 3};
  std::unique_ptr<LinearWeight> words, head;
  std::unique_ptr<DeviceBuffer> x, last, logits;
  std::vector<int32_t> table = {0};
  std::vector<int32_t> ids[10];  // [step]
  std::vector<float> logprobs;
  std::vector<SampleResult> results[2];  // of the steps in flight
  uint64_t number[2] = {};
};

// While a step is computed the next one is queued; the host waits for nothing but results. And what comes out is the same.
TEST(SampleQueue, TheNextStepIsQueuedWithoutWaiting) {
  Streak one(/*fed_by_device=*/false), ahead(/*fed_by_device=*/true);
  for (size_t step = 1; step < 10; ++step) {
    one.Launch(step);
    one.Await(step);
  }
  ahead.Launch(1);
  for (size_t step = 1; step < 10; ++step) {
    const int64_t before = Waits();
    if (step < 9) ahead.Launch(step + 1);
    EXPECT_EQ(Waits(), before) << step;
    ahead.Await(step);
    EXPECT_LE(Waits(), before + 2) << "one for each launch of the sampler";
  }
  for (size_t step = 1; step < 10; ++step) EXPECT_EQ(one.ids[step], ahead.ids[step]) << step;
  EXPECT_EQ(one.logprobs, ahead.logprobs);
  EXPECT_NE(one.ids[9], one.ids[8]);
}

// Results come with their call or a later one, however many calls there are and whatever they ask for.
TEST(SampleQueue, ManyCallsMayBeOnTheirWay) {
  constexpr int64_t kVocab = 100;
  constexpr size_t kCalls = 9;
  const auto device = CudaDevice::Create({}).value();
  device->ReserveScratch({.rows_max = 3, .vocab = kVocab});
  std::vector<float> values(static_cast<size_t>(3 * kVocab));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 97) / 10.0f;
  const auto memory = device->Allocate(values.size() * sizeof(float));
  device->CopyToDevice(memory->data(), values.data(), values.size() * sizeof(float));
  const Matrix logits{.data = memory->data(), .rows = 3, .cols = kVocab};
  const SamplingParams params = {.key = 8};
  const auto request = [&params](size_t call, int32_t row) {
    return SampleRequest{.logits_row = row,
                         .params = &params,
                         .position = static_cast<int64_t>(call),
                         .logprobs = static_cast<int32_t>(call) * 7 - 1};
  };
  std::vector<SampleResult> results[kCalls];
  uint64_t numbers[kCalls];
  for (size_t call = 0; call < kCalls; ++call) {
    // The last one asks for nothing.
    const auto rows = static_cast<int32_t>(call + 1 < kCalls ? 1 + call % 3 : 0);
    std::vector<SampleRequest> requests;
    for (int32_t row = 0; row < rows; ++row) requests.push_back(request(call, row));
    results[call].resize(requests.size());
    numbers[call] = device->Sample(logits, requests, results[call]);
    EXPECT_EQ(numbers[call], call + 1);
  }
  device->AwaitSample(numbers[3]);
  EXPECT_NE(results[3][0].id, -1);
  device->AwaitSample(numbers[kCalls - 1]);
  for (size_t call = 0; call < kCalls; ++call) {
    for (size_t row = 0; row < results[call].size(); ++row) {
      const SampleRequest asked = request(call, static_cast<int32_t>(row));
      SampleResult alone;
      device->AwaitSample(device->Sample(logits, {&asked, 1}, {&alone, 1}));
      EXPECT_EQ(results[call][row].id, alone.id);
      EXPECT_EQ(results[call][row].logprob, alone.logprob);
      ASSERT_EQ(results[call][row].top.size(), static_cast<size_t>(std::max(asked.logprobs, 0)));
      for (size_t i = 0; i < alone.top.size(); ++i) {
        EXPECT_EQ(results[call][row].top[i].id, alone.top[i].id);
        EXPECT_EQ(results[call][row].top[i].logprob, alone.top[i].logprob);
      }
    }
  }
}

}  // namespace
}  // namespace hydrant
