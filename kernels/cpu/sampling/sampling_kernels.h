// SamplingKernels are the loops over a row of logits; kernels/cpu/kernel_table.h has the rules for their source.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_KERNELS_H_
#define HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_KERNELS_H_

#include <cstdint>

namespace hydrant {

struct LogitsSummary {
  float largest;
  int32_t largest_id;  // lowest id on a tie
  bool finite;         // no NaN, no +inf, at least one finite
};

struct SamplingKernels {
  LogitsSummary (*summarize_logits)(const float* logits, int64_t count);
  // weights[i] = exp((logits[i] - largest) * factor), or not stored when null; block_sums[b] = their sum over
  // [256 b, 256 (b + 1)). Returns the sum of block_sums.
  double (*exp_weights)(const float* logits, int64_t count, float largest, float factor, float* weights,
                        double* block_sums);
  // out[i] = logits[i] where bit i % 32 of bits[i / 32] is set, else -inf.
  void (*mask_logits)(const float* logits, const uint32_t* bits, int64_t count, float* out);
};

inline constexpr int64_t kWeightBlock = 256;  // of exp_weights

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_KERNELS_H_
