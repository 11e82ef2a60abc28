#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/linear/packed_product.h"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/linear/unpack.h"
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

// A product that keeps weights exact, and one that rounds them to bf16: 2^-9 of each. A mistake is 2^-6 of 4,096 of them.
constexpr double kExact = 1e-4, kRounded = 0x1p-9;

// Some outputs of `y` [n, outputs] against the oracle, relative to the size of their sums.
bool SamePacked(const Packed& packed, const std::vector<std::byte>& stored, const std::vector<__nv_bfloat16>& x,
                int64_t n, const std::vector<float>& y, double tolerance = kExact) {
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
    if (!Near(&y[static_cast<size_t>(of * outputs + row)], {expected}, tolerance * size)) return false;
  }
  return true;
}

// The same with slices of the weight unpacked for the library, as large as the device makes them, and such as its L2 cache holds:
// how many rows either way is the sooner one for (kUnpackRows), and which slices. `half(i, number)`: a part of copy `i`.
void BenchUnpacked(Bench& bench, const std::string& name, const Packed& packed, const std::vector<int64_t>& many,
                   const std::function<PackedView(int, int)>& half, const void* x,
                   const std::function<bool(const Packed&, int64_t, const std::vector<float>&)>& same) {
  const Packed plain = {packed.rows, packed.cols, false, packed.format};
  const int64_t outputs = packed.outputs(), room = std::min(2 * packed.rows * packed.cols, kUnpackBytesMax);
  const CudaBuffer scratch(static_cast<size_t>(room)),
      out(static_cast<size_t>(many.back() * packed.rows) * sizeof(float));
  auto* y = static_cast<float*>(out.data());
  auto* unpacked = static_cast<std::byte*>(scratch.data());
  const auto unpack = [&](int i, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t first = at % outputs, count = std::min(end - at, outputs - first);
      LaunchUnpack(bench.stream(), half(i, static_cast<int>(at / outputs)), first, count,
                   unpacked + (at - begin) * packed.cols * 2);
      at += count;
    }
  };
  const int64_t of_room = UnpackedRows(packed.rows, packed.cols, room);
  const auto once = [&](int i) { unpack(i, 0, std::min(of_room, packed.rows)); };
  once(0);
  const double share = static_cast<double>(std::min(of_room, packed.rows)) / static_cast<double>(packed.rows);
  const double weights = static_cast<double>(packed.rows * packed.cols);
  const double unpacking = bench.TimeCaptured(once);
  std::vector<int64_t> counts = many;
  if (!bench.small()) counts.insert(counts.begin(), {64, 128, 192, 256});
  bool correct = true;
  for (const int64_t bytes : {room, std::min(room, int64_t{16} << 20)}) {
    const int64_t of_slice = UnpackedRows(packed.rows, packed.cols, bytes);
    for (const int64_t n : counts) {
      const auto run = [&](int i) {
        for (int64_t begin = 0; begin < packed.rows; begin += of_slice) {
          const int64_t end = std::min(packed.rows, begin + of_slice);
          unpack(i, begin, end);
          bench.LibraryProduct(unpacked, x, n, end - begin, packed.cols, y + begin, packed.rows);
        }
      };
      run(0);
      bench.Poison(out);
      const double seconds = n > 256 ? bench.Time(run) : bench.TimeCaptured(run);
      const bool right = same(plain, n, bench.Read<float>(y, static_cast<size_t>(n * packed.rows)));
      correct &= right;
      bench.Operations("unpacked " + name + ", " + std::to_string(of_slice) + " at a time, n " + std::to_string(n),
                       seconds, 2.0 * static_cast<double>(n) * weights, right);
    }
    if (bytes == room && of_slice * 2 * packed.cols <= int64_t{16} << 20) break;  // the same again
  }
  bench.Bytes("unpack " + name, unpacking, share * (static_cast<double>(packed.bytes()) + 2 * weights), correct);
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
  const Multiprocessors multiprocessors = {bench.multiprocessors(), bench.warpgroups()};
  const auto half = [&](int i, int number) {
    const int64_t panel_bytes = PackedPanelBytes(packed.format, packed.cols);
    const auto* data = static_cast<const std::byte*>(weights[static_cast<size_t>(i) % weights.size()]->data());
    return PackedView{data + number * PackedPanels(outputs) * panel_bytes, packed.format, outputs, packed.cols,
                      panel_bytes};
  };
  const CudaBuffer gated_out(packed.gated ? static_cast<size_t>(rows_max * outputs) * sizeof(float) : 1);
  float* result = packed.gated ? static_cast<float*>(gated_out.data()) : y;
  const auto product = [&](int64_t n) {
    return [&, n](int i) {
      if (packed.gated && TakesPackedGate(half(i, 0), half(i, 1), n, multiprocessors)) {
        return LaunchPackedGate(bench.stream(), half(i, 0), half(i, 1), Activation::kSilu, x->data(), n,
                                multiprocessors, result);
      }
      for (int number = 0; number < (packed.gated ? 2 : 1); ++number) {
        LaunchPackedProduct(bench.stream(), half(i, number), Epilogue::kStore, Activation::kSilu, x->data(), n,
                            multiprocessors, y + number * outputs, packed.rows);
      }
      if (packed.gated) LaunchGate(bench.stream(), nullptr, Activation::kSilu, y, result, n, outputs);
    };
  };
  const auto right = [&](int64_t n) {
    return SamePacked(packed, stored, inputs, n, bench.Read<float>(result, static_cast<size_t>(n * outputs)));
  };
  for (const int64_t n : {1, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256}) {
    if (n > rows_max) break;
    const auto run = product(n);
    bench.Poison(out);
    bench.Poison(gated_out);
    run(0);
    const bool correct = right(n);
    bench.Bytes("packed " + name + ", n " + std::to_string(n), bench.TimeCaptured(run),
                static_cast<double>(packed.bytes()), correct);
  }
  BenchUnpacked(
      bench, name, packed, many, [&](int i, int number) { return half(i, number); }, x->data(),
      [&](const Packed& plain, int64_t n, const std::vector<float>& all) {
        return SamePacked(plain, stored, inputs, n, all, kRounded);
      });
  if (packed.gated) return;  // many rows of either half are a product like any other
  for (const int64_t n : many) {
    const auto run = product(n);
    run(0);
    bench.Poison(out);
    const double seconds = bench.Time(run);
    bench.Operations("packed " + name + ", n " + std::to_string(n), seconds,
                     2.0 * static_cast<double>(n * packed.rows * packed.cols), right(n));
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
