#include "kernels/cpu/attention/drafts.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/cpu/attention/kv_layout.h"

namespace hydrant {
namespace {

int32_t SlotsOf(const StepBounds& bounds) { return std::min(WholeBlocks(bounds.slots_max), kDraftScoreSlots); }

// A token of any type: none has larger elements than fp32.
size_t TokenBytes(const StepBounds& bounds) {
  return CacheAligned(sizeof(SavedToken) + 2 * static_cast<size_t>(bounds.head_dim) * sizeof(float));
}

size_t DraftHeads(const StepBounds& bounds) {
  return static_cast<size_t>(bounds.drafts_max) * static_cast<size_t>(bounds.layer_heads);
}

size_t ScoreBytes(const StepBounds& bounds) {
  return DraftHeads(bounds) * static_cast<size_t>(SlotsOf(bounds)) * sizeof(float);
}

// The two tiles of a slot's block.
struct TilePair {
  std::byte* k;
  std::byte* v;
};
TilePair TilesOf(const LayerView& view, const BatchRow& row, int32_t head, int32_t slot) {
  const int64_t block = row.block_table[static_cast<size_t>(slot / kBlockSlots)];
  return {view.K(block, head), view.V(block, head)};
}

// Calls `copy(in_tile, in_token)` with the address of each element of a token in its tile and beside its SavedToken.
template <typename T, typename Copy>
void ForElements(const KvCacheLayout& layout, const TilePair& tiles, int32_t offset, std::byte* saved, Copy copy) {
  const size_t scales = KvScaleBytes(layout.type);
  T* k = reinterpret_cast<T*>(tiles.k + scales);
  T* v = reinterpret_cast<T*>(tiles.v + scales);
  T* of_token = reinterpret_cast<T*>(saved);
  for (int64_t d = 0; d < layout.head_dim; ++d) {
    copy(k[KElement(layout.type, offset, d)], of_token[d]);
    copy(v[VElement(layout.type, layout.head_dim, offset, d)], of_token[layout.head_dim + d]);
  }
}

template <typename Copy>
void ForElements(const KvCacheLayout& layout, const TilePair& tiles, int32_t offset, std::byte* saved, Copy copy) {
  switch (layout.type) {
    case KvType::kF32:
      return ForElements<uint32_t>(layout, tiles, offset, saved, copy);
    case KvType::kF16:
    case KvType::kBF16:
      return ForElements<uint16_t>(layout, tiles, offset, saved, copy);
    case KvType::kInt8:
      return ForElements<uint8_t>(layout, tiles, offset, saved, copy);
  }
}

float& ScaleOf(std::byte* tile, int32_t offset) { return reinterpret_cast<float*>(tile)[offset]; }

// A token comes back to rank `gap`, and the newest one has left the slot.
void OpenGap(const LayerView& view, const BatchRow& row, int32_t head, int32_t gap) {
  for (int32_t block = 0; block * kBlockSlots < row.live; ++block) {
    int32_t* ranks = view.kv().position + view.ScoreAt(row.score_blocks()[static_cast<size_t>(block)], head);
    for (int32_t i = 0; i < kBlockSlots; ++i) ranks[i] += ranks[i] >= gap ? 1 : 0;
  }
}

// One (layer, KV head) of a row, of whose tokens `kept` stay.
class KeptRow {
 public:
  KeptRow(const LayerView& view, const BatchRow& row, int32_t kept, int32_t head, int32_t layer_head,
          const DraftScratch& scratch)
      : view_(view), row_(row), kept_(kept), head_(head), layer_head_(layer_head), scratch_(scratch) {}

  // In the order opposite to that in which they were overwritten, since a draft may have overwritten another one.
  void PutBackVictims() const {
    for (int32_t token = row_.token_count - 1; token >= kept_; --token) RestoreToken(view_, row_, head_, *Saved(token));
    // What the first draft that was wrong has overwritten is the victim of the last token that stays.
    if (kept_ < row_.token_count) *view_.Victim(row_.state_row, head_) = Saved(kept_)->slot;
  }

  void TakeScores(int32_t live) const {
    if (!row_.policy.scores() || kept_ == 1) return;
    const float* from = scratch_.ScoresOf(row_.draft_begin + kept_ - 2, layer_head_);
    for (int32_t slot = 0; slot < live; slot += kBlockSlots) {
      std::memcpy(view_.kv().score + view_.ScoreOf(row_, head_, slot), from + slot,
                  static_cast<size_t>(std::min(kBlockSlots, live - slot)) * sizeof(float));
    }
  }

  // What nobody's token is in must be finite, and a guess may be anything.
  void ClearBehind(const AttentionKernels& kernels, int32_t live) const {
    const KvCacheLayout& layout = view_.kv().layout;
    for (int32_t slot = live; slot < row_.live_after(); ++slot) {
      const TilePair tiles = TilesOf(view_, row_, head_, slot);
      kernels.write_kv(layout.type, kNoElements.data(), kNoElements.data(), layout.head_dim, tiles.k, tiles.v,
                       slot % kBlockSlots, /*fresh_tile=*/false);
    }
  }

 private:
  SavedToken* Saved(int32_t token) const { return scratch_.At(row_.draft_begin + token - 1, layer_head_); }

  const LayerView& view_;
  const BatchRow& row_;
  const int32_t kept_, head_, layer_head_;
  const DraftScratch& scratch_;
};

}  // namespace

DraftScratch::DraftScratch(const StepBounds& bounds)
    : slots_max_(SlotsOf(bounds)),
      layer_heads_(bounds.layer_heads),
      token_bytes_(TokenBytes(bounds)),
      scores_(ScoreBytes(bounds)),
      saved_(DraftHeads(bounds) * token_bytes_) {}

size_t DraftScratch::Bytes(const StepBounds& bounds) {
  return ScoreBytes(bounds) + DraftHeads(bounds) * TokenBytes(bounds);
}

void SaveToken(const LayerView& view, const BatchRow& row, int32_t head, int32_t slot, SavedToken* to) {
  const KvCacheView& kv = view.kv();
  const int64_t score_at = view.ScoreOf(row, head, slot);
  *to = {.slot = slot, .position = kv.position[score_at], .score = kv.score[score_at]};
  if (kv.logical_position != nullptr) to->logical_position = kv.logical_position[score_at];
  const TilePair tiles = TilesOf(view, row, head, slot);
  const int32_t offset = slot % kBlockSlots;
  if (kv.layout.type == KvType::kInt8) {
    to->k_scale = ScaleOf(tiles.k, offset);
    to->v_scale = ScaleOf(tiles.v, offset);
  }
  ForElements(kv.layout, tiles, offset, reinterpret_cast<std::byte*>(to + 1),
              [](const auto& in_tile, auto& in_token) { in_token = in_tile; });
}

void RestoreToken(const LayerView& view, const BatchRow& row, int32_t head, SavedToken& from) {
  const KvCacheView& kv = view.kv();
  const int64_t score_at = view.ScoreOf(row, head, from.slot);
  if (row.policy.rolling) OpenGap(view, row, head, from.position);
  kv.position[score_at] = from.position;
  kv.score[score_at] = from.score;
  if (kv.logical_position != nullptr) kv.logical_position[score_at] = from.logical_position;
  const TilePair tiles = TilesOf(view, row, head, from.slot);
  const int32_t offset = from.slot % kBlockSlots;
  if (kv.layout.type == KvType::kInt8) {
    ScaleOf(tiles.k, offset) = from.k_scale;
    ScaleOf(tiles.v, offset) = from.v_scale;
  }
  ForElements(kv.layout, tiles, offset, reinterpret_cast<std::byte*>(&from + 1),
              [](auto& in_tile, const auto& in_token) { in_tile = in_token; });
}

void KeepDrafts(const AttentionKernels& kernels, std::span<const BatchRow> rows, std::span<const int32_t> kept,
                const KvCacheView& kv, ThreadPool& pool, const DraftScratch& scratch) {
  assert(rows.size() == kept.size() && kv.layout.head_dim <= std::ssize(kNoElements));
  const int32_t heads = kv.layout.kv_heads;
  pool.ParallelFor(int64_t{kv.layout.layers} * heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int32_t head = static_cast<int32_t>(pair % heads);
      const LayerView view(kv, static_cast<int32_t>(pair / heads));
      for (size_t i = 0; i < rows.size(); ++i) {
        const BatchRow& row = rows[i];
        if (row.drafts() == 0) continue;
        assert(kept[i] >= 1 && kept[i] <= row.token_count);
        const KeptRow kept_row(view, row, kept[i], head, static_cast<int32_t>(pair), scratch);
        const int32_t live = row.slots_with(kept[i]);
        if (row.reuse_victim) kept_row.PutBackVictims();
        kept_row.TakeScores(live);
        kept_row.ClearBehind(kernels, live);
      }
    }
  });
}

}  // namespace hydrant
