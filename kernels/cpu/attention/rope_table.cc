#include "kernels/cpu/attention/rope_table.h"

#include <algorithm>
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
      inv_freq_(spec.inv_freq.begin(), spec.inv_freq.end()),
      pool_(pool),
      run_cosine_(static_cast<size_t>(kRun) * inv_freq_.size()),
      run_sine_(run_cosine_.size()),
      base_cosine_(static_cast<size_t>(pool.threads()) * inv_freq_.size()),
      base_sine_(base_cosine_.size()),
      buffer_((static_cast<size_t>(spec.positions_max) * static_cast<size_t>(spec.dims) + kRopePadding) *
              sizeof(float)),
      table_(static_cast<float*>(buffer_.data())) {
  assert(spec.dims > 0 && spec.dims % 2 == 0 && spec.positions_max > 0);
  assert(std::ssize(spec.inv_freq) == spec.dims / 2);
  for (int64_t j = 0; j < kRun; ++j) {
    for (size_t i = 0; i < inv_freq_.size(); ++i) {
      const double angle = static_cast<double>(j) * inv_freq_[i];
      run_cosine_[static_cast<size_t>(j) * inv_freq_.size() + i] = std::cos(angle) * spec.attention_factor;
      run_sine_[static_cast<size_t>(j) * inv_freq_.size() + i] = std::sin(angle) * spec.attention_factor;
    }
  }
}

void CpuRopeTable::Fill(int64_t end) const {
  assert(end <= positions_max_);
  const int64_t first = reached_ / kRun, runs = (end + kRun - 1) / kRun - first, half = dims_ / 2;
  pool_.ParallelFor(runs, 1, [&](int64_t run_begin, int64_t run_end, int thread) {
    double* base_cosine = base_cosine_.data() + thread * half;
    double* base_sine = base_sine_.data() + thread * half;
    for (int64_t base = (first + run_begin) * kRun; base < (first + run_end) * kRun; base += kRun) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(base) * inv_freq_[static_cast<size_t>(i)];
        base_cosine[i] = std::cos(angle);
        base_sine[i] = std::sin(angle);
      }
      for (int64_t j = 0; j < kRun && base + j < positions_max_; ++j) {
        float* row = table_ + (base + j) * dims_;
        for (int64_t i = 0; i < half; ++i) {
          const double c = base_cosine[i], s = base_sine[i];
          const double cj = run_cosine_[static_cast<size_t>(j * half + i)];
          const double sj = run_sine_[static_cast<size_t>(j * half + i)];
          row[i] = static_cast<float>(c * cj - s * sj);
          row[half + i] = static_cast<float>(s * cj + c * sj);
        }
      }
    }
  });
  reached_ = std::min<int64_t>((first + runs) * kRun, positions_max_);
}

}  // namespace hydrant
