// The instruction sets a kernel test runs on.
#ifndef HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
#define HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_

#include <vector>

#include "kernels/cpu/runtime/cpu_features.h"
#include "tests/support/sanitizers.h"

namespace hydrant {

// All that the machine supports, but for those that differ in nothing but products of quantised weights, which tests of these
// run on, too (SupportedIsas). Under ThreadSanitizer the best one: threads share work the same way on every set, and there
// three cost four minutes of processor time.
inline std::vector<CpuIsa> TestedIsas() {
  std::vector<CpuIsa> isas = SupportedIsas();
  std::erase_if(isas, [](CpuIsa isa) { return isa == CpuIsa::kAvxVnni || isa == CpuIsa::kAvx512Vnni; });
  if (kThreadSanitizer) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
