// The devices that a program of kernel tests runs on: tests/kernels/cpu has one per instruction set, tests/simt the CUDA
// device on the host, tests/gpu the real one.
#ifndef HYDRANT_TESTS_KERNELS_TESTED_DEVICE_H_
#define HYDRANT_TESTS_KERNELS_TESTED_DEVICE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace hydrant {

struct TestedDevice {
  std::string name;  // in the name of a test
  // What queries and softmax weights of prompts are rounded to over such a cache; fp32: they are not.
  std::function<DType(KvType cache, int32_t head_dim)> prompt_dtype;
  // Relative rounding of queries and weights over 16-bit keys and values, beyond fp32's.
  double rounding = 0.0;
  int share = 1;  // it has time for one of so many random cases
  // Its memory can be read and written by the test between ops. `threads` means nothing to some.
  std::function<std::unique_ptr<Device>(int threads)> make;
};

inline std::ostream& operator<<(std::ostream& out, const TestedDevice& device) { return out << device.name; }

// The same ones in the same order each time; not empty.
const std::vector<TestedDevice>& TestedDevices();

// Types of caches that differ in how a device moves them.
inline const std::vector<KvType> kMovedTypes = {KvType::kF32, KvType::kBF16, KvType::kInt8};

// Where a device stands among them.
inline uint64_t NumberOf(const TestedDevice& device) {
  uint64_t number = 0;
  while (TestedDevices()[number].name != device.name) ++number;
  return number;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_TESTED_DEVICE_H_
