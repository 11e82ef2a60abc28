// KernelTable is the set of inner loops of one instruction set. A kernel family is one plain source
// (`kernels/cpu/<folder>/<family>_kernels.cc`) that is compiled once per instruction set, each time in a namespace of
// its own; the family's header declares a struct of function pointers, and the source defines one constant of that
// type.
//
// Thread: any; tables are immutable. Kernels take ranges and know nothing of threads.
//
// Rules for a family's source
//  1. Everything it defines is in namespace hydrant::HYDRANT_ISA (set by the build), unnamed inside it except the
//     table.
//  2. It includes <immintrin.h>, <cstdint>, <cstddef>, <cassert>, kernels/cpu/runtime/simd.h and plain-data headers, and uses
//     no inline function or template of the standard library: the linker could keep the AVX-512 copy of it for the
//     whole program. (`ctest -R isa_objects` looks for weak symbols.)
//  3. It is compiled with -ffp-contract=off: a fused multiply-add happens only where the source says so, so an
//     element's arithmetic is the same in every instantiation.
#ifndef HYDRANT_KERNELS_CPU_KERNEL_TABLE_H_
#define HYDRANT_KERNELS_CPU_KERNEL_TABLE_H_

#include "kernels/cpu/runtime/cpu_features.h"

namespace hydrant {

struct AdapterKernels;    // kernels/cpu/linear/adapter_kernels.h
struct LinearKernels;     // kernels/cpu/linear/linear_kernels.h
struct ProductKernels;    // the same
struct RowKernels;        // kernels/cpu/runtime/row_kernels.h
struct AttentionKernels;  // kernels/cpu/attention/attention_kernels.h
struct SamplingKernels;   // kernels/cpu/sampling/sampling_kernels.h

struct KernelTable {
  CpuIsa isa;
  const LinearKernels* linear;
  const ProductKernels* quantised;
  const RowKernels* row;
  const AttentionKernels* attention;
  const SamplingKernels* sampling;
  const AdapterKernels* adapter;
};

// REQUIRES IsaSupported(isa).
const KernelTable& GetKernelTable(CpuIsa isa);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_KERNEL_TABLE_H_
