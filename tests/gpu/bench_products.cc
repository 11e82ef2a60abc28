#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/linear/matvec.h"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

using reference::Values;

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
    const int64_t row = check * 7919 % outputs, of = check * 31 % n;
    const Values xr =
        reference::RoundTo(DType::kBF16, Doubles(&x[static_cast<size_t>(of * cols)], static_cast<size_t>(cols)));
    const auto dot = [&, cols = cols](int64_t r) {
      return reference::Linear(xr, 1, Doubles(&w[static_cast<size_t>(r * cols)], static_cast<size_t>(cols)), 1,
                               cols)[0];
    };
    const double expected = gated ? reference::Activate(Activation::kSilu, dot(row)) * dot(row + outputs) : dot(row);
    if (!Near(&y[static_cast<size_t>(of * outputs + row)], {expected}, 1e-3)) return false;
  }
  return true;
}

// Up to four rows, up to 64, and the library's beside them and above (ungated and unfinished, as it comes).
void BenchProduct(Bench& bench, const std::string& name, const Product& product, const std::vector<int64_t>& many) {
  const auto [rows, cols, gated] = product;
  const int64_t rows_max = many.back();
  const auto w = ToBf16(Normal(static_cast<size_t>(rows * cols), 1, 0.02f));
  const auto x = Normal(static_cast<size_t>(rows_max * cols), 2);
  const size_t bytes = w.size() * 2;
  const auto weights = bench.UploadCopies(w);
  const auto weight = [&, rows = rows, cols = cols](int i) {
    return WeightView{weights[static_cast<size_t>(i) % weights.size()]->data(), DType::kBF16, rows, cols, cols};
  };
  const auto rounded = bench.Upload(ToBf16(x));
  const CudaBuffer out(static_cast<size_t>(rows_max * rows) * sizeof(float));
  auto* y = static_cast<float*>(out.data());
  const CudaBuffer let_through(gated ? static_cast<size_t>(rows_max * product.outputs()) * 2 : 0);
  const Epilogue epilogue = gated ? Epilogue::kGate : Epilogue::kStore;
  const auto full_name = [&](const std::string& kernel, int64_t n) {
    return kernel + " " + name + ", n " + std::to_string(n);
  };
  const auto line = [&](const std::string& kernel, int64_t n, double seconds, bool correct) {
    bench.Bytes(full_name(kernel, n), seconds, static_cast<double>(bytes), correct);
  };
  const auto prepare = [&](const std::function<void(int)>& launch) {
    launch(0);  // what the library prepares for a shape is not recorded
    bench.Poison(out);
  };
  const auto time = [&](const std::function<void(int)>& launch) {
    prepare(launch);
    return bench.TimeCaptured(launch);
  };
  const auto same = [&](const Product& as, int64_t n) {
    return SameProduct(as, w, x, n, bench.Read<float>(y, static_cast<size_t>(n * as.outputs())));
  };
  for (const int64_t n : {1, 2}) {
    const double seconds = time([&](int i) {
      LaunchMatvec(bench.stream(), weight(i), epilogue, Activation::kSilu, {rounded->data(), DType::kBF16}, n, y);
    });
    line("matvec", n, seconds, same(product, n));
  }
  const Product plain = {rows, cols, false};
  const auto library = [&, rows = rows, cols = cols](int64_t n) {
    return [&, n, rows, cols](int i) { bench.LibraryProduct(weight(i).data, rounded->data(), n, rows, cols, y); };
  };
  // From one row on: up to two the device takes the other kernel, and these lines say whether it should.
  for (const int64_t n : {1, 2, 4, 8, 16, 32, 64}) {
    const auto launch = library(n);
    const double seconds = time(launch);
    line("cublas", n, seconds, same(plain, n));
    if (!gated) continue;
    const double finished = time([&](int i) {
      launch(i);
      LaunchGate(bench.stream(), nullptr, Activation::kSilu, y, {let_through.data(), DType::kBF16}, n,
                 product.outputs());
    });
    line("cublas, gate", n, finished, same(plain, n));
  }
  for (const int64_t n : many) {
    const auto launch = library(n);
    prepare(launch);
    const double seconds = bench.Time(launch);
    bench.Operations(full_name("cublas", n), seconds, 2.0 * static_cast<double>(n * rows * cols), same(plain, n));
  }
}

}  // namespace

void BenchProducts(Bench& bench) {
  if (bench.small()) {
    BenchProduct(bench, "192 x 128", {192, 128, false}, {70});
    BenchProduct(bench, "256 x 64 (gate, up)", {256, 64, true}, {70});
    return;
  }
  const std::vector<int64_t> many = {512, 2048};
  BenchProduct(bench, "6144 x 4096 (qkv)", {6144, 4096, false}, many);
  BenchProduct(bench, "4096 x 4096 (o)", {4096, 4096, false}, many);
  BenchProduct(bench, "28672 x 4096 (gate, up)", {28672, 4096, true}, many);
  BenchProduct(bench, "4096 x 14336 (down)", {4096, 14336, false}, many);
}

}  // namespace hydrant::cuda
