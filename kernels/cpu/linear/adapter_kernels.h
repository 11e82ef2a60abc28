// Inner loops of what adapters add to products (kernels/adapter_weight.h), and the layout of A and B that they read. A x is computed
// before the product, into rows of `lanes` numbers per part; B h is added to the product's sums, in front of bias and activation
// (linear_epilogue.h).
//
// Layout of an adapter's slot. `lanes` is the largest rank of a part, rounded up to 16; by dtype fp32 or bf16:
//   A   [part][cols][lanes]
//   B   [panels of the weight][rank][32]: the rank's column of the rows that are the panel's 32 outputs
//
// Order of the sums: A x has four for each output, of columns 4i, 4i + 1, …, each by ascending column from 0; they are added as
// (s0 + s1) + (s2 + s3), and scaled. B h has one for each output, from 0 by ascending rank. All steps are fused multiply-adds.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace hydrant {

// 16 outputs of A x of one part, for some rows with the same adapter.
struct AdapterInner {
  const std::byte* a = nullptr;  // [cols][lanes], from the first of the 16 on
  DType dtype = DType::kF32;
  int64_t lanes = 0;
  int64_t cols = 0;
  const float* scales = nullptr;  // [16]
  const float* x = nullptr;       // [*, cols]
  float* inner = nullptr;         // [*, inner_stride], from the first of the 16 on
  int64_t inner_stride = 0;
  const int32_t* rows = nullptr;  // [count]: of x and inner
  int64_t count = 0;
};

// What the rows of a product get besides, in one segment of the weight.
struct AdapterRows {
  const int32_t* slots = nullptr;  // [rows]; -1: nothing
  const int32_t* ranks = nullptr;  // [slots][parts]
  int64_t parts = 0;
  const float* inner = nullptr;  // [rows][parts][lanes], scaled
  int64_t lanes = 0;
  const uint8_t* part_of = nullptr;  // [panels][2]: the part of each half of a panel
  const std::byte* b = nullptr;      // of slot 0, panel 0
  int64_t slot_bytes = 0;
  int64_t panel_bytes = 0;
  DType dtype = DType::kF32;
};

struct AdapterKernels {
  void (*inner)(const AdapterInner& call);
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_ADAPTER_KERNELS_H_
