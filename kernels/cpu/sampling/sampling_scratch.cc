#include "kernels/cpu/sampling/sampling_scratch.h"

#include "kernels/cpu/sampling/sampling_kernels.h"

namespace hydrant {
namespace {

// Weights, ids and adjusted logits take the same: four bytes per token of the vocabulary.
size_t RowBytes(int64_t vocab) { return CacheAligned(static_cast<size_t>(vocab) * sizeof(float)); }

size_t AreaBytes(int64_t vocab) {
  return 3 * RowBytes(vocab) + CacheAligned((static_cast<size_t>(vocab) / kWeightBlock + 1) * sizeof(double));
}

}  // namespace

size_t SamplingScratches::Bytes(int threads, const StepBounds& bounds) {
  return static_cast<size_t>(threads) * AreaBytes(bounds.vocab);
}

SamplingScratches::SamplingScratches(int threads, const StepBounds& bounds)
    : vocab_(bounds.vocab), memory_(Bytes(threads, bounds)) {}

SamplingScratch SamplingScratches::Of(int thread) const {
  std::byte* p = static_cast<std::byte*>(memory_.data()) + static_cast<size_t>(thread) * AreaBytes(vocab_);
  const size_t row = RowBytes(vocab_);
  return {.weights = reinterpret_cast<float*>(p),
          .block_sums = reinterpret_cast<double*>(p + 3 * row),
          .ids = reinterpret_cast<int32_t*>(p + row),
          .adjusted = reinterpret_cast<float*>(p + 2 * row)};
}

}  // namespace hydrant
