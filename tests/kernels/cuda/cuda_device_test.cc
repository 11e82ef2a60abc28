// Products, embeddings, norms and row copies of CudaDevice against the oracle, and what it does with errors.
#include "kernels/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_error.h"
#include "kernels/reference.h"
#include "tests/kernels/matrix_fixture.h"
#include "tests/kernels/operands.h"

namespace hydrant {
namespace {

using reference::RoundTo;
using reference::ToDouble;
using reference::Values;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

class CudaDeviceTest : public MatrixFixture {
 protected:
  CudaDeviceTest() : MatrixFixture({.tokens_max = 40, .cols_max = 300}) {}
};

struct Product {
  int64_t n, rows, cols;
};
// One and several rows of x, the two kernels' border, columns that fill no vector, one output that is left over.
constexpr Product kProducts[] = {{1, 64, 64},  {1, 7, 33},   {2, 129, 300}, {3, 40, 8},
                                 {4, 34, 257}, {5, 66, 257}, {17, 30, 31},  {40, 3, 300}};

// fp32 sums of products of rounded operands.
void ExpectNear(const Floats& actual, const Values& expected, const Values& magnitude, int64_t cols,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], static_cast<double>(cols + 2) * 0x1p-24 * magnitude[i] + 1e-30)
        << what << " " << i;
  }
}

TEST_F(CudaDeviceTest, ProductsAgreeWithTheOracle) {
  for (const DType dtype : kTypes) {
    for (const auto& [n, rows, cols] : kProducts) {
      for (const bool biased : {false, true}) {
        const std::string what =
            "n " + std::to_string(n) + " rows " + std::to_string(rows) + " cols " + std::to_string(cols);
        const Floats w = Random(rows * cols, 1, 0.1f), x = Random(n * cols, 2), before = Random(n * rows, 4);
        const Floats bias = biased ? Random(rows, 3) : Floats();
        const auto weight = device_->MakeLinear({.rows = rows, .cols = cols, .dtype = dtype}, ReaderOf(w, cols), bias);
        const Values xr = RoundTo(dtype, ToDouble(x)), wr = RoundTo(dtype, ToDouble(w));
        const Values expected = reference::Linear(xr, n, wr, rows, cols, ToDouble(bias));
        Values magnitude = reference::LinearMagnitude(xr, n, wr, rows, cols, ToDouble(bias));
        const Matrix in = On(n, cols, x), out = On(n, rows), sum = On(n, rows, before);
        device_->Linear(*weight, in, out, /*accumulate=*/false);
        ExpectNear(Read(out), expected, magnitude, cols, what);

        device_->Linear(*weight, in, sum, /*accumulate=*/true);
        Values added = expected;
        for (size_t i = 0; i < added.size(); ++i) {
          added[i] += static_cast<double>(before[i]);
          magnitude[i] += std::abs(static_cast<double>(before[i]));
        }
        ExpectNear(Read(sum), added, magnitude, cols, what + " accumulated");
      }
    }
  }
}

TEST_F(CudaDeviceTest, ActivatedAndGatedProductsAgreeWithTheOracle) {
  for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const int64_t n : {1, 4, 9}) {
      constexpr int64_t kRows = 38, kCols = 50;
      const Floats w = Random(kRows * kCols, 5, 0.2f), x = Random(n * kCols, 6), bias = Random(kRows, 7);
      const LinearSpec spec{.rows = kRows, .cols = kCols};
      const Matrix in = On(n, kCols, x), activated = On(n, kRows), gated = On(n, kRows / 2);
      device_->LinearActivated(*device_->MakeLinear(spec, ReaderOf(w, kCols), bias), activation, in, activated);
      Values expected = reference::Linear(ToDouble(x), n, ToDouble(w), kRows, kCols, ToDouble(bias));
      for (double& y : expected) y = reference::Activate(activation, y);
      const Floats actual = Read(activated);
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << i;

      LinearSpec gate = spec;
      gate.gated = true;
      device_->LinearGated(*device_->MakeLinear(gate, ReaderOf(w, kCols), {}), activation, in, gated);
      const Values both = reference::LinearGated(activation, ToDouble(x), n, ToDouble(w), kRows, kCols);
      const Floats halves = Read(gated);
      for (size_t i = 0; i < halves.size(); ++i) ASSERT_NEAR(halves[i], both[i], 5e-5) << i;
    }
  }
}

TEST_F(CudaDeviceTest, EmbedsTokensAndPositions) {
  constexpr int64_t kRows = 20, kCols = 37;
  const Floats words = Random(kRows * kCols, 1), places = Random(kRows * kCols, 2);
  const std::vector<int32_t> ids = {3, 0, 19, 7, 7};
  const std::vector<int32_t> table = {0};
  const std::vector<BatchRow> rows = {
      {.token_begin = 0, .token_count = 3, .position = 5, .prompt_length = 8, .prefill = true, .block_table = table},
      {.token_begin = 3, .token_count = 1, .position = 11, .live = 3, .block_table = table},
      {.token_begin = 4, .token_count = 1, .position = 0, .prompt_length = 1, .prefill = true, .block_table = table}};
  const int64_t positions[] = {5, 6, 7, 11, 0};
  device_->BeginStep({.token_ids = ids, .rows = rows});
  for (const DType dtype : kTypes) {
    const LinearSpec spec{.rows = kRows, .cols = kCols, .dtype = dtype};
    const auto tokens = device_->MakeLinear(spec, ReaderOf(words, kCols), {});
    const auto place = device_->MakeLinear(spec, ReaderOf(places, kCols), {});
    const Values word_table = RoundTo(dtype, ToDouble(words)), place_table = RoundTo(dtype, ToDouble(places));
    const Matrix x = On(5, kCols), alone = On(5, kCols);
    device_->Embed(tokens.get(), place.get(), x);
    device_->Embed(tokens.get(), nullptr, alone);
    const Values both = reference::Embed(word_table, kCols, ids, place_table, positions);
    const Values one = reference::Embed(word_table, kCols, ids);
    const Floats sum = Read(x), single = Read(alone);
    for (size_t i = 0; i < both.size(); ++i) {
      ASSERT_NEAR(sum[i], both[i], 1e-6) << i;
      ASSERT_EQ(static_cast<double>(single[i]), one[i]) << i;
    }
  }
}

TEST_F(CudaDeviceTest, NormsAgreeWithTheOracle) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const int64_t cols : {1, 31, 64, 300}) {
      const Floats weight = Random(cols, 1), bias = Random(cols, 2), x = Random(3 * cols, 3, 4.0f);
      const bool biased = kind == NormKind::kLayer;
      const Matrix w = On(1, cols, weight), b = On(1, cols, bias), in = On(3, cols, x);
      const NormWeight norm{kind, static_cast<const float*>(w.data),
                            biased ? static_cast<const float*>(b.data) : nullptr, 1e-5f};
      device_->Norm(norm, in, in);
      const Values expected =
          reference::Norm(kind, ToDouble(weight), biased ? ToDouble(bias) : Values(), 1e-5f, ToDouble(x), 3, cols);
      const Floats actual = Read(in);
      for (size_t i = 0; i < actual.size(); ++i)
        ASSERT_NEAR(actual[i], expected[i], 4e-6 * (1 + std::abs(expected[i]))) << cols << " " << i;
    }
  }
}

TEST_F(CudaDeviceTest, GathersRowsAndZeroesMemory) {
  const Matrix x = On(4, 33, Random(4 * 33, 1)), y = On(3, 33);
  device_->GatherRows(x, std::vector<int32_t>{2, 0, 2}, y);
  const Floats from = Read(x), to = Read(y);
  for (size_t col = 0; col < 33; ++col) {
    EXPECT_EQ(to[col], from[2 * 33 + col]);
    EXPECT_EQ(to[33 + col], from[col]);
    EXPECT_EQ(to[66 + col], from[2 * 33 + col]);
  }
  const auto buffer = device_->Allocate(1000);
  std::vector<char> bytes(1000, 1);
  device_->CopyToHost(bytes.data(), buffer->data(), bytes.size());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 1000);
  EXPECT_THROW(device_->Allocate(size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(device_->name().substr(0, 5), "cuda ");
}

}  // namespace
}  // namespace hydrant
