// CpuIsa names the instruction sets the CPU kernels are compiled for, lowest first. The choice is made once, at run
// time.
//
// Thread: any; everything here is pure or reads the environment.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_CPU_FEATURES_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_CPU_FEATURES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant {

enum class CpuIsa : uint8_t {
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // + AVX-VNNI: byte products in 256 bits
  kAvx512,      // AVX2 + AVX-512 F, BW, VL, DQ
  kAvx512Vnni,  // + AVX-512 VNNI: byte products in 512 bits
  kAvx512Bf16,  // + AVX-512 BF16
};

// "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16".
const char* IsaName(CpuIsa isa);

// True when the processor and the operating system both support it.
bool IsaSupported(CpuIsa isa);

// Every supported set, lowest first; tests run each kernel on all of them.
std::vector<CpuIsa> SupportedIsas();

// The best supported set, or the one HYDRANT_CPU_ISA names. Errors: the processor lacks AVX2, FMA or F16C; the variable
// names an unknown or unsupported set.
absl::StatusOr<CpuIsa> ChooseIsa();

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_CPU_FEATURES_H_
