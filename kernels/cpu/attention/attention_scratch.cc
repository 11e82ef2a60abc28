#include "kernels/cpu/attention/attention_scratch.h"

#include <algorithm>

namespace hydrant {
namespace {

size_t Count(int64_t n) { return static_cast<size_t>(n); }

size_t SplitsMax(int32_t slots) { return Count(slots / kDecodeSplitSlots + 1); }

// A thread works on one unit and the queue hands units out in order, so at most `threads` are unfinished when the next
// begins; twice as many places keep a slow thread from holding up the others.
int32_t PlacesOf(int threads) { return 2 * threads + 2; }

}  // namespace

AttentionScratch::PartBytes::PartBytes(const StepBounds& bounds) {
  const int32_t whole = WholeBlocks(bounds.slots_max);
  const size_t slots = Count(whole), splits = SplitsMax(whole);
  const size_t heads = Count(bounds.query_heads);
  prefill = CacheAligned(PrefillScratchBytes(whole, bounds.head_dim)) + 2 * CacheAligned(slots * sizeof(float)) +
            CacheAligned(slots * kPinBytes);
  place = CacheAligned(heads * slots * sizeof(float)) + 2 * CacheAligned(splits * heads * sizeof(float)) +
          CacheAligned(splits * heads * Count(bounds.head_dim) * sizeof(float));
}

size_t AttentionScratch::Bytes(int threads, const StepBounds& bounds) {
  const PartBytes bytes(bounds);
  return bytes.prefill * Count(threads) + bytes.place * Count(PlacesOf(threads)) + DraftScratch::Bytes(bounds);
}

AttentionScratch::AttentionScratch(int threads, const StepBounds& bounds)
    : rows_max(bounds.rows_max),
      drafts_max(bounds.drafts_max),
      slots_max(WholeBlocks(bounds.slots_max)),
      query_heads(bounds.query_heads),
      head_dim(bounds.head_dim),
      tiles_added(new std::atomic<int32_t>[Count(rows_max) * Count(query_heads)]),
      places(PlacesOf(threads)),
      decode(new DecodePlace[Count(places)]),
      first_task(Count(rows_max + drafts_max) + 1),
      task_row(Count(rows_max + drafts_max) + 1),
      task_token(Count(rows_max + drafts_max) + 1),
      drafts(bounds),
      bytes_(bounds),
      prefill_(bytes_.prefill * Count(threads)),
      places_(bytes_.place * Count(places)) {
  for (int32_t i = 0; i < places; ++i) {
    std::byte* p = static_cast<std::byte*>(places_.data()) + Count(i) * bytes_.place;
    const size_t side = CacheAligned(SplitsMax(slots_max) * Count(query_heads) * sizeof(float));
    decode[Count(i)].weights = reinterpret_cast<float*>(p);
    p += CacheAligned(Count(query_heads) * Count(slots_max) * sizeof(float));
    decode[Count(i)].largest = reinterpret_cast<float*>(p);
    decode[Count(i)].total = reinterpret_cast<float*>(p + side);
    decode[Count(i)].out = reinterpret_cast<float*>(p + 2 * side);
  }
}

std::byte* AttentionScratch::PrefillOf(int thread) const {
  return static_cast<std::byte*>(prefill_.data()) + Count(thread) * bytes_.prefill;
}

float* AttentionScratch::ColumnSumsOf(int thread) const {
  return reinterpret_cast<float*>(PrefillOf(thread) + CacheAligned(PrefillScratchBytes(slots_max, head_dim)));
}

float* AttentionScratch::PinSumsOf(int thread) const {
  const size_t bytes = CacheAligned(Count(slots_max) * sizeof(float));
  return reinterpret_cast<float*>(reinterpret_cast<std::byte*>(ColumnSumsOf(thread)) + bytes);
}

PinScratch AttentionScratch::PinsOf(int thread) const {
  const size_t bytes = CacheAligned(Count(slots_max) * sizeof(float));
  auto* keys = reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(PinSumsOf(thread)) + bytes);
  return {.keys = keys, .slots = reinterpret_cast<int32_t*>(keys + slots_max)};
}

}  // namespace hydrant
