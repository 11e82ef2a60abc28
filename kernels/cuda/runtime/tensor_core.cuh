// The tensor cores' product of small matrices, and how these come from shared memory. tests/simt has the same functions without PTX, in a header of this name.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace hydrant::cuda {

// c [16][8] += a [16][16] b [16][8], by a warp. With g = lane / 4 and t = lane % 4, a lane holds
//   a  rows g, g + 8, g, g + 8; columns 2t, 2t + 1 of the first 8, the first 8, the last 8, the last 8
//   b  rows 2t, 2t + 1 of the first 8, then of the last 8; column g
//   c  row g: columns 2t, 2t + 1; row g + 8: columns 2t, 2t + 1
// two elements in each register, the first in the low half.
template <typename T>
__device__ void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

template <>
__device__ __forceinline__ void MultiplyAdd<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                           const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void MultiplyAdd<__half>(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices of 8 x 8 elements of 16 bits from shared memory to the registers of a warp, which holds one in each. Lane l
// gives the address of row l % 8 of matrix l / 8, a multiple of 16. With g = lane / 4 and t = lane % 4 a lane then holds
// elements 2t, 2t + 1 of row g.
__device__ __forceinline__ void LoadMatrices(const void* row, uint32_t (&words)[4]) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from)
               : "memory");
}

// The same, but a lane holds elements g of rows 2t and 2t + 1.
__device__ __forceinline__ void LoadMatricesTransposed(const void* row, uint32_t (&words)[4]) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from)
               : "memory");
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_
