// AddExperts of CpuDevice against the oracle, and bit for bit against the products of single rows that it stands for.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/expert_groups.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cpu/tested_isas.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

using enum WeightFormat;

constexpr int32_t kExperts = 6;
constexpr int64_t kRowsMax = 80;

Matrix View(Floats& values, int64_t rows, int64_t cols) { return {values.data(), DType::kF32, rows, cols}; }

std::unique_ptr<CpuDevice> MakeDevice(CpuIsa isa, int threads, int32_t per_row, int64_t cols_max) {
  std::unique_ptr<CpuDevice> device = CpuDevice::Create({.threads = threads, .isa = isa}).value();
  device->ReserveScratch({.tokens_max = static_cast<int32_t>(kRowsMax),
                          .cols_max = cols_max,
                          .experts = kExperts,
                          .experts_per_row = per_row,
                          .expert_cols_max = cols_max});
  return device;
}

// One layer, and rows for it.
struct Layer {
  const int64_t hidden, ffn;
  const Activation activation;
  std::vector<Floats> up, down;  // [experts]
  // The same; empty without biases, else some of them are clamped.
  std::vector<Floats> up_bias, down_bias;
  Floats x, logits;

  Layer(int64_t hidden_cols, int64_t ffn_cols, Activation activation_of = Activation::kSilu)
      : hidden(hidden_cols), ffn(ffn_cols), activation(activation_of), up_bias(kExperts), down_bias(kExperts) {
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      up.push_back(Random(2 * ffn * hidden, 2 * expert, 0.1f));
      down.push_back(Random(hidden * ffn, 2 * expert + 1, 0.1f));
      if (activation != Activation::kClampedSwish) continue;
      up_bias[expert] = Random(2 * ffn, 200 + expert, 5.0f);
      down_bias[expert] = Random(hidden, 300 + expert);
    }
    x = Random(kRowsMax * hidden, 100);
    logits = Random(kRowsMax * kExperts, 101);
    // An expert that hardly anybody chooses, and one that nearly all do.
    for (int64_t row = 0; row < kRowsMax; ++row) {
      logits[static_cast<size_t>(row * kExperts + 1)] -= 3;
      logits[static_cast<size_t>(row * kExperts + 4)] += 3;
    }
  }

  // Expert e's gate, up projection and down projection in formats[e % formats.size()].
  Experts Pack(CpuDevice& device, const std::vector<std::vector<WeightFormat>>& formats) const {
    Experts::Matrices packed_up, packed_down;
    for (size_t e = 0; e < kExperts; ++e) {
      const std::vector<WeightFormat>& of = formats[e % formats.size()];
      LinearSpec spec = {.rows = 2 * ffn, .cols = hidden, .format = of[0], .gated = true};
      if (of[0] != of[1]) spec.parts = {{ffn, of[0]}, {ffn, of[1]}};
      packed_up.push_back(PackOne(device, spec, up[e], up_bias[e], static_cast<uint32_t>(e)));
      packed_down.push_back(PackOne(device, {.rows = hidden, .cols = ffn, .format = of[2]}, down[e], down_bias[e],
                                    static_cast<uint32_t>(e)));
    }
    return {std::move(packed_up), std::move(packed_down)};
  }

  // Quantised rows are random codes, not what `values` would be.
  static std::unique_ptr<LinearWeight> PackOne(CpuDevice& device, const LinearSpec& spec, const Floats& values,
                                               const Floats& bias, uint32_t seed) {
    std::vector<LinearPart> parts = spec.parts;
    if (parts.empty()) parts.push_back({spec.rows, spec.format});
    std::vector<std::vector<std::byte>> stored;
    for (const LinearPart& part : parts) {
      stored.push_back(IsQuantised(part.format) ? RandomStoredRows(part.format, part.rows, spec.cols, seed)
                                                : std::vector<std::byte>());
    }
    const auto read = [&](int64_t begin, int64_t end, std::byte* out) {
      const size_t part = begin < parts.front().rows ? 0 : 1;
      if (part == 1) begin -= parts.front().rows, end -= parts.front().rows;
      const int64_t row_bytes = RowBytes(parts[part].format, spec.cols);
      std::memcpy(out, stored[part].data() + begin * row_bytes, static_cast<size_t>((end - begin) * row_bytes));
    };
    return device.MakeLinear(spec, WeightRows(ReaderOf(values, spec.cols), read), bias);
  }

  // Rows [first, first + n) -> y, which was 1 everywhere.
  Floats Add(CpuDevice& device, const Experts& experts, const ExpertRouting& routing, int64_t first, int64_t n) const {
    Floats in(x.begin() + first * hidden, x.begin() + (first + n) * hidden);
    Floats chosen_by(logits.begin() + first * kExperts, logits.begin() + (first + n) * kExperts);
    Floats inner(static_cast<size_t>(n * routing.per_row * ffn)), y(static_cast<size_t>(n * hidden), 1.0f);
    device.AddExperts(experts, routing, activation, View(in, n, hidden), View(chosen_by, n, kExperts),
                      View(inner, n * routing.per_row, ffn), View(y, n, hidden));
    return y;
  }

  // The same row by row and expert by expert.
  Floats AddPlainly(CpuDevice& device, const Experts& experts, const ExpertRouting& routing) const {
    Floats y(static_cast<size_t>(kRowsMax * hidden), 1.0f);
    for (int64_t row = 0; row < kRowsMax; ++row) {
      std::vector<ChosenExpert> chosen(static_cast<size_t>(routing.per_row));
      ChooseExperts(std::span(logits).subspan(static_cast<size_t>(row * kExperts), kExperts), routing.normalised,
                    chosen);
      for (int32_t expert = 0; expert < kExperts; ++expert) {
        for (const ChosenExpert& choice : chosen) {
          if (choice.expert != expert) continue;
          const auto number = static_cast<size_t>(expert);
          Floats in(x.begin() + row * hidden, x.begin() + (row + 1) * hidden);
          Floats inner(static_cast<size_t>(ffn)), out(static_cast<size_t>(hidden));
          device.LinearGated(*experts.up()[number], activation, View(in, 1, hidden), View(inner, 1, ffn));
          device.Linear(*experts.down()[number], View(inner, 1, ffn), View(out, 1, hidden), /*accumulate=*/false);
          for (int64_t i = 0; i < hidden; ++i) {
            const float share = out[static_cast<size_t>(i)] * choice.weight;
            y[static_cast<size_t>(row * hidden + i)] += share;
          }
        }
      }
    }
    return y;
  }
};

class CpuDeviceExperts : public testing::TestWithParam<CpuIsa> {};
INSTANTIATE_TEST_SUITE_P(EveryIsa, CpuDeviceExperts, testing::ValuesIn(SupportedIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

void ExpectOracle(CpuIsa isa, const Layer& layer) {
  const bool biased = !layer.up_bias.front().empty();
  for (const ExpertRouting& routing :
       {ExpertRouting{2, true}, ExpertRouting{4, false}, ExpertRouting{kExperts, false}}) {
    const auto device = MakeDevice(isa, 2, routing.per_row, 70);
    const Floats y = layer.Add(*device, layer.Pack(*device, {{kF32, kF32, kF32}}), routing, 0, kRowsMax);
    std::vector<reference::Values> up, down, up_bias, down_bias;
    for (size_t expert = 0; expert < kExperts; ++expert) {
      up.push_back(reference::ToDouble(layer.up[expert]));
      down.push_back(reference::ToDouble(layer.down[expert]));
      if (!biased) continue;
      up_bias.push_back(reference::ToDouble(layer.up_bias[expert]));
      down_bias.push_back(reference::ToDouble(layer.down_bias[expert]));
    }
    const auto expected = reference::Experts(routing, layer.activation, reference::ToDouble(layer.x), kRowsMax, 70,
                                             reference::ToDouble(layer.logits), up, down, up_bias, down_bias);
    // Sums of at most 70 products of numbers below 10, of which the last ones add up to y below 10: 70 + 50 roundings. Clamped ones
    // reach 7 * 8 between the products.
    const double size = biased ? 60 : 10;
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1 + expected[i], 120 * size * 0x1p-24) << i;
  }
}

TEST_P(CpuDeviceExperts, AgreeWithTheOracle) { ExpectOracle(GetParam(), Layer(70, 50)); }

TEST_P(CpuDeviceExperts, WithBiasesAndClampedGatesAgreeWithTheOracle) {
  ExpectOracle(GetParam(), Layer(70, 50, Activation::kClampedSwish));
}

// Gate and up projection in two formats are computed one after the other; each is what it is alone.
TEST_P(CpuDeviceExperts, GatesAreClampedAlikeInTwoFormats) {
  constexpr int64_t kHidden = 64, kFfn = 40;
  const Layer layer(kHidden, kFfn, Activation::kClampedSwish);
  const auto device = MakeDevice(GetParam(), 1, 1, 256);
  const LinearSpec both = {.rows = 2 * kFfn, .cols = kHidden, .gated = true, .parts = {{kFfn, kQ8_0}, {kFfn, kMXFP4}}};
  const LinearSpec apart = {.rows = 2 * kFfn, .cols = kHidden, .parts = both.parts};
  Floats x = layer.x, gated(static_cast<size_t>(kRowsMax * kFfn)), sums(static_cast<size_t>(kRowsMax * 2 * kFfn));
  const auto gated_weight = Layer::PackOne(*device, both, layer.up[0], layer.up_bias[0], 1);
  const auto weight = Layer::PackOne(*device, apart, layer.up[0], layer.up_bias[0], 1);
  device->LinearGated(*gated_weight, layer.activation, View(x, kRowsMax, kHidden), View(gated, kRowsMax, kFfn));
  device->Linear(*weight, View(x, kRowsMax, kHidden), View(sums, kRowsMax, 2 * kFfn), /*accumulate=*/false);
  for (size_t row = 0; row < kRowsMax; ++row) {
    for (size_t i = 0; i < kFfn; ++i) {
      const double gate = sums[row * 2 * kFfn + i], up = sums[row * 2 * kFfn + kFfn + i];
      const double activated = reference::Activate(layer.activation, gate);
      const double expected = activated * reference::UpFactor(layer.activation, up);
      // The activation and the sum beside it round; e^-1.7x has the rounding of its argument.
      ASSERT_NEAR(gated[row * kFfn + i], expected, 8e-6 * (std::abs(expected) + std::abs(activated)) + 1e-36)
          << row << " " << i;
    }
  }
}

// Whatever rows are beside it, in however many threads, and in whatever formats the experts are.
TEST_P(CpuDeviceExperts, AreTheSumOfTheirProductsBitForBit) {
  struct Case {
    const char* name;
    int64_t hidden, ffn;
    std::vector<std::vector<WeightFormat>> formats;
    Activation activation = Activation::kSilu;
  };
  const Case cases[] = {
      {"fp32", 70, 50, {{kF32, kF32, kF32}}},
      {"bf16", 96, 65, {{kBF16, kBF16, kBF16}}},
      {"as stored", 256, 256, {{kQ4_K, kQ4_K, kQ6_K}}},
      {"gate and up in two formats", 64, 96, {{kQ8_0, kQ4_0, kMXFP4}, {kBF16, kQ4_1, kBF16}}},
      {"experts in several", 64, 32, {{kQ8_0, kQ8_0, kF32}, {kF16, kF16, kQ5_0}, {kMXFP4, kMXFP4, kMXFP4}}},
      {"biased, clamped, bf16", 96, 65, {{kBF16, kBF16, kBF16}}, Activation::kClampedSwish},
      {"biased, clamped, as stored", 96, 64, {{kMXFP4, kMXFP4, kMXFP4}}, Activation::kClampedSwish},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Layer layer(c.hidden, c.ffn, c.activation);
    const ExpertRouting routing = {.per_row = 3, .normalised = true};
    const auto one = MakeDevice(GetParam(), 1, routing.per_row, 256);
    const Floats expected = layer.AddPlainly(*one, layer.Pack(*one, c.formats), routing);
    for (const int threads : {1, 3}) {
      const auto device = MakeDevice(GetParam(), threads, routing.per_row, 256);
      const Experts experts = layer.Pack(*device, c.formats);
      for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{33}, kRowsMax}) {
        for (const int64_t first : {int64_t{0}, kRowsMax - n}) {
          const Floats y = layer.Add(*device, experts, routing, first, n);
          ASSERT_EQ(std::memcmp(y.data(), expected.data() + first * c.hidden, y.size() * sizeof(float)), 0)
              << n << " rows from " << first << ", " << threads << " threads";
        }
      }
    }
  }
}

// Weights that are no numbers go astray by themselves: no other row does, nothing is read or written out of place.
TEST_P(CpuDeviceExperts, KeepRowsApartFromOnesThatAreNoNumbers) {
  Layer layer(64, 32);
  const ExpertRouting routing = {.per_row = 2, .normalised = true};
  const auto device = MakeDevice(GetParam(), 2, routing.per_row, 64);
  const Experts experts = layer.Pack(*device, {{kF32, kF32, kF32}});
  const Floats expected = layer.Add(*device, experts, routing, 0, 3);
  for (size_t i = 0; i < kExperts; ++i) layer.logits[kExperts + i] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = layer.Add(*device, experts, routing, 0, 3);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y[i], expected[i]);
    EXPECT_NE(y[64 + i], y[64 + i]);
    EXPECT_EQ(y[128 + i], expected[128 + i]);
  }
}

}  // namespace
}  // namespace hydrant
