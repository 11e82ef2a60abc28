#include "kernels/cpu/eviction/shrink_loss.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace hydrant {
namespace {

// Cuts from the smallest to the largest: the recent slots and the heavy ones both only grow on the way, so each slot is
// looked at once in the order of scores and once in the order of ages.
class Walk {
 public:
  Walk(const LossOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head, const ShrinkScratch& scratch)
      : op_(op), kv_(kv), layer_(layer), kv_head_(kv_head), keys_(scratch.keys), order_(scratch.slots) {
    by_age_ = scratch.slots + op.live;
    for (int32_t slot = 0; slot < op.live; ++slot) {
      order_[slot] = slot;
      by_age_[slot] = -1;
      // The order of ShrinkPair: score descending, then position ascending.
      keys_[slot] = (uint64_t{~std::bit_cast<uint32_t>(kv.score[ScoreAt(slot)])} << 32) | Position(slot);
      total_ += std::abs(kv.score[ScoreAt(slot)]);
    }
    std::sort(order_, order_ + op.live, [this](int32_t a, int32_t b) { return keys_[a] < keys_[b]; });
    // All cuts keep fewer than `live` slots, so no age beyond that is ever recent.
    for (int32_t slot = 0; slot < op.live; ++slot) {
      const int32_t age = op.position_end() - 1 - static_cast<int32_t>(Position(slot));
      if (age < op.live) by_age_[age] = slot;
      keys_[slot] = kDropped;
    }
    weighs_slots_ = !op.policy.scores() || !(total_ > 0.0) || total_ > kFinite;
    if (weighs_slots_) total_ = op.live;
  }

  // The share that a cut to `keep` slots drops. REQUIRES: ascending from call to call; keep < live.
  double LossOfCut(int32_t keep) {
    for (const int32_t recent = op_.policy.Lowered(keep).recent; age_ < recent; ++age_) {
      const int32_t slot = by_age_[age_];
      if (slot < 0) continue;
      if (keys_[slot] == kHeavy) {
        --heavy_;
        kept_ -= Mass(slot);
      }
      keys_[slot] = kRecent;
      ++recent_;
      kept_ += Mass(slot);
    }
    for (; heavy_ < keep - recent_; ++next_) {
      assert(next_ < op_.live);
      const int32_t slot = order_[next_];
      if (keys_[slot] == kRecent) continue;
      keys_[slot] = kHeavy;
      ++heavy_;
      kept_ += Mass(slot);
    }
    return std::clamp(1.0 - kept_ / total_, 0.0, 1.0);
  }

 private:
  static constexpr uint64_t kDropped = 0, kHeavy = 1, kRecent = 2;  // what keys_ says once the slots are in order
  static constexpr double kFinite = 1e300;

  int64_t ScoreAt(int32_t slot) const {
    const int32_t score_block = op_.score_blocks()[static_cast<size_t>(slot / kBlockSlots)];
    return kv_.layout.score_offset(layer_, score_block, kv_head_) + slot % kBlockSlots;
  }
  uint32_t Position(int32_t slot) const { return static_cast<uint32_t>(kv_.position[ScoreAt(slot)]); }
  double Mass(int32_t slot) const {
    return weighs_slots_ ? 1.0 : static_cast<double>(std::abs(kv_.score[ScoreAt(slot)]));
  }

  const LossOp& op_;
  const KvCacheView& kv_;
  const int32_t layer_;
  const int32_t kv_head_;
  uint64_t* keys_;   // [live]
  int32_t* order_;   // [live], slots by score
  int32_t* by_age_;  // [live], the slot of the token that so many came after; -1: none
  double total_ = 0.0;
  bool weighs_slots_ = false;
  double kept_ = 0.0;
  int32_t age_ = 0;     // ages below are recent
  int32_t recent_ = 0;  // live slots of these
  int32_t heavy_ = 0;
  int32_t next_ = 0;  // in order_
};

}  // namespace

void MeasurePairLosses(const LossOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head,
                       const ShrinkScratch& scratch, std::span<double> losses) {
  assert(op.policy.evicts && losses.size() == op.losses.size());
  Walk walk(op, kv, layer, kv_head, scratch);
  for (size_t i = losses.size(); i-- > 0;) {
    const int32_t keep = op.keep_max - static_cast<int32_t>(i) * kBlockSlots;
    assert(keep >= 1 && keep <= op.policy.keep());
    losses[i] = keep < op.live ? walk.LossOfCut(keep) : 0.0;
  }
}

}  // namespace hydrant
