// The instruction sets a kernel test runs on.
#ifndef HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
#define HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_

#include <vector>

#include "kernels/cpu/runtime/cpu_features.h"
#include "tests/support/sanitizers.h"

namespace hydrant {

// What tests of products of quantised weights run on: all that the machine supports. Under ThreadSanitizer the best one, as in all
// of these tests: threads share work the same way on every set, and there three cost four minutes of processor time.
inline std::vector<CpuIsa> TestedProductIsas() {
  std::vector<CpuIsa> isas = SupportedIsas();
  if (kThreadSanitizer) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

// What other tests run on: without the sets that differ in nothing but those products.
inline std::vector<CpuIsa> TestedIsas() {
  std::vector<CpuIsa> isas = SupportedIsas();
  std::erase_if(isas, [](CpuIsa isa) { return isa == CpuIsa::kAvxVnni || isa == CpuIsa::kAvx512Vnni; });
  if (kThreadSanitizer) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
