// Times the ops over cached keys and values at the shapes of SmolLM2-135M (30 layers, 9 query and 3 KV heads of 64, bf16)
// against what the machine can do: decode against the read bandwidth, prefill against the peak of the products, H2O against
// the same attention without it. Correctness is tests/kernels/cpu's business, on the same code.
//
// Every row is one pass over all 30 layers, with a cache larger than any processor cache where the slots allow. "best" is the
// shortest pass, which other load on the machine disturbs least.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/bench/bandwidth.h"

namespace hydrant {
namespace {

constexpr int32_t kLayers = 30, kKvHeads = 3, kGroup = 3, kHeadDim = 64;
constexpr int32_t kQueryHeads = kKvHeads * kGroup;
constexpr int32_t kQkvCols = (kQueryHeads + 2 * kKvHeads) * kHeadDim;
constexpr int32_t kOutCols = kQueryHeads * kHeadDim;
constexpr float kScale = 0.125f;

// HYDRANT_BENCH_THREADS, or 2. One thread is timed by the processor time it gets, so that a busy machine can be measured on.
int Threads() {
  const char* text = std::getenv("HYDRANT_BENCH_THREADS");
  return text == nullptr ? 2 : std::max(std::atoi(text), 1);
}

double ReadBandwidth() {
  static const double value = MeasureReadBandwidth(Threads());
  return value;
}

double PeakProducts(KvType type) {
  static const double f32 = MeasurePeakF32(Threads());
  static const double bf16 = MeasurePeakBf16(Threads());
  return type == KvType::kBF16 && bf16 > 0.0 ? bf16 : f32;
}

double Now() {
  timespec now;
  clock_gettime(Threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Function>
double SecondsOf(Function function) {
  const double start = Now();
  function();
  return Now() - start;
}

EvictionPolicy H2o(int32_t heavy, int32_t recent) {
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = heavy;
  policy.recent = recent;
  return policy;
}

// A device, a cache of random keys and values, and `rows` sequences of `slots` slots.
class Cache {
 public:
  Cache(int32_t rows, int32_t slots, KvType type, int32_t tokens_max) : rows_(rows), slots_(slots) {
    device_ = CpuDevice::Create({.threads = Threads(), .isa = {}}).value();
    device_->ReserveScratch({.tokens_max = tokens_max,
                             .rows_max = rows,
                             .slots_max = slots,
                             .query_heads = kQueryHeads,
                             .head_dim = kHeadDim});
    const auto blocks_each = static_cast<int32_t>(BlocksForSlots(slots));
    kv_.layout = {.layers = kLayers,
                  .blocks = rows * blocks_each,
                  .kv_heads = kKvHeads,
                  .head_dim = kHeadDim,
                  .type = type,
                  .state_rows = rows};
    kv_.k = Allocate(kv_.layout.kv_bytes());
    kv_.v = Allocate(kv_.layout.kv_bytes());
    kv_.score = static_cast<float*>(Allocate(kv_.layout.score_count() * sizeof(float)));
    kv_.position = static_cast<int32_t*>(Allocate(kv_.layout.score_count() * sizeof(int32_t)));
    kv_.victim = static_cast<int32_t*>(Allocate(kv_.layout.victim_count() * sizeof(int32_t)));
    std::mt19937 random(1);
    for (void* side : {kv_.k, kv_.v}) {
      // Finite values of either sign around 1, whatever the type.
      if (type == KvType::kInt8) {
        for (size_t i = 0; i < kv_.layout.kv_bytes(); ++i)
          static_cast<uint8_t*>(side)[i] = static_cast<uint8_t>(random());
        for (size_t tile = 0; tile < kv_.layout.kv_bytes(); tile += kv_.layout.tile_bytes())
          std::fill_n(reinterpret_cast<float*>(static_cast<std::byte*>(side) + tile), kBlockSlots, 0x1p-6f);
      } else if (type == KvType::kF32) {
        for (size_t i = 0; i < kv_.layout.kv_bytes() / 4; ++i)
          static_cast<float*>(side)[i] = static_cast<float>(random() % 256) / 64.0f - 2.0f;
      } else {
        for (size_t i = 0; i < kv_.layout.kv_bytes() / 2; ++i)
          static_cast<uint16_t*>(side)[i] = static_cast<uint16_t>(0x3f00 | (random() & 0x80ff));
      }
    }
    std::vector<int32_t> order(static_cast<size_t>(kv_.layout.blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (int32_t row = 0; row < rows; ++row) {
      tables_.emplace_back(order.begin() + row * blocks_each, order.begin() + (row + 1) * blocks_each);
    }
    PlantPositions();
    qkv_.resize(static_cast<size_t>(tokens_max) * kQkvCols);
    for (float& x : qkv_) x = static_cast<float>(random() % 256) / 128.0f - 1.0f;
    out_.resize(static_cast<size_t>(tokens_max) * kOutCols);
    ids_.resize(static_cast<size_t>(tokens_max));
  }

  const KvCacheLayout& layout() const { return kv_.layout; }

  // Positions in random order, as in-place victims leave them, and random scores.
  void PlantPositions() {
    std::mt19937 random(2);
    std::vector<int32_t> positions(static_cast<size_t>(slots_));
    std::iota(positions.begin(), positions.end(), 0);
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      for (int32_t row = 0; row < rows_; ++row) {
        for (int32_t head = 0; head < kKvHeads; ++head) {
          std::shuffle(positions.begin(), positions.end(), random);
          for (int32_t slot = 0; slot < slots_; ++slot) {
            const int64_t block = tables_[static_cast<size_t>(row)][static_cast<size_t>(slot / kBlockSlots)];
            const int64_t at =
                ((int64_t{layer} * kv_.layout.blocks + block) * kKvHeads + head) * kBlockSlots + slot % kBlockSlots;
            kv_.position[at] = positions[static_cast<size_t>(slot)];
            kv_.score[at] = static_cast<float>(random() % 100000) / 1000.0f;
          }
        }
      }
    }
  }

  // Rotation of whole heads, for rolling policies.
  void MakeRope() {
    std::vector<double> inv_freq;
    for (int32_t i = 0; i < kHeadDim / 2; ++i) inv_freq.push_back(std::pow(10000.0, -2.0 * i / kHeadDim));
    rope_ = device_->MakeRope({.dims = kHeadDim, .inv_freq = inv_freq, .positions_max = slots_});
  }

  // One decode token per sequence over all slots.
  double Decode(const EvictionPolicy& policy) {
    std::vector<BatchRow> rows;
    for (int32_t i = 0; i < rows_; ++i) {
      rows.push_back({{.state_row = i,
                       .position = slots_ - 1,
                       .live = slots_,
                       .reuse_victim = true,
                       .choose_victim = policy.evicts},
                      {.block_table = tables_[static_cast<size_t>(i)]},
                      /*token_begin=*/i,
                      /*token_count=*/1,
                      policy});
    }
    return Pass(rows, rows_, false);
  }

  // A prompt of all slots, in one chunk; with_write: rope's and the writes' share as well.
  double Prefill(const EvictionPolicy& policy, bool with_write) {
    const std::vector<BatchRow> rows = {{{.prompt_length = slots_, .prefill = true},
                                         {.block_table = tables_[0]},
                                         /*token_begin=*/0,
                                         /*token_count=*/slots_,
                                         policy}};
    return Pass(rows, slots_, with_write);
  }

  double Shrink(const EvictionPolicy& policy) {
    const ShrinkOp op{.live_from = slots_,
                      .live_to = policy.keep(),
                      .logical_length = slots_,
                      .prompt_cut = true,
                      .policy = policy,
                      .block_table = tables_[0]};
    return SecondsOf([&] { device_->Shrink({&op, 1}, kv_); });
  }

 private:
  double Pass(const std::vector<BatchRow>& rows, int64_t tokens, bool with_write) {
    const Matrix qkv{.data = qkv_.data(), .rows = tokens, .cols = kQkvCols};
    const Matrix out{.data = out_.data(), .rows = tokens, .cols = kOutCols};
    device_->BeginStep({.token_ids = std::span(ids_).first(static_cast<size_t>(tokens)), .rows = rows});
    return SecondsOf([&] {
      for (int32_t layer = 0; layer < kLayers; ++layer) {
        if (with_write) device_->RopeAndWriteKv(nullptr, {}, layer, qkv, kv_);
        device_->Attention(rope_.get(), {.scale = kScale}, layer, qkv, kv_, out);
      }
    });
  }

  void* Allocate(size_t bytes) {
    buffers_.push_back(device_->Allocate(bytes));
    return buffers_.back()->data();
  }

  const int32_t rows_;
  const int32_t slots_;
  std::unique_ptr<CpuDevice> device_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  KvCacheView kv_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<float> qkv_, out_;
  std::vector<int32_t> ids_;
  std::unique_ptr<RopeTable> rope_;
};

KvType TypeOf(int64_t bytes) { return bytes == 4 ? KvType::kF32 : bytes == 2 ? KvType::kBF16 : KvType::kInt8; }

// Arguments: sequences, slots of each, bytes of an element. "h2o" is the time of the same pass with scores and victims over
// the time without, "rolling" that with keys rotated to their ranks over the one of h2o, passes alternating, shortest of each.
void BM_Decode(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0)), slots = static_cast<int32_t>(state.range(1));
  const KvType type = TypeOf(state.range(2));
  Cache cache(rows, slots, type, rows);
  cache.MakeRope();
  double best = 1e9, best_h2o = 1e9, best_rolling = 1e9;
  for (auto _ : state) {
    const double plain = cache.Decode(EvictionPolicy());
    EvictionPolicy policy = H2o(slots / 2 - 1, slots / 2);
    best_h2o = std::min(best_h2o, cache.Decode(policy));
    policy.rolling = true;
    best_rolling = std::min(best_rolling, cache.Decode(policy));
    best = std::min(best, plain);
    state.SetIterationTime(plain);
  }
  const double bytes = 2.0 * rows * slots / kBlockSlots * static_cast<double>(cache.layout().block_kv_bytes());
  state.counters["best_us"] = best * 1e6;
  state.counters["GB/s"] = bytes / best * 1e-9;
  state.counters["%read"] = bytes / best / ReadBandwidth() * 100.0;
  state.counters["h2o"] = best_h2o / best;
  state.counters["rolling"] = best_rolling / best_h2o;
}
BENCHMARK(BM_Decode)
    ->Args({1, 257, 2})
    ->Args({8, 257, 2})
    ->Args({32, 257, 2})
    ->Args({8, 513, 2})
    ->Args({1, 2048, 2})
    ->Args({1, 8192, 2})
    ->Args({8, 8192, 2})
    ->Args({1, 8192, 4})
    ->Args({8, 257, 1})
    ->Args({1, 8192, 1})
    ->Args({8, 8192, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(1.0);

// Arguments: prompt tokens, bytes of an element. "write" is the share of rope (none here) and KV writes.
void BM_Prefill(benchmark::State& state) {
  const auto tokens = static_cast<int32_t>(state.range(0));
  const KvType type = TypeOf(state.range(1));
  Cache cache(1, tokens, type, tokens);
  cache.MakeRope();
  double best = 1e9, best_h2o = 1e9, best_rolling = 1e9, best_write = 1e9;
  for (auto _ : state) {
    const double plain = cache.Prefill(EvictionPolicy(), false);
    EvictionPolicy policy = H2o(64, 64);
    best_h2o = std::min(best_h2o, cache.Prefill(policy, false));
    policy.rolling = true;
    best_rolling = std::min(best_rolling, cache.Prefill(policy, false));
    best_write = std::min(best_write, cache.Prefill(EvictionPolicy(), true));
    best = std::min(best, plain);
    state.SetIterationTime(plain);
  }
  // Two products of head_dim multiply-adds per visible (query, key) pair and query head.
  const double operations = 4.0 * kHeadDim * kQueryHeads * kLayers * tokens * (tokens + 1.0) / 2.0;
  state.counters["best_ms"] = best * 1e3;
  state.counters["GFLOP/s"] = operations / best * 1e-9;
  state.counters["%peak"] = operations / best / PeakProducts(type) * 100.0;
  state.counters["h2o"] = best_h2o / best;
  state.counters["rolling"] = best_rolling / best_h2o;
  state.counters["write_ms"] = (best_write - best) * 1e3;
}
BENCHMARK(BM_Prefill)
    ->Args({512, 2})
    ->Args({2048, 2})
    ->Args({512, 4})
    ->Args({2048, 4})
    ->Args({512, 1})
    ->Args({2048, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(1.0);

// Arguments: slots before, slots after, pool width.
void BM_Shrink(benchmark::State& state) {
  const auto slots = static_cast<int32_t>(state.range(0)), keep = static_cast<int32_t>(state.range(1));
  Cache cache(1, slots, KvType::kBF16, 1);
  EvictionPolicy policy = H2o(keep / 2, keep - keep / 2);
  policy.pool_width = static_cast<int32_t>(state.range(2));
  double best = 1e9;
  for (auto _ : state) {
    cache.PlantPositions();
    const double seconds = cache.Shrink(policy);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["best_us"] = best * 1e6;
}
BENCHMARK(BM_Shrink)
    ->Args({2000, 256, 1})
    ->Args({2000, 256, 15})
    ->Args({8192, 1024, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(20);

struct SamplingCase {
  const char* name;
  SamplingParams params;
  int32_t logprobs;
};
const SamplingCase kSamplingCases[] = {
    {"greedy", {.temperature = 0.0f}, -1},
    {"plain", {}, -1},
    {"top_p", {.top_p = 0.95f}, -1},
    {"top_k_top_p_min_p", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40, .min_p = 0.05f}, -1},
    {"greedy_logprobs_5", {.temperature = 0.0f}, 5},
};

// Arguments: case, vocabulary.
void BM_Sample(benchmark::State& state) {
  const SamplingCase& test = kSamplingCases[state.range(0)];
  const int64_t vocab = state.range(1);
  const auto device = CpuDevice::Create({.threads = Threads(), .isa = {}}).value();
  device->ReserveScratch({.vocab = vocab});
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& x : logits) x = normal(random);
  SampleRequest request{.params = &test.params, .logprobs = test.logprobs};
  SampleResult result;
  double best = 1e9;
  for (auto _ : state) {
    ++request.position;
    best = std::min(best, SecondsOf([&] {
                      device->AwaitSample(device->Sample({.data = logits.data(), .rows = 1, .cols = vocab},
                                                         {&request, 1}, {&result, 1}));
                    }));
  }
  state.SetLabel(test.name);
  state.counters["best_us"] = best * 1e6;
}
BENCHMARK(BM_Sample)->ArgsProduct({{0, 1, 2, 3, 4}, {49152, 151936}})->Unit(benchmark::kMicrosecond)->MinTime(0.2);

}  // namespace
}  // namespace hydrant

BENCHMARK_MAIN();
