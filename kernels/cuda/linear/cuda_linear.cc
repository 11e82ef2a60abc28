#include "kernels/cuda/linear/cuda_linear.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

namespace hydrant::cuda {
namespace {

constexpr size_t kStageBytes = size_t{64} << 20;
constexpr int64_t kRowsPerRead = 64;

int64_t Stride(const LinearSpec& spec) {
  const auto piece = static_cast<int64_t>(16 / DTypeBytes(DTypeOf(spec.format)));
  return (spec.cols + piece - 1) / piece * piece;
}

int64_t StrideBytes(const LinearSpec& spec) { return RowBytes(spec.format, Stride(spec)); }

void RoundRow(DType dtype, const float* from, int64_t cols, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(cols) * sizeof(float));
    return;
  }
  for (int64_t col = 0; col < cols; ++col) {
    if (dtype == DType::kF16) {
      const __half half = __float2half_rn(from[col]);
      std::memcpy(to + 2 * col, &half, 2);
    } else {
      const __nv_bfloat16 half = __float2bfloat16_rn(from[col]);
      std::memcpy(to + 2 * col, &half, 2);
    }
  }
}

// Calls read(from, until) for all of [begin, end), by all of the machine's threads: a large model has billions of elements.
// Borders lie between pieces of `granule`.
template <typename Read>
void InParallel(int64_t begin, int64_t end, int64_t granule, const Read& read) {
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t shares = std::clamp<int64_t>((end - begin) / granule, 1, cores);
  std::vector<std::future<void>> reads;
  for (int64_t i = 1; i < shares; ++i) {
    reads.push_back(std::async(std::launch::async, read, begin + (end - begin) * i / shares,
                               begin + (end - begin) * (i + 1) / shares));
  }
  read(begin, begin + (end - begin) / shares);
  for (std::future<void>& done : reads) done.get();
}

// Rows [begin, end) into `to`, `row_bytes` apart.
void ReadRows(const LinearSpec& spec, const RowReader& reader, int64_t begin, int64_t end, size_t row_bytes,
              std::byte* to) {
  InParallel(begin, end, kRowsPerRead, [&](int64_t from, int64_t until) {
    std::vector<float> rows(static_cast<size_t>(kRowsPerRead * spec.cols));
    for (int64_t row = from; row < until; row += kRowsPerRead) {
      const int64_t last = std::min(row + kRowsPerRead, until);
      reader(row, last, rows.data());
      for (int64_t i = row; i < last; ++i) {
        RoundRow(DTypeOf(spec.format), rows.data() + (i - row) * spec.cols, spec.cols,
                 to + static_cast<size_t>(i - begin) * row_bytes);
      }
    }
  });
}

// Panels [begin, end) of `part`, whose first row is `first_row` of the weight, into `to`.
void ReadPanels(const PackedView& part, int64_t first_row, const StoredRowReader& reader, int64_t begin, int64_t end,
                std::byte* to) {
  InParallel(begin, end, 1, [&](int64_t from, int64_t until) {
    const auto row_bytes = static_cast<size_t>(RowBytes(part.format, part.cols));
    std::vector<std::byte> rows(static_cast<size_t>(kPackedOutputs) * row_bytes);
    for (int64_t panel = from; panel < until; ++panel) {
      const int64_t row = panel * kPackedOutputs, count = std::min(kPackedOutputs, part.rows - row);
      reader(first_row + row, first_row + row + count, rows.data());
      std::fill(rows.begin() + static_cast<int64_t>(row_bytes) * count, rows.end(), std::byte{0});
      PackPanel(part.format, rows.data(), part.cols, to + (panel - begin) * part.panel_bytes);
    }
  });
}

// The parts of a weight whose rows are kept as they are stored; none: its rows are of a dtype.
std::vector<LinearPart> PackedParts(const LinearSpec& spec) {
  std::vector<LinearPart> parts = spec.parts;
  if (parts.empty()) {
    if (!IsQuantised(spec.format)) return {};
    parts = spec.gated ? std::vector<LinearPart>(2, {spec.rows / 2, spec.format})
                       : std::vector<LinearPart>{{spec.rows, spec.format}};
  }
  for ([[maybe_unused]] const LinearPart& part : parts) assert(PackedLayoutOf(part.format).code_bits > 0);
  return parts;
}

int64_t DataBytes(const LinearSpec& spec) {
  const std::vector<LinearPart> parts = PackedParts(spec);
  if (parts.empty()) return spec.rows * StrideBytes(spec);
  int64_t bytes = 0;
  for (const LinearPart& part : parts) bytes += PackedPanels(part.rows) * PackedPanelBytes(part.format, spec.cols);
  return bytes;
}

}  // namespace

CudaLinear::CudaLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, bool host_visible,
                       cudaStream_t stream)
    : LinearWeight(spec),
      data_(static_cast<size_t>(DataBytes(spec)), host_visible),
      bias_(bias.size_bytes(), host_visible) {
  if (!bias.empty()) CopyAndWait(bias_.data(), bias.data(), bias.size_bytes(), stream);
  const float* of_row = bias.empty() ? nullptr : static_cast<const float*>(bias_.data());
  const auto* data = static_cast<const std::byte*>(data_.data());
  for (const LinearPart& part : PackedParts(spec)) {
    parts_.push_back({data, part.format, part.rows, spec.cols, PackedPanelBytes(part.format, spec.cols), of_row});
    data += PackedPanels(part.rows) * parts_.back().panel_bytes;
    if (of_row != nullptr) of_row += part.rows;
  }
  if (packed()) {
    ReadPacked(rows, stream);
  } else {
    view_ = {data_.data(), DTypeOf(spec.format), spec.rows, spec.cols, Stride(spec), of_row};
    ReadDense(rows, stream);
  }
}

void CudaLinear::ReadDense(const WeightRows& rows, cudaStream_t stream) {
  const auto row_bytes = static_cast<size_t>(StrideBytes(spec_));
  const int64_t rows_per_stage =
      std::max<int64_t>(1, static_cast<int64_t>(kStageBytes / std::max<size_t>(row_bytes, 1)));
  std::vector<std::byte> stage(static_cast<size_t>(std::min(rows_per_stage, spec_.rows)) * row_bytes);
  for (int64_t begin = 0; begin < spec_.rows; begin += rows_per_stage) {
    const int64_t end = std::min(begin + rows_per_stage, spec_.rows);
    ReadRows(spec_, rows.fp32, begin, end, row_bytes, stage.data());
    auto* to = static_cast<std::byte*>(data_.data()) + static_cast<size_t>(begin) * row_bytes;
    CopyAndWait(to, stage.data(), static_cast<size_t>(end - begin) * row_bytes, stream);  // the stage is used again
  }
}

void CudaLinear::ReadPacked(const WeightRows& rows, cudaStream_t stream) {
  assert(rows.stored != nullptr);
  int64_t first_row = 0;
  std::vector<std::byte> stage;
  for (const PackedView& part : parts_) {
    const int64_t panels = PackedPanels(part.rows);
    const int64_t panels_per_stage =
        std::max<int64_t>(1, static_cast<int64_t>(kStageBytes) / std::max<int64_t>(part.panel_bytes, 1));
    stage.resize(static_cast<size_t>(std::min(panels_per_stage, panels) * part.panel_bytes));
    for (int64_t begin = 0; begin < panels; begin += panels_per_stage) {
      const int64_t end = std::min(begin + panels_per_stage, panels);
      ReadPanels(part, first_row, rows.stored, begin, end, stage.data());
      CopyAndWait(const_cast<std::byte*>(part.data) + begin * part.panel_bytes, stage.data(),
                  static_cast<size_t>((end - begin) * part.panel_bytes), stream);  // the stage is used again
    }
    first_row += part.rows;
  }
}

int64_t CudaLinear::Bytes(const LinearSpec& spec, bool biased) {
  return DataBytes(spec) + (biased ? spec.rows * static_cast<int64_t>(sizeof(float)) : 0);
}

}  // namespace hydrant::cuda
