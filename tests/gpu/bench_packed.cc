#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/linear/packed_product.h"
#include "kernels/reference/quantised_reference.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/bench_groups.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant::cuda {
namespace {

struct Packed {
  int64_t rows, cols;
  bool gated;
  WeightFormat format;
  int64_t outputs() const { return gated ? rows / 2 : rows; }
  // In panels, each half of a gated weight for itself.
  int64_t bytes() const { return (gated ? 2 : 1) * PackedPanels(outputs()) * PackedPanelBytes(format, cols); }
};

std::vector<std::byte> Pack(const Packed& packed, const std::vector<std::byte>& stored) {
  const int64_t row_bytes = RowBytes(packed.format, packed.cols),
                panel_bytes = PackedPanelBytes(packed.format, packed.cols);
  std::vector<std::byte> panels(static_cast<size_t>(packed.bytes())),
      rows(static_cast<size_t>(kPackedOutputs * row_bytes));
  std::byte* to = panels.data();
  for (int64_t half = 0; half < packed.rows; half += packed.outputs()) {
    for (int64_t row = 0; row < packed.outputs(); row += kPackedOutputs, to += panel_bytes) {
      const int64_t count = std::min(kPackedOutputs, packed.outputs() - row) * row_bytes;
      std::fill(std::copy_n(stored.begin() + (half + row) * row_bytes, count, rows.begin()), rows.end(), std::byte{0});
      PackPanel(packed.format, rows.data(), packed.cols, to);
    }
  }
  return panels;
}

// Some outputs of `y` [n, outputs] against the oracle, relative to the size of their sums.
bool SamePacked(const Packed& packed, const std::vector<std::byte>& stored, const std::vector<__nv_bfloat16>& x,
                int64_t n, const std::vector<float>& y) {
  const int64_t outputs = packed.outputs(), cols = packed.cols;
  for (int64_t check = 0; check < 64; ++check) {
    const int64_t row = check * 7919 % outputs, of = check * 31 % n;
    const reference::Values inputs = Doubles(&x[static_cast<size_t>(of * cols)], static_cast<size_t>(cols));
    double magnitude = 0;
    const auto dot = [&](int64_t r) {
      const std::byte* at = stored.data() + r * RowBytes(packed.format, cols);
      double sum = 0;
      for (int64_t col = 0; col < cols; ++col) {
        const reference::StoredElement element = reference::ElementOf(packed.format, at, col);
        const double coded = static_cast<double>(element.step) * element.code, minimum = element.minimum;
        sum += inputs[static_cast<size_t>(col)] * (coded + minimum);
        magnitude += std::abs(inputs[static_cast<size_t>(col)]) * (std::abs(coded) + std::abs(minimum));
      }
      return sum;
    };
    const double gate = dot(row), up = packed.gated ? dot(row + outputs) : 0;
    const double expected = packed.gated ? reference::Activate(Activation::kSilu, gate) * up : gate;
    const double size = packed.gated ? magnitude * (std::abs(gate) + std::abs(up) + 1) : magnitude;
    if (!Near(&y[static_cast<size_t>(of * outputs + row)], {expected}, 1e-4 * size)) return false;
  }
  return true;
}

void BenchWeight(Bench& bench, const std::string& shape, const Packed& packed, const std::vector<int64_t>& many) {
  const int64_t outputs = packed.outputs(), rows_max = many.back();
  const std::string name = std::string(InfoOf(packed.format).name) + " " + shape;
  const std::vector<std::byte> stored = RandomStoredRows(packed.format, packed.rows, packed.cols, 1);
  const std::vector<std::byte> panels = Pack(packed, stored);
  const auto weights = bench.UploadCopies(panels);
  const auto inputs = ToBf16(Normal(static_cast<size_t>(rows_max * packed.cols), 2, 0.02f));
  const auto x = bench.Upload(inputs);
  const CudaBuffer out(static_cast<size_t>(rows_max * packed.rows) * sizeof(float));
  auto* y = static_cast<float*>(out.data());
  const int32_t multiprocessors = bench.multiprocessors();
  const auto half = [&](int i, int number) {
    const int64_t panel_bytes = PackedPanelBytes(packed.format, packed.cols);
    const auto* data = static_cast<const std::byte*>(weights[static_cast<size_t>(i) % weights.size()]->data());
    return PackedView{data + number * PackedPanels(outputs) * panel_bytes, packed.format, outputs, packed.cols,
                      panel_bytes};
  };
  const auto run = [&](int64_t n) {
    return [&, n](int i) {
      if (packed.gated && TakesPackedGate(half(i, 0), half(i, 1), n, multiprocessors)) {
        return LaunchPackedGate(bench.stream(), half(i, 0), half(i, 1), Activation::kSilu, x->data(), n, y);
      }
      LaunchPackedProduct(bench.stream(), half(i, 0), Epilogue::kStore, Activation::kSilu, x->data(), n,
                          multiprocessors, y, outputs);
    };
  };
  for (const int64_t n : {1, 8, 16, 32, 64}) {
    if (packed.gated && !TakesPackedGate(half(0, 0), half(0, 1), n, multiprocessors)) continue;
    run(n)(0);
    bench.Poison(out);
    const double seconds = bench.TimeCaptured(run(n));
    bench.Bytes("packed " + name + ", n " + std::to_string(n), seconds, static_cast<double>(packed.bytes()),
                SamePacked(packed, stored, inputs, n, bench.Read<float>(y, static_cast<size_t>(n * outputs))));
  }
  if (packed.gated) return;  // many rows of either half are a product like any other
  for (const int64_t n : many) {
    run(n)(0);
    bench.Poison(out);
    const double seconds = bench.Time(run(n));
    bench.Operations("packed " + name + ", n " + std::to_string(n), seconds,
                     2.0 * static_cast<double>(n * packed.rows * packed.cols),
                     SamePacked(packed, stored, inputs, n, bench.Read<float>(y, static_cast<size_t>(n * outputs))));
  }
}

}  // namespace

void BenchPacked(Bench& bench) {
  if (bench.small()) {
    for (const WeightFormat format : kQuantisedFormats) {
      if (PackedLayoutOf(format).code_bits == 0) continue;
      // Two blocks of outputs, and as many rows as give the kernel for many of them the whole device.
      BenchWeight(bench, "130 x 256", {130, 256, false, format}, {int64_t{32} * bench.multiprocessors()});
      BenchWeight(bench, "80 x 256 (gate, up)", {80, 256, true, format}, {70});
    }
    return;
  }
  for (const WeightFormat format :
       {WeightFormat::kQ4_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K, WeightFormat::kQ8_0}) {
    BenchWeight(bench, "4096 x 4096 (o)", {4096, 4096, false, format}, {512, 2048});
    BenchWeight(bench, "28672 x 4096 (gate, up)", {28672, 4096, true, format}, {2048});
    BenchWeight(bench, "4096 x 14336 (down)", {4096, 14336, false, format}, {512, 2048});
  }
}

}  // namespace hydrant::cuda
