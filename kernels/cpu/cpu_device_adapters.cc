#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/adapter_kernels.h"
#include "kernels/cpu/linear/cpu_adapter_weight.h"

namespace hydrant {
namespace {

// Outputs of one call of AdapterKernels::inner.
constexpr int64_t kLanes = 16;
// Numbers that are rounded in the time that a second thread needs to begin.
constexpr int64_t kRoundedAtOnce = 32 * 1024;

// Columns in whole pairs.
int64_t Paired(int64_t cols) { return (cols + 1) / 2 * 2; }

// Numbers of a row of x that is rounded: none beside adapters in fp32, or where no pairs are multiplied.
size_t RoundedCols(const StepBounds& bounds, bool pairs) {
  return pairs && bounds.adapter_dtype == DType::kBF16 ? static_cast<size_t>(Paired(bounds.cols_max)) : 0;
}

}  // namespace

std::unique_ptr<AdapterWeight> CpuDevice::MakeAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec) {
  return std::make_unique<CpuAdapterWeight>(weight, spec);
}

int64_t CpuDevice::AdapterBytes(const LinearSpec& weight, const AdapterSpec& spec) const {
  return CpuAdapterWeight::Bytes(weight, spec);
}

void CpuDevice::SetAdapter(AdapterWeight& weight, int32_t slot, std::span<const AdapterFactors> parts) {
  static_cast<CpuAdapterWeight&>(weight).Set(slot, parts);
}

void CpuDevice::AdapterScratch::Reserve(const StepBounds& bounds, bool pairs) {
  const bool any = bounds.adapter_rank_max > 0;
  const auto tokens = static_cast<size_t>(any ? bounds.tokens_max : 0);
  slots.reserve(tokens);
  rows.reserve(tokens);
  tiles.reserve(tokens);
  before.resize(tokens);
  after.resize(tokens);
  x = std::vector<uint16_t>(tokens * RoundedCols(bounds, pairs));
  inner = std::vector<float>(tokens * static_cast<size_t>(CpuAdapterWeight::InnerFloats(bounds.adapter_rank_max)));
}

size_t CpuDevice::AdapterScratch::Bytes(const StepBounds& bounds, bool pairs) {
  if (bounds.adapter_rank_max == 0) return 0;
  const auto floats = static_cast<size_t>(CpuAdapterWeight::InnerFloats(bounds.adapter_rank_max));
  return static_cast<size_t>(bounds.tokens_max) *
         (4 * sizeof(int32_t) + sizeof(Tile) + RoundedCols(bounds, pairs) * sizeof(uint16_t) + floats * sizeof(float));
}

// Rows with the same adapter become tiles, wherever they are in the batch.
void CpuDevice::AdapterScratch::Begin(std::span<const BatchRow> batch) {
  slots.clear();
  rows.clear();
  tiles.clear();
  if (std::none_of(batch.begin(), batch.end(), [](const BatchRow& row) { return row.adapter >= 0; })) return;
  for (const BatchRow& row : batch) {
    slots.insert(slots.end(), static_cast<size_t>(row.token_count), row.adapter);
    for (int32_t i = 0; row.adapter >= 0 && i < row.token_count; ++i) rows.push_back(row.token_begin + i);
  }
  std::sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    const int32_t of_a = slots[static_cast<size_t>(a)], of_b = slots[static_cast<size_t>(b)];
    return of_a != of_b ? of_a < of_b : a < b;
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t slot = slots[static_cast<size_t>(rows[i])];
    const bool follows = i > 0 && slots[static_cast<size_t>(rows[i - 1])] == slot;
    before[static_cast<size_t>(rows[i])] = follows ? rows[i - 1] : -1;
    after[static_cast<size_t>(rows[i])] = std::numeric_limits<int32_t>::max();
    if (follows) after[static_cast<size_t>(rows[i - 1])] = rows[i];
    if (tiles.empty() || tiles.back().slot != slot || tiles.back().count == kAdapterTileRows) {
      tiles.push_back({.slot = slot, .first = i});
    }
    ++tiles.back().count;
  }
}

void CpuDevice::ComputeInner(const CpuAdapterWeight& weight, Matrix x) {
  AdapterScratch& scratch = adapters_;
  assert(x.rows == std::ssize(scratch.slots) && x.dtype == DType::kF32);
  const bool rounds = weight.spec().dtype == DType::kBF16 && kernels_.adapter->pairs;
  const int64_t vectors = weight.lanes() / kLanes, per_tile = weight.parts() * vectors;
  const int64_t element = rounds ? 2 : 4, stride = weight.parts() * weight.lanes() * element;
  assert(static_cast<size_t>(x.rows * stride) <= scratch.inner.size() * sizeof(float));
  const int64_t cols = rounds ? Paired(x.cols) : x.cols;
  if (rounds) {
    assert(static_cast<size_t>(x.rows * cols) <= scratch.x.size());
    pool_.ParallelFor(std::ssize(scratch.rows), kRoundedAtOnce / cols + 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = scratch.rows[static_cast<size_t>(i)];
        kernels_.adapter->round(static_cast<const float*>(x.data) + row * x.cols, x.cols,
                                scratch.x.data() + row * cols);
      }
    });
  }
  pool_.ParallelFor(std::ssize(scratch.tiles) * per_tile, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; ++item) {
      const AdapterScratch::Tile& tile = scratch.tiles[static_cast<size_t>(item / per_tile)];
      const int64_t part = item % per_tile / vectors, first = item % vectors * kLanes;
      if (first >= weight.rank(tile.slot, part)) continue;
      AdapterInner call = weight.InnerOf(tile.slot, part, first);
      call.x = rounds ? reinterpret_cast<const std::byte*>(scratch.x.data()) : static_cast<const std::byte*>(x.data);
      call.x_stride = cols * element;
      call.inner = reinterpret_cast<std::byte*>(scratch.inner.data()) + (part * weight.lanes() + first) * element;
      call.inner_stride = stride;
      call.rows = scratch.rows.data() + tile.first;
      call.count = static_cast<int64_t>(tile.count);
      kernels_.adapter->inner(call);
    }
  });
}

}  // namespace hydrant
