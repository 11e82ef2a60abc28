#include "kernels/cuda/linear/cuda_adapter_weight.h"

#include <cuda_bf16.h>

#include <array>
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
                                     cudaStream_t uploads)
    : AdapterWeight(spec),
      a_slot_bytes_(ASlotBytes(weight, spec)),
      b_slot_bytes_(BSlotBytes(weight, spec)),
      data_(static_cast<size_t>(Bytes(weight, spec)), host_visible),
      uploads_(uploads) {
  assert(spec.dtype != DType::kF16 && spec.slots > 0 && spec.rank_max > 0);
  assert(spec.parts() >= 1 && spec.parts() <= kAdapterPartsMax);
  assert(std::accumulate(spec.part_rows.begin(), spec.part_rows.end(), int64_t{0}) == weight.rows);
  CheckCuda(cudaMemsetAsync(data_.data(), 0, data_.bytes(), uploads), "cudaMemsetAsync");
  CheckCuda(cudaStreamSynchronize(uploads), "cudaStreamSynchronize");
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
  // Nothing that is made for an empty adapter may fail for want of memory.
  std::array<int32_t, kAdapterPartsMax> ranks = {};
  std::array<float, kAdapterPartsMax> scales = {};
  std::vector<std::vector<std::byte>> stored;  // until they are uploaded
  const auto copy = [this](const void* array, int64_t offset_bytes, const void* from, size_t bytes) {
    auto* to = static_cast<std::byte*>(const_cast<void*>(array)) + offset_bytes;
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, uploads_), "cudaMemcpyAsync");
  };
  const auto upload = [&](const void* array, int64_t offset_bytes, std::span<const float> values) {
    std::vector<std::byte>& bytes = stored.emplace_back(values.size() * static_cast<size_t>(element));
    for (size_t i = 0; i < values.size(); ++i)
      Put(spec_.dtype, values[i], bytes.data() + i * static_cast<size_t>(element));
    copy(array, offset_bytes, bytes.data(), bytes.size());
  };
  int64_t first_row = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const AdapterFactors& part = parts[p];
    assert(part.rank >= 0 && part.rank <= spec_.rank_max);
    assert(std::ssize(part.a) == part.rank * view_.cols && std::ssize(part.b) == spec_.part_rows[p] * part.rank);
    ranks[p] = part.rank;
    scales[p] = part.scale;
    const int64_t a_part = static_cast<int64_t>(p) * spec_.rank_max * view_.cols * element;
    if (part.rank > 0) {
      upload(view_.a, slot * a_slot_bytes_ + a_part, part.a);
      upload(view_.b, slot * b_slot_bytes_ + first_row * spec_.rank_max * element, part.b);
    }
    first_row += spec_.part_rows[p];
  }
  // After A and B, in the order of the stream.
  const int64_t count_bytes = int64_t{spec_.parts()} * 4;
  copy(view_.scales, slot * count_bytes, scales.data(), static_cast<size_t>(count_bytes));
  copy(view_.ranks, slot * count_bytes, ranks.data(), static_cast<size_t>(count_bytes));
  CheckCuda(cudaStreamSynchronize(uploads_), "cudaStreamSynchronize");
}

}  // namespace hydrant::cuda
