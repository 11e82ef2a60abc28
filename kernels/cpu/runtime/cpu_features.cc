#include "kernels/cpu/runtime/cpu_features.h"

#include <cpuid.h>

#include <cstdlib>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr CpuIsa kIsas[] = {CpuIsa::kAvx2, CpuIsa::kAvxVnni, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16};

// Clang's builtin does not know the name.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Nor this one. It needs no state that AVX2 does not need.
bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}

}  // namespace

const char* IsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvxVnni:
      return "avx_vnni";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Vnni:
      return "avx512_vnni";
    case CpuIsa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "";
}

bool IsaSupported(CpuIsa isa) {
  // The builtins look at XCR0 too: a set the operating system does not save counts as missing.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  switch (isa) {
    case CpuIsa::kAvx2:
      return avx2;
    case CpuIsa::kAvxVnni:
      return avx2 && HasAvxVnni();
    case CpuIsa::kAvx512:
      return avx512;
    case CpuIsa::kAvx512Vnni:
      return vnni;
    case CpuIsa::kAvx512Bf16:
      return vnni && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

std::vector<CpuIsa> SupportedIsas() {
  std::vector<CpuIsa> isas;
  for (CpuIsa isa : kIsas) {
    if (IsaSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

absl::StatusOr<CpuIsa> ChooseIsa() {
  const std::vector<CpuIsa> isas = SupportedIsas();
  if (isas.empty()) {
    return absl::FailedPreconditionError("this processor lacks AVX2, FMA or F16C, which the CPU kernels need");
  }
  const char* forced = std::getenv("HYDRANT_CPU_ISA");
  if (forced == nullptr || *forced == '\0') return isas.back();
  for (CpuIsa isa : kIsas) {
    if (std::string_view(forced) != IsaName(isa)) continue;
    if (IsaSupported(isa)) return isa;
    return absl::FailedPreconditionError(
        absl::StrCat("HYDRANT_CPU_ISA=", forced, ": this processor does not support it"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("HYDRANT_CPU_ISA=", forced, ": not one of avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16"));
}

}  // namespace hydrant
