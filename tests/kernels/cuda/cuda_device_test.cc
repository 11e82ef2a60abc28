// Products, embeddings, norms and row copies of CudaDevice against the oracle, and what it does with errors.
#include "kernels/cuda/cuda_device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/reference/reference.h"
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
  CudaDeviceTest() : MatrixFixture({.tokens_max = 80, .cols_max = 300, .experts = 40, .experts_per_row = 5}) {}

  // What no op writes, in 16 bits.
  Matrix Halves(DType dtype, int64_t rows, int64_t cols) {
    Matrix matrix = On(rows, cols);
    matrix.dtype = dtype;
    return matrix;
  }
  std::vector<uint16_t> ReadHalves(const Matrix& matrix) {
    std::vector<uint16_t> bits(static_cast<size_t>(matrix.rows * matrix.cols));
    device_->CopyToHost(bits.data(), matrix.data, bits.size() * sizeof(uint16_t));
    return bits;
  }
};

// What a product makes of fp32.
std::vector<uint16_t> Rounded(DType dtype, std::span<const float> values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    uint16_t& to = bits.emplace_back();
    if (dtype == DType::kF16) {
      const __half half = __float2half_rn(value);
      std::memcpy(&to, &half, sizeof(to));
    } else {
      const __nv_bfloat16 half = __float2bfloat16_rn(value);
      std::memcpy(&to, &half, sizeof(to));
    }
  }
  return bits;
}

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
        const auto weight =
            device_->MakeLinear({.rows = rows, .cols = cols, .format = FormatOf(dtype)}, ReaderOf(w, cols), bias);
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
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kClampedSwish}) {
    for (const int64_t n : {1, 4, 9}) {
      constexpr int64_t kRows = 38, kCols = 50;
      const Floats w = Random(kRows * kCols, 5, 0.2f), x = Random(n * kCols, 6);
      Floats bias = Random(kRows, 7);
      for (size_t i = 0; i < bias.size(); i += 3) bias[i] += i % 2 == 0 ? 9.0f : -9.0f;  // sums that are clamped
      const LinearSpec spec{.rows = kRows, .cols = kCols};
      const Matrix in = On(n, kCols, x), activated = On(n, kRows), gated = On(n, kRows / 2);
      device_->LinearActivated(*device_->MakeLinear(spec, ReaderOf(w, kCols), bias), activation, in, activated);
      Values expected = reference::Linear(ToDouble(x), n, ToDouble(w), kRows, kCols, ToDouble(bias));
      for (double& y : expected) y = reference::Activate(activation, y);
      const Floats actual = Read(activated);
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << i;

      LinearSpec gate = spec;
      gate.gated = true;
      device_->LinearGated(*device_->MakeLinear(gate, ReaderOf(w, kCols), bias), activation, in, gated);
      const Values both = reference::LinearGated(activation, ToDouble(x), n, ToDouble(w), kRows, kCols, ToDouble(bias));
      const Floats halves = Read(gated);
      for (size_t i = 0; i < halves.size(); ++i) ASSERT_NEAR(halves[i], both[i], 2e-4) << i;
    }
  }
}

// Row counts of the kernels for few rows, for some, and of the library.
constexpr int64_t kRowCounts[] = {1, 2, 3, 4, 5, 17, 40, 65, 80};

TEST_F(CudaDeviceTest, WhatAProductTakesNextIsRoundedAsItWouldBeThen) {
  constexpr int64_t kRows = 80, kCols = 264;
  const Floats w = Random(kRows * kCols, 1, 0.1f), norm_weight = Random(kCols, 2), bias = Random(kRows, 3);
  const NormWeight norm{NormKind::kLayer, static_cast<const float*>(On(1, kCols, norm_weight).data),
                        static_cast<const float*>(On(1, kCols, Random(kCols, 4)).data), 1e-5f};
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(device_->PreferredInputType({.cols = kCols, .format = FormatOf(dtype)}), dtype);
    EXPECT_EQ(device_->PreferredInputType({.cols = kCols + 1, .format = FormatOf(dtype)}), DType::kF32)
        << "rows would begin anywhere";
    const LinearSpec spec{.rows = kRows, .cols = kCols, .format = FormatOf(dtype)};
    LinearSpec gate = spec;
    gate.gated = true;
    const auto plain = device_->MakeLinear(spec, ReaderOf(w, kCols), bias);
    const auto gated = device_->MakeLinear(gate, ReaderOf(w, kCols), bias);
    for (const int64_t n : kRowCounts) {
      SCOPED_TRACE(std::to_string(n) + " rows of " + (dtype == DType::kF16 ? "fp16" : "bf16"));
      const Matrix x = On(n, kCols, Random(n * kCols, 5));
      Matrix wide = On(n, kCols), halves = Halves(dtype, n, kCols);
      device_->Norm(norm, x, wide);
      device_->Norm(norm, x, halves);
      EXPECT_EQ(ReadHalves(halves), Rounded(dtype, Read(wide)));

      wide = On(n, kRows), halves = Halves(dtype, n, kRows);
      device_->LinearActivated(*plain, Activation::kGelu, x, wide);
      device_->LinearActivated(*plain, Activation::kGelu, x, halves);
      EXPECT_EQ(ReadHalves(halves), Rounded(dtype, Read(wide)));

      wide = On(n, kRows / 2), halves = Halves(dtype, n, kRows / 2);
      device_->LinearGated(*gated, Activation::kSilu, x, wide);
      device_->LinearGated(*gated, Activation::kSilu, x, halves);
      EXPECT_EQ(ReadHalves(halves), Rounded(dtype, Read(wide)));
    }
  }
}

TEST_F(CudaDeviceTest, AProductOfRoundedRowsIsThatOfTheRows) {
  constexpr int64_t kRows = 70, kCols = 296;
  const Floats w = Random(kRows * kCols, 1, 0.1f), bias = Random(kRows, 3);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const LinearSpec spec{.rows = kRows, .cols = kCols, .format = FormatOf(dtype)};
    LinearSpec gate = spec;
    gate.gated = true;
    const auto plain = device_->MakeLinear(spec, ReaderOf(w, kCols), bias);
    const auto gated = device_->MakeLinear(gate, ReaderOf(w, kCols), bias);
    for (const int64_t n : kRowCounts) {
      SCOPED_TRACE(std::to_string(n) + " rows of " + (dtype == DType::kF16 ? "fp16" : "bf16"));
      const Floats x = Random(n * kCols, 5), before = Random(n * kRows, 6);
      const std::vector<uint16_t> rounded = Rounded(dtype, x);
      const Matrix wide = On(n, kCols, x), halves = Halves(dtype, n, kCols);
      device_->CopyToDevice(halves.data, rounded.data(), rounded.size() * sizeof(uint16_t));
      std::vector<Floats> of_wide, of_halves;
      for (const Matrix& in : {wide, halves}) {
        std::vector<Floats>& results = in.dtype == dtype ? of_halves : of_wide;
        const Matrix stored = On(n, kRows), added = On(n, kRows, before), activated = On(n, kRows),
                     both = On(n, kRows / 2);
        device_->Linear(*plain, in, stored, /*accumulate=*/false);
        device_->Linear(*plain, in, added, /*accumulate=*/true);
        device_->LinearActivated(*plain, Activation::kGelu, in, activated);
        device_->LinearGated(*gated, Activation::kSilu, in, both);
        for (const Matrix& matrix : {stored, added, activated, both}) results.push_back(Read(matrix));
      }
      EXPECT_EQ(of_halves, of_wide);
    }
  }
}

// A prompt, a chunk behind it and generated tokens, on tensor cores and where these can not.
TEST_F(CudaDeviceTest, AttentionsOutputIsRoundedAsAProductWouldDoIt) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const int32_t head_dim : {32, 64, 80, 128}) {
      const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 3, .head_dim = head_dim, .type = KvTypeOf(dtype)};
      TokenStream stream(shape, 60, 5);
      KvFixture wide(shape, TestedDevices().front(), 1, 8), halves(shape, TestedDevices().front(), 1, 8);
      halves.out_dtype = dtype;
      TestSequence in_wide = wide.Sequence(stream, EvictionPolicy(), 52, 1, 60);
      TestSequence in_halves = halves.Sequence(stream, EvictionPolicy(), 52, 1, 60);
      for (const int32_t tokens : {32, 20, 1, 1}) {
        const TestRow wide_row{&in_wide, tokens, tokens > 1}, halves_row{&in_halves, tokens, tokens > 1};
        const std::vector<float> expected = wide.Step({&wide_row, 1}), raw = halves.Step({&halves_row, 1});
        std::vector<uint16_t> actual(expected.size());
        std::memcpy(actual.data(), raw.data(), actual.size() * sizeof(uint16_t));
        EXPECT_EQ(actual, Rounded(dtype, expected)) << head_dim << ", " << tokens << " tokens";
      }
    }
  }
}

// More experts than a warp has lanes, columns that fill no vector; equal logits and such as are no numbers.
TEST_F(CudaDeviceTest, ExpertsAgreeWithTheOracleAndRowsDoNotDependOnEachOther) {
  constexpr int64_t kRows = 5, kHidden = 50, kFfn = 34, kExperts = 40;
  const Floats x = Random(kRows * kHidden, 1), before = Random(kRows * kHidden, 2);
  Floats logits = Random(kRows * kExperts, 3);
  for (size_t expert = 0; expert < kExperts; ++expert) logits[kExperts + expert] = expert % 2 == 0 ? 0.0f : -0.0f;
  for (const DType dtype : kTypes) {
    std::vector<Values> up, down, up_bias, down_bias;
    Experts::Matrices up_weights, down_weights;
    const bool biased = dtype != DType::kF16;
    const Activation activation = biased ? Activation::kClampedSwish : Activation::kSilu;
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      const Floats u = Random(2 * kFfn * kHidden, 10 + expert, 0.2f), d = Random(kHidden * kFfn, 60 + expert, 0.2f);
      up.push_back(RoundTo(dtype, ToDouble(u)));
      down.push_back(RoundTo(dtype, ToDouble(d)));
      const LinearSpec gated{.rows = 2 * kFfn, .cols = kHidden, .format = FormatOf(dtype), .gated = true};
      const LinearSpec plain{.rows = kHidden, .cols = kFfn, .format = FormatOf(dtype)};
      Floats u_bias, d_bias;
      if (biased) {
        u_bias = Random(2 * kFfn, 110 + expert, 3.0f);
        d_bias = Random(kHidden, 160 + expert);
        up_bias.push_back(ToDouble(u_bias));
        down_bias.push_back(ToDouble(d_bias));
      }
      up_weights.push_back(device_->MakeLinear(gated, ReaderOf(u, kHidden), u_bias));
      down_weights.push_back(device_->MakeLinear(plain, ReaderOf(d, kFfn), d_bias));
    }
    const auto experts = device_->MakeExperts(std::move(up_weights), std::move(down_weights));
    for (const ExpertRouting& routing : {ExpertRouting{1, false}, ExpertRouting{5, false}, ExpertRouting{5, true}}) {
      const auto add = [&](int64_t first, int64_t n) {
        const auto part = [&](const Floats& all, int64_t cols) {
          return On(n, cols, Floats(all.begin() + first * cols, all.begin() + (first + n) * cols));
        };
        const Matrix y = part(before, kHidden);
        device_->AddExperts(*experts, routing, activation, part(x, kHidden), part(logits, kExperts),
                            Halves(dtype, n * routing.per_row, kFfn), y);
        return Read(y);
      };
      const Floats together = add(0, kRows);
      const Values expected = reference::Experts(routing, activation, RoundTo(dtype, ToDouble(x)), kRows, kHidden,
                                                 ToDouble(logits), up, down, up_bias, down_bias);
      // What lies between the products is rounded to the weights' type: 34 numbers of size 1, with biases up to 56, times 0.2.
      const double size = biased ? 16 : 1;
      const double rounding = size * (dtype == DType::kF32 ? 0x1p-20 : dtype == DType::kF16 ? 0x1p-9 : 0x1p-6);
      for (size_t i = 0; i < together.size(); ++i) ASSERT_NEAR(together[i], before[i] + expected[i], rounding) << i;
      for (int64_t row = 0; row < kRows; ++row) {
        const Floats alone = add(row, 1);
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + row * kHidden)) << row;
      }
    }
  }
  // Nothing is read or written out of place, and no other row suffers.
  const auto weight = [&](int64_t rows, int64_t cols, bool gated) {
    const Floats values = Random(rows * cols, 1);
    return device_->MakeLinear({.rows = rows, .cols = cols, .gated = gated}, ReaderOf(values, cols), {});
  };
  Experts::Matrices up_weights, down_weights;
  for (int expert = 0; expert < 2; ++expert) {
    up_weights.push_back(weight(8, 4, true));
    down_weights.push_back(weight(4, 4, false));
  }
  const auto experts = device_->MakeExperts(std::move(up_weights), std::move(down_weights));
  const float nan = std::nanf("");
  const Matrix y = On(2, 4, Floats(8, 1.0f));
  device_->AddExperts(*experts, {2, true}, Activation::kSilu, On(2, 4, Random(8, 5)), On(2, 2, {nan, nan, 1, 2}),
                      On(4, 4), y);
  const Floats rows = Read(y);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(rows[i]) && std::isfinite(rows[4 + i]));
}

TEST_F(CudaDeviceTest, EmbedsTokensAndPositions) {
  constexpr int64_t kRows = 20;
  const std::vector<int32_t> ids = {3, 0, 19, 7, 7};
  const std::vector<int32_t> table = {0};
  const std::vector<BatchRow> rows = {
      {{.position = 5, .prompt_length = 8, .prefill = true},
       {.block_table = table},
       /*token_begin=*/0,
       /*token_count=*/3},
      {{.position = 11, .live = 3}, {.block_table = table}, /*token_begin=*/3, /*token_count=*/1},
      {{.position = 0, .prompt_length = 1, .prefill = true},
       {.block_table = table},
       /*token_begin=*/4,
       /*token_count=*/1}};
  const int64_t positions[] = {5, 6, 7, 11, 0};
  device_->BeginStep({.token_ids = ids, .rows = rows});
  for (const auto& [dtype, cols] : {std::pair<DType, int64_t>{DType::kF32, 37},
                                    {DType::kF16, 37},
                                    {DType::kBF16, 37},
                                    {DType::kF32, 300},
                                    {DType::kF16, 200},
                                    {DType::kBF16, 104}}) {
    const Floats words = Random(kRows * cols, 1), places = Random(kRows * cols, 2);
    const LinearSpec spec{.rows = kRows, .cols = cols, .format = FormatOf(dtype)};
    const auto tokens = device_->MakeLinear(spec, ReaderOf(words, cols), {});
    const auto place = device_->MakeLinear(spec, ReaderOf(places, cols), {});
    const Values word_table = RoundTo(dtype, ToDouble(words)), place_table = RoundTo(dtype, ToDouble(places));
    const Matrix x = On(5, cols), alone = On(5, cols);
    device_->Embed(tokens.get(), 1, place.get(), x);
    device_->Embed(tokens.get(), 0.5f, nullptr, alone);
    const Values both = reference::Embed(word_table, cols, ids, place_table, positions);
    const Values one = reference::Embed(word_table, cols, ids);
    const Floats sum = Read(x), single = Read(alone);
    for (size_t i = 0; i < both.size(); ++i) {
      ASSERT_NEAR(sum[i], both[i], 1e-6) << i;
      ASSERT_EQ(static_cast<double>(single[i]), 0.5 * one[i]) << i;
    }
  }
}

TEST_F(CudaDeviceTest, AddNormedAddsTheNorm) {
  constexpr int64_t kNormed = 300;
  const Floats weight = Random(kNormed, 1), x = Random(3 * kNormed, 2, 4.0f), y = Random(3 * kNormed, 3);
  const Matrix w = On(1, kNormed, weight), in = On(3, kNormed, x), sum = On(3, kNormed, y), normed = On(3, kNormed);
  const NormWeight norm{NormKind::kRms, static_cast<const float*>(w.data), nullptr, 1e-5f};
  device_->Norm(norm, in, normed);
  device_->AddNormed(norm, in, sum);
  const Floats expected = Read(normed), actual = Read(sum);
  // The sum may be formed with the norm's last product, which then is not rounded; either sum is rounded once.
  for (size_t i = 0; i < actual.size(); ++i) {
    const float tolerance = 0x1p-24f * (std::abs(expected[i]) + 2 * std::abs(y[i] + expected[i]));
    ASSERT_NEAR(actual[i], y[i] + expected[i], tolerance) << i;
  }
}

TEST_F(CudaDeviceTest, SoftCapsAgreeWithTheOracle) {
  const Floats before = Random(3 * 300, 2, 40.0f);
  const Matrix x = On(3, 300, before);
  device_->SoftCap(30.0f, x);
  const Floats after = Read(x);
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_NEAR(after[i], reference::SoftCap(30, static_cast<double>(before[i])), 12 * 0x1p-24 * 30) << i;
  }
}

TEST_F(CudaDeviceTest, NormsAgreeWithTheOracle) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const int64_t cols : {1, 31, 64, 300, 2052, 4200, 8200}) {
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
  for (const int64_t cols : {33, 1028}) {
    const Matrix x = On(4, cols, Random(4 * cols, 1)), y = On(3, cols);
    device_->GatherRows(x, std::vector<int32_t>{2, 0, 2}, y);
    const Floats from = Read(x), to = Read(y);
    const auto row = [&](const Floats& of, int64_t i) {
      return Floats(of.begin() + i * cols, of.begin() + (i + 1) * cols);
    };
    EXPECT_EQ(row(to, 0), row(from, 2));
    EXPECT_EQ(row(to, 1), row(from, 0));
    EXPECT_EQ(row(to, 2), row(from, 2));
  }
  const auto buffer = device_->Allocate(1000);
  std::vector<char> bytes(1000, 1);
  device_->CopyToHost(bytes.data(), buffer->data(), bytes.size());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 1000);
  EXPECT_THROW(device_->Allocate(size_t{1} << 50), std::bad_alloc);
  EXPECT_EQ(device_->name().substr(0, 5), "cuda ");
}

}  // namespace
}  // namespace hydrant
