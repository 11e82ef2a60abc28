// Products with adapters on every device: what a row gets against the oracle, and that it is the row's own adapter alone that
// decides its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

using reference::RoundTo;
using reference::ToDouble;
using reference::Values;

constexpr int32_t kSlots = 3, kRankMax = 19;

// Plain, with borders inside a panel's half, gated, as wide as one column.
struct Shape {
  std::vector<int64_t> parts;
  int64_t cols = 0;
  bool gated = false;

  int64_t rows() const {
    int64_t sum = 0;
    for (const int64_t part : parts) sum += part;
    return sum;
  }
};
const std::vector<Shape>& Shapes() {
  static const auto& shapes =
      *new std::vector<Shape>{{{70}, 33}, {{48, 16, 16}, 64}, {{20, 6, 6}, 37}, {{37, 37}, 64, true}, {{5}, 1}};
  return shapes;
}

// An adapter for a weight; of a part in three it says nothing.
struct Adapter {
  Adapter(const Shape& shape, uint32_t seed) {
    for (size_t p = 0; p < shape.parts.size(); ++p) {
      const auto rank =
          static_cast<int32_t>((seed + p) % 3 == 2 && shape.parts.size() > 1 ? 0 : 1 + seed * 8 % kRankMax);
      ranks.push_back(rank);
      scales.push_back(0.5f + static_cast<float>(p + seed));
      a.push_back(Random(rank * shape.cols, seed + 10, 0.3f));
      b.push_back(Random(shape.parts[p] * rank, seed + 20, 0.3f));
    }
  }
  std::vector<AdapterFactors> Factors() const {
    std::vector<AdapterFactors> parts;
    for (size_t p = 0; p < ranks.size(); ++p) parts.push_back({ranks[p], scales[p], a[p], b[p]});
    return parts;
  }
  // What it adds to a row x [cols], and how large the terms are.
  Values Added(const Shape& shape, DType dtype, const Values& x, bool magnitude) const {
    Values all;
    for (size_t p = 0; p < ranks.size(); ++p) {
      Values ar = RoundTo(dtype, ToDouble(a[p])), br = RoundTo(dtype, ToDouble(b[p])), xr = x;
      if (magnitude) {
        for (Values* values : {&ar, &br, &xr}) {
          for (double& value : *values) value = std::abs(value);
        }
      }
      const auto scale = static_cast<double>(scales[p]);
      const Values part = reference::Adapted(xr, 1, ar, br, ranks[p], scale, shape.parts[p], shape.cols);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  std::vector<int32_t> ranks;
  std::vector<float> scales;
  std::vector<Floats> a, b;
};

class AdapterTest : public testing::TestWithParam<TestedDevice> {
 protected:
  AdapterTest() : device_(GetParam().make(2)) {
    device_->ReserveScratch({.tokens_max = 40,
                             .rows_max = 40,
                             .slots_max = 16,
                             .cols_max = 300,
                             .query_heads = 1,
                             .head_dim = 16,
                             .adapter_rank_max = kRankMax,
                             .adapter_dtype = DType::kBF16});
  }

  // Begins a step of rows with these adapters; every third row is a prompt's of two tokens.
  void Begin(const std::vector<int32_t>& adapters) {
    rows_.clear();
    slots_.clear();
    for (size_t i = 0; i < adapters.size(); ++i) {
      const int32_t count = i % 3 == 2 ? 2 : 1;
      BatchRow row;
      row.state_row = static_cast<int32_t>(i);
      row.prefill = count > 1;
      row.prompt_length = count;
      row.adapter = adapters[i];
      row.block_table = table_;
      row.token_begin = static_cast<int32_t>(slots_.size());
      row.token_count = count;
      rows_.push_back(row);
      slots_.insert(slots_.end(), static_cast<size_t>(count), adapters[i]);
    }
    ids_.assign(slots_.size(), 1);
    tokens_ = device_->BeginStep({.token_ids = ids_, .rows = rows_});
  }

  // The product of the step's rows, without those of padding.
  Floats Multiply(const LinearWeight& weight, const AdapterWeight* adapters, Epilogue epilogue, Floats x) {
    const LinearSpec& spec = weight.spec();
    const int64_t cols = spec.gated ? spec.rows / 2 : spec.rows;
    x.resize(static_cast<size_t>(tokens_ * spec.cols), 1.0f);
    const auto in = OnDevice(*device_, x), out = OnDevice(*device_, Floats(static_cast<size_t>(tokens_ * cols), 3.0f));
    device_->Multiply(weight, adapters, epilogue, Activation::kSilu, {in->data(), DType::kF32, tokens_, spec.cols},
                      {out->data(), DType::kF32, tokens_, cols});
    Floats y(slots_.size() * static_cast<size_t>(cols));
    device_->CopyToHost(y.data(), out->data(), y.size() * sizeof(float));
    return y;
  }

  std::unique_ptr<AdapterWeight> Adapters(const LinearSpec& spec, const Shape& shape, DType dtype) {
    const AdapterSpec adapters = {.part_rows = shape.parts, .slots = kSlots, .rank_max = kRankMax, .dtype = dtype};
    auto weight = device_->MakeAdapterWeight(spec, adapters);
    EXPECT_EQ(device_->AdapterBytes(spec, adapters), static_cast<int64_t>(weight->bytes()));
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      device_->SetAdapter(*weight, slot, Adapter(shape, static_cast<uint32_t>(slot)).Factors());
    }
    return weight;
  }

  std::unique_ptr<Device> device_;
  std::vector<int32_t> table_ = {0}, ids_, slots_;
  std::vector<BatchRow> rows_;
  int64_t tokens_ = 0;
};

const std::vector<int32_t> kMixed = {0, -1, 1, 0, 2, -1, -1, 1, 2, 0, 0, 1, 2};

TEST_P(AdapterTest, AddsWhatTheOracleSays) {
  for (const Shape& shape : Shapes()) {
    const int64_t rows = shape.rows(), cols = shape.cols;
    const Floats w = Random(rows * cols, 1, 0.2f), bias = Random(rows, 2);
    const LinearSpec spec = {.rows = rows, .cols = cols, .gated = shape.gated};
    const auto weight = device_->MakeLinear(spec, ReaderOf(w, cols), bias);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto adapters = Adapters(spec, shape, dtype);
      Begin(kMixed);
      const Floats x = Random(std::ssize(slots_) * cols, 3);
      const std::vector<Epilogue> epilogues =
          shape.gated ? std::vector{Epilogue::kGate}
                      : std::vector{Epilogue::kStore, Epilogue::kAccumulate, Epilogue::kActivate};
      for (const Epilogue epilogue : epilogues) {
        const Floats y = Multiply(*weight, adapters.get(), epilogue, x);
        const size_t outputs = y.size() / slots_.size();
        for (size_t i = 0; i < slots_.size(); ++i) {
          const Values xr = ToDouble(std::span(x).subspan(i * static_cast<size_t>(cols), static_cast<size_t>(cols)));
          Values sums = reference::Linear(xr, 1, ToDouble(w), rows, cols, ToDouble(bias));
          Values rounded(static_cast<size_t>(rows), 0.0);
          Values sizes = reference::LinearMagnitude(xr, 1, ToDouble(w), rows, cols, ToDouble(bias));
          if (slots_[i] >= 0) {
            const Adapter adapter(shape, static_cast<uint32_t>(slots_[i]));
            const Values added = adapter.Added(shape, dtype, xr, false), of = adapter.Added(shape, dtype, xr, true);
            for (size_t r = 0; r < added.size(); ++r) {
              sums[r] += added[r], sizes[r] += of[r];
              // Half a unit in the last of 8 bits of x, and of h.
              if (dtype == DType::kBF16) rounded[r] = 1.01 * 0x1p-8 * of[r];
            }
          }
          for (size_t r = 0; r < outputs; ++r) {
            double error = static_cast<double>(cols + kRankMax + 8) * 0x1p-24 * (sizes[r] + 3.0) + rounded[r];
            if (epilogue == Epilogue::kGate) error += rounded[r + outputs];
            const double sum = sums[r], gate = reference::Activate(Activation::kSilu, sum);
            const double expected = epilogue == Epilogue::kStore        ? sum
                                    : epilogue == Epilogue::kAccumulate ? sum + 3.0
                                    : epilogue == Epilogue::kActivate   ? gate
                                                                        : gate * sums[r + outputs];
            const double factor = epilogue == Epilogue::kGate ? 2 + std::abs(gate) + std::abs(sums[r + outputs]) +
                                                                    sizes[r + outputs] / (sizes[r] + 3.0) * 2
                                                              : 2;
            ASSERT_NEAR(y[i * outputs + r], expected, factor * error)
                << rows << " x " << cols << " " << DTypeName(dtype) << ", token " << i << ", output " << r;
          }
        }
      }
    }
  }
}

// Weights of several formats, and epilogues.
struct Base {
  WeightFormat format = WeightFormat::kF32;
  Epilogue epilogue = Epilogue::kStore;
};

TEST_P(AdapterTest, ARowsBitsAreThoseOfItsOwnAdapterAlone) {
  const Base bases[] = {{WeightFormat::kF32, Epilogue::kStore},    {WeightFormat::kBF16, Epilogue::kAccumulate},
                        {WeightFormat::kBF16, Epilogue::kGate},    {WeightFormat::kBF16, Epilogue::kActivate},
                        {WeightFormat::kQ8_0, Epilogue::kStore},   {WeightFormat::kQ8_0, Epilogue::kGate},
                        {WeightFormat::kQ4_0, Epilogue::kActivate}};
  const std::vector<std::vector<int32_t>> batches = {kMixed, {0, 1, -1}, std::vector<int32_t>(20, 2)};
  for (const auto& [format, epilogue] : bases) {
    const bool gated = epilogue == Epilogue::kGate;
    const Shape shape = {gated ? std::vector<int64_t>{48, 48} : std::vector<int64_t>{48, 16, 24}, 64, gated};
    const LinearSpec spec = {.rows = shape.rows(), .cols = shape.cols, .format = format, .gated = gated};
    const Floats w = Random(spec.rows * spec.cols, 1, 0.2f), bias = Random(spec.rows, 2);
    const auto stored =
        IsQuantised(format) ? RandomStoredRows(format, spec.rows, spec.cols, 1) : std::vector<std::byte>();
    const WeightRows reader(ReaderOf(w, spec.cols), [&](int64_t begin, int64_t end, std::byte* out) {
      const int64_t bytes = RowBytes(spec.format, spec.cols);
      std::copy(stored.begin() + begin * bytes, stored.begin() + end * bytes, out);
    });
    const auto weight = device_->MakeLinear(spec, reader, bias);
    const auto adapters = Adapters(spec, shape, DType::kBF16);
    for (const std::vector<int32_t>& batch : batches) {
      Begin(batch);
      const Floats x = Random(std::ssize(slots_) * spec.cols, 3);
      const Floats mixed = Multiply(*weight, adapters.get(), epilogue, x);
      const size_t outputs = mixed.size() / slots_.size();
      const std::vector<int32_t> slots = slots_;
      const auto same = [&](const Floats& other, size_t token) {
        const auto at = static_cast<int64_t>(token * outputs), end = at + static_cast<int64_t>(outputs);
        return std::equal(mixed.begin() + at, mixed.begin() + end, other.begin() + at);
      };
      // The step as large as it is, and in it one adapter, or none.
      for (int32_t alone = -1; alone < kSlots; ++alone) {
        std::vector<int32_t> others = batch;
        std::replace_if(
            others.begin(), others.end(), [&](int32_t slot) { return slot != alone; }, -1);
        Begin(others);
        const Floats y = Multiply(*weight, adapters.get(), epilogue, x);
        if (alone < 0) {
          EXPECT_EQ(y, Multiply(*weight, nullptr, epilogue, x));
        }
        for (size_t i = 0; i < slots.size(); ++i) {
          const bool changes = alone < 0 && slots[i] >= 0;
          if (slots[i] != alone && !changes) continue;
          ASSERT_EQ(same(y, i), !changes) << InfoOf(format).name << " adapter " << alone << " token " << i;
        }
      }
    }
  }
}

TEST_P(AdapterTest, ASlotHasNothingOfTheAdapterBefore) {
  const Shape shape = {{48, 16, 16}, 64};
  const LinearSpec spec = {.rows = shape.rows(), .cols = shape.cols};
  const Floats w = Random(spec.rows * spec.cols, 1, 0.2f);
  const auto weight = device_->MakeLinear(spec, ReaderOf(w, spec.cols), {});
  const auto used = Adapters(spec, shape, DType::kF32), fresh = Adapters(spec, shape, DType::kF32);
  device_->SetAdapter(*used, 0, Adapter(shape, 2).Factors());
  device_->SetAdapter(*used, 0, Adapter(shape, 0).Factors());
  device_->SetAdapter(*used, 1, {});
  Begin({0, 1, 2, -1});
  const Floats x = Random(std::ssize(slots_) * spec.cols, 3);
  const Floats y = Multiply(*weight, used.get(), Epilogue::kStore, x);
  const Floats expected = Multiply(*weight, fresh.get(), Epilogue::kStore, x);
  const Floats plain = Multiply(*weight, nullptr, Epilogue::kStore, x);
  for (size_t i = 0; i < y.size(); ++i) {
    const bool cleared = slots_[i / static_cast<size_t>(spec.rows)] == 1;
    ASSERT_EQ(y[i], cleared ? plain[i] : expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, AdapterTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace hydrant
