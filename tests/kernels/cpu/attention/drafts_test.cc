// What drafts at the budget overwrite, and how it is put back; tests/engine/drafts_test.cc has drafts as a whole.
#include "kernels/cpu/attention/drafts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace hydrant {
namespace {

// Two (layer, KV head) pairs of a sequence in three blocks, of which the first comes last in memory.
class Cache {
 public:
  static constexpr int32_t kLive = 40;

  explicit Cache(KvType type, bool inspected = false) {
    kv_.layout = {.layers = 1, .blocks = 3, .kv_heads = 2, .head_dim = 20, .type = type, .state_rows = 2};
    kv_.layout.inspected = inspected;
    std::mt19937 random(11);
    bytes_.resize(2 * kv_.layout.kv_bytes());
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    score_.resize(kv_.layout.score_count());
    for (float& score : score_) score = static_cast<float>(random() % 1000);
    position_.resize(score_.size());
    logical_.resize(score_.size());
    for (size_t i = 0; i < position_.size(); ++i) {
      position_[i] = static_cast<int32_t>(random() % 1000);
      logical_[i] = static_cast<int32_t>(random() % 1000);
    }
    victim_.assign(kv_.layout.victim_count(), 7);
    kv_.k = bytes_.data();
    kv_.v = bytes_.data() + kv_.layout.kv_bytes();
    kv_.score = score_.data();
    kv_.position = position_.data();
    kv_.victim = victim_.data();
    if (inspected) kv_.logical_position = logical_.data();
    row_.block_table = table_;
    row_.state_row = 1;
    row_.live = kLive;
    row_.reuse_victim = row_.choose_victim = true;
    row_.policy = {.evicts = true, .heavy = kLive - 5, .recent = 4, .score_source = ScoreSource::kNone};
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  const KvCacheView& kv() const { return kv_; }
  LayerView view() const { return {kv_, 0}; }
  BatchRow& row() { return row_; }
  int32_t& Position(int32_t head, int32_t slot) {
    return position_[static_cast<size_t>(view().ScoreOf(row_, head, slot))];
  }
  int32_t Victim(int32_t head) const { return victim_[static_cast<size_t>(kv_.layout.victim_offset(0, 1, head))]; }

  // All of it but the victims.
  struct Contents {
    std::vector<std::byte> bytes;
    std::vector<float> score;
    std::vector<int32_t> position, logical;
    bool operator==(const Contents&) const = default;
  };
  Contents contents() const { return {bytes_, score_, position_, logical_}; }

 private:
  const int32_t table_[3] = {2, 0, 1};
  KvCacheView kv_;
  std::vector<std::byte> bytes_;
  std::vector<float> score_;
  std::vector<int32_t> position_, logical_, victim_;
  BatchRow row_;
};

constexpr StepBounds kBounds = {.slots_max = Cache::kLive, .drafts_max = 4, .layer_heads = 2, .head_dim = 20};

class DraftsTest : public testing::TestWithParam<KvType> {};
INSTANTIATE_TEST_SUITE_P(Types, DraftsTest, testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kInt8));

TEST_P(DraftsTest, ATokenIsPutBackToTheBit) {
  for (const bool inspected : {false, true}) {
    Cache cache(GetParam(), inspected);
    const DraftScratch scratch(kBounds);
    const LayerView view = cache.view();
    for (int32_t slot = 0; slot < Cache::kLive; ++slot) {
      const int32_t head = slot % 2, other = (slot + 7) % Cache::kLive;
      const Cache::Contents before = cache.contents();
      SaveToken(view, cache.row(), head, slot, scratch.At(0, head));
      SaveToken(view, cache.row(), head, other, scratch.At(1, head));
      scratch.At(1, head)->slot = slot;
      RestoreToken(view, cache.row(), head, *scratch.At(1, head));
      EXPECT_FALSE(cache.contents() == before) << "another token stands in slot " << slot;
      RestoreToken(view, cache.row(), head, *scratch.At(0, head));
      EXPECT_TRUE(cache.contents() == before) << "slot " << slot;
    }
  }
}

TEST(Drafts, RanksOpenForATokenThatComesBack) {
  Cache cache(KvType::kF32);
  cache.row().policy.rolling = true;
  const DraftScratch scratch(kBounds);
  for (int32_t slot = 0; slot < Cache::kLive; ++slot) cache.Position(0, slot) = slot * 7 % Cache::kLive;
  constexpr int32_t kSlot = 11, kRank = kSlot * 7 % Cache::kLive;
  SaveToken(cache.view(), cache.row(), 0, kSlot, scratch.At(0, 0));
  for (int32_t slot = 0; slot < Cache::kLive; ++slot) cache.Position(0, slot) -= cache.Position(0, slot) > kRank;
  cache.Position(0, kSlot) = Cache::kLive - 1;
  RestoreToken(cache.view(), cache.row(), 0, *scratch.At(0, 0));
  for (int32_t slot = 0; slot < Cache::kLive; ++slot) EXPECT_EQ(cache.Position(0, slot), slot * 7 % Cache::kLive);
}

// Three drafts, of which the second overwrites the first one: in the slot is what the last of those that stay has left there.
TEST(Drafts, WhatWasOverwrittenTwiceIsPutBackInTurn) {
  constexpr int32_t kSlots[] = {3, 3, 20};
  for (int32_t kept = 1; kept <= 4; ++kept) {
    SCOPED_TRACE(kept);
    Cache cache(KvType::kBF16);
    cache.row().token_count = 4;
    const DraftScratch scratch(kBounds);
    std::vector<Cache::Contents> after = {cache.contents()};  // [tokens that stay - 1]
    for (int32_t draft = 0; draft < 3; ++draft) {
      for (int32_t head = 0; head < 2; ++head) {
        SavedToken& newcomer = *scratch.At(3, head);
        SaveToken(cache.view(), cache.row(), head, kSlots[draft], scratch.At(draft, head));
        SaveToken(cache.view(), cache.row(), head, 30 + draft, &newcomer);
        newcomer.slot = kSlots[draft];
        RestoreToken(cache.view(), cache.row(), head, newcomer);
      }
      after.push_back(cache.contents());
    }
    ThreadPool pool(2);
    KeepDrafts(AttentionKernels(), {&cache.row(), 1}, {&kept, 1}, cache.kv(), pool, scratch);
    EXPECT_TRUE(cache.contents() == after[static_cast<size_t>(kept) - 1]);
    for (int32_t head = 0; head < 2; ++head) {
      EXPECT_EQ(cache.Victim(head), kept == 4 ? 7 : kSlots[kept - 1]) << "what the last that stays has chosen";
    }
  }
}

}  // namespace
}  // namespace hydrant
