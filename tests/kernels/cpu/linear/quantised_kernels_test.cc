// Products with weights as they are stored, through CpuDevice, on every instruction set this machine has: the bits of the
// oracle, at any height of a tile, number of threads and mixture of formats.
#include "kernels/cpu/linear/quantised_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/quantised_reference.h"
#include "kernels/reference/reference.h"
#include "model/files/dequantize.h"
#include "tests/kernels/cpu/tested_isas.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"
#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

std::unique_ptr<CpuDevice> MakeQuantisedDevice(CpuIsa isa, int threads = 2) {
  std::unique_ptr<CpuDevice> device = CpuDevice::Create({.threads = threads, .isa = isa}).value();
  device->ReserveScratch({.tokens_max = 128, .cols_max = 2048});
  return device;
}

Matrix QuantisedView(Floats& values, int64_t rows, int64_t cols) { return {values.data(), DType::kF32, rows, cols}; }

// A value no product gives: shows columns that were not written.
constexpr float kUntouchedOutput = 12345.0f;

// Adjacent rows of a weight as they are stored. The fp32 reader gives what they expand to.
struct StoredWeight {
  int64_t cols = 0;
  std::vector<LinearPart> parts;
  std::vector<std::vector<std::byte>> bytes;  // of each part

  StoredWeight(int64_t cols_in, std::vector<LinearPart> parts_in, uint32_t seed)
      : cols(cols_in), parts(std::move(parts_in)) {
    for (const LinearPart& part : parts) bytes.push_back(RandomStoredRows(part.format, part.rows, cols, seed++));
  }

  int64_t rows() const {
    int64_t sum = 0;
    for (const LinearPart& part : parts) sum += part.rows;
    return sum;
  }

  std::pair<WeightFormat, const std::byte*> Row(int64_t row) const {
    size_t part = 0;
    while (row >= parts[part].rows) row -= parts[part++].rows;
    return {parts[part].format, bytes[part].data() + row * RowBytes(parts[part].format, cols)};
  }

  std::unique_ptr<LinearWeight> Pack(CpuDevice& device, std::span<const float> bias = {}, bool gated = false) const {
    LinearSpec spec{.rows = rows(), .cols = cols, .format = parts.front().format, .gated = gated};
    if (parts.size() > 1) spec.parts = parts;
    const auto fp32 = [this](int64_t begin, int64_t end, float* out) {
      for (int64_t row = begin; row < end; ++row, out += cols)
        DequantizeRow(Row(row).first, Row(row).second, cols, out);
    };
    const auto stored = [this](int64_t begin, int64_t end, std::byte* out) {
      for (int64_t row = begin; row < end; ++row) {
        const auto [format, at] = Row(row);
        out = std::copy_n(at, RowBytes(format, cols), out);
      }
    };
    return device.MakeLinear(spec, WeightRows(fp32, stored), bias);
  }

  // [n, rows()] by the oracle.
  Floats Expected(const Floats& x, int64_t n) const {
    std::vector<reference::QuantisedRow> quantised;
    for (int64_t i = 0; i < n; ++i) {
      quantised.push_back(
          reference::QuantiseRow(std::span(x).subspan(static_cast<size_t>(i * cols), static_cast<size_t>(cols))));
    }
    Floats out(static_cast<size_t>(n * rows()));
    for (int64_t output = 0; output < rows(); ++output) {
      const auto [format, at] = Row(output);
      const std::vector<reference::StoredElement> elements = reference::ElementsOf(format, at, cols);
      for (int64_t i = 0; i < n; ++i) {
        out[static_cast<size_t>(i * rows() + output)] =
            reference::QuantisedProduct(format, elements, quantised[static_cast<size_t>(i)]);
      }
    }
    return out;
  }
};

Floats MultiplyQuantised(CpuDevice& device, const LinearWeight& weight, const Floats& x, int64_t n) {
  Floats in = x;
  Floats y(static_cast<size_t>(n * weight.spec().rows), kUntouchedOutput);
  device.Linear(weight, QuantisedView(in, n, weight.spec().cols), QuantisedView(y, n, weight.spec().rows), false);
  return y;
}

// Equal bits; where the oracle has a NaN, any.
void ExpectSameBits(const Floats& actual, const Floats& expected, const std::string& where) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << where << ", element " << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
          << where << ", element " << i << ": " << actual[i] << " for " << expected[i];
    }
  }
}

class QuantisedKernelsTest : public testing::TestWithParam<std::tuple<CpuIsa, WeightFormat>> {
 protected:
  CpuIsa isa() const { return std::get<0>(GetParam()); }
  WeightFormat format() const { return std::get<1>(GetParam()); }
  int64_t BlockElements() const { return InfoOf(format()).block_elements; }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, QuantisedKernelsTest,
                         testing::Combine(testing::ValuesIn(TestedProductIsas()), testing::ValuesIn(kQuantisedFormats)),
                         [](const auto& test) {
                           return std::string(IsaName(std::get<0>(test.param))) + "_" +
                                  std::string(InfoOf(std::get<1>(test.param)).name);
                         });

// All heights of a tile, odd shapes, blocks from one to several steps.
TEST_P(QuantisedKernelsTest, HasTheBitsOfTheOracle) {
  const auto device = MakeQuantisedDevice(isa());
  std::vector<std::tuple<int64_t, int64_t, int64_t>> shapes;  // {rows of x, outputs, blocks}
  for (int64_t n = 1; n <= 33; ++n) shapes.emplace_back(n, 40, 2);
  for (const int64_t outputs : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 96}) {
    shapes.emplace_back(1, outputs, 3);
    shapes.emplace_back(5, outputs, 1);
  }
  shapes.emplace_back(1, 64, 7);
  shapes.emplace_back(17, 33, 5);
  shapes.emplace_back(64, 32, 3);
  for (const auto& [n, outputs, blocks] : shapes) {
    const int64_t cols = blocks * BlockElements();
    const auto seed = static_cast<uint32_t>(n * 131 + outputs * 17 + blocks);
    const StoredWeight weight(cols, {{outputs, format()}}, seed);
    const Floats x = Random(n * cols, seed);
    ExpectSameBits(MultiplyQuantised(*device, *weight.Pack(*device), x, n), weight.Expected(x, n),
                   std::to_string(n) + " x " + std::to_string(outputs) + " x " + std::to_string(cols));
  }
}

// Sums of codes at their borders: every code and every byte of x the largest or the smallest, in all combinations. A sum that
// saturates in 16 bits anywhere shows. One number of a block is 32512, so that all of them are q themselves.
TEST_P(QuantisedKernelsTest, DoesNotSaturate) {
  const auto device = MakeQuantisedDevice(isa());
  const int64_t cols = 2 * BlockElements();
  StoredWeight weight(cols, {{48, format()}}, 1);
  constexpr float kBothLargest = 126 * 256 + 127, kHighLargest = 126 * 256 - 127, kAtTheTop = 32512,
                  kHalf = 126 * 256 + 128;
  for (const int codes : {0xFF, 0x00, 0x80, 0x7F}) {
    weight.bytes[0] = UniformStoredRows(format(), 48, cols, static_cast<uint8_t>(codes), 0x3C00);
    const auto packed = weight.Pack(*device);
    for (const float q : {kBothLargest, kHighLargest, kAtTheTop, kHalf}) {
      for (const int pattern : {0, 1, 2, 3}) {
        const int64_t n = 1 + (pattern * 5 + codes) % 14;
        Floats x(static_cast<size_t>(n * cols));
        for (size_t i = 0; i < x.size(); ++i) {
          const bool minus = pattern == 1 || (pattern == 2 && i % 2 != 0) || (pattern == 3 && i % 32 >= 16);
          x[i] = (minus ? -1.0f : 1.0f) * (i % 32 == 0 ? kAtTheTop : q);
        }
        ExpectSameBits(MultiplyQuantised(*device, *packed, x, n), weight.Expected(x, n),
                       "codes " + std::to_string(codes) + ", pattern " + std::to_string(pattern));
      }
    }
  }
}

TEST_P(QuantisedKernelsTest, RowsDoNotDependOnTheBatchOrTheThreads) {
  const int64_t cols = 3 * BlockElements(), n_max = 65;
  const StoredWeight weight(cols, {{208, format()}}, 3);
  const Floats x = Random(n_max * cols, 4);
  const auto one = MakeQuantisedDevice(isa(), 1);
  const Floats all = MultiplyQuantised(*one, *weight.Pack(*one), x, n_max);
  for (const int threads : {1, 2, 3, 7}) {
    const auto device = MakeQuantisedDevice(isa(), threads);
    const auto packed = weight.Pack(*device);
    for (const int64_t n : {1, 2, 4, 5, 13, 14, 15, 16, 28, 33, 65}) {
      const int64_t first = (n * 31) % (n_max - n + 1);
      const Floats part(x.begin() + first * cols, x.begin() + (first + n) * cols);
      const Floats y = MultiplyQuantised(*device, *packed, part, n);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * 208)) << threads << " threads, " << n << " rows";
    }
  }
}

TEST_P(QuantisedKernelsTest, BiasActivationGateAndSumFollowTheProduct) {
  const auto device = MakeQuantisedDevice(isa());
  const int64_t cols = BlockElements();
  for (const int64_t n : {1, 5, 16}) {
    for (const int64_t rows : {2, 30, 34, 96}) {
      const StoredWeight weight(cols, {{rows, format()}}, static_cast<uint32_t>(n + rows));
      Floats x = Random(n * cols, 5, 0.01f);  // sums whose activations are no subnormal numbers
      const Floats bias = Random(rows, 6), before = Random(n * rows, 7);
      const Floats sums = weight.Expected(x, n);
      Floats biased = sums;
      for (size_t i = 0; i < sums.size(); ++i) biased[i] += bias[i % static_cast<size_t>(rows)];
      const auto packed = weight.Pack(*device, bias);
      EXPECT_EQ(MultiplyQuantised(*device, *packed, x, n), biased);
      Floats y = before;
      device->Linear(*packed, QuantisedView(x, n, cols), QuantisedView(y, n, rows), true);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + biased[i]);
      device->LinearActivated(*packed, Activation::kSilu, QuantisedView(x, n, cols), QuantisedView(y, n, rows));
      for (size_t i = 0; i < y.size(); ++i) {
        const double expected = reference::Activate(Activation::kSilu, biased[i]);
        ASSERT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-37);
      }
      const auto gated = weight.Pack(*device, {}, true);
      Floats z(static_cast<size_t>(n * rows / 2), kUntouchedOutput);
      device->LinearGated(*gated, Activation::kSilu, QuantisedView(x, n, cols), QuantisedView(z, n, rows / 2));
      for (int64_t i = 0; i < n * (rows / 2); ++i) {
        const int64_t gate = i / (rows / 2) * rows + i % (rows / 2);
        const double expected = reference::Activate(Activation::kSilu, sums[static_cast<size_t>(gate)]) *
                                static_cast<double>(sums[static_cast<size_t>(gate + rows / 2)]);
        ASSERT_NEAR(z[static_cast<size_t>(i)], expected, 3e-6 * std::abs(expected) + 1e-37);
      }
    }
  }
}

TEST_P(QuantisedKernelsTest, EmbedExpandsTheStoredRows) {
  const auto device = MakeQuantisedDevice(isa());
  const int64_t cols = 2 * BlockElements();
  const StoredWeight weight(cols, {{70, format()}}, 8);
  const auto table = weight.Pack(*device);
  const std::vector<int32_t> ids = {0, 1, 15, 16, 17, 31, 32, 63, 64, 69, 69, 0};
  device->BeginStep({ids, {}});
  const auto n = static_cast<int64_t>(ids.size());
  Floats x(static_cast<size_t>(n * cols), kUntouchedOutput);
  device->Embed(table.get(), 1, nullptr, QuantisedView(x, n, cols));
  for (size_t i = 0; i < ids.size(); ++i) {
    Floats expected(static_cast<size_t>(cols));
    DequantizeRow(format(), weight.Row(ids[i]).second, cols, expected.data());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), x.begin() + static_cast<int64_t>(i) * cols)) << ids[i];
  }
}

// What a number that is not finite touches is NaN, and nothing else; too small ones are zeros.
TEST_P(QuantisedKernelsTest, ARowThatIsNotFiniteSpoilsItselfAlone) {
  const auto device = MakeQuantisedDevice(isa());
  const int64_t cols = 2 * BlockElements(), n = 9;
  const StoredWeight weight(cols, {{40, format()}}, 9);
  Floats x = Random(n * cols, 10);
  const float infinity = std::numeric_limits<float>::infinity();
  x[static_cast<size_t>(1 * cols + 3)] = infinity;
  x[static_cast<size_t>(4 * cols + cols - 1)] = -infinity;
  x[static_cast<size_t>(6 * cols + 20)] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < cols; ++i) {
    x[static_cast<size_t>(3 * cols + i)] = 0x1p-140f * static_cast<float>(i);
    x[static_cast<size_t>(5 * cols + i)] = 0x1p100f * static_cast<float>(i % 7);
    x[static_cast<size_t>(8 * cols + i)] = 0x1p-100f * static_cast<float>(i % 3);
  }
  const Floats y = MultiplyQuantised(*device, *weight.Pack(*device), x, n);
  ExpectSameBits(y, weight.Expected(x, n), "special values");
  for (int64_t i = 0; i < n * 40; ++i) {
    const int64_t row = i / 40;
    ASSERT_EQ(std::isnan(y[static_cast<size_t>(i)]), row == 1 || row == 4 || row == 6) << row;
  }
}

// Parts in formats of their own, some of which end within a panel; dense ones between them.
TEST(QuantisedKernels, FormatsMixWithinAWeight) {
  const int64_t cols = 512;
  const std::vector<std::vector<LinearPart>> mixtures = {
      {{64, WeightFormat::kQ4_K}, {32, WeightFormat::kQ4_K}, {32, WeightFormat::kQ6_K}},
      {{33, WeightFormat::kQ4_K}, {7, WeightFormat::kQ6_K}, {50, WeightFormat::kQ8_0}},
      {{1, WeightFormat::kQ5_0}, {1, WeightFormat::kMXFP4}, {20, WeightFormat::kIQ4_NL}},
      {{33, WeightFormat::kQ2_K}, {32, WeightFormat::kQ3_K}, {32, WeightFormat::kIQ4_XS}},
      {{64, WeightFormat::kQ4_0}, {32, WeightFormat::kBF16}, {40, WeightFormat::kQ5_K}, {8, WeightFormat::kBF16}},
  };
  for (const CpuIsa isa : TestedProductIsas()) {
    for (const std::vector<LinearPart>& parts : mixtures) {
      for (const int threads : {1, 2, 5}) {
        const auto device = MakeQuantisedDevice(isa, threads);
        const StoredWeight weight(cols, parts, 11);
        const Floats bias = Random(weight.rows(), 12);
        const auto packed = weight.Pack(*device, bias);
        EXPECT_EQ(static_cast<int64_t>(packed->bytes()), device->LinearBytes(packed->spec(), true));
        for (const int64_t n : {1, 4, 16, 33}) {
          const Floats x = Random(n * cols, 13);
          const Floats y = MultiplyQuantised(*device, *packed, x, n);
          int64_t first = 0;
          for (size_t part = 0; part < parts.size(); ++part) {
            // A weight of this part alone gives the same bits.
            StoredWeight alone(cols, {parts[part]}, 0);
            alone.bytes[0] = weight.bytes[part];
            const Floats own_bias(bias.begin() + first, bias.begin() + first + parts[part].rows);
            const Floats expected = MultiplyQuantised(*device, *alone.Pack(*device, own_bias), x, n);
            for (int64_t i = 0; i < n * parts[part].rows; ++i) {
              const int64_t at = i / parts[part].rows * weight.rows() + first + i % parts[part].rows;
              ASSERT_EQ(y[static_cast<size_t>(at)], expected[static_cast<size_t>(i)])
                  << IsaName(isa) << ", " << threads << " threads, part " << part << ", " << i;
            }
            first += parts[part].rows;
          }
        }
      }
    }
  }
}

// Each half gives the bits that it gives alone, whether they lie side by side or not.
TEST(QuantisedKernels, AGateAndItsUpProjectionMayDiffer) {
  const int64_t cols = 256;
  const std::vector<std::pair<WeightFormat, WeightFormat>> pairs = {
      {WeightFormat::kQ4_K, WeightFormat::kQ6_K},
      {WeightFormat::kIQ4_XS, WeightFormat::kBF16},
      {WeightFormat::kBF16, WeightFormat::kQ2_K},
  };
  for (const CpuIsa isa : TestedProductIsas()) {
    for (const auto& [gate_format, up_format] : pairs) {
      for (const int64_t half : {1, 15, 33, 64}) {
        const auto device = MakeQuantisedDevice(isa, 3);
        const StoredWeight weight(cols, {{half, gate_format}, {half, up_format}}, 14);
        StoredWeight gate(cols, {{half, gate_format}}, 0), up(cols, {{half, up_format}}, 0);
        gate.bytes[0] = weight.bytes[0];
        up.bytes[0] = weight.bytes[1];
        const Floats bias = Random(2 * half, 15);
        const Floats gate_bias(bias.begin(), bias.begin() + half), up_bias(bias.begin() + half, bias.end());
        const auto packed = weight.Pack(*device, bias, true), packed_gate = gate.Pack(*device, gate_bias);
        EXPECT_EQ(static_cast<int64_t>(packed->bytes()), device->LinearBytes(packed->spec(), true));
        for (const int64_t n : {1, 7, 33}) {
          Floats x = Random(n * cols, 16, 0.01f);
          Floats expected(static_cast<size_t>(n * half), kUntouchedOutput), actual = expected;
          device->LinearActivated(*packed_gate, Activation::kSilu, QuantisedView(x, n, cols),
                                  QuantisedView(expected, n, half));
          const Floats factor = MultiplyQuantised(*device, *up.Pack(*device, up_bias), x, n);
          for (size_t i = 0; i < expected.size(); ++i) expected[i] *= factor[i];
          device->LinearGated(*packed, Activation::kSilu, QuantisedView(x, n, cols), QuantisedView(actual, n, half));
          ExpectSameBits(actual, expected, std::string(IsaName(isa)) + ", " + std::to_string(half) + " outputs");
        }
      }
    }
    // Halves in one format lie side by side.
    const auto device = MakeQuantisedDevice(isa);
    const StoredWeight weight(cols, {{48, WeightFormat::kQ5_0}, {48, WeightFormat::kQ5_0}}, 17);
    Floats x = Random(5 * cols, 18, 0.01f), actual(5 * 48, kUntouchedOutput), expected = actual;
    device->LinearGated(*weight.Pack(*device, {}, true), Activation::kSilu, QuantisedView(x, 5, cols),
                        QuantisedView(actual, 5, 48));
    StoredWeight gate(cols, {{48, WeightFormat::kQ5_0}}, 0), up = gate;
    gate.bytes[0] = weight.bytes[0];
    up.bytes[0] = weight.bytes[1];
    device->LinearActivated(*gate.Pack(*device), Activation::kSilu, QuantisedView(x, 5, cols),
                            QuantisedView(expected, 5, 48));
    const Floats factor = MultiplyQuantised(*device, *up.Pack(*device), x, 5);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= factor[i];
    ExpectSameBits(actual, expected, IsaName(isa));
  }
}

TEST(QuantisedKernels, TheDeviceKeepsWhatHasALayout) {
  const auto device = MakeQuantisedDevice(SupportedIsas().back());
  for (const WeightFormat format : kQuantisedFormats) EXPECT_TRUE(device->Supports(format)) << InfoOf(format).name;
  EXPECT_TRUE(device->Supports(WeightFormat::kF32));
}

}  // namespace
}  // namespace hydrant
