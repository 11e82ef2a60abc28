#include "kernels/cpu/runtime/row_kernels.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cpu/tested_isas.h"

namespace hydrant {
namespace {

class RowKernelsTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  const RowKernels& kernels() const { return *GetKernelTable(GetParam()).row; }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowKernelsTest, ::testing::ValuesIn(TestedIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

// Dense near zero, out to where everything saturates.
std::vector<float> Sweep() {
  std::vector<float> values;
  for (float x = -120.0f; x <= 120.0f; x += 0.0037f) values.push_back(x);
  for (float x = 1e-30f; x < 1.0f; x *= 1.7f) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.insert(values.end(), {0.0f, -0.0f, 1e5f, -1e5f, 3e38f, -3e38f});
  return values;
}

// The oracle forms 1 + erf and 1 + tanh, which cancel to 0 in the tails even in double; these do not.
double Accurate(Activation activation, double x) {
  if (activation == Activation::kGelu) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (activation == Activation::kGeluTanh) {
    return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return reference::Activate(activation, x);
}

TEST_P(RowKernelsTest, ExpIsWithinTwoUlp) {
  std::vector<float> values = Sweep();
  const std::vector<float> x = values;
  kernels().exp(values.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    if (expected > std::numeric_limits<float>::max()) {
      ASSERT_EQ(values[i], INFINITY) << x[i];
    } else {
      // 2^-22 relative is 2 ulp at the worst mantissa; below the normal range the ulp is fixed.
      ASSERT_NEAR(values[i], expected, 0x1p-22 * expected + 0x1p-149) << x[i];
    }
  }
}

TEST_P(RowKernelsTest, ExpOfSpecialValues) {
  std::vector<float> values = {INFINITY, -INFINITY, std::nanf(""), 0.0f, 88.0f, -104.0f};
  kernels().exp(values.data(), 6);
  EXPECT_EQ(values[0], INFINITY);
  EXPECT_EQ(values[1], 0.0f);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], 1.0f);
  EXPECT_TRUE(std::isfinite(values[4]));
  EXPECT_EQ(values[5], 0.0f);
}

TEST_P(RowKernelsTest, ActivationsAreAccurateFarIntoTheTails) {
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kClampedSwish}) {
    std::vector<float> values = Sweep();
    const std::vector<float> x = values;
    kernels().activate(activation, values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = Accurate(activation, x[i]);
      // e^-2u with u near 40 carries the rounding of its argument: 80 x 2^-24; so does e^-1.7x. Denormal results lose bits.
      const bool rounds = activation == Activation::kGeluTanh || activation == Activation::kClampedSwish;
      const double relative = rounds ? 8e-6 : 1.5e-6;
      ASSERT_NEAR(values[i], expected, relative * std::abs(expected) + 2e-36)
          << static_cast<int>(activation) << " " << x[i];
    }
  }
}

TEST_P(RowKernelsTest, ActivationsKeepNaN) {
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kClampedSwish}) {
    float value = std::nanf("");
    kernels().activate(activation, &value, 1);
    EXPECT_TRUE(std::isnan(value)) << static_cast<int>(activation);
  }
}

TEST_P(RowKernelsTest, NothingBeyondTheCountIsTouched) {
  for (int64_t count = 0; count <= 33; ++count) {
    std::vector<float> values(40, 1.0f);
    kernels().exp(values.data(), count);
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(values[static_cast<size_t>(i)] == 1.0f, i >= count);
    }
  }
}

}  // namespace
}  // namespace hydrant
