// Products with weights that CudaDevice keeps as they are stored, on a simulated device of four multiprocessors: from seven panels
// on, pairs of them; from five panels on, 97 to 128 rows by the kernel for many, from nine on by that on warpgroups, which from 17 on
// has 33 to 64 rows, too; from kUnpackRows on, the library's and weights in bf16.
#include "kernels/cuda/linear/packed_product.h"

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/linear/cuda_linear.h"
#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/linear/unpack.h"
#include "kernels/reference/quantised_reference.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/matrix_fixture.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

using reference::StoredElement;
using reference::Values;

std::vector<WeightFormat> PackedFormats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : kQuantisedFormats) {
    if (cuda::PackedLayoutOf(format).code_bits > 0) formats.push_back(format);
  }
  return formats;
}

// Stored rows, part by part, and what they stand for.
struct PackedWeight {
  PackedWeight(int64_t cols_of_all, std::vector<LinearPart> all_parts, uint32_t seed)
      : cols(cols_of_all), parts(std::move(all_parts)) {
    for (const LinearPart& part : parts) bytes.push_back(RandomStoredRows(part.format, part.rows, cols, seed++));
    for (const LinearPart& part : parts) {
      const std::byte* row = bytes[static_cast<size_t>(&part - parts.data())].data();
      for (int64_t i = 0; i < part.rows; ++i, row += RowBytes(part.format, cols)) {
        stored.push_back(row);
        const std::vector<StoredElement> of_row = reference::ElementsOf(part.format, row, cols);
        elements.insert(elements.end(), of_row.begin(), of_row.end());
      }
    }
  }

  int64_t rows() const { return static_cast<int64_t>(stored.size()); }
  LinearSpec Spec(bool gated) const {
    LinearSpec spec{.rows = rows(), .cols = cols, .format = parts.front().format, .gated = gated};
    if (parts.size() > 1) spec.parts = parts;
    return spec;
  }
  std::unique_ptr<LinearWeight> On(Device& device, std::span<const float> bias = {}, bool gated = false) const {
    const auto no_fp32 = [](int64_t, int64_t, float*) { FAIL() << "expanded"; };
    const auto copy = [this](int64_t begin, int64_t end, std::byte* out) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t in_part = row;
        const LinearPart* part = parts.data();
        while (in_part >= part->rows) in_part -= part++->rows;
        out = std::copy_n(stored[static_cast<size_t>(row)], RowBytes(part->format, cols), out);
      }
    };
    return device.MakeLinear(Spec(gated), WeightRows(no_fp32, copy), bias);
  }
  const StoredElement& At(int64_t row, int64_t col) const { return elements[static_cast<size_t>(row * cols + col)]; }

  int64_t cols;
  std::vector<LinearPart> parts;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<const std::byte*> stored;  // [rows]
  std::vector<StoredElement> elements;   // [rows][cols]
};

// Sums in double, and how far from them fp32 may be.
struct Expected {
  Values sums, bounds;
};

// x is rounded to bf16, codes and steps are exact. In units of 2^-24 of the magnitude: a tile's 32 inputs are added up by tensor
// cores, which cut off, two units each, 64 of them; one fma per tile, or two with minima or halves, cols / 16; the join of eight
// runs, the bias, a minimum's own rounding: ten. 34 are left over.
Expected ProductOf(const PackedWeight& weight, const Floats& x, int64_t n, const Floats& bias = {}) {
  Expected expected;
  const Values rounded = reference::RoundTo(DType::kBF16, reference::ToDouble(x));
  const double of_magnitude = (108 + static_cast<double>(weight.cols) / 16) * 0x1p-24;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t row = 0; row < weight.rows(); ++row) {
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(row)]);
      double magnitude = std::abs(sum);
      for (int64_t col = 0; col < weight.cols; ++col) {
        const StoredElement& element = weight.At(row, col);
        const double coded = static_cast<double>(element.step) * element.code;
        const double at = rounded[static_cast<size_t>(i * weight.cols + col)];
        sum += at * (coded + static_cast<double>(element.minimum));
        magnitude += std::abs(at) * (std::abs(coded) + std::abs(static_cast<double>(element.minimum)));
      }
      expected.sums.push_back(sum);
      expected.bounds.push_back(of_magnitude * magnitude + 1e-30);
    }
  }
  return expected;
}

class PackedProductTest : public MatrixFixture, public testing::WithParamInterface<WeightFormat> {
 protected:
  PackedProductTest()
      : MatrixFixture(
            {.tokens_max = 200, .cols_max = 1100, .experts = 6, .experts_per_row = 3, .quantised_cols_max = 1100}) {}

  int64_t BlockElements() const { return InfoOf(GetParam()).block_elements; }
  Floats Multiply(const LinearWeight& weight, const Floats& x, int64_t n) {
    const Matrix out = On(n, weight.spec().rows);
    device_->Linear(weight, On(n, weight.spec().cols, x), out, /*accumulate=*/false);
    return Read(out);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryFormat, PackedProductTest, testing::ValuesIn(PackedFormats()),
                         [](const auto& test) { return std::string(InfoOf(test.param).name); });

TEST_P(PackedProductTest, AgreesWithTheOracle) {
  struct Shape {
    int64_t n, rows, blocks;
  };
  // Outputs that fill panels, leave most of one or one over; fewer tiles than runs, and more; borders of 8, 16, 32 and 64 rows.
  for (const auto& [n, rows, blocks] :
       {Shape{1, 1, 1}, Shape{1, 33, 3}, Shape{2, 31, 11}, Shape{8, 32, 2}, Shape{9, 64, 1}, Shape{16, 17, 2},
        Shape{12, 390, 1}, Shape{17, 47, 1}, Shape{20, 390, 1}, Shape{33, 40, 2}, Shape{40, 400, 1}, Shape{100, 200, 1},
        Shape{128, 130, 1}, Shape{40, 530, 1}, Shape{128, 300, 2}}) {
    const int64_t cols = blocks * BlockElements();
    const PackedWeight weight(cols, {{rows, GetParam()}}, static_cast<uint32_t>(n));
    const Floats x = Random(n * cols, 5), bias = Random(rows, 6), before = Random(n * rows, 7);
    const auto packed = weight.On(*device_, bias);
    EXPECT_EQ(static_cast<int64_t>(packed->bytes()), device_->LinearBytes(packed->spec(), true));
    const Expected expected = ProductOf(weight, x, n, bias);
    const Floats stored = Multiply(*packed, x, n);
    const Matrix in = On(n, cols, x), sum = On(n, rows, before), activated = On(n, rows);
    device_->Linear(*packed, in, sum, /*accumulate=*/true);
    device_->LinearActivated(*packed, Activation::kSilu, in, activated);
    const Floats added = Read(sum), active = Read(activated);
    for (size_t i = 0; i < stored.size(); ++i) {
      ASSERT_NEAR(stored[i], expected.sums[i], expected.bounds[i]) << i << " of " << n << " x " << rows;
      ASSERT_EQ(added[i], before[i] + stored[i]) << i;
      const double open = reference::Activate(Activation::kSilu, static_cast<double>(stored[i]));
      ASSERT_NEAR(active[i], open, 0x1p-20 * std::abs(open) + 1e-30) << i;
    }
  }
}

// Every batch of up to 33 rows, and some that the kernels for many rows have, up to the largest.
TEST_P(PackedProductTest, ARowHasTheSameBitsInEveryBatch) {
  std::vector<int64_t> counts = {64, 65, 127};
  for (int64_t n = 1; n <= 33; ++n) counts.push_back(n);
  const std::pair<int64_t, std::vector<int64_t>> weights[] = {{220, counts}, {530, {1, 33, 64, 100}}};
  for (const auto& [rows, batches] : weights) {
    const int64_t cols = rows == 220 ? 3 * BlockElements() : std::max<int64_t>(BlockElements(), 96);
    const int64_t n_max = cuda::kUnpackRows - 1;
    const PackedWeight weight(cols, {{rows, GetParam()}}, 3);
    const auto packed = weight.On(*device_);
    const Floats x = Random(n_max * cols, 4);
    const Floats all = Multiply(*packed, x, n_max);
    for (const int64_t n : batches) {
      const int64_t first = (n * 31) % (n_max - n + 1);
      const Floats part(x.begin() + first * cols, x.begin() + (first + n) * cols);
      const Floats y = Multiply(*packed, part, n);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * rows)) << n << " rows of " << rows;
    }
  }
}

TEST_P(PackedProductTest, AGateHasTheBitsOfItsHalves) {
  for (const int64_t half : {1, 33, 140, 270}) {
    const int64_t cols = BlockElements();
    const PackedWeight weight(cols, {{half, GetParam()}, {half, GetParam()}}, 14);
    const Floats bias = Random(2 * half, 15);
    LinearSpec spec = weight.Spec(true);
    const auto gated = weight.On(*device_, bias, true), both = weight.On(*device_, bias);
    EXPECT_EQ(static_cast<int64_t>(gated->bytes()), device_->LinearBytes(gated->spec(), true));
    spec.parts.clear();  // of one format
    EXPECT_EQ(device_->LinearBytes(spec, true), device_->LinearBytes(gated->spec(), true));
    for (const int64_t n : {1, 7, 12, 20, 40, 120}) {
      const Floats x = Random(n * cols, 16, 0.1f);
      const Matrix out = On(n, half);
      const Floats sums = Multiply(*both, x, n);
      Floats actual;
      for (const Activation activation : {Activation::kClampedSwish, Activation::kSilu}) {
        device_->LinearGated(*gated, activation, On(n, cols, x), out);
        actual = Read(out);
        // The argument of the clamped one's exponential is rounded, and so is what it adds to the up projection.
        const double rounding = activation == Activation::kSilu ? 0x1p-20 : 0x1p-16;
        for (int64_t i = 0; i < n * half; ++i) {
          const auto gate = static_cast<size_t>(i / half * 2 * half + i % half);
          const double open = reference::Activate(activation, static_cast<double>(sums[gate]));
          const double expected =
              open * reference::UpFactor(activation, static_cast<double>(sums[gate + static_cast<size_t>(half)]));
          const double size = std::abs(expected) + (activation == Activation::kSilu ? 0 : std::abs(open));
          ASSERT_NEAR(actual[static_cast<size_t>(i)], expected, rounding * size + 1e-30) << n << ", " << i;
        }
      }
      // The same in other company: other kernels, and the way through the sums of both halves.
      const Matrix first = On(1, half);
      device_->LinearGated(*gated, Activation::kSilu, On(1, cols, Floats(x.begin(), x.begin() + cols)), first);
      const Floats alone = Read(first);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), actual.begin())) << n;
    }
  }
}

TEST_P(PackedProductTest, EmbedExpandsTheStoredRows) {
  const int64_t cols = 2 * BlockElements();
  const PackedWeight weight(cols, {{70, GetParam()}}, 8);
  const auto table = weight.On(*device_);
  std::vector<int32_t> ids(70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 3 % ids.size());
  const std::vector<int32_t> blocks = {0, 1, 2, 3, 4};
  const std::vector<BatchRow> rows = {{{.position = 0, .prompt_length = 70, .prefill = true},
                                       {.block_table = blocks},
                                       /*token_begin=*/0,
                                       /*token_count=*/70}};
  device_->BeginStep({.token_ids = ids, .rows = rows});
  const Matrix x = On(70, cols);
  device_->Embed(table.get(), 1, nullptr, x);
  const Floats actual = Read(x);
  for (int64_t i = 0; i < 70; ++i) {
    for (int64_t col = 0; col < cols; ++col) {
      const StoredElement& element = weight.At(ids[static_cast<size_t>(i)], col);
      const float coded = element.step * static_cast<float>(element.code);
      ASSERT_EQ(actual[static_cast<size_t>(i * cols + col)], coded + element.minimum) << i << ", " << col;
    }
  }
}

// Codes at their borders: bf16 holds each of them.
TEST_P(PackedProductTest, EveryCodeIsExact) {
  const int64_t cols = BlockElements();
  PackedWeight weight(cols, {{32, GetParam()}}, 1);
  for (const int codes : {0xFF, 0x00, 0x80, 0x7F, 0x0F, 0xF0}) {
    weight.bytes[0] = UniformStoredRows(GetParam(), 32, cols, static_cast<uint8_t>(codes), 0x3C00);
    weight.elements.clear();
    for (int64_t row = 0; row < 32; ++row) {
      weight.stored[static_cast<size_t>(row)] = weight.bytes[0].data() + row * RowBytes(GetParam(), cols);
      const auto of_row = reference::ElementsOf(GetParam(), weight.stored[static_cast<size_t>(row)], cols);
      weight.elements.insert(weight.elements.end(), of_row.begin(), of_row.end());
    }
    // One input at a time, so that a sum is an element itself.
    Floats x(static_cast<size_t>(cols * cols), 0.0f);
    const int64_t n = std::min<int64_t>(cols, 32);
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i * cols + i * 7 % cols)] = 1.0f;
    x.resize(static_cast<size_t>(n * cols));
    const Floats y = Multiply(*weight.On(*device_), x, n);
    for (int64_t i = 0; i < n * 32; ++i) {
      const StoredElement& element = weight.At(i % 32, i / 32 * 7 % cols);
      ASSERT_EQ(y[static_cast<size_t>(i)], element.step * static_cast<float>(element.code) + element.minimum) << i;
    }
  }
}

uint16_t Bits(float x) {
  const __nv_bfloat16 rounded = __float2bfloat16_rn(x);
  uint16_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  return bits;
}

// Whole panels, parts of them, more tiles than a block has; nothing beside what is asked for.
TEST_P(PackedProductTest, UnpackedElementsAreThoseOfTheFileRounded) {
  constexpr int64_t kBehind = 64;
  const int64_t cols = std::max<int64_t>(BlockElements(), 1056 / BlockElements() * BlockElements());
  const PackedWeight weight(cols, {{75, GetParam()}}, 12);
  const auto packed = weight.On(*device_);
  const cuda::PackedView& view = static_cast<const cuda::CudaLinear&>(*packed).parts().front();
  const cuda::Stream stream;
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 75}, {5, 3}, {31, 34}}) {
    std::vector<uint16_t> actual(static_cast<size_t>(count * cols + kBehind), 0x1234);
    const auto to = device_->Allocate(actual.size() * 2);
    device_->CopyToDevice(to->data(), actual.data(), actual.size() * 2);
    cuda::LaunchUnpack(stream, view, first, count, to->data());
    cuda::CopyAndWait(actual.data(), to->data(), actual.size() * 2, stream);
    for (int64_t i = 0; i < count * cols; ++i) {
      const StoredElement& element = weight.At(first + i / cols, i % cols);
      const float coded = element.step * static_cast<float>(element.code);
      const bool has_minimum = cuda::HasMinimum(cuda::PackedLayoutOf(GetParam()).scales);
      ASSERT_EQ(actual[static_cast<size_t>(i)], Bits(has_minimum ? coded + element.minimum : coded))
          << first << " + " << i / cols << ", " << i % cols;
    }
    for (auto i = static_cast<size_t>(count * cols); i < actual.size(); ++i) ASSERT_EQ(actual[i], 0x1234) << i;
  }
}

TEST_P(PackedProductTest, ARowThatIsNotFiniteSpoilsItselfAlone) {
  const int64_t cols = 2 * BlockElements(), n = 9;
  const PackedWeight weight(cols, {{40, GetParam()}}, 9);
  Floats x = Random(n * cols, 10);
  x[static_cast<size_t>(4 * cols + cols - 1)] = -std::numeric_limits<float>::infinity();
  x[static_cast<size_t>(6 * cols + 20)] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Multiply(*weight.On(*device_), x, n);
  for (int64_t i = 0; i < n * 40; ++i) {
    const int64_t row = i / 40;
    ASSERT_EQ(std::isfinite(y[static_cast<size_t>(i)]), row != 4 && row != 6) << row;
  }
}

class PackedMixtureTest : public MatrixFixture {
 protected:
  PackedMixtureTest()
      : MatrixFixture(
            {.tokens_max = 200, .cols_max = 1100, .experts = 6, .experts_per_row = 3, .quantised_cols_max = 1100}) {}
};

TEST_F(PackedMixtureTest, PartsHaveTheBitsThatTheyHaveAlone) {
  constexpr int64_t kCols = 512;
  const std::vector<LinearPart> parts = {
      {33, WeightFormat::kQ4_K}, {7, WeightFormat::kQ6_K}, {50, WeightFormat::kQ8_0}};
  const PackedWeight weight(kCols, parts, 11);
  const auto packed = weight.On(*device_);
  EXPECT_EQ(static_cast<int64_t>(packed->bytes()), device_->LinearBytes(packed->spec(), false));
  for (const int64_t n : {1, 20, 120}) {
    const Floats x = Random(n * kCols, 13);
    const Matrix in = On(n, kCols, x), out = On(n, weight.rows());
    device_->Linear(*packed, in, out, /*accumulate=*/false);
    const Floats y = Read(out);
    int64_t first = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      const PackedWeight alone(kCols, {parts[part]}, static_cast<uint32_t>(11 + part));
      const Matrix own = On(n, parts[part].rows);
      device_->Linear(*alone.On(*device_), in, own, /*accumulate=*/false);
      const Floats expected = Read(own);
      for (int64_t i = 0; i < n * parts[part].rows; ++i) {
        const int64_t at = i / parts[part].rows * weight.rows() + first + i % parts[part].rows;
        ASSERT_EQ(y[static_cast<size_t>(at)], expected[static_cast<size_t>(i)]) << "part " << part << ", " << i;
      }
      first += parts[part].rows;
    }
  }
}

TEST_F(PackedMixtureTest, AGateAndItsUpProjectionMayDiffer) {
  constexpr int64_t kCols = 256, kHalf = 40;
  const PackedWeight weight(kCols, {{kHalf, WeightFormat::kQ4_K}, {kHalf, WeightFormat::kQ6_K}}, 14);
  const auto gated = weight.On(*device_, {}, true), both = weight.On(*device_);
  for (const int64_t n : {1, 30}) {
    const Matrix in = On(n, kCols, Random(n * kCols, 16, 0.1f)), out = On(n, kHalf), sums = On(n, 2 * kHalf);
    device_->LinearGated(*gated, Activation::kSilu, in, out);
    device_->Linear(*both, in, sums, /*accumulate=*/false);
    const Floats actual = Read(out), halves = Read(sums);
    for (int64_t i = 0; i < n * kHalf; ++i) {
      const auto gate = static_cast<size_t>(i / kHalf * 2 * kHalf + i % kHalf);
      const double expected = reference::Activate(Activation::kSilu, static_cast<double>(halves[gate])) *
                              static_cast<double>(halves[gate + kHalf]);
      ASSERT_NEAR(actual[static_cast<size_t>(i)], expected, 0x1p-20 * std::abs(expected) + 1e-30) << i;
    }
  }
}

// What the stored rows expand to, rounded to bf16 by the device that multiplies them.
struct Expanded {
  explicit Expanded(const PackedWeight& weight) : cols(weight.cols), rows(weight.rows()) {
    for (const StoredElement& element : weight.elements) {
      elements.push_back(element.step * static_cast<float>(element.code) + element.minimum);
    }
  }
  std::unique_ptr<LinearWeight> On(Device& device, const Floats& bias, bool gated) const {
    return device.MakeLinear({.rows = rows, .cols = cols, .format = WeightFormat::kBF16, .gated = gated},
                             ReaderOf(elements, cols), bias);
  }
  int64_t cols, rows;
  Floats elements;
};

// Products of kUnpackRows, in a device whose scratch memory has room for 512 outputs of 256 inputs.
class UnpackedProductTest : public MatrixFixture {
 protected:
  static constexpr int64_t kCols = 256, kRows = cuda::kUnpackRows;
  UnpackedProductTest() : MatrixFixture({.tokens_max = kRows, .cols_max = kCols, .quantised_cols_max = kCols}) {}
};

TEST_F(UnpackedProductTest, HasTheBitsOfTheExpandedWeight) {
  const PackedWeight weight(kCols, {{45, WeightFormat::kQ4_K}, {45, WeightFormat::kQ6_K}}, 17);
  const Expanded expanded(weight);
  const Floats x = Random(kRows * kCols, 18), bias = Random(90, 19), before = Random(kRows * 90, 20);
  std::vector<Floats> actual, expected;
  for (const bool packed : {true, false}) {
    std::vector<Floats>& results = packed ? actual : expected;
    const auto on_device = [&](bool gated) {
      return packed ? weight.On(*device_, bias, gated) : expanded.On(*device_, bias, gated);
    };
    const auto plain = on_device(false), gated = on_device(true);
    const Matrix in = On(kRows, kCols, x), sums = On(kRows, 90, before), active = On(kRows, 90), halves = On(kRows, 45);
    device_->Linear(*plain, in, sums, /*accumulate=*/true);
    device_->LinearActivated(*plain, Activation::kSilu, in, active);
    device_->LinearGated(*gated, Activation::kSilu, in, halves);
    for (const Matrix& result : {sums, active, halves}) results.push_back(Read(result));
  }
  EXPECT_EQ(actual, expected);
}

// Borders of slices lie within parts and panels.
TEST_F(UnpackedProductTest, GoesThroughALargeWeightInSlices) {
  const PackedWeight weight(kCols, {{43, WeightFormat::kQ4_K}, {493, WeightFormat::kQ6_K}, {11, WeightFormat::kQ8_0}},
                            21);
  ASSERT_EQ(cuda::UnpackedRows(weight.rows(), kCols, cuda::UnpackBytes(kRows, kCols)), 512);
  const Expanded expanded(weight);
  const Floats x = Random(kRows * kCols, 22);
  const Matrix out = On(kRows, weight.rows());
  device_->Linear(*weight.On(*device_), On(kRows, kCols, x), out, /*accumulate=*/false);
  const Floats y = Read(out);
  const Values in = reference::RoundTo(DType::kBF16, reference::ToDouble(x)),
               w = reference::RoundTo(DType::kBF16, reference::ToDouble(expanded.elements));
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t row = i / static_cast<size_t>(weight.rows()), output = i % static_cast<size_t>(weight.rows());
    if (row % 8 > 0 && output % 32 > 0) continue;  // the rest would take long
    double sum = 0, magnitude = 0;
    for (size_t col = 0; col < kCols; ++col) {
      const double product = in[row * kCols + col] * w[output * kCols + col];
      sum += product, magnitude += std::abs(product);
    }
    ASSERT_NEAR(y[i], sum, 2 * kCols * 0x1p-24 * magnitude) << row << ", " << output;  // tensor cores cut off
  }
}

// A product of more rows than are formed together has one kind of weights in all of them.
class LongProductTest : public MatrixFixture {
 protected:
  static constexpr int64_t kCols = 256, kRows = 2049;
  LongProductTest() : MatrixFixture({.tokens_max = kRows, .cols_max = kCols, .quantised_cols_max = kCols}) {}
};

TEST_F(LongProductTest, ItsLastRowIsMultipliedAsItsFirst) {
  const PackedWeight weight(kCols, {{33, WeightFormat::kQ4_K}}, 23);
  Floats x = Random(kRows * kCols, 24);
  std::copy_n(x.begin(), kCols, x.end() - kCols);
  const Matrix out = On(kRows, weight.rows());
  device_->Linear(*weight.On(*device_), On(kRows, kCols, x), out, /*accumulate=*/false);
  const Floats y = Read(out);
  // The library adds in another order where there is one row; a weight that is not rounded is off by up to 2^-9 of itself.
  for (int64_t output = 0; output < weight.rows(); ++output) {
    float magnitude = 0;
    for (int64_t col = 0; col < kCols; ++col) {
      const StoredElement& element = weight.At(output, col);
      magnitude +=
          std::abs(x[static_cast<size_t>(col)] * (element.step * static_cast<float>(element.code) + element.minimum));
    }
    const auto last = y.size() - static_cast<size_t>(weight.rows() - output);
    EXPECT_NEAR(y[static_cast<size_t>(output)], y[last], 32 * 0x1p-24f * magnitude) << output;
  }
}

TEST(UnpackedRows, SlicesAreFewAndEven) {
  constexpr int64_t kRoom = int64_t{128} << 20;
  EXPECT_EQ(cuda::UnpackedRows(4096, 14336, kRoom), 4096);
  EXPECT_EQ(cuda::UnpackedRows(28672, 4096, kRoom), 14336);
  EXPECT_EQ(cuda::UnpackedRows(28673, 4096, kRoom), 14592);
  EXPECT_EQ(cuda::UnpackedRows(100, 4096, kRoom), 256);
  EXPECT_EQ(cuda::UnpackedRows(600, 64, 300 * 128), 256);
  EXPECT_EQ(cuda::UnpackedRows(40, 64, 40 * 128), 32);
  EXPECT_EQ(cuda::UnpackBytes(cuda::kUnpackRows - 1, 4096), 0);
  EXPECT_EQ(cuda::UnpackBytes(cuda::kUnpackRows, 4096), 4 * 4096 * 4096);
  EXPECT_EQ(cuda::UnpackBytes(2048, 14336), kRoom);
  EXPECT_EQ(cuda::UnpackBytes(2048, 0), 0);
}

// Experts in formats of their own, one of them expanded, all with biases: every format is one of either matrix.
TEST_F(PackedMixtureTest, ExpertsMultiplyWhatIsStored) {
  constexpr int64_t kRows = 7, kHidden = 256, kFfn = 256, kExperts = 9;
  const std::vector<WeightFormat> formats = PackedFormats();
  const Floats x = Random(kRows * kHidden, 1), before = Random(kRows * kHidden, 2),
               logits = Random(kRows * kExperts, 3);
  std::vector<PackedWeight> ups, downs;
  std::vector<Values> up, down, up_bias, down_bias;
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    const WeightFormat of_up = formats[expert % formats.size()], of_down = formats[(expert + 3) % formats.size()];
    ups.emplace_back(kHidden, std::vector<LinearPart>{{kFfn, of_up}, {kFfn, of_up}}, 20 + expert);
    downs.emplace_back(kFfn, std::vector<LinearPart>{{kHidden, of_down}}, 40 + expert);
  }
  Experts::Matrices up_weights, down_weights;
  for (size_t expert = 0; expert < kExperts; ++expert) {
    for (const bool is_up : {true, false}) {
      const PackedWeight& weight = is_up ? ups[expert] : downs[expert];
      Values& values = (is_up ? up : down).emplace_back();
      const Floats bias = Random(weight.rows(), 60 + 2 * static_cast<uint32_t>(expert) + (is_up ? 1 : 0), 0.5f);
      (is_up ? up_bias : down_bias).push_back(reference::ToDouble(bias));
      Floats expanded;
      for (const StoredElement& element : weight.elements) {
        expanded.push_back(element.step * static_cast<float>(element.code) + element.minimum);
        values.push_back(static_cast<double>(element.step) * element.code + static_cast<double>(element.minimum));
      }
      const LinearSpec fp32{.rows = weight.rows(), .cols = weight.cols, .gated = is_up};
      (is_up ? up_weights : down_weights)
          .push_back(expert == 4 ? device_->MakeLinear(fp32, ReaderOf(expanded, weight.cols), bias)
                                 : weight.On(*device_, bias, is_up));
    }
  }
  const auto experts = device_->MakeExperts(std::move(up_weights), std::move(down_weights));
  const ExpertRouting routing{3, true};
  Activation activation = Activation::kSilu;
  const auto add = [&](int64_t first, int64_t n) {
    const auto part = [&](const Floats& all, int64_t cols) {
      return On(n, cols, Floats(all.begin() + first * cols, all.begin() + (first + n) * cols));
    };
    const Matrix y = part(before, kHidden);
    device_->AddExperts(*experts, routing, activation, part(x, kHidden), part(logits, kExperts),
                        On(n * routing.per_row, kFfn), y);
    return Read(y);
  };
  Floats together;
  for (const Activation of_case : {Activation::kClampedSwish, Activation::kSilu}) {
    activation = of_case;
    together = add(0, kRows);
    const Values expected = reference::Experts(routing, activation, reference::ToDouble(x), kRows, kHidden,
                                               reference::ToDouble(logits), up, down, up_bias, down_bias);
    // x and what lies between the products are rounded to bf16, 2^-9 of each number; a mistake is as large as the result.
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < together.size(); ++i) {
      ASSERT_NEAR(together[i], static_cast<double>(before[i]) + expected[i], 0x1p-6 * largest) << i;
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const Floats alone = add(row, 1);
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + row * kHidden)) << row;
  }
}

TEST_F(PackedMixtureTest, TheDeviceKeepsWhatHasALayout) {
  for (const WeightFormat format : kQuantisedFormats) {
    EXPECT_EQ(device_->Supports(format), cuda::PackedLayoutOf(format).code_bits > 0) << InfoOf(format).name;
  }
  EXPECT_TRUE(device_->Supports(WeightFormat::kBF16));
  EXPECT_FALSE(device_->MixesQuantised());
  EXPECT_EQ(device_->PreferredInputType({.rows = 1, .cols = 32, .format = WeightFormat::kQ4_0}), DType::kBF16);
}

}  // namespace
}  // namespace hydrant
