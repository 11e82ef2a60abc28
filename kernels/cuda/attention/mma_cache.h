// Which caches the attention kernels on tensor cores are made for.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_MMA_CACHE_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_MMA_CACHE_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/kv_cache_view.h"

namespace hydrant::cuda {

// Calls function(std::integral_constant<int, head_dim>()) where there are kernels for such heads, else returns false.
template <typename Function>
bool WithMmaDim(int32_t head_dim, Function&& function) {
  switch (head_dim) {
    case 64:
      function(std::integral_constant<int, 64>());
      return true;
    case 80:
      function(std::integral_constant<int, 80>());
      return true;
    case 96:
      function(std::integral_constant<int, 96>());
      return true;
    case 128:
      function(std::integral_constant<int, 128>());
      return true;
    case 256:
      function(std::integral_constant<int, 256>());
      return true;
    default:
      return false;
  }
}

// What a block may have in SharedMemory on every device of 8.0 and later, less what lies before it.
inline constexpr int kSharedBytesMax = 98 * 1024;

// Calls function(Stored(), std::integral_constant<int, head_dim>()), Stored the elements' type, int8_t of KvType::kInt8, where there
// are kernels for such a cache, else returns false.
template <typename Function>
bool WithMmaCache(const KvCacheLayout& layout, Function&& function) {
  if (layout.type == KvType::kInt8) {
    return WithMmaDim(layout.head_dim, [&](auto dim) { function(int8_t{}, dim); });
  }
  switch (DTypeOf(layout.type)) {
    case DType::kF32:
      return false;
    case DType::kF16:
      return WithMmaDim(layout.head_dim, [&](auto dim) { function(__half{}, dim); });
    case DType::kBF16:
      return WithMmaDim(layout.head_dim, [&](auto dim) { function(__nv_bfloat16{}, dim); });
  }
  return false;
}

// The same where there are kernels for products of warpgroups.
template <typename Function>
bool WithWarpgroupCache(const KvCacheLayout& layout, Function&& function) {
  if (layout.type == KvType::kInt8) return false;
  const auto with_dim = [&](auto element) {
    if (layout.head_dim == 64) {
      function(element, std::integral_constant<int, 64>());
    } else if (layout.head_dim == 128) {
      function(element, std::integral_constant<int, 128>());
    }
    return layout.head_dim == 64 || layout.head_dim == 128;
  };
  switch (DTypeOf(layout.type)) {
    case DType::kF32:
      return false;
    case DType::kF16:
      return with_dim(__half{});
    case DType::kBF16:
      return with_dim(__nv_bfloat16{});
  }
  return false;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_MMA_CACHE_H_
