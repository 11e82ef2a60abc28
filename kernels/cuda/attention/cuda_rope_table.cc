#include "kernels/cuda/attention/cuda_rope_table.h"

#include <cassert>
#include <cmath>
#include <vector>

namespace hydrant::cuda {

CudaRopeTable::CudaRopeTable(const RopeSpec& spec, bool host_visible, cudaStream_t stream)
    : dims_(spec.dims),
      buffer_(static_cast<size_t>(spec.positions_max) * static_cast<size_t>(spec.dims) * sizeof(float), host_visible) {
  assert(spec.dims % 2 == 0 && spec.inv_freq.size() == static_cast<size_t>(spec.dims) / 2);
  const size_t half = spec.inv_freq.size();
  std::vector<float> table(buffer_.bytes() / sizeof(float));
  for (size_t position = 0; position < static_cast<size_t>(spec.positions_max); ++position) {
    float* row = &table[position * 2 * half];
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * spec.inv_freq[i];
      row[i] = static_cast<float>(std::cos(angle) * spec.attention_factor);
      row[half + i] = static_cast<float>(std::sin(angle) * spec.attention_factor);
    }
  }
  CopyAndWait(buffer_.data(), table.data(), buffer_.bytes(), stream);
}

}  // namespace hydrant::cuda
