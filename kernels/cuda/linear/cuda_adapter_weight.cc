#include "kernels/cuda/linear/cuda_adapter_weight.h"

#include <cuda_bf16.h>

#include <cassert>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {
namespace {

// Arrays begin at multiples of it.
int64_t Aligned16(int64_t bytes) { return (bytes + 15) / 16 * 16; }

int64_t ASlotBytes(const LinearSpec& weight, const AdapterSpec& spec) {
  return spec.parts() * spec.rank_max * weight.cols * static_cast<int64_t>(DTypeBytes(spec.dtype));
}
int64_t BSlotBytes(const LinearSpec& weight, const AdapterSpec& spec) {
  return weight.rows * spec.rank_max * static_cast<int64_t>(DTypeBytes(spec.dtype));
}
int64_t CountBytes(const AdapterSpec& spec) { return Aligned16(int64_t{spec.slots} * spec.parts() * 4); }

void Put(DType dtype, float value, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    const __nv_bfloat16 nearest = __float2bfloat16_rn(value);
    std::memcpy(to, &nearest, sizeof(nearest));
  }
}

}  // namespace

CudaAdapterWeight::CudaAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec, bool host_visible,
                                     cudaStream_t stream)
    : AdapterWeight(spec),
      a_slot_bytes_(ASlotBytes(weight, spec)),
      b_slot_bytes_(BSlotBytes(weight, spec)),
      data_(static_cast<size_t>(Bytes(weight, spec)), host_visible),
      stream_(stream) {
  assert(spec.dtype != DType::kF16 && spec.slots > 0 && spec.rank_max > 0);
  assert(spec.parts() >= 1 && spec.parts() <= kAdapterPartsMax);
  assert(std::accumulate(spec.part_rows.begin(), spec.part_rows.end(), int64_t{0}) == weight.rows);
  CheckCuda(cudaMemsetAsync(data_.data(), 0, data_.bytes(), stream), "cudaMemsetAsync");
  CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  auto* at = static_cast<std::byte*>(data_.data());
  const auto take = [&at](int64_t bytes) {
    std::byte* begin = at;
    at += bytes;
    return begin;
  };
  view_.a = take(Aligned16(spec.slots * a_slot_bytes_));
  view_.b = take(Aligned16(spec.slots * b_slot_bytes_));
  view_.ranks = reinterpret_cast<const int32_t*>(take(CountBytes(spec)));
  view_.scales = reinterpret_cast<const float*>(take(CountBytes(spec)));
  view_.dtype = spec.dtype;
  view_.parts = spec.parts();
  view_.rank_max = spec.rank_max;
  view_.rows = weight.rows;
  view_.cols = weight.cols;
  std::partial_sum(spec.part_rows.begin(), spec.part_rows.end(), view_.part_ends);
}

int64_t CudaAdapterWeight::Bytes(const LinearSpec& weight, const AdapterSpec& spec) {
  return Aligned16(spec.slots * ASlotBytes(weight, spec)) + Aligned16(spec.slots * BSlotBytes(weight, spec)) +
         2 * CountBytes(spec);
}

void CudaAdapterWeight::Set(int32_t slot, std::span<const AdapterFactors> parts) {
  assert(slot >= 0 && slot < spec_.slots && (parts.empty() || std::ssize(parts) == spec_.parts()));
  const auto element = static_cast<int64_t>(DTypeBytes(spec_.dtype));
  const int64_t rank_max = spec_.rank_max, cols = view_.cols;
  std::vector<std::byte> a(static_cast<size_t>(a_slot_bytes_)), b(static_cast<size_t>(b_slot_bytes_));
  std::vector<int32_t> ranks(static_cast<size_t>(spec_.parts()), 0);
  std::vector<float> scales(ranks.size(), 0.0f);
  int64_t first_row = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const AdapterFactors& part = parts[p];
    const int64_t rows = spec_.part_rows[p];
    assert(part.rank >= 0 && part.rank <= rank_max);
    assert(std::ssize(part.a) == part.rank * cols && std::ssize(part.b) == rows * part.rank);
    ranks[p] = part.rank;
    scales[p] = part.scale;
    std::byte* const to_a = a.data() + static_cast<int64_t>(p) * rank_max * cols * element;
    for (size_t i = 0; i < part.a.size(); ++i) Put(spec_.dtype, part.a[i], to_a + static_cast<int64_t>(i) * element);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < part.rank; ++j) {
        Put(spec_.dtype, part.b[static_cast<size_t>(row * part.rank + j)],
            b.data() + ((first_row + row) * rank_max + j) * element);
      }
    }
    first_row += rows;
  }
  const auto copy = [&](const void* array, int64_t slot_bytes, const void* from) {
    auto* to = static_cast<std::byte*>(const_cast<void*>(array)) + slot * slot_bytes;
    CopyAndWait(to, from, static_cast<size_t>(slot_bytes), stream_);
  };
  copy(view_.a, a_slot_bytes_, a.data());
  copy(view_.b, b_slot_bytes_, b.data());
  copy(view_.ranks, std::ssize(ranks) * 4, ranks.data());
  copy(view_.scales, std::ssize(scales) * 4, scales.data());
}

}  // namespace hydrant::cuda
