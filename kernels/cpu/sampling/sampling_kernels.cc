#include "kernels/cpu/sampling/sampling_kernels.h"

#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

LogitsSummary SummarizeLogits(const float* logits, int64_t count) {
  constexpr float kInfinity = __builtin_inff();
  F32x16 largest = Set(-kInfinity), check = Zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    const F32x16 x = n == kLanes ? Load(logits + i) : Select(FirstN(n), LoadN(logits + i, n), Set(-kInfinity));
    largest = Max(largest, x);
    // 0 for every number and -inf (whose smaller magnitude with 0 is 0), NaN for NaN and +inf.
    check = MulAdd(Max(Set(0.0f), x), Zero(), check);
  }
  const float sum = ReduceAdd(check);
  LogitsSummary summary{ReduceMax(largest), 0, sum == 0.0f};
  if (!(summary.largest > -kInfinity)) summary.finite = false;
  if (!summary.finite) return summary;
  while (logits[summary.largest_id] != summary.largest) ++summary.largest_id;
  return summary;
}

double ExpWeights(const float* logits, int64_t count, float largest, float factor, float* weights, double* block_sums) {
  const F32x16 shift = Set(largest), scale = Set(factor);
  double total = 0.0;
  for (int64_t begin = 0; begin < count; begin += kWeightBlock) {
    const int64_t end = begin + kWeightBlock < count ? begin + kWeightBlock : count;
    F32x16 sum = Zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      const int64_t n = end - i < kLanes ? end - i : kLanes;
      F32x16 weight;
      if (n == kLanes) {
        weight = Exp((Load(logits + i) - shift) * scale);
        if (weights != nullptr) Store(weights + i, weight);
      } else {
        weight = Select(FirstN(n), Exp((LoadN(logits + i, n) - shift) * scale), Zero());
        if (weights != nullptr) StoreN(weights + i, weight, n);
      }
      sum = sum + weight;
    }
    block_sums[begin / kWeightBlock] = static_cast<double>(ReduceAdd(sum));
    total += block_sums[begin / kWeightBlock];
  }
  return total;
}

void MaskLogits(const float* logits, const uint32_t* bits, int64_t count, float* out) {
  const F32x16 never = Set(-__builtin_inff());
  for (int64_t i = 0; i < count; i += kLanes) {
    const Mask16 mask = FromBits(bits[i / 32] >> (i % 32));
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    if (n == kLanes) {
      Store(out + i, Select(mask, Load(logits + i), never));
    } else {
      StoreN(out + i, Select(mask, LoadN(logits + i, n), never), n);
    }
  }
}

}  // namespace

extern const SamplingKernels kSamplingKernels;
const SamplingKernels kSamplingKernels = {
    .summarize_logits = SummarizeLogits,
    .exp_weights = ExpWeights,
    .mask_logits = MaskLogits,
};

}  // namespace hydrant::HYDRANT_ISA
