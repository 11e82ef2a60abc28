// Products on packed weights, through CpuDevice, on every instruction set this machine has.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cpu/tested_isas.h"
#include "tests/kernels/operands.h"

namespace hydrant {
namespace {

std::unique_ptr<CpuDevice> MakeLinearDevice(CpuIsa isa, int threads = 2) {
  CpuDeviceOptions options;
  options.threads = threads;
  options.isa = isa;
  std::unique_ptr<CpuDevice> device = CpuDevice::Create(options).value();
  device->ReserveScratch({.tokens_max = 520, .cols_max = 2048});
  return device;
}

Matrix LinearView(Floats& values, int64_t rows, int64_t cols) { return {values.data(), DType::kF32, rows, cols}; }

// A value no product gives: shows columns that were not written.
constexpr float kUntouched = 12345.0f;

struct Problem {
  int64_t n, rows, cols;
  DType dtype = DType::kF32;
  bool bias = true;

  Floats x, w, b;

  Problem(int64_t n_in, int64_t rows_in, int64_t cols_in, DType dtype_in, bool bias_in = true)
      : n(n_in), rows(rows_in), cols(cols_in), dtype(dtype_in), bias(bias_in) {
    const auto seed = static_cast<uint32_t>(n * 7919 + rows * 104729 + cols);
    x = Random(n * cols, seed);
    w = Random(rows * cols, seed + 1, 0.05f);
    if (bias) b = Random(rows, seed + 2);
  }

  // The weights as the device stores them.
  reference::Values stored() const { return reference::RoundTo(dtype, reference::ToDouble(w)); }

  std::unique_ptr<LinearWeight> Pack(CpuDevice& device, bool gated = false) const {
    return device.MakeLinear({rows, cols, FormatOf(dtype), gated}, ReaderOf(w, cols), b);
  }
};

// A sum of k products in fp32 is off by at most about (k + 2) eps |x| |w|; x rounded to bf16 adds 2^-8 of it. On random
// signs the first part grows like sqrt(k), so its bound is never the tight one.
double RelativeBound(const CpuDevice& device, DType dtype, int64_t cols) {
  const double rounding = dtype == DType::kBF16 && device.MultipliesNatively(dtype) ? std::ldexp(1.0, -8) : 0.0;
  return rounding + static_cast<double>(cols + 3) * std::ldexp(1.0, -24);
}

Floats Multiply(CpuDevice& device, const LinearWeight& weight, const Floats& x, int64_t n) {
  Floats in = x;
  Floats y(static_cast<size_t>(n * weight.spec().rows), kUntouched);
  device.Linear(weight, LinearView(in, n, weight.spec().cols), LinearView(y, n, weight.spec().rows), false);
  return y;
}

const char* ShortName(DType dtype) { return dtype == DType::kF32 ? "f32" : dtype == DType::kF16 ? "f16" : "bf16"; }

class CpuLinearTest : public ::testing::TestWithParam<std::tuple<CpuIsa, DType>> {
 protected:
  CpuIsa isa() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, CpuLinearTest,
                         ::testing::Combine(::testing::ValuesIn(TestedIsas()),
                                            ::testing::Values(DType::kF32, DType::kF16, DType::kBF16)),
                         [](const auto& isa) {
                           return std::string(IsaName(std::get<0>(isa.param))) + "_" +
                                  ShortName(std::get<1>(isa.param));
                         });

TEST_P(CpuLinearTest, AgreesWithTheOracle) {
  const auto device = MakeLinearDevice(isa());
  std::vector<std::tuple<int64_t, int64_t, int64_t>> shapes;
  for (int64_t rows = 1; rows <= 17; ++rows) {
    for (int64_t cols : {1, 2, 3, 16, 17, 31, 64}) shapes.emplace_back(rows % 5 + 1, rows, cols);
  }
  for (int64_t n : {1, 2, 3, 5, 8, 13, 14, 15, 16, 17, 33}) {
    for (int64_t rows : {31, 32, 33, 48, 65}) shapes.emplace_back(n, rows, 47 + n % 2);
  }
  shapes.emplace_back(1, 576, 576);
  shapes.emplace_back(17, 576, 1536);
  shapes.emplace_back(512, 48, 576);
  for (const auto& [n, rows, cols] : shapes) {
    const Problem p(n, rows, cols, dtype());
    const auto weight = p.Pack(*device);
    const Floats y = Multiply(*device, *weight, p.x, n);
    const auto x64 = reference::ToDouble(p.x);
    const auto b64 = reference::ToDouble(p.b);
    const auto expected = reference::Linear(x64, n, p.stored(), rows, cols, b64);
    const auto magnitude = reference::LinearMagnitude(x64, n, p.stored(), rows, cols, b64);
    const double bound = RelativeBound(*device, dtype(), cols);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], bound * magnitude[i]) << n << " x " << rows << " x " << cols << ", element " << i;
    }
  }
}

TEST_P(CpuLinearTest, RowsDoNotDependOnTheBatch) {
  const auto device = MakeLinearDevice(isa());
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{48, 577}, {192, 576}, {33, 64}}) {
    const Problem p(512, rows, cols, dtype());
    const auto weight = p.Pack(*device);
    const Floats all = Multiply(*device, *weight, p.x, p.n);
    for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 28, 29, 33, 64}) {
      const int64_t first = (n * 31) % (p.n - n);
      const Floats part(p.x.begin() + first * cols, p.x.begin() + (first + n) * cols);
      const Floats y = Multiply(*device, *weight, part, n);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * rows)) << n << " rows from " << first;
    }
    // Reversed: a row's neighbours and its place in the tile change.
    Floats reversed;
    for (int64_t row = p.n - 1; row >= 0; --row) {
      reversed.insert(reversed.end(), p.x.begin() + row * cols, p.x.begin() + (row + 1) * cols);
    }
    const Floats y = Multiply(*device, *weight, reversed, p.n);
    for (int64_t row = 0; row < p.n; ++row) {
      ASSERT_TRUE(
          std::equal(y.begin() + row * rows, y.begin() + (row + 1) * rows, all.begin() + (p.n - 1 - row) * rows));
    }
  }
}

TEST_P(CpuLinearTest, ResultDoesNotDependOnTheThreadCount) {
  for (int64_t n : {1, 3, 16, 33, 100}) {
    const Problem p(n, 200, 96, dtype());
    const auto one = MakeLinearDevice(isa(), 1);
    const Floats expected = Multiply(*one, *p.Pack(*one), p.x, n);
    for (int threads : {2, 3, 9}) {
      const auto device = MakeLinearDevice(isa(), threads);
      ASSERT_EQ(Multiply(*device, *p.Pack(*device), p.x, n), expected) << threads << " threads, " << n << " rows";
    }
  }
}

TEST_P(CpuLinearTest, AccumulateAddsTheSameSum) {
  const auto device = MakeLinearDevice(isa());
  for (int64_t n : {1, 16, 17}) {
    for (int64_t rows : {1, 17, 48}) {
      const Problem p(n, rows, 65, dtype());
      const auto weight = p.Pack(*device);
      const Floats product = Multiply(*device, *weight, p.x, n);
      const Floats before = Random(n * rows, 5);
      Floats y = before;
      Floats x = p.x;
      device->Linear(*weight, LinearView(x, n, p.cols), LinearView(y, n, rows), true);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + product[i]);
    }
  }
}

TEST_P(CpuLinearTest, MissingBiasIsZero) {
  const auto device = MakeLinearDevice(isa());
  Problem p(3, 40, 33, dtype(), false);
  const Floats without = Multiply(*device, *p.Pack(*device), p.x, p.n);
  p.b.assign(40, 0.0f);
  EXPECT_EQ(Multiply(*device, *p.Pack(*device), p.x, p.n), without);
}

TEST_P(CpuLinearTest, ActivatedAndGatedAgreeWithTheOracle) {
  const auto device = MakeLinearDevice(isa());
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kClampedSwish}) {
    for (int64_t n : {1, 5, 16, 33}) {
      for (int64_t rows : {2, 30, 32, 34, 96}) {
        Problem p(n, rows, 63, dtype());
        if (activation == Activation::kClampedSwish) {
          for (size_t i = 0; i < p.b.size(); i += 3) p.b[i] += i % 2 == 0 ? 9.0f : -9.0f;
        }
        const auto plain = p.Pack(*device);
        const Floats sums = Multiply(*device, *plain, p.x, n);
        Floats x = p.x;
        Floats y(sums.size(), kUntouched);
        device->LinearActivated(*plain, activation, LinearView(x, n, p.cols), LinearView(y, n, rows));
        // The sums have their own test: what is left is the activation's error.
        for (size_t i = 0; i < y.size(); ++i) {
          const double expected = reference::Activate(activation, sums[i]);
          ASSERT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-37);
        }
        const auto gated = p.Pack(*device, true);
        const int64_t half = rows / 2;
        Floats z(static_cast<size_t>(n * half), kUntouched);
        device->LinearGated(*gated, activation, LinearView(x, n, p.cols), LinearView(z, n, half));
        for (int64_t row = 0; row < n; ++row) {
          for (int64_t i = 0; i < half; ++i) {
            const double gate = sums[static_cast<size_t>(row * rows + i)];
            const double up = sums[static_cast<size_t>(row * rows + half + i)];
            const double activated = reference::Activate(activation, gate);
            const double expected = activated * reference::UpFactor(activation, up);
            // What is added to an up projection rounds once more.
            const double rounding = activation == Activation::kClampedSwish ? 1e-6 * std::abs(activated) : 0;
            ASSERT_NEAR(z[static_cast<size_t>(row * half + i)], expected, 3e-6 * std::abs(expected) + rounding + 1e-37);
          }
        }
      }
    }
  }
}

TEST_P(CpuLinearTest, EmbedReturnsTheStoredRows) {
  const auto device = MakeLinearDevice(isa());
  for (int64_t cols : {1, 16, 17, 64}) {
    const Problem p(1, 70, cols, dtype(), false);
    const auto table = p.Pack(*device);
    std::vector<int32_t> ids = {0, 1, 15, 16, 17, 31, 32, 63, 64, 69, 69, 0};
    const BatchRow row;
    device->BeginStep({ids, {&row, 1}});
    const auto n = static_cast<int64_t>(ids.size());
    Floats x(static_cast<size_t>(n * cols), kUntouched);
    device->Embed(table.get(), 1, nullptr, LinearView(x, n, cols));
    EXPECT_EQ(reference::ToDouble(x), reference::Embed(p.stored(), cols, ids));
  }
}

TEST_P(CpuLinearTest, EmbedAddsTheRowOfAPosition) {
  const auto device = MakeLinearDevice(isa());
  for (int64_t cols : {1, 16, 17, 64}) {
    const Problem tokens(1, 70, cols, dtype(), false), places(2, 40, cols, dtype(), false);
    const auto table = tokens.Pack(*device), positions = places.Pack(*device);
    device->ReserveScratch(
        {.tokens_max = 64, .rows_max = 4, .slots_max = 16, .cols_max = cols, .query_heads = 1, .head_dim = 2});
    // A prompt that goes on, one that begins, and a decode between them.
    const std::vector<int32_t> ids = {5, 6, 7, 69, 0, 5, 5};
    const std::vector<int64_t> at = {16, 17, 18, 39, 0, 1, 2};
    const BatchRow rows[] = {{{.position = 16}, {}, /*token_begin=*/0, /*token_count=*/3},
                             {{.position = 39}, {}, /*token_begin=*/3, /*token_count=*/1},
                             {{.position = 0}, {}, /*token_begin=*/4, /*token_count=*/3}};
    device->BeginStep({ids, rows});
    const auto n = static_cast<int64_t>(ids.size());
    Floats x(static_cast<size_t>(n * cols), kUntouched);
    device->Embed(table.get(), 1, positions.get(), LinearView(x, n, cols));
    // One rounding, of the sum.
    EXPECT_EQ(reference::ToDouble(x),
              reference::RoundTo(DType::kF32, reference::Embed(tokens.stored(), cols, ids, places.stored(), at)));
    // A power of two rounds nothing.
    device->Embed(table.get(), 4, nullptr, LinearView(x, n, cols));
    const Floats scaled = x;
    device->Embed(table.get(), 1, nullptr, LinearView(x, n, cols));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(scaled[i], 4 * x[i]) << i;
    // Which scale says nothing of positions.
    device->Embed(nullptr, 4, positions.get(), LinearView(x, n, cols));
    const std::vector<int32_t> rows_of_positions(at.begin(), at.end());
    EXPECT_EQ(reference::ToDouble(x), reference::Embed(places.stored(), cols, rows_of_positions));
  }
}

TEST_P(CpuLinearTest, SpecialValuesComeThrough) {
  const auto device = MakeLinearDevice(isa());
  Problem p(3, 33, 35, dtype(), false);
  std::fill(p.w.begin(), p.w.end(), 1.0f);
  p.w[4 * 35 + 34] = std::nanf("");  // row 4, last column
  p.x.assign(p.x.size(), 1.0f);
  p.x[35 + 34] = INFINITY;  // row 1, last column
  const Floats y = Multiply(*device, *p.Pack(*device), p.x, p.n);
  for (int64_t n = 0; n < 3; ++n) {
    for (int64_t row = 0; row < 33; ++row) {
      const float value = y[static_cast<size_t>(n * 33 + row)];
      if (row == 4) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, n == 1 ? INFINITY : 35.0f);
      }
    }
  }
}

TEST(CpuLinear, Bf16RoundsToNearestEven) {
  for (CpuIsa isa : SupportedIsas()) {
    const auto device = MakeLinearDevice(isa);
    const Floats w = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1.8p-8f, -1.0f - 0x1p-8f, 3.4e38f, 1e-40f};
    const auto table = device->MakeLinear({6, 1, WeightFormat::kBF16}, ReaderOf(w, 1), {});
    const std::vector<int32_t> ids = {0, 1, 2, 3, 4};
    device->BeginStep({ids, {}});
    Floats x(5);
    device->Embed(table.get(), 1, nullptr, LinearView(x, 5, 1));
    EXPECT_EQ(x, (Floats{1.0f, 1.0f + 0x4p-8f, 1.0f + 0x2p-8f, -1.0f, INFINITY})) << IsaName(isa);
  }
}

}  // namespace
}  // namespace hydrant
