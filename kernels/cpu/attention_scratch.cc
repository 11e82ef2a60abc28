#include "kernels/cpu/attention_scratch.h"

namespace hydrant {
namespace {

// Parts of a scratch area start on cache lines of their own.
constexpr size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t Count(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

AttentionScratch::AttentionScratch(int threads, int32_t rows, int32_t slots, int32_t heads, int32_t dim,
                                   int64_t vocab_size)
    : rows_max(rows),
      slots_max((slots + kBlockSlots - 1) / kBlockSlots * kBlockSlots),
      query_heads(heads),
      head_dim(dim),
      vocab(vocab_size),
      tiles_added(new std::atomic<int32_t>[Count(rows) * Count(heads)]),
      // A thread works on one unit and the queue hands units out in order, so at most `threads` are unfinished when the
      // next begins; twice as many places keep a slow thread from holding up the others.
      places(2 * threads + 2),
      decode(new DecodePlace[Count(places)]),
      first_task(Count(rows) + 1),
      task_row(Count(rows) + 1),
      prefill_bytes_(Aligned(PrefillScratchBytes(slots_max, dim)) + Aligned(Count(slots_max) * sizeof(float))),
      place_bytes_(Aligned(Count(heads) * Count(slots_max) * sizeof(float)) +
                   2 * Aligned(Count(splits_max()) * Count(heads) * sizeof(float)) +
                   Aligned(Count(splits_max()) * Count(heads) * Count(dim) * sizeof(float))),
      shrink_bytes_(Aligned(Count(slots_max) * (sizeof(uint64_t) + 2 * sizeof(int32_t) + sizeof(float)))),
      sampling_bytes_(3 * Aligned(Count(vocab) * sizeof(float)) +
                      Aligned(Count(vocab / kWeightBlock + 1) * sizeof(double))),
      prefill_(prefill_bytes_ * Count(threads)),
      places_(place_bytes_ * Count(places)),
      shrink_(shrink_bytes_ * Count(threads)),
      sampling_(sampling_bytes_ * Count(threads)) {
  for (int32_t i = 0; i < places; ++i) {
    std::byte* p = static_cast<std::byte*>(places_.data()) + Count(i) * place_bytes_;
    const size_t side = Aligned(Count(splits_max()) * Count(heads) * sizeof(float));
    decode[Count(i)].weights = reinterpret_cast<float*>(p);
    p += Aligned(Count(heads) * Count(slots_max) * sizeof(float));
    decode[Count(i)].largest = reinterpret_cast<float*>(p);
    decode[Count(i)].total = reinterpret_cast<float*>(p + side);
    decode[Count(i)].out = reinterpret_cast<float*>(p + 2 * side);
  }
}

std::byte* AttentionScratch::PrefillOf(int thread) const {
  return static_cast<std::byte*>(prefill_.data()) + Count(thread) * prefill_bytes_;
}

float* AttentionScratch::ColumnSumsOf(int thread) const {
  return reinterpret_cast<float*>(PrefillOf(thread) + Aligned(PrefillScratchBytes(slots_max, head_dim)));
}

ShrinkScratch AttentionScratch::ShrinkOf(int thread) const {
  std::byte* p = static_cast<std::byte*>(shrink_.data()) + Count(thread) * shrink_bytes_;
  return {.keys = reinterpret_cast<uint64_t*>(p),
          .slots = reinterpret_cast<int32_t*>(p + Count(slots_max) * sizeof(uint64_t)),
          .pooled = reinterpret_cast<float*>(p + Count(slots_max) * (sizeof(uint64_t) + 2 * sizeof(int32_t)))};
}

SamplingScratch AttentionScratch::SamplingOf(int thread) const {
  std::byte* p = static_cast<std::byte*>(sampling_.data()) + Count(thread) * sampling_bytes_;
  const size_t four = Aligned(Count(vocab) * sizeof(float));
  return {.weights = reinterpret_cast<float*>(p),
          .block_sums = reinterpret_cast<double*>(p + 3 * four),
          .ids = reinterpret_cast<int32_t*>(p + four),
          .adjusted = reinterpret_cast<float*>(p + 2 * four)};
}

}  // namespace hydrant
