#include "kernels/cpu/attention/rope_table.h"

#include <cassert>
#include <cmath>
#include <vector>

namespace hydrant {
namespace {

// Positions that share one sine and cosine of a base angle: cos(a + b) = cos a cos b - sin a sin b needs two calls of the
// math library per run instead of two per position, which makes the table of a 128k context take milliseconds.
constexpr int64_t kRun = 256;

}  // namespace

CpuRopeTable::CpuRopeTable(const RopeSpec& spec, ThreadPool& pool)
    : dims_(spec.dims),
      positions_max_(spec.positions_max),
      buffer_((static_cast<size_t>(spec.positions_max) * static_cast<size_t>(spec.dims) + kRopePadding) *
              sizeof(float)),
      table_(static_cast<float*>(buffer_.data())) {
  assert(spec.dims > 0 && spec.dims % 2 == 0 && spec.positions_max > 0);
  assert(std::ssize(spec.inv_freq) == spec.dims / 2);
  const int64_t half = dims_ / 2;
  std::vector<double> run_cosine(static_cast<size_t>(kRun * half)), run_sine(run_cosine.size());
  for (int64_t j = 0; j < kRun; ++j) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(j) * spec.inv_freq[static_cast<size_t>(i)];
      run_cosine[static_cast<size_t>(j * half + i)] = std::cos(angle) * spec.attention_factor;
      run_sine[static_cast<size_t>(j * half + i)] = std::sin(angle) * spec.attention_factor;
    }
  }
  pool.ParallelFor(positions_max_, kRun, [&](int64_t begin, int64_t end, int) {
    std::vector<double> base_cosine(static_cast<size_t>(half)), base_sine(static_cast<size_t>(half));
    for (int64_t base = begin; base < end; base += kRun) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(base) * spec.inv_freq[static_cast<size_t>(i)];
        base_cosine[static_cast<size_t>(i)] = std::cos(angle);
        base_sine[static_cast<size_t>(i)] = std::sin(angle);
      }
      for (int64_t j = 0; j < kRun && base + j < end; ++j) {
        float* row = table_ + (base + j) * dims_;
        for (int64_t i = 0; i < half; ++i) {
          const double c = base_cosine[static_cast<size_t>(i)], s = base_sine[static_cast<size_t>(i)];
          const double cj = run_cosine[static_cast<size_t>(j * half + i)];
          const double sj = run_sine[static_cast<size_t>(j * half + i)];
          row[i] = static_cast<float>(c * cj - s * sj);
          row[half + i] = static_cast<float>(s * cj + c * sj);
        }
      }
    }
  });
}

}  // namespace hydrant
