// The products of 5 to 64 rows, through CudaDevice, whose simulated device has four multiprocessors: enough for a weight of few rows
// to be divided between blocks.
#include "kernels/cuda/linear/skinny_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/linear/cuda_linear.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/matrix_fixture.h"
#include "tests/kernels/operands.h"

namespace hydrant {
namespace {

using reference::RoundTo;
using reference::ToDouble;
using reference::Values;

TEST(SplitSkinny, FillsTheDeviceOrGivesABlockEightStages) {
  // An 8B Llama on 132 multiprocessors: qkv, o, gate and up, down, the head.
  const auto split = [](int64_t rows, int64_t cols, bool gated) {
    const cuda::SkinnySplit made = cuda::SplitSkinny(rows, cols, gated, 132);
    return std::pair(made.tiles, made.splits);
  };
  EXPECT_EQ(split(6144, 4096, false), std::pair(48, 5));
  EXPECT_EQ(split(4096, 4096, false), std::pair(32, 8));
  EXPECT_EQ(split(28672, 4096, true), std::pair(224, 1));
  EXPECT_EQ(split(4096, 14336, false), std::pair(32, 8));
  EXPECT_EQ(split(128256, 4096, false), std::pair(1002, 1));
  // Few rows and columns.
  EXPECT_EQ(split(1, 1, false), std::pair(1, 1));
  EXPECT_EQ(split(130, 512, false), std::pair(2, 2));
  EXPECT_EQ(split(130, 512, true), std::pair(2, 2));
}

struct Shape {
  int64_t n, rows, cols;
};

class SkinnyGemmTest : public MatrixFixture, public testing::WithParamInterface<std::tuple<DType, Shape>> {
 protected:
  SkinnyGemmTest() : MatrixFixture({.tokens_max = 70, .cols_max = 1100}) {}
};

TEST_P(SkinnyGemmTest, EveryFinishAgreesWithTheOracle) {
  const auto [dtype, shape] = GetParam();
  const auto [n, rows, cols] = shape;
  const Floats w = Random(rows * cols, 1, 0.1f), x = Random(n * cols, 2), bias = Random(rows, 3),
               before = Random(n * rows, 4);
  const Values xr = RoundTo(dtype, ToDouble(x)), wr = RoundTo(dtype, ToDouble(w));
  const Values product = reference::Linear(xr, n, wr, rows, cols, ToDouble(bias));
  const Values magnitude = reference::LinearMagnitude(xr, n, wr, rows, cols, ToDouble(bias));
  LinearSpec spec{.rows = rows, .cols = cols, .format = FormatOf(dtype)};
  const auto weight = device_->MakeLinear(spec, ReaderOf(w, cols), bias);
  const Matrix in = On(n, cols, x);
  const auto bound = [&, cols = cols](size_t i) { return static_cast<double>(2 * cols + 2) * 0x1p-24 * magnitude[i]; };

  // Twice: a launch leaves the scratch as it found it.
  for (const int round : {0, 1}) {
    const Matrix out = On(n, rows), sum = On(n, rows, before);
    device_->Linear(*weight, in, out, /*accumulate=*/false);
    device_->Linear(*weight, in, sum, /*accumulate=*/true);
    const Floats stored = Read(out), added = Read(sum);
    for (size_t i = 0; i < stored.size(); ++i) {
      ASSERT_NEAR(stored[i], product[i], bound(i)) << i << " of round " << round;
      const auto old = static_cast<double>(before[i]);
      ASSERT_NEAR(added[i], product[i] + old, bound(i) + 0x1p-23 * std::abs(old)) << i;
    }
  }

  // SiLU's slope is at most 1.1, and expf is within 2 units in the last place.
  const Matrix activated = On(n, rows, before);
  device_->LinearActivated(*weight, Activation::kSilu, in, activated);
  const Floats act = Read(activated);
  for (size_t i = 0; i < act.size(); ++i) {
    const double expected = reference::Activate(Activation::kSilu, product[i]);
    ASSERT_NEAR(act[i], expected, 1.1 * bound(i) + 0x1p-21 * std::abs(expected)) << i;
  }

  if (rows % 2 != 0) return;
  spec.gated = true;
  const int64_t half = rows / 2;
  const Matrix gated = On(n, half);
  device_->LinearGated(*device_->MakeLinear(spec, ReaderOf(w, cols), bias), Activation::kSilu, in, gated);
  const Floats both = Read(gated);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t output = 0; output < half; ++output) {
      const auto gate = static_cast<size_t>(row * rows + output), up = gate + static_cast<size_t>(half);
      const double open = reference::Activate(Activation::kSilu, product[gate]), expected = open * product[up];
      const double error = 1.1 * bound(gate) * std::abs(product[up]) + bound(up) * std::abs(open) +
                           1.1 * bound(gate) * bound(up) + 0x1p-21 * std::abs(expected);
      ASSERT_NEAR(both[static_cast<size_t>(row * half + output)], expected, error) << row << " " << output;
    }
  }
}

TEST_P(SkinnyGemmTest, ARowIsTheSameInAnyCompany) {
  const auto [dtype, shape] = GetParam();
  const auto [n, rows, cols] = shape;
  const Floats w = Random(rows * cols, 1, 0.1f), x = Random(64 * cols, 2);
  const auto weight =
      device_->MakeLinear({.rows = rows, .cols = cols, .format = FormatOf(dtype)}, ReaderOf(w, cols), {});
  Matrix in = On(64, cols, x);
  const Matrix all = On(64, rows);
  const Matrix few = On(n, rows);
  device_->Linear(*weight, in, all, /*accumulate=*/false);
  in.rows = n;
  device_->Linear(*weight, in, few, /*accumulate=*/false);
  const Floats expected = Read(all), actual = Read(few);
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_EQ(actual[i], expected[i]) << i;
}

// The borders of the kernel's three widths; rows that fill tiles (128, 256; gated 128), leave most of one or one output over; columns
// of one stage, that end inside a copy, or are divided between two blocks (512 and more) or four (1,024).
constexpr Shape kShapes[] = {{5, 34, 257},  {8, 129, 40}, {15, 128, 32}, {16, 64, 8},    {17, 131, 300},
                             {31, 127, 64}, {32, 2, 31},  {33, 130, 96}, {63, 256, 48},  {64, 36, 520},
                             {64, 129, 33}, {6, 1, 1100}, {5, 262, 514}, {16, 100, 1056}};

std::string Name(const testing::TestParamInfo<std::tuple<DType, Shape>>& parameters) {
  const auto& [dtype, shape] = parameters.param;
  return std::string(dtype == DType::kF16 ? "f16" : "bf16") + "_n" + std::to_string(shape.n) + "_rows" +
         std::to_string(shape.rows) + "_cols" + std::to_string(shape.cols);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SkinnyGemmTest,
                         testing::Combine(testing::Values(DType::kF16, DType::kBF16), testing::ValuesIn(kShapes)),
                         Name);

// As many splits as an 8B Llama has on a large device, and fewer rows than CudaDevice gives to this kernel.
TEST(SkinnyGemm, SumsOfEightSplitsAndOfFewRowsAgreeWithTheOracle) {
  constexpr int64_t kRows = 130, kCols = 2100;
  const cuda::Stream stream;
  const Floats w = Random(kRows * kCols, 1, 0.1f);
  const cuda::CudaLinear linear({.rows = kRows, .cols = kCols, .format = WeightFormat::kBF16}, ReaderOf(w, kCols), {},
                                false, stream);
  const Values wr = RoundTo(DType::kBF16, ToDouble(w));
  for (const int32_t multiprocessors : {5, 8}) {
    ASSERT_EQ(cuda::SplitSkinny(kRows, kCols, false, multiprocessors).splits, multiprocessors);
    const cuda::CudaBuffer scratch(cuda::SkinnyScratchBytes(multiprocessors));
    CheckCuda(cudaMemsetAsync(scratch.data(), 0, scratch.bytes(), stream), "cudaMemsetAsync");
    for (const int64_t n : {1, 3, 20, 40}) {
      const Floats x = Random(n * kCols, 2);
      const cuda::CudaBuffer in(x.size() * sizeof(float));
      const cuda::CudaBuffer rounded(static_cast<size_t>(n * linear.view().stride) * 2);
      const cuda::CudaBuffer out(static_cast<size_t>(n * kRows) * sizeof(float));
      CheckCuda(cudaMemcpyAsync(in.data(), x.data(), in.bytes(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
      cuda::LaunchRound(stream, static_cast<const float*>(in.data()), DType::kBF16, rounded.data(), n, kCols,
                        linear.view().stride);
      cuda::LaunchSkinnyGemm(stream, linear.view(), Epilogue::kStore, Activation::kSilu, rounded.data(), n,
                             multiprocessors, scratch.data(), static_cast<float*>(out.data()));
      Floats actual(static_cast<size_t>(n * kRows));
      CheckCuda(cudaMemcpyAsync(actual.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost, stream),
                "cudaMemcpyAsync");
      CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      const Values xr = RoundTo(DType::kBF16, ToDouble(x));
      const Values expected = reference::Linear(xr, n, wr, kRows, kCols);
      const Values magnitude = reference::LinearMagnitude(xr, n, wr, kRows, kCols);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], (2 * kCols + 2) * 0x1p-24 * magnitude[i]) << n << " rows, " << i;
      }
    }
  }
}

}  // namespace
}  // namespace hydrant
