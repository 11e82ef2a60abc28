// Inner loops of what adapters add to products (kernels/adapter_weight.h), and the layout of A and B that they read. A x is computed
// before the product, into rows of `lanes` numbers per part; B h is added to the product's sums, in front of bias and activation
// (linear_epilogue.h).
//
// Layout of an adapter's slot. `lanes` is the largest rank of a part, rounded up to 16. By dtype:
//   fp32  A [part][cols][lanes]             B [panels of the weight][rank][32]
//   bf16  A [part][⌈cols / 2⌉][lanes][2]    B [panels of the weight][⌈rank / 2⌉][32][2]   an odd one is padded with zero
// B's 32 are the rows that are the panel's outputs. Where `pairs`, x and h are rounded to bf16 beside bf16, in pairs as well, and a
// step of a sum is a dot product of two pairs; else they are fp32.
// Order of the sums: A x has four for each output, of steps 4i, 4i + 1, …, each by ascending step from 0; they are added as
// (s0 + s1) + (s2 + s3), and scaled. B h has one for each output, from 0 by ascending step. A step is a column or a rank, beside bf16
// two of them; of an odd number of columns the last is a step of its own, without `pairs` behind all others and of s0. All steps but
// those dot products are fused multiply-adds.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace hydrant {

// 16 outputs of A x of one part, for some rows with the same adapter.
struct AdapterInner {
  const std::byte* a = nullptr;  // of the part, from the first of the 16 on
  DType dtype = DType::kF32;
  int64_t lanes = 0;
  int64_t cols = 0;
  const float* scales = nullptr;  // [16]
  const std::byte* x = nullptr;   // [*, cols] fp32, or what AdapterKernels::round makes of them
  int64_t x_stride = 0;           // bytes
  std::byte* inner = nullptr;     // [*, lanes of all parts] fp32 or bf16, from the first of the 16 on
  int64_t inner_stride = 0;       // bytes
  const int32_t* rows = nullptr;  // [count]: of x and inner
  int64_t count = 0;              // at most kAdapterTileRows
};

// Rows that read A together: four sums each are what there are registers for.
inline constexpr int kAdapterTileRows = 4;

// What the rows of a product get besides, in one segment of the weight.
struct AdapterRows {
  const int32_t* slots = nullptr;   // [rows]; -1: nothing
  const int32_t* before = nullptr;  // [rows]: the row before with the same slot; negative: none
  const int32_t* after = nullptr;   // [rows]: the next one; INT32_MAX: none
  const int32_t* ranks = nullptr;   // [slots][parts]
  int64_t parts = 0;
  const std::byte* inner = nullptr;  // [rows][parts][lanes] fp32 or bf16, scaled
  int64_t lanes = 0;
  const uint8_t* part_of = nullptr;  // [panels][2]: the part of each half of a panel
  const std::byte* b = nullptr;      // of slot 0, panel 0
  int64_t slot_bytes = 0;
  int64_t panel_bytes = 0;
  DType dtype = DType::kF32;
  // AdapterKernels::add.
  void (*add)(const AdapterRows& added, int64_t begin, int64_t end, int64_t panel, float* sums) = nullptr;
};

struct AdapterKernels {
  bool pairs = false;  // the processor multiplies pairs of bf16
  // Rounds a row [cols] for bf16 weights, out [⌈cols / 2⌉][2]. Null without `pairs`.
  void (*round)(const float* x, int64_t cols, uint16_t* out) = nullptr;
  void (*inner)(const AdapterInner& call) = nullptr;
  // Adds B h of rows [begin, end), in panel `panel` of the segment, to sums [end - begin][32]. A row without an adapter keeps its
  // bits.
  void (*add)(const AdapterRows& added, int64_t begin, int64_t end, int64_t panel, float* sums) = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_
