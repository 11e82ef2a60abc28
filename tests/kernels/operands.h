// Random operands for tests of products.
#ifndef HYDRANT_TESTS_KERNELS_OPERANDS_H_
#define HYDRANT_TESTS_KERNELS_OPERANDS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/device.h"
#include "tests/kernels/normal_distribution.h"

namespace hydrant {

using Floats = std::vector<float>;

inline Floats Random(int64_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  NormalDistribution normal(0.0f, scale);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

// Reads a dense [*, cols] matrix, which must outlive the reader.
inline RowReader ReaderOf(const Floats& w, int64_t cols) {
  return [&w, cols](int64_t begin, int64_t end, float* out) {
    std::copy(w.begin() + begin * cols, w.begin() + end * cols, out);
  };
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_OPERANDS_H_
