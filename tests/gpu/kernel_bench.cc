// Times the kernels of kernels/cuda at the shapes of an 8B Llama against what the device can do. Products and attention are
// compared with the double-precision oracle at some places in the same run, the rest only for plausibility: the oracles of all
// are cuda_device_gpu_test and cuda_kv_gpu_test. Needs nothing but the CUDA toolkit.
//
// The limit is measured first: a large copy gives the memory's GB/s (bytes read plus bytes written). Weights rotate among
// copies larger than the cache; what is marked L2 fits there, and its share of the memory's speed may be above one. Prints a table; an argument names a file for the same as JSON.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/eviction.h"
#include "kernels/cuda/matvec.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/skinny_gemm.h"
#include "kernels/cuda/step_table.h"
#include "kernels/reference.h"

namespace hydrant::cuda {
namespace {

using reference::Values;

struct Line {
  std::string name;
  double seconds, amount, of_limit;  // amount: bytes or operations
  bool counts_operations, correct;
};

class Bench {
 public:
  Bench() {
    CheckCuda(cudaEventCreate(&begin_), "cudaEventCreate");
    CheckCuda(cudaEventCreate(&end_), "cudaEventCreate");
    CheckCuda(cublasSetStream(blas_, stream_), "cublasSetStream");
    CheckCuda(cublasSetWorkspace(blas_, workspace_.data(), workspace_.bytes()), "cublasSetWorkspace");
    CheckCuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    MeasureCopy();
  }

  // Median over `repeats` of the time of one launch, of which `run` follow each other: the time that a launch takes on the host
  // is not the kernel's. `launch(i)` may take another operand each time. `prepare` runs before each of the repeats.
  double Time(
      const std::function<void(int)>& launch, int repeats = 15, int run = 10,
      const std::function<void()>& prepare = [] {}) {
    std::vector<float> times;
    for (int repeat = -2; repeat < repeats; ++repeat) {
      prepare();
      CheckCuda(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      for (int i = 0; i < run; ++i) launch(i);
      CheckCuda(cudaEventRecord(end_, stream_), "cudaEventRecord");
      CheckCuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float ms = 0;
      CheckCuda(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      if (repeat >= 0) times.push_back(ms / static_cast<float>(run));  // the first ones warm up
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] * 1e-3;
  }

  // Of a kernel that takes no longer than its launch does: ten launches are one graph, as they are in a step.
  double TimeCaptured(const std::function<void(int)>& launch) {
    constexpr int kRun = 10;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t recorded = nullptr;
    CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < kRun; ++i) launch(i);
    CheckCuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    CheckCuda(cudaGraphInstantiate(&recorded, graph, 0), "cudaGraphInstantiate");
    const double seconds = Time([&](int) { CheckCuda(cudaGraphLaunch(recorded, stream_), "cudaGraphLaunch"); },
                                /*repeats=*/15, /*run=*/1);
    CheckCuda(cudaGraphExecDestroy(recorded), "cudaGraphExecDestroy");
    CheckCuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return seconds / kRun;
  }

  void Bytes(const std::string& name, double seconds, double bytes, bool correct) {
    lines_.push_back({name, seconds, bytes, bytes / seconds / copy_rate_, false, correct});
    Print(lines_.back());
  }
  void Operations(const std::string& name, double seconds, double operations, bool correct) {
    lines_.push_back({name, seconds, operations, operations / seconds / kBf16Rate, true, correct});
    Print(lines_.back());
  }

  // `limit`: seconds that a plain copy takes.
  void Bus(const std::string& name, double seconds, double bytes, double limit, bool correct) {
    lines_.push_back({name, seconds, bytes, limit / seconds, false, correct});
    Print(lines_.back());
  }

  std::unique_ptr<CudaBuffer> Upload(const void* data, size_t bytes) {
    auto buffer = std::make_unique<CudaBuffer>(bytes);
    CheckCuda(cudaMemcpyAsync(buffer->data(), data, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return buffer;
  }
  template <typename T>
  std::unique_ptr<CudaBuffer> Upload(const std::vector<T>& values) {
    return Upload(values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> Read(const void* data, size_t count) {
    std::vector<T> values(count);
    CheckCuda(cudaMemcpyAsync(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return values;
  }

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t blas() const { return blas_; }
  int32_t multiprocessors() const { return multiprocessors_; }
  bool correct() const {
    return std::all_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.correct; });
  }

  void WriteJson(const char* path) const {
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) return;
    std::fprintf(file, "{\"copy_gb_s\": %.1f, \"kernels\": [", copy_rate_ * 1e-9);
    for (size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      std::fprintf(file, "%s\n {\"name\": \"%s\", \"us\": %.3f, \"%s\": %.3f, \"of_limit\": %.4f, \"correct\": %s}",
                   i ? "," : "", line.name.c_str(), line.seconds * 1e6, line.counts_operations ? "tflop_s" : "gb_s",
                   line.amount / line.seconds * (line.counts_operations ? 1e-12 : 1e-9), line.of_limit,
                   line.correct ? "true" : "false");
    }
    std::fprintf(file, "]}\n");
    std::fclose(file);
  }

 private:
  // Dense bf16 of an H100 SXM or H200, as the datasheet has it: the share of it is a share of the chip, not of a library.
  static constexpr double kBf16Rate = 989e12;

  void MeasureCopy() {
    constexpr size_t kBytes = size_t{1} << 30;
    const CudaBuffer from(kBytes), to(kBytes);
    CheckCuda(cudaMemsetAsync(from.data(), 0x5a, kBytes, stream_), "cudaMemsetAsync");
    const double seconds = Time([&](int) {
      CheckCuda(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
    });
    copy_rate_ = 2.0 * kBytes / seconds;
    std::printf("copy of 1 GiB: %.0f GB/s, read plus written\n\n%-46s %10s %12s %9s\n", copy_rate_ * 1e-9, "kernel",
                "us", "rate", "of limit");
  }
  static void Print(const Line& line) {
    std::printf("%-46s %10.2f %8.1f %s %7.1f%%%s\n", line.name.c_str(), line.seconds * 1e6,
                line.amount / line.seconds * (line.counts_operations ? 1e-12 : 1e-9),
                line.counts_operations ? "TF " : "GB ", line.of_limit * 100, line.correct ? "" : "  WRONG");
    std::fflush(stdout);
  }

  const Stream stream_;  // first: without a device its error says so, the library's does not
  BlasHandle blas_;
  const CudaBuffer workspace_{size_t{32} << 20};
  int multiprocessors_ = 0;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double copy_rate_ = 0;
  std::vector<Line> lines_;
};

std::vector<float> Normal(size_t count, uint64_t seed, float spread = 1.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

std::vector<__nv_bfloat16> ToBf16(const std::vector<float>& values) {
  std::vector<__nv_bfloat16> rounded;
  for (const float x : values) rounded.push_back(__float2bfloat16_rn(x));
  return rounded;
}

Values Doubles(const __nv_bfloat16* from, size_t count) {
  Values values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(__bfloat162float(from[i])));
  return values;
}

// --- products ---------------------------------------------------------------------------------------------------------

struct Product {
  int64_t rows, cols;
  bool gated;
  int64_t outputs() const { return gated ? rows / 2 : rows; }
};

// Some outputs of `y` [n, outputs] against the oracle.
bool SameProduct(const Product& product, const std::vector<__nv_bfloat16>& w, const std::vector<float>& x, int64_t n,
                 const std::vector<float>& y) {
  const auto [rows, cols, gated] = product;
  const int64_t outputs = product.outputs();
  for (int64_t check = 0; check < 64; ++check) {
    const int64_t row = check * 7919 % outputs, of = check % n;
    Values xr;
    for (int64_t i = 0; i < cols; ++i) {
      xr.push_back(reference::RoundTo(DType::kBF16, static_cast<double>(x[static_cast<size_t>(of * cols + i)])));
    }
    const auto dot = [&, cols = cols](int64_t r) {
      return reference::Linear(xr, 1, Doubles(&w[static_cast<size_t>(r * cols)], static_cast<size_t>(cols)), 1,
                               cols)[0];
    };
    const double expected = gated ? reference::Activate(Activation::kSilu, dot(row)) * dot(row + outputs) : dot(row);
    if (!(std::abs(static_cast<double>(y[static_cast<size_t>(of * outputs + row)]) - expected) < 1e-3)) return false;
  }
  return true;
}

// The products of decode steps: up to four rows, up to 64, and the library's beside them (ungated and unfinished, as it comes).
void Products(Bench& bench, const std::string& name, const Product& product) {
  const auto [rows, cols, gated] = product;
  const auto w = ToBf16(Normal(static_cast<size_t>(rows * cols), 1, 0.02f));
  const auto x = Normal(static_cast<size_t>(kSkinnyRowsMax * cols), 2);
  // Several copies, so that none is in the cache when its turn comes again.
  const size_t bytes = w.size() * 2;
  std::vector<std::unique_ptr<CudaBuffer>> weights;
  for (size_t taken = 0; taken < size_t{256} << 20; taken += bytes) weights.push_back(bench.Upload(w));
  const auto weight = [&, rows = rows, cols = cols](int i) {
    return WeightView{weights[static_cast<size_t>(i) % weights.size()]->data(), DType::kBF16, rows, cols, cols};
  };
  const auto in = bench.Upload(x), rounded = bench.Upload(ToBf16(x));
  const CudaBuffer out(static_cast<size_t>(kSkinnyRowsMax * rows) * sizeof(float));
  auto* y = static_cast<float*>(out.data());
  const int32_t multiprocessors = bench.multiprocessors();
  const CudaBuffer scratch(SkinnyScratchBytes(multiprocessors));
  CheckCuda(cudaMemsetAsync(scratch.data(), 0, scratch.bytes(), bench.stream()), "cudaMemsetAsync");
  const Finish finish = gated ? Finish::kGate : Finish::kStore;
  const auto line = [&](const std::string& kernel, int64_t n, double seconds, bool correct) {
    bench.Bytes(kernel + " " + name + ", n " + std::to_string(n), seconds, static_cast<double>(bytes), correct);
  };
  // Nothing that was there before passes for a result.
  const auto time = [&](const std::function<void(int)>& launch) {
    launch(0);  // what the library prepares for a shape is not recorded
    CheckCuda(cudaMemsetAsync(y, 0xff, out.bytes(), bench.stream()), "cudaMemsetAsync");
    return bench.TimeCaptured(launch);
  };
  const auto same = [&](int64_t n) {
    return SameProduct(product, w, x, n, bench.Read<float>(y, static_cast<size_t>(n * product.outputs())));
  };
  for (const int64_t n : {1, 2, 4}) {
    const double seconds = time([&](int i) {
      LaunchMatvec(bench.stream(), weight(i), finish, Activation::kSilu, static_cast<const float*>(in->data()), n, y);
    });
    line("matvec", n, seconds, same(n));
  }
  const float one = 1.0f, zero = 0.0f;
  // From two rows on: up to four the device takes the other kernel, and these lines say whether it should.
  for (const int64_t n : {2, 4, 8, 16, 32, 64}) {
    const double seconds = time([&](int i) {
      LaunchSkinnyGemm(bench.stream(), weight(i), finish, Activation::kSilu, rounded->data(), n, multiprocessors,
                       scratch.data(), y);
    });
    line("skinny gemm", n, seconds, same(n));
    if (n < 8) continue;
    const double library = time([&, rows = rows, cols = cols](int i) {
      CheckCuda(cublasGemmEx(bench.blas(), CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), static_cast<int>(n),
                             static_cast<int>(cols), &one, weight(i).data, CUDA_R_16BF, static_cast<int>(cols),
                             rounded->data(), CUDA_R_16BF, static_cast<int>(cols), &zero, y, CUDA_R_32F,
                             static_cast<int>(rows), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                "cublasGemmEx");
    });
    const Product plain = {rows, cols, false};
    line("cublas", n, library, SameProduct(plain, w, x, n, bench.Read<float>(y, static_cast<size_t>(n * rows))));
  }
}

// --- attention --------------------------------------------------------------------------------------------------------

constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr int32_t kWidth = (kHeads + 2 * kKvHeads) * kDim;

// One layer's cache of `sequences` x `slots` random tokens, and what a step needs.
struct Cache {
  Cache(Bench& bench, int32_t sequences, int32_t slots) : each((slots + kBlockSlots - 1) / kBlockSlots) {
    layout = {.layers = 1,
              .blocks = sequences * each,
              .kv_heads = kKvHeads,
              .head_dim = kDim,
              .dtype = DType::kBF16,
              .state_rows = sequences};
    // One sequence is random; the others are its copies.
    const size_t bytes = layout.kv_bytes() / static_cast<size_t>(sequences);
    host_k = ToBf16(Normal(bytes / 2, 5));
    host_v = ToBf16(Normal(bytes / 2, 6));
    k = std::make_unique<CudaBuffer>(layout.kv_bytes());
    v = std::make_unique<CudaBuffer>(layout.kv_bytes());
    for (int32_t i = 0; i < sequences; ++i) {
      for (const auto& [to, from] : {std::pair{k.get(), &host_k}, std::pair{v.get(), &host_v}}) {
        CheckCuda(cudaMemcpyAsync(static_cast<std::byte*>(to->data()) + static_cast<size_t>(i) * bytes, from->data(),
                                  bytes, cudaMemcpyHostToDevice, bench.stream()),
                  "cudaMemcpyAsync");
      }
    }
    std::vector<int32_t> positions(layout.side_count());
    std::vector<float> scores(layout.side_count());
    for (size_t i = 0; i < positions.size(); ++i) {
      positions[i] = static_cast<int32_t>(i / (kBlockSlots * kKvHeads) % static_cast<size_t>(each)) * kBlockSlots +
                     static_cast<int32_t>(i % kBlockSlots);
      scores[i] = static_cast<float>(i * 2654435761u % 1000003) * 1e-3f;
    }
    position = bench.Upload(positions);
    score = bench.Upload(scores);
    victim = bench.Upload(std::vector<int32_t>(layout.victim_count()));
    view = {.layout = layout,
            .k = k->data(),
            .v = v->data(),
            .score = static_cast<float*>(score->data()),
            .position = static_cast<int32_t*>(position->data()),
            .victim = static_cast<int32_t*>(victim->data())};
    for (int32_t i = 0; i < sequences; ++i) {
      tables.emplace_back(static_cast<size_t>(each));
      std::iota(tables.back().begin(), tables.back().end(), i * each);
    }
  }

  // Keys or values of slots [0, count) of KV head 0, from the host.
  Values HeadZero(const std::vector<__nv_bfloat16>& from, int32_t count) const {
    Values values;
    for (int32_t slot = 0; slot < count; ++slot) {
      const size_t at =
          (static_cast<size_t>(slot / kBlockSlots) * kKvHeads * kBlockSlots + static_cast<size_t>(slot % kBlockSlots)) *
          kDim;
      const Values one = Doubles(&from[at], kDim);
      values.insert(values.end(), one.begin(), one.end());
    }
    return values;
  }

  const int32_t each;
  KvCacheLayout layout;
  std::vector<__nv_bfloat16> host_k, host_v;
  std::unique_ptr<CudaBuffer> k, v, score, position, victim;
  KvCacheView view;
  std::vector<std::vector<int32_t>> tables;
};

bool SameAttention(const Cache& cache, const std::vector<float>& q, const std::vector<float>& out, int32_t slots,
                   double scale) {
  const Values head(q.begin(), q.begin() + kDim * (kHeads / kKvHeads));
  const auto expected = reference::Attention(head, kHeads / kKvHeads, cache.HeadZero(cache.host_k, slots),
                                             cache.HeadZero(cache.host_v, slots), slots, kDim, scale);
  for (size_t i = 0; i < expected.out.size(); ++i) {
    if (std::abs(static_cast<double>(out[i]) - expected.out[i]) > 2e-2) return false;  // bf16 weights may be rounded
  }
  return true;
}

StepBounds BoundsOf(int32_t tokens, int32_t rows, int32_t slots) {
  return {.tokens_max = tokens, .rows_max = rows, .slots_max = slots, .query_heads = kHeads, .head_dim = kDim};
}

void DecodeAttention(Bench& bench, int32_t sequences, int32_t live, bool scored) {
  Cache cache(bench, sequences, live);
  EvictionPolicy policy;
  policy.evicts = scored;
  policy.heavy = live / 2;
  policy.recent = live - policy.heavy;
  std::vector<BatchRow> rows;
  const std::vector<int32_t> ids(static_cast<size_t>(sequences), 1);
  for (int32_t i = 0; i < sequences; ++i) {
    rows.push_back({.state_row = i,
                    .token_begin = i,
                    .token_count = 1,
                    .position = live - 1,
                    .live = live - 1,
                    .policy = policy,
                    .block_table = cache.tables[static_cast<size_t>(i)]});
  }
  const int64_t floats = StepTable::RowFloats(live, kHeads, kDim) * sequences;
  StepTable step(bench.stream(), BoundsOf(sequences, sequences, live), floats);
  step.Fill({.token_ids = ids, .rows = rows});
  const CudaBuffer scratch(static_cast<size_t>(floats) * sizeof(float));
  const auto q = Normal(static_cast<size_t>(sequences) * kWidth, 7);
  const auto qkv = bench.Upload(q);
  const CudaBuffer out(static_cast<size_t>(sequences) * kHeads * kDim * sizeof(float));
  const float scale = 1.0f / std::sqrt(static_cast<float>(kDim));
  const AttentionShape shape{0, kHeads, scale, static_cast<float*>(qkv->data()), static_cast<float*>(out.data())};
  const double seconds = bench.Time([&](int) {
    for (const DecodeGroup& group : step.decode_groups()) {
      LaunchDecodeAttention(bench.stream(), step.view(), {}, shape, step.decode_items() + group.first, group.count,
                            group.splits_max, group.rolls, static_cast<float*>(scratch.data()), cache.view);
    }
  });
  const bool correct =
      SameAttention(cache, q, bench.Read<float>(out.data(), kHeads * kDim), live, static_cast<double>(scale));
  const bool cached = cache.layout.kv_bytes() < size_t{24} << 20;
  bench.Bytes(std::string(cached ? "L2: " : "") + "decode attention, " + std::to_string(sequences) + " x " +
                  std::to_string(live) + (scored ? ", H2O" : ""),
              seconds, 2.0 * static_cast<double>(cache.layout.kv_bytes()), correct);
}

void PromptAttention(Bench& bench, int32_t tokens) {
  Cache cache(bench, 1, tokens);
  EvictionPolicy policy;
  policy.evicts = true;
  const BatchRow row{.token_begin = 0,
                     .token_count = tokens,
                     .prompt_length = tokens,
                     .prefill = true,
                     .policy = policy,
                     .block_table = cache.tables[0]};
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
  StepTable step(bench.stream(), BoundsOf(tokens, 1, tokens), StepTable::RowFloats(tokens, kHeads, kDim));
  step.Fill({.token_ids = ids, .rows = {&row, 1}});
  const PromptGroup& group = step.prompt_groups().front();
  const auto q = Normal(static_cast<size_t>(tokens) * kWidth, 8);
  const auto qkv = bench.Upload(q);
  const CudaBuffer out(static_cast<size_t>(tokens) * kHeads * kDim * sizeof(float)),
      sums(static_cast<size_t>(tokens) * kHeads * sizeof(float));
  const float scale = 1.0f / std::sqrt(static_cast<float>(kDim));
  const AttentionShape shape{0, kHeads, scale, static_cast<float*>(qkv->data()), static_cast<float*>(out.data())};
  const double seconds = bench.Time(
      [&](int) {
        LaunchPromptAttention(bench.stream(), step.view(), {}, shape, step.queries(group),
                              static_cast<float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1);
  const size_t last = static_cast<size_t>(tokens - 1);
  const std::vector<float> q_last(q.begin() + static_cast<ptrdiff_t>(last * kWidth), q.end());
  const auto all = bench.Read<float>(static_cast<float*>(out.data()) + last * kHeads * kDim, kHeads * kDim);
  const double pairs = 0.5 * tokens * (tokens + 1.0);
  bench.Operations("prompt attention, " + std::to_string(tokens), seconds, 4.0 * kDim * kHeads * pairs,
                   SameAttention(cache, q_last, all, tokens, static_cast<double>(scale)));
  const double scoring = bench.Time(
      [&](int) {
        LaunchPromptScores(bench.stream(), step.view(), {}, shape, step.scored(group),
                           static_cast<const float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1);
  // Every repeat adds to the scores again.
  const auto scores = bench.Read<float>(cache.view.score, cache.layout.side_count());
  bench.Operations("prompt scores, " + std::to_string(tokens), scoring, 2.0 * kDim * kHeads * pairs,
                   std::all_of(scores.begin(), scores.end(), [](float x) { return x >= 0.0f && std::isfinite(x); }));
}

void Cuts(Bench& bench, int32_t from, int32_t to) {
  Cache cache(bench, 1, from);
  EvictionPolicy policy;
  policy.evicts = true;
  policy.recent = to / 2;
  policy.heavy = to - policy.recent;
  const auto blocks = bench.Upload(cache.tables[0]);
  const auto* table = static_cast<const int32_t*>(blocks->data());
  const std::vector<Cut> cuts = {{from, to, from, 0, policy, table, table}};
  const auto on_device = bench.Upload(cuts);
  constexpr int32_t kBlocks = 64;
  const CudaBuffer scratch(CutScratchBytes(from) * kBlocks);
  const std::vector<int32_t> positions_before = bench.Read<int32_t>(cache.view.position, cache.layout.side_count());
  const std::vector<float> scores_before = bench.Read<float>(cache.view.score, cache.layout.side_count());
  const double seconds = bench.Time(
      [&](int) {
        LaunchCuts(bench.stream(), static_cast<const Cut*>(on_device->data()), 1, from, kBlocks,
                   static_cast<std::byte*>(scratch.data()), cache.view);
      },
      /*repeats=*/15, /*run=*/1,
      [&] {
        const auto restore = [&](void* target, const void* source, size_t bytes) {
          CheckCuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, bench.stream()), "cudaMemcpyAsync");
        };
        restore(cache.view.position, positions_before.data(), positions_before.size() * sizeof(int32_t));
        restore(cache.view.score, scores_before.data(), scores_before.size() * sizeof(float));
      });
  const auto positions = bench.Read<int32_t>(cache.view.position, static_cast<size_t>(to) * kKvHeads);
  int32_t newest = 0;
  for (int32_t slot = 0; slot < to; ++slot) {
    const size_t at =
        static_cast<size_t>(slot / kBlockSlots) * kKvHeads * kBlockSlots + static_cast<size_t>(slot % kBlockSlots);
    newest += positions[at] >= from - policy.recent ? 1 : 0;
  }
  bench.Bytes("L2: cut of one layer, " + std::to_string(from) + " to " + std::to_string(to), seconds,
              9.0 * from * kKvHeads * 8, newest == policy.recent);
}

// A session's blocks on their way to the host and back, against a copy of one piece.
void Parking(Bench& bench, int32_t live) {
  Cache cache(bench, 1, live);
  const auto table = bench.Upload(cache.tables[0]);
  const auto bytes = static_cast<int64_t>(cache.tables[0].size() * cache.layout.block_bytes());
  const PinnedBuffer host(static_cast<size_t>(bytes));
  const CudaBuffer one_piece(static_cast<size_t>(bytes));
  const auto* ids = static_cast<const int32_t*>(table->data());
  const PackedBlocks range = {ids, ids, 0, bytes, host.data()};
  const std::string name = std::to_string(live) + " slots of one layer";
  for (const bool back : {false, true}) {
    const double limit = bench.Time([&](int) {
      CheckCuda(
          back ? cudaMemcpyAsync(one_piece.data(), host.data(), host.bytes(), cudaMemcpyHostToDevice, bench.stream())
               : cudaMemcpyAsync(host.data(), one_piece.data(), host.bytes(), cudaMemcpyDeviceToHost, bench.stream()),
          "cudaMemcpyAsync");
    });
    const double seconds = bench.Time([&](int) {
      if (back) {
        LaunchUnpack(bench.stream(), range, 1.0f, cache.view);
      } else {
        LaunchPack(bench.stream(), range, cache.view);
      }
    });
    const std::vector<std::byte> first = bench.Read<std::byte>(
        static_cast<std::byte*>(cache.view.k) + cache.tables[0][0] * cache.layout.tile_offset(0, 1, 0) * 2, 256);
    const bool same = std::equal(first.begin(), first.end(), host.data());
    bench.Bus((back ? "restore " : "park ") + name, seconds, static_cast<double>(bytes), limit, same);
  }
}

void Sampling(Bench& bench, int32_t rows, const SamplingParams& params, const std::string& name) {
  constexpr int64_t kVocab = 128256;
  const auto logits = Normal(static_cast<size_t>(rows * kVocab), 9, 3.0f);
  const auto on_device = bench.Upload(logits);
  std::vector<SampleTask> tasks(static_cast<size_t>(rows));
  for (int32_t row = 0; row < rows; ++row) {
    SampleTask& task = tasks[static_cast<size_t>(row)];
    task = {};
    task.logits_row = row;
    task.scored_id = -1;
    task.state_row = row;
    task.top = -1;
    task.params = params;
    task.uniform = 0.37;
  }
  const auto at = bench.Upload(tasks);
  const CudaBuffer outcomes(sizeof(SampleOutcome) * static_cast<size_t>(rows)),
      tops(sizeof(TopToken) * static_cast<size_t>(rows * kVocab)), ids(sizeof(int32_t) * static_cast<size_t>(rows));
  const double seconds = bench.Time([&](int) {
    LaunchSample(bench.stream(), static_cast<const float*>(on_device->data()), kVocab,
                 static_cast<const SampleTask*>(at->data()), rows, static_cast<SampleOutcome*>(outcomes.data()),
                 static_cast<TopToken*>(tops.data()), static_cast<int32_t*>(ids.data()));
  });
  const auto done = bench.Read<SampleOutcome>(outcomes.data(), static_cast<size_t>(rows));
  bool correct = true;
  for (int32_t row = 0; row < rows; ++row) {
    const auto begin = logits.begin() + row * kVocab;
    const auto best = static_cast<int32_t>(std::max_element(begin, begin + kVocab) - begin);
    const int32_t id = done[static_cast<size_t>(row)].id;
    correct = correct && (params.temperature == 0.0f ? id == best : id >= 0 && id < kVocab);
  }
  bench.Bytes("L2: sampling " + name + ", " + std::to_string(rows) + " rows", seconds,
              static_cast<double>(rows) * kVocab * 4, correct);
}

int Run(const char* json) {
  Bench bench;
  Products(bench, "6144 x 4096 (qkv)", {6144, 4096, false});
  Products(bench, "4096 x 4096 (o)", {4096, 4096, false});
  Products(bench, "28672 x 4096 (gate, up)", {28672, 4096, true});
  Products(bench, "4096 x 14336 (down)", {4096, 14336, false});
  for (const bool scored : {false, true}) {
    for (const auto& [sequences, live] : {std::pair{1, 2048}, {1, 32768}, {32, 2048}, {128, 2048}, {8, 32768}}) {
      DecodeAttention(bench, sequences, live, scored);
    }
  }
  for (const int32_t tokens : {2048, 8192}) PromptAttention(bench, tokens);
  Cuts(bench, 32768, 2048);
  Parking(bench, 32768);
  Sampling(bench, 1, {.temperature = 0.0f}, "greedy");
  Sampling(bench, 64, {.temperature = 0.0f}, "greedy");
  Sampling(bench, 64, {.temperature = 0.8f}, "plain");
  Sampling(bench, 64, {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50}, "top_k and top_p");
  if (json != nullptr) bench.WriteJson(json);
  if (!bench.correct()) std::printf("\nresults are WRONG\n");
  return bench.correct() ? 0 : 1;
}

}  // namespace
}  // namespace hydrant::cuda

int main(int argc, char** argv) {
  try {
    return hydrant::cuda::Run(argc > 1 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
