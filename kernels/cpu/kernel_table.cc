#include "kernels/cpu/kernel_table.h"

#include <cassert>

namespace hydrant {

// Each family's source defines these constants, one per instruction set.
namespace avx2 {
extern const LinearKernels kLinearKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx2
namespace avx512 {
extern const LinearKernels kLinearKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx512
namespace avx512_bf16 {
extern const LinearKernels kLinearKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx512_bf16

const KernelTable& GetKernelTable(CpuIsa isa) {
  static constexpr KernelTable kAvx2 = {CpuIsa::kAvx2, &avx2::kLinearKernels, &avx2::kRowKernels,
                                        &avx2::kAttentionKernels, &avx2::kSamplingKernels};
  static constexpr KernelTable kAvx512 = {CpuIsa::kAvx512, &avx512::kLinearKernels, &avx512::kRowKernels,
                                          &avx512::kAttentionKernels, &avx512::kSamplingKernels};
  static constexpr KernelTable kAvx512Bf16 = {CpuIsa::kAvx512Bf16, &avx512_bf16::kLinearKernels,
                                              &avx512_bf16::kRowKernels, &avx512_bf16::kAttentionKernels,
                                              &avx512_bf16::kSamplingKernels};
  assert(IsaSupported(isa));
  if (isa == CpuIsa::kAvx512Bf16) return kAvx512Bf16;
  return isa == CpuIsa::kAvx512 ? kAvx512 : kAvx2;
}

}  // namespace hydrant
