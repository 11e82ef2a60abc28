// The product of a warpgroup (four warps, the first of them a multiple of four) on Hopper, whose second operand lies in shared
// memory and which goes on while its threads compute. Only code for sm_90a has the instructions; elsewhere the functions trap.
// tests/simt has the same functions in a header of this name.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace hydrant::cuda {

// A panel is [rows][64] elements of 16 bits at a multiple of 1,024 bytes; the eight 16-byte chunks of row r are in the order
// chunk ^ (r % 8), so that whatever eight rows are read at once lie in different banks.
inline constexpr int kPanelColumns = 64;
__device__ __forceinline__ int InPanel(int row, int chunk) { return row * kPanelColumns + (chunk ^ (row & 7)) * 8; }

// The second operand [16][columns] of a product.
struct PanelOperand {
  uint64_t bits;

  __device__ static PanelOperand At(const void* start, uint32_t panel_bytes) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(start));
    // Start, from panel to panel, from eight rows to the next; all in 16 bytes. The last: chunks are in that order.
    return {uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{panel_bytes >> 4} << 16 | uint64_t{1024 >> 4} << 32 |
            uint64_t{1} << 62};
  }
  // Rows of the panels are the columns: 16 elements of each, from the multiple of 16 where `start` points in the first row.
  __device__ static PanelOperand RowsAsColumns(const void* start) { return At(start, 16); }
  // Elements of rows are the columns: of 16 rows, the first of which is a multiple of 8 and starts at `start`. Columns beyond
  // 64 are in the next panel, which is `panel_bytes` further on.
  __device__ static PanelOperand ElementsAsColumns(const void* start, uint32_t panel_bytes) {
    return At(start, panel_bytes);
  }
  __device__ PanelOperand operator+(int bytes) const { return {bits + static_cast<uint64_t>(bytes / 16)}; }
};

#define HYDRANT_FOUR(c) "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define HYDRANT_WARPGROUP_64(type)                                                                          \
  asm volatile(                                                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                          \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                           \
      " {"                                                                                                  \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"                      \
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"                                                    \
      : HYDRANT_FOUR(c[0]), HYDRANT_FOUR(c[1]), HYDRANT_FOUR(c[2]), HYDRANT_FOUR(c[3]), HYDRANT_FOUR(c[4]), \
        HYDRANT_FOUR(c[5]), HYDRANT_FOUR(c[6]), HYDRANT_FOUR(c[7])                                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"(adds ? 1 : 0), "n"(kDimensions ? 1 : 0))
#define HYDRANT_WARPGROUP_128(type)                                                                              \
  asm volatile(                                                                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                               \
      " {"                                                                                                       \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                   \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                         \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                         \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                           \
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}\n"                                                         \
      : HYDRANT_FOUR(c[0]), HYDRANT_FOUR(c[1]), HYDRANT_FOUR(c[2]), HYDRANT_FOUR(c[3]), HYDRANT_FOUR(c[4]),      \
        HYDRANT_FOUR(c[5]), HYDRANT_FOUR(c[6]), HYDRANT_FOUR(c[7]), HYDRANT_FOUR(c[8]), HYDRANT_FOUR(c[9]),      \
        HYDRANT_FOUR(c[10]), HYDRANT_FOUR(c[11]), HYDRANT_FOUR(c[12]), HYDRANT_FOUR(c[13]), HYDRANT_FOUR(c[14]), \
        HYDRANT_FOUR(c[15])                                                                                      \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"(adds ? 1 : 0), "n"(kDimensions ? 1 : 0))

// c [64][kColumns] = a [64][16] b [16][kColumns], plus c if `adds`. Warp w of the four has rows 16w to 16w + 15 of a and of c,
// in its lanes as tensor_core.cuh has them for 16 x 16 and 16 x 8: columns 8n to 8n + 7 in c[n]. kDimensions: b is one of
// ElementsAsColumns, else of RowsAsColumns. Until WaitForProducts nobody looks at a or c, and b stays as it is.
template <typename T, bool kDimensions, int kEights>
__device__ __forceinline__ void WarpgroupMultiply(float (&c)[kEights][4], const uint32_t (&a)[4], PanelOperand b,
                                                  bool adds) {
  static_assert(kEights == 8 || kEights == 16);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (std::is_same_v<T, __half>) {
    if constexpr (kEights == 8) HYDRANT_WARPGROUP_64("f16");
    if constexpr (kEights == 16) HYDRANT_WARPGROUP_128("f16");
  } else {
    if constexpr (kEights == 8) HYDRANT_WARPGROUP_64("bf16");
    if constexpr (kEights == 16) HYDRANT_WARPGROUP_128("bf16");
  }
#else
  __trap();
#endif
}
#undef HYDRANT_WARPGROUP_64
#undef HYDRANT_WARPGROUP_128
#undef HYDRANT_FOUR

// Before the first of some products: what threads wrote to registers that these take is there.
__device__ __forceinline__ void BeginProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

// Ends a group of products.
__device__ __forceinline__ void CommitProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

// Until at most the last `kGroups` groups are under way.
template <int kGroups>
__device__ __forceinline__ void WaitForProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kGroups) : "memory");
#endif
}

// The compiler keeps what is done with `c` where it stands: before products begin, or after the wait for them.
template <int kEights>
__device__ __forceinline__ void HoldRegisters(float (&c)[kEights][4]) {
#pragma unroll
  for (int i = 0; i < kEights * 4; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}

// Before the barrier after which products read what this thread, or its copies, wrote to shared memory.
__device__ __forceinline__ void ShowToProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_
