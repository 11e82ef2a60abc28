// Rows of fp32 between products. A few rows, as a decode step has them, stay in L2; those of a prompt come from copies in turn.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/step_table.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

using reference::Values;

constexpr double kOfNorm = 1e-4;  // of numbers of about one, in fp32

struct Shape {
  int64_t rows, cols;
  bool few() const { return rows <= 64; }
  size_t count() const { return static_cast<size_t>(rows * cols); }
  std::string Name(const std::string& kernel) const {
    return (few() ? "L2: " : "") + kernel + ", " + std::to_string(rows) + " x " + std::to_string(cols);
  }
};

// The first row, the last, and some between.
std::vector<int64_t> Some(int64_t rows) {
  std::vector<int64_t> some;
  for (int64_t i = 0; i < 8; ++i) some.push_back(i * (rows - 1) / 7);
  return some;
}

// Times y = f(x), where `launch` gets x (null: there is none) and y; y has `out_bytes`.
struct Timed {
  Timed(Bench& bench, const Shape& shape, const std::vector<float>& x, size_t out_bytes)
      : bench_(bench), shape_(shape), out_(out_bytes) {
    if (x.empty()) return;
    if (shape.few()) {
      in_.push_back(bench.Upload(x));
    } else {
      in_ = bench.UploadCopies(x);
    }
  }
  double Seconds(const std::function<void(const float*, void*)>& launch) {
    bench_.Poison(out_);
    const auto one = [&](int i) {
      const void* from = in_.empty() ? nullptr : in_[static_cast<size_t>(i) % in_.size()]->data();
      launch(static_cast<const float*>(from), out_.data());
    };
    return shape_.few() ? bench_.TimeCaptured(one) : bench_.Time(one);
  }
  template <typename T>
  std::vector<T> Read() {
    return bench_.Read<T>(out_.data(), out_.bytes() / sizeof(T));
  }

 private:
  Bench& bench_;
  const Shape shape_;
  std::vector<std::unique_ptr<CudaBuffer>> in_;
  const CudaBuffer out_;
};

void Embedding(Bench& bench, const Shape& shape, int32_t vocab) {
  const auto table = ToBf16(Normal(static_cast<size_t>(vocab * shape.cols), 21));
  const auto weight = bench.Upload(table);
  std::vector<int32_t> ids(static_cast<size_t>(shape.rows)), blocks(static_cast<size_t>(shape.rows / kBlockSlots + 1));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(vocab));
  const auto tokens = static_cast<int32_t>(shape.rows);
  const BatchRow row{
      {.prompt_length = tokens, .prefill = true}, {.block_table = blocks}, /*token_begin=*/0, /*token_count=*/tokens};
  StepTable step(bench.stream(),
                 {.tokens_max = tokens, .rows_max = 1, .slots_max = tokens, .query_heads = 1, .head_dim = 64},
                 StepTable::RowFloats(tokens, 1, 64));
  step.Fill({.token_ids = ids, .rows = {&row, 1}});
  const TableView view = {.dense = {weight->data(), DType::kBF16, vocab, shape.cols, shape.cols}};
  Timed timed(bench, shape, {}, shape.count() * sizeof(float));
  const double seconds = timed.Seconds([&](const float*, void* y) {
    LaunchEmbed(bench.stream(), step.view(), view, 1, {}, shape.rows, shape.cols, static_cast<float*>(y));
  });
  const auto y = timed.Read<float>();
  bool correct = true;
  for (const int64_t i : Some(shape.rows)) {
    const auto from = static_cast<size_t>(ids[static_cast<size_t>(i)] * shape.cols);
    correct = correct && Near(&y[static_cast<size_t>(i * shape.cols)],
                              Doubles(&table[from], static_cast<size_t>(shape.cols)), 0.0);
  }
  bench.Bytes(shape.Name("embedding"), seconds, 6.0 * static_cast<double>(shape.count()), correct);
}

void Norm(Bench& bench, const Shape& shape, NormKind kind) {
  const auto x = Normal(shape.count(), 22, 3.0f), w = Normal(static_cast<size_t>(shape.cols), 23);
  const auto weight = bench.Upload(w);
  NormWeight norm;
  norm.kind = kind;
  norm.weight = static_cast<const float*>(weight->data());
  Timed timed(bench, shape, x, shape.count() * sizeof(float));
  const double seconds = timed.Seconds([&](const float* from, void* to) {
    LaunchNorm(bench.stream(), norm, from, static_cast<float*>(to), shape.rows, shape.cols);
  });
  const auto y = timed.Read<float>();
  bool correct = true;
  for (const int64_t i : Some(shape.rows)) {
    const auto at = static_cast<size_t>(i * shape.cols), cols = static_cast<size_t>(shape.cols);
    const Values expected = reference::Norm(kind, Doubles(w.data(), cols), {}, static_cast<double>(norm.eps),
                                            Doubles(&x[at], cols), 1, shape.cols);
    correct = correct && Near(&y[at], expected, kOfNorm);
  }
  bench.Bytes(shape.Name(kind == NormKind::kRms ? "RMS norm" : "layer norm"), seconds,
              8.0 * static_cast<double>(shape.count()), correct);
}

void Round(Bench& bench, const Shape& shape) {
  const auto x = Normal(shape.count(), 24);
  Timed timed(bench, shape, x, shape.count() * sizeof(__nv_bfloat16));
  const double seconds = timed.Seconds([&](const float* from, void* to) {
    LaunchRound(bench.stream(), from, DType::kBF16, to, shape.rows, shape.cols, shape.cols);
  });
  const auto y = timed.Read<__nv_bfloat16>();
  bool correct = true;
  for (const int64_t i : Some(shape.rows)) {
    const auto at = static_cast<size_t>(i * shape.cols), cols = static_cast<size_t>(shape.cols);
    correct = correct && Doubles(&y[at], cols) == reference::RoundTo(DType::kBF16, Doubles(&x[at], cols));
  }
  bench.Bytes(shape.Name("round to bf16"), seconds, 6.0 * static_cast<double>(shape.count()), correct);
}

// The last rows of prompts out of a step's: what the head is multiplied with.
void Gather(Bench& bench, const Shape& shape, int64_t of) {
  const auto x = Normal(static_cast<size_t>(of * shape.cols), 25);
  std::vector<int32_t> indices;
  for (int64_t i = 0; i < shape.rows; ++i) indices.push_back(static_cast<int32_t>((i * 7919 + 5) % of));
  const auto at = bench.Upload(indices);
  Timed timed(bench, shape, x, shape.count() * sizeof(float));
  const double seconds = timed.Seconds([&](const float* from, void* to) {
    LaunchGatherRows(bench.stream(), from, static_cast<const int32_t*>(at->data()), static_cast<float*>(to), shape.rows,
                     shape.cols);
  });
  const auto y = timed.Read<float>();
  bool correct = true;
  for (const int64_t i : Some(shape.rows)) {
    const auto from = static_cast<size_t>(indices[static_cast<size_t>(i)] * shape.cols);
    correct = correct &&
              Near(&y[static_cast<size_t>(i * shape.cols)], Doubles(&x[from], static_cast<size_t>(shape.cols)), 0.0);
  }
  bench.Bytes(shape.Name("gather rows"), seconds, 8.0 * static_cast<double>(shape.count()), correct);
}

// Behind the library's product: `shape` is of what comes out.
void Gate(Bench& bench, const Shape& shape) {
  const auto x = Normal(2 * shape.count(), 26);
  Timed timed(bench, shape, x, shape.count() * sizeof(float));
  const double seconds = timed.Seconds([&](const float* from, void* to) {
    LaunchGate(bench.stream(), nullptr, Activation::kSilu, from, static_cast<float*>(to), shape.rows, shape.cols);
  });
  const auto y = timed.Read<float>();
  bool correct = true;
  for (const int64_t i : Some(shape.rows)) {
    const auto cols = static_cast<size_t>(shape.cols), from = static_cast<size_t>(i) * 2 * cols;
    Values expected;
    for (size_t c = 0; c < cols; ++c) {
      expected.push_back(reference::Activate(Activation::kSilu, static_cast<double>(x[from + c])) *
                         static_cast<double>(x[from + cols + c]));
    }
    correct = correct && Near(&y[static_cast<size_t>(i) * cols], expected, kOfNorm);
  }
  bench.Bytes(shape.Name("gate behind cublas"), seconds, 12.0 * static_cast<double>(shape.count()), correct);
}

}  // namespace

void BenchRows(Bench& bench) {
  const int64_t hidden = bench.small() ? 96 : 4096, ffn = bench.small() ? 160 : 14336;
  const int64_t few = bench.small() ? 3 : 32, many = bench.small() ? 70 : 2048;
  for (const int64_t rows : {few, many}) {
    Embedding(bench, {rows, hidden}, bench.small() ? 50 : 32768);
    Norm(bench, {rows, hidden}, NormKind::kRms);
    Norm(bench, {rows, hidden}, NormKind::kLayer);
    Round(bench, {rows, hidden});
  }
  Round(bench, {many, ffn});
  Gather(bench, {few, hidden}, many);
  Gate(bench, {many, ffn});
}

}  // namespace hydrant::cuda
