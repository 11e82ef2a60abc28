// A cache whose scores and positions a test plants, with the oracle of each (layer, KV head) beside it.
#ifndef HYDRANT_TESTS_KERNELS_PLANTED_CACHE_H_
#define HYDRANT_TESTS_KERNELS_PLANTED_CACHE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "kernels/reference/h2o_reference.h"
#include "tests/kernels/kv_fixture.h"

namespace hydrant {

using reference::H2oHistory;

inline EvictionPolicy Policy(int32_t heavy, int32_t recent) {
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = heavy;
  policy.recent = recent;
  return policy;
}

inline constexpr KvShape kShape = {.layers = 2, .kv_heads = 3, .group = 1, .head_dim = 8, .type = KvType::kBF16};

// A cache whose slots hold given positions and scores, and keys that name their position.
class PlantedCache {
 public:
  PlantedCache(int32_t slots, const EvictionPolicy& policy, int threads = 2)
      : fixture_(kShape, TestedDevices().front(), threads, std::max(40, slots / kBlockSlots + 2)),
        stream_(kShape, 1, 1),
        sequence_(fixture_.Sequence(stream_, policy, slots, 0, slots)),
        slots_(slots) {}

  void Plant(int32_t layer, int32_t head, std::vector<int32_t> positions, const std::vector<float>& scores) {
    H2oHistory oracle(sequence_.policy, 1, 1, 1.0);
    std::map<int32_t, float> by_position;
    for (int32_t slot = 0; slot < slots_; ++slot) {
      const size_t i = static_cast<size_t>(slot);
      fixture_.Position(sequence_, layer, head, slot) = positions[i];
      fixture_.Score(sequence_, layer, head, slot) = scores[i];
      by_position[positions[i]] = scores[i];
    }
    for (const auto& [position, score] : by_position) {
      oracle.mutable_tokens().push_back({position, static_cast<double>(score), {}, {}});
    }
    oracles_.insert_or_assign({layer, head}, oracle);
    FillKv(layer, head, positions);
  }

  void Cut(int32_t logical_length, bool prompt_cut) {
    const ShrinkOp op{.live_from = slots_,
                      .live_to = sequence_.policy.keep(),
                      .logical_length = logical_length,
                      .prompt_cut = prompt_cut,
                      .policy = sequence_.policy,
                      .block_table = sequence_.block_table};
    fixture_.device->Shrink({&op, 1}, fixture_.kv);
    sequence_.live = std::min(slots_, sequence_.policy.keep());
  }

  // The pair's slots hold exactly what the oracle keeps, with its scores, and every token brought its key and value along.
  void ExpectOracle(int32_t layer, int32_t head, int32_t logical_length, bool prompt_cut) {
    H2oHistory& oracle = oracles_.at({layer, head});
    const std::vector<int32_t> kept = oracle.CutSurvivors(logical_length, prompt_cut);
    ASSERT_EQ(fixture_.Positions(sequence_, layer, head), kept);
    oracle.Keep(kept, logical_length, prompt_cut);
    for (int32_t slot = 0; slot < sequence_.live; ++slot) {
      const int32_t position = fixture_.Position(sequence_, layer, head, slot);
      for (const H2oHistory::Token& token : oracle.tokens()) {
        if (token.position == position) {
          EXPECT_EQ(fixture_.Score(sequence_, layer, head, slot), token.score) << position;
        }
      }
      EXPECT_EQ(fixture_.ReadSlot(sequence_, false, layer, head, slot), Key(layer, head, position, 0.0f));
      EXPECT_EQ(fixture_.ReadSlot(sequence_, true, layer, head, slot), Key(layer, head, position, 64.0f));
    }
  }

  KvFixture& fixture() { return fixture_; }
  TestSequence& sequence() { return sequence_; }

 private:
  static std::vector<float> Key(int32_t layer, int32_t head, int32_t position, float base) {
    return {base + static_cast<float>(layer),
            base + static_cast<float>(head),
            static_cast<float>(position % 64),
            static_cast<float>(position / 64),
            base,
            1.0f,
            2.0f,
            3.0f};
  }
  // Keys and values through the op that writes them. What it makes of all positions and scores is undone.
  void FillKv(int32_t layer, int32_t head, const std::vector<int32_t>& positions) {
    Device& device = *fixture_.device;
    const size_t cols = static_cast<size_t>(kShape.cols()), dim = static_cast<size_t>(kShape.head_dim);
    const size_t keys = static_cast<size_t>(kShape.query_heads()) * dim,
                 values = keys + static_cast<size_t>(kShape.kv_heads) * dim;
    // The other heads keep what they have: it is read first.
    std::vector<float> qkv(static_cast<size_t>(slots_) * cols);
    for (int32_t slot = 0; slot < slots_; ++slot) {
      float* row = &qkv[static_cast<size_t>(slot) * cols];
      for (int32_t other = 0; other < kShape.kv_heads; ++other) {
        const size_t at = static_cast<size_t>(other) * dim;
        const int32_t position = positions[static_cast<size_t>(slot)];
        const auto key =
            other == head ? Key(layer, head, position, 0.0f) : fixture_.ReadSlot(sequence_, false, layer, other, slot);
        const auto value =
            other == head ? Key(layer, head, position, 64.0f) : fixture_.ReadSlot(sequence_, true, layer, other, slot);
        std::copy(key.begin(), key.end(), row + keys + at);
        std::copy(value.begin(), value.end(), row + values + at);
      }
    }
    const KvCacheView& kv = fixture_.kv;
    const std::vector<float> scores(kv.score, kv.score + kv.layout.score_count());
    const std::vector<int32_t> planted(kv.position, kv.position + kv.layout.score_count());
    const auto memory = OnDevice(device, qkv);
    const BatchRow row{{.prompt_length = slots_, .prefill = true},
                       {.block_table = sequence_.block_table},
                       /*token_begin=*/0,
                       /*token_count=*/slots_};
    const std::vector<int32_t> ids(static_cast<size_t>(slots_));
    device.BeginStep({.token_ids = ids, .rows = {&row, 1}});
    device.RopeAndWriteKv(nullptr, HeadNorms(), layer, {.data = memory->data(), .rows = slots_, .cols = kShape.cols()},
                          kv);
    std::copy(scores.begin(), scores.end(), kv.score);
    std::copy(planted.begin(), planted.end(), kv.position);
  }

  KvFixture fixture_;
  TokenStream stream_;
  TestSequence sequence_;
  const int32_t slots_;
  std::map<std::pair<int32_t, int32_t>, H2oHistory> oracles_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_PLANTED_CACHE_H_
