#include "kernels/cpu/linear/cpu_adapter_weight.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

namespace hydrant {
namespace {

constexpr int64_t kHalf = kPanelRows / 2;

int64_t WholeLanes(int64_t count) { return (count + kHalf - 1) / kHalf * kHalf; }

int64_t ElementBytes(DType dtype) { return static_cast<int64_t>(DTypeBytes(dtype)); }

// Ties to even.
uint16_t NearestBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// What is stored in pairs beside bf16, in whole ones.
int64_t Paired(DType dtype, int64_t count) { return dtype == DType::kBF16 ? (count + 1) / 2 * 2 : count; }

// The place of lane `lane` of step or column `at`, in rows of `lanes`.
int64_t PlaceOf(DType dtype, int64_t at, int64_t lane, int64_t lanes) {
  return dtype == DType::kBF16 ? (at / 2 * lanes + lane) * 2 + at % 2 : at * lanes + lane;
}

int64_t PartOf(const AdapterSpec& spec, int64_t row) {
  int64_t part = 0;
  for (; row >= spec.part_rows[static_cast<size_t>(part)]; ++part) row -= spec.part_rows[static_cast<size_t>(part)];
  return part;
}

}  // namespace

CpuAdapterWeight::Shape::Shape(const LinearSpec& weight, const AdapterSpec& spec)
    : row_of_lane(CpuLinear::RowsOfPanels(weight)), parts(spec.parts()), ranks(spec.rank_max) {
  assert(spec.dtype != DType::kF16 && spec.slots > 0 && spec.rank_max > 0);
  assert(parts >= 1 && parts <= kAdapterPartsMax);
  assert(std::accumulate(spec.part_rows.begin(), spec.part_rows.end(), int64_t{0}) == weight.rows);
  const auto halves = static_cast<int64_t>(row_of_lane.size()) / kHalf;
  for (int64_t half = 0; half < halves; ++half) {
    int64_t part = -1;
    for (int64_t lane = half * kHalf; lane < (half + 1) * kHalf; ++lane) {
      const int64_t row = row_of_lane[static_cast<size_t>(lane)];
      if (row < 0) continue;
      const int64_t own = PartOf(spec, row);
      merged |= part >= 0 && part != own;
      part = own;
    }
    part_of.push_back(static_cast<uint8_t>(std::max<int64_t>(part, 0)));
  }
  if (merged) {
    std::fill(part_of.begin(), part_of.end(), uint8_t{0});
    ranks *= parts;
    parts = 1;
  }
  lanes = WholeLanes(ranks);
  a_part_bytes = Paired(spec.dtype, weight.cols) * lanes * ElementBytes(spec.dtype);
  a_slot_bytes = parts * a_part_bytes;
  b_panel_bytes = Paired(spec.dtype, ranks) * kPanelRows * ElementBytes(spec.dtype);
  b_slot_bytes = halves / 2 * b_panel_bytes;
}

CpuAdapterWeight::CpuAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec)
    : AdapterWeight(spec),
      shape_(weight, spec),
      cols_(weight.cols),
      parts_(shape_.parts),
      lanes_(shape_.lanes),
      a_(static_cast<size_t>(spec.slots * shape_.a_slot_bytes)),
      b_(static_cast<size_t>(spec.slots * shape_.b_slot_bytes)),
      ranks_(static_cast<size_t>(spec.slots * parts_)),
      scales_(static_cast<size_t>(spec.slots * parts_ * lanes_)) {}

int64_t CpuAdapterWeight::Bytes(const LinearSpec& weight, const AdapterSpec& spec) {
  const Shape shape(weight, spec);
  return spec.slots * (shape.a_slot_bytes + shape.b_slot_bytes);
}

int64_t CpuAdapterWeight::InnerFloats(int32_t rank_max) { return kAdapterPartsMax * WholeLanes(rank_max); }

void CpuAdapterWeight::Put(CpuBuffer& buffer, int64_t offset_bytes, int64_t index, float value) {
  std::byte* to = static_cast<std::byte*>(buffer.data()) + offset_bytes + index * ElementBytes(spec_.dtype);
  if (spec_.dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    const uint16_t nearest = NearestBf16(value);
    std::memcpy(to, &nearest, sizeof(nearest));
  }
}

void CpuAdapterWeight::PutB(int32_t slot, int64_t rank, int64_t first_row, int64_t rows, const AdapterFactors& part) {
  for (size_t i = 0; i < shape_.row_of_lane.size(); ++i) {
    const int64_t row = shape_.row_of_lane[i] - first_row;
    if (row < 0 || row >= rows) continue;
    const auto panel = static_cast<int64_t>(i) / kPanelRows, lane = static_cast<int64_t>(i) % kPanelRows;
    for (int64_t j = 0; j < part.rank; ++j) {
      Put(b_, slot * shape_.b_slot_bytes + panel * shape_.b_panel_bytes,
          PlaceOf(spec_.dtype, rank + j, lane, kPanelRows), part.b[static_cast<size_t>(row * part.rank + j)]);
    }
  }
}

void CpuAdapterWeight::Set(int32_t slot, std::span<const AdapterFactors> parts) {
  assert(slot >= 0 && slot < spec_.slots && (parts.empty() || std::ssize(parts) == spec_.parts()));
  std::fill_n(ranks_.begin() + slot * parts_, parts_, 0);
  if (parts.empty()) return;
  std::memset(static_cast<std::byte*>(a_.data()) + slot * shape_.a_slot_bytes, 0,
              static_cast<size_t>(shape_.a_slot_bytes));
  std::memset(static_cast<std::byte*>(b_.data()) + slot * shape_.b_slot_bytes, 0,
              static_cast<size_t>(shape_.b_slot_bytes));
  std::fill_n(scales_.begin() + slot * parts_ * lanes_, parts_ * lanes_, 0.0f);
  int64_t first_row = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const AdapterFactors& part = parts[p];
    const int64_t rows = spec_.part_rows[p], place = shape_.merged ? 0 : static_cast<int64_t>(p);
    assert(part.rank >= 0 && part.rank <= spec_.rank_max);
    assert(std::ssize(part.a) == part.rank * cols_ && std::ssize(part.b) == rows * part.rank);
    int32_t& ranks = ranks_[static_cast<size_t>(slot * parts_ + place)];
    const int64_t a_part = slot * shape_.a_slot_bytes + place * shape_.a_part_bytes;
    for (int64_t j = 0; j < part.rank; ++j) {
      scales_[static_cast<size_t>((slot * parts_ + place) * lanes_ + ranks + j)] = part.scale;
      for (int64_t col = 0; col < cols_; ++col) {
        Put(a_, a_part, PlaceOf(spec_.dtype, col, ranks + j, lanes_), part.a[static_cast<size_t>(j * cols_ + col)]);
      }
    }
    PutB(slot, ranks, first_row, rows, part);
    ranks += part.rank;
    first_row += rows;
  }
}

AdapterInner CpuAdapterWeight::InnerOf(int32_t slot, int64_t part, int64_t first) const {
  // The first of two columns, where they are pairs.
  const int64_t offset = slot * shape_.a_slot_bytes + part * shape_.a_part_bytes +
                         PlaceOf(spec_.dtype, 0, first, lanes_) * ElementBytes(spec_.dtype);
  return {.a = static_cast<const std::byte*>(a_.data()) + offset,
          .dtype = spec_.dtype,
          .lanes = lanes_,
          .cols = cols_,
          .scales = scales_.data() + (slot * parts_ + part) * lanes_ + first};
}

AdapterRows CpuAdapterWeight::RowsOf(const LinearSegment& segment) const {
  return {.ranks = ranks_.data(),
          .parts = parts_,
          .lanes = lanes_,
          .part_of = shape_.part_of.data() + segment.weight_panel * 2,
          .b = static_cast<const std::byte*>(b_.data()) + segment.weight_panel * shape_.b_panel_bytes,
          .slot_bytes = shape_.b_slot_bytes,
          .panel_bytes = shape_.b_panel_bytes,
          .dtype = spec_.dtype};
}

}  // namespace hydrant
