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

// Rows [begin, end) into `to`, `row_bytes` apart, by all of the machine's threads: a large model has billions of elements.
void ReadRows(const LinearSpec& spec, const RowReader& reader, int64_t begin, int64_t end, size_t row_bytes,
              std::byte* to) {
  const auto read = [&](int64_t from, int64_t until) {
    std::vector<float> rows(static_cast<size_t>(kRowsPerRead * spec.cols));
    for (int64_t row = from; row < until; row += kRowsPerRead) {
      const int64_t last = std::min(row + kRowsPerRead, until);
      reader(row, last, rows.data());
      for (int64_t i = row; i < last; ++i) {
        RoundRow(DTypeOf(spec.format), rows.data() + (i - row) * spec.cols, spec.cols,
                 to + static_cast<size_t>(i - begin) * row_bytes);
      }
    }
  };
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t shares = std::clamp<int64_t>((end - begin) / kRowsPerRead, 1, cores);
  std::vector<std::future<void>> reads;
  for (int64_t i = 1; i < shares; ++i) {
    reads.push_back(std::async(std::launch::async, read, begin + (end - begin) * i / shares,
                               begin + (end - begin) * (i + 1) / shares));
  }
  read(begin, begin + (end - begin) / shares);
  for (std::future<void>& done : reads) done.get();
}

}  // namespace

CudaLinear::CudaLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, bool host_visible,
                       cudaStream_t stream)
    : LinearWeight(spec),
      data_(static_cast<size_t>(spec.rows * StrideBytes(spec)), host_visible),
      bias_(bias.size_bytes(), host_visible) {
  assert(!IsQuantised(spec.format) && spec.parts.empty());
  const auto row_bytes = static_cast<size_t>(StrideBytes(spec));
  const int64_t rows_per_stage =
      std::max<int64_t>(1, static_cast<int64_t>(kStageBytes / std::max<size_t>(row_bytes, 1)));
  std::vector<std::byte> stage(static_cast<size_t>(std::min(rows_per_stage, spec.rows)) * row_bytes);
  for (int64_t begin = 0; begin < spec.rows; begin += rows_per_stage) {
    const int64_t end = std::min(begin + rows_per_stage, spec.rows);
    ReadRows(spec, rows.fp32, begin, end, row_bytes, stage.data());
    auto* to = static_cast<std::byte*>(data_.data()) + static_cast<size_t>(begin) * row_bytes;
    CopyAndWait(to, stage.data(), static_cast<size_t>(end - begin) * row_bytes, stream);  // the stage is used again
  }
  if (!bias.empty()) CopyAndWait(bias_.data(), bias.data(), bias.size_bytes(), stream);
  view_ = {data_.data(), DTypeOf(spec.format), spec.rows,
           spec.cols,    Stride(spec),         bias.empty() ? nullptr : static_cast<const float*>(bias_.data())};
}

int64_t CudaLinear::Bytes(const LinearSpec& spec, bool biased) {
  return spec.rows * (StrideBytes(spec) + (biased ? static_cast<int64_t>(sizeof(float)) : 0));
}

}  // namespace hydrant::cuda
