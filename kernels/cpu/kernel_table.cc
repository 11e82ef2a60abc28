#include "kernels/cpu/kernel_table.h"

#include <cassert>

namespace hydrant {

// Each family's source defines these constants, one per instruction set.
namespace avx2 {
extern const AdapterKernels kAdapterKernels;
extern const LinearKernels kLinearKernels;
extern const ProductKernels kQuantisedKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx2
namespace avx512 {
extern const AdapterKernels kAdapterKernels;
extern const LinearKernels kLinearKernels;
extern const ProductKernels kQuantisedKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx512
namespace avx512_bf16 {
extern const AdapterKernels kAdapterKernels;
extern const LinearKernels kLinearKernels;
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
extern const SamplingKernels kSamplingKernels;
}  // namespace avx512_bf16
namespace avx_vnni {
extern const ProductKernels kQuantisedKernels;
}  // namespace avx_vnni
namespace avx512_vnni {
extern const ProductKernels kQuantisedKernels;
}  // namespace avx512_vnni

const KernelTable& GetKernelTable(CpuIsa isa) {
  static constexpr KernelTable kAvx2 = {CpuIsa::kAvx2,         &avx2::kLinearKernels,    &avx2::kQuantisedKernels,
                                        &avx2::kRowKernels,    &avx2::kAttentionKernels, &avx2::kSamplingKernels,
                                        &avx2::kAdapterKernels};
  static constexpr KernelTable kAvx512 = {
      CpuIsa::kAvx512,         &avx512::kLinearKernels,    &avx512::kQuantisedKernels,
      &avx512::kRowKernels,    &avx512::kAttentionKernels, &avx512::kSamplingKernels,
      &avx512::kAdapterKernels};
  static constexpr KernelTable kAvx512Bf16 = {
      CpuIsa::kAvx512Bf16,          &avx512_bf16::kLinearKernels,    &avx512_vnni::kQuantisedKernels,
      &avx512_bf16::kRowKernels,    &avx512_bf16::kAttentionKernels, &avx512_bf16::kSamplingKernels,
      &avx512_bf16::kAdapterKernels};
  // Those that add byte products alone.
  static constexpr KernelTable kAvxVnni = {CpuIsa::kAvxVnni, kAvx2.linear,    &avx_vnni::kQuantisedKernels,
                                           kAvx2.row,        kAvx2.attention, kAvx2.sampling,
                                           kAvx2.adapter};
  static constexpr KernelTable kAvx512Vnni = {CpuIsa::kAvx512Vnni, kAvx512.linear,    &avx512_vnni::kQuantisedKernels,
                                              kAvx512.row,         kAvx512.attention, kAvx512.sampling,
                                              kAvx512.adapter};
  assert(IsaSupported(isa));
  switch (isa) {
    case CpuIsa::kAvx2:
      break;
    case CpuIsa::kAvxVnni:
      return kAvxVnni;
    case CpuIsa::kAvx512:
      return kAvx512;
    case CpuIsa::kAvx512Vnni:
      return kAvx512Vnni;
    case CpuIsa::kAvx512Bf16:
      return kAvx512Bf16;
  }
  return kAvx2;
}

}  // namespace hydrant
