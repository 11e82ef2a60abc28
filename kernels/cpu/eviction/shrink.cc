#include "kernels/cpu/eviction/shrink.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/cpu/attention/kv_layout.h"

namespace hydrant {
namespace {

class Pair {
 public:
  // `pooled` [live_from]: the scores to judge by, where they are not the stored ones; else null.
  Pair(const ShrinkOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head, const float* pooled)
      : op_(op), kv_(kv), layer_(layer), kv_head_(kv_head), pooled_(pooled) {}

  int64_t Block(int32_t slot) const { return op_.block_table[static_cast<size_t>(slot / kBlockSlots)]; }
  int64_t ScoreAt(int32_t slot) const {
    const int32_t score_block = op_.score_blocks()[static_cast<size_t>(slot / kBlockSlots)];
    return kv_.layout.score_offset(layer_, score_block, kv_head_) + slot % kBlockSlots;
  }
  int32_t Position(int32_t slot) const { return kv_.position[ScoreAt(slot)]; }
  float& Score(int32_t slot) const { return kv_.score[ScoreAt(slot)]; }
  bool Recent(int32_t slot) const { return Position(slot) >= op_.position_end() - op_.policy.recent; }

  // Smaller is better: score descending, then position ascending. Scores' bits order as numbers do, and those of pinned slots,
  // which have a sign, before all others; a NaN, too, has its place.
  uint64_t Key(int32_t slot) const {
    const uint32_t descending = ~std::bit_cast<uint32_t>(pooled_ != nullptr ? pooled_[slot] : Score(slot));
    return (uint64_t{descending} << 32) | static_cast<uint32_t>(Position(slot));
  }

  // The tile of a slot's block: its elements, or the scales before them.
  std::byte* TileOf(void* base, int32_t slot) const {
    return static_cast<std::byte*>(base) + kv_.layout.tile_offset(layer_, Block(slot), kv_head_);
  }
  template <typename T>
  T* ElementsOf(void* base, int32_t slot) const {
    return reinterpret_cast<T*>(TileOf(base, slot) + KvScaleBytes(kv_.layout.type));
  }

  void MoveScales(int32_t from, int32_t to) const {
    for (void* base : {kv_.k, kv_.v}) {
      reinterpret_cast<float*>(TileOf(base, to))[to % kBlockSlots] =
          reinterpret_cast<const float*>(TileOf(base, from))[from % kBlockSlots];
    }
  }

  template <typename T>
  void MoveElements(int32_t from, int32_t to) const {
    const KvCacheLayout& layout = kv_.layout;
    const T* k_from = ElementsOf<T>(kv_.k, from);
    const T* v_from = ElementsOf<T>(kv_.v, from);
    T* k_to = ElementsOf<T>(kv_.k, to);
    T* v_to = ElementsOf<T>(kv_.v, to);
    const int64_t from_offset = from % kBlockSlots, to_offset = to % kBlockSlots;
    for (int64_t d = 0; d < layout.head_dim; ++d) {
      k_to[KElement(layout.type, to_offset, d)] = k_from[KElement(layout.type, from_offset, d)];
      v_to[VElement(layout.type, layout.head_dim, to_offset, d)] =
          v_from[VElement(layout.type, layout.head_dim, from_offset, d)];
    }
  }

  void Move(int32_t from, int32_t to) const {
    switch (kv_.layout.type) {
      case KvType::kF32:
        MoveElements<float>(from, to);
        break;
      case KvType::kF16:
      case KvType::kBF16:
        MoveElements<uint16_t>(from, to);
        break;
      case KvType::kInt8:
        MoveElements<int8_t>(from, to);
        MoveScales(from, to);
        break;
    }
    kv_.score[ScoreAt(to)] = kv_.score[ScoreAt(from)];
    kv_.position[ScoreAt(to)] = kv_.position[ScoreAt(from)];
    if (kv_.logical_position != nullptr) kv_.logical_position[ScoreAt(to)] = kv_.logical_position[ScoreAt(from)];
  }

  // Ranks of the slots [0, live_to) among each other.
  void Renumber(uint64_t* keys) const {
    for (int32_t slot = 0; slot < op_.live_to; ++slot) {
      keys[slot] = (uint64_t{static_cast<uint32_t>(Position(slot))} << 32) | static_cast<uint32_t>(slot);
    }
    std::sort(keys, keys + op_.live_to);
    for (int32_t rank = 0; rank < op_.live_to; ++rank) {
      kv_.position[ScoreAt(static_cast<int32_t>(keys[rank] & 0xffffffffu))] = rank;
    }
  }

 private:
  const ShrinkOp& op_;
  const KvCacheView& kv_;
  const int32_t layer_;
  const int32_t kv_head_;
  const float* pooled_;
};

// Every candidate's pooled score is the largest of those at most pool_width / 2 candidates away, by position.
void MaxPool(const Pair& pair, const ShrinkOp& op, const ShrinkScratch& scratch) {
  int32_t* order = scratch.slots;
  float* scores = reinterpret_cast<float*>(scratch.slots + op.live_from);
  int32_t count = 0;
  for (int32_t slot = 0; slot < op.live_from; ++slot) {
    if (!pair.Recent(slot)) order[count++] = slot;
  }
  const auto by_position = [&](int32_t a, int32_t b) { return pair.Position(a) < pair.Position(b); };
  if (!std::is_sorted(order, order + count, by_position)) std::sort(order, order + count, by_position);
  for (int32_t i = 0; i < count; ++i) scores[i] = pair.Score(order[i]);
  const int32_t reach = op.policy.pool_width / 2;
  for (int32_t i = 0; i < count; ++i) {
    const float largest = *std::max_element(scores + std::max(i - reach, 0), scores + std::min(i + reach + 1, count));
    scratch.pooled[order[i]] = largest;
    if (op.policy.store_pooled) pair.Score(order[i]) = largest;
  }
}

}  // namespace

void ShrinkPair(const ShrinkOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head,
                const ShrinkScratch& scratch) {
  if (op.live_from <= op.live_to) return;
  assert(op.policy.evicts && op.live_to == op.policy.keep());
  const bool pools = op.prompt_cut && op.policy.pool_width > 1;
  const Pair pair(op, kv, layer, kv_head, pools ? scratch.pooled : nullptr);
  if (pools) MaxPool(pair, op, scratch);

  int32_t candidates = 0;
  for (int32_t slot = 0; slot < op.live_from; ++slot) {
    if (!pair.Recent(slot)) scratch.keys[candidates++] = pair.Key(slot);
  }
  const int32_t heavy = op.live_to - (op.live_from - candidates);
  // A cut or a victim never takes one of the newest `recent` tokens. But a session whose last turn was cut to a lower budget
  // goes on with fewer of them than its own budget would have kept.
  assert(heavy >= op.policy.heavy && heavy < candidates);
  uint64_t worst_kept = 0;
  if (heavy > 0) {
    std::nth_element(scratch.keys, scratch.keys + heavy - 1, scratch.keys + candidates);
    worst_kept = scratch.keys[heavy - 1];
  }
  const auto survives = [&](int32_t slot) { return pair.Recent(slot) || (heavy > 0 && pair.Key(slot) <= worst_kept); };

  int32_t hole = 0;
  for (int32_t slot = op.live_to; slot < op.live_from; ++slot) {
    if (!survives(slot)) continue;
    while (survives(hole)) ++hole;
    assert(hole < op.live_to);
    pair.Move(slot, hole++);
  }
  if (op.policy.rolling) pair.Renumber(scratch.keys);
}

}  // namespace hydrant
