// The instruction sets a kernel test runs on.
#ifndef HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
#define HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_

#include <vector>

#include "kernels/cpu/runtime/cpu_features.h"
#include "tests/support/sanitizers.h"

namespace hydrant {

// All that the machine supports; under ThreadSanitizer the best one: threads share work the same way on every set, and there
// three cost four minutes of processor time.
inline std::vector<CpuIsa> TestedIsas() {
  std::vector<CpuIsa> isas = SupportedIsas();
  if (kThreadSanitizer) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_CPU_TESTED_ISAS_H_
