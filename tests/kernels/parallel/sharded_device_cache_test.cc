// Blocks and state rows leave several ranks, and come to them, as those of one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/parallel/cpu_ranks.h"

namespace hydrant {
namespace {

constexpr KvCacheLayout kLayout = {.layers = 3,
                                   .blocks = 6,
                                   .kv_heads = 4,
                                   .head_dim = 8,
                                   .type = KvType::kInt8,
                                   .state_rows = 2,
                                   .spare_score_blocks = 2,
                                   .inspected = true};

// A cache with made-up bytes in it.
class RankedCache {
 public:
  explicit RankedCache(int ranks) {
    if (ranks == 1) {
      device = CpuDevice::Create({.threads = 2}).value();
    } else {
      device = MakeCpuRanks(ranks, {.threads = 2}).value();
    }
    device->ReserveScratch({.tokens_max = 16, .rows_max = 2, .slots_max = 96, .query_heads = 4, .head_dim = 8});
    const auto take = [&](int32_t rows, size_t unit) {
      buffers_.push_back(device->AllocateByHead(kLayout, static_cast<size_t>(rows) * 3 * 4, unit));
      return buffers_.back()->data();
    };
    kv.layout = kLayout;
    kv.k = take(6, kLayout.tile_bytes());
    kv.v = take(6, kLayout.tile_bytes());
    kv.score = static_cast<float*>(take(8, 64));
    kv.position = static_cast<int32_t*>(take(8, 64));
    kv.victim = static_cast<int32_t*>(take(2, 4));
    kv.logical_position = static_cast<int32_t*>(take(8, 64));
  }

  std::vector<std::byte> Export(const std::vector<int32_t>& blocks, const std::vector<int32_t>& score_blocks) {
    std::vector<std::byte> out(blocks.size() * kLayout.block_bytes());
    device->ExportBlocks(blocks, score_blocks, kv, out.data());
    return out;
  }

  std::unique_ptr<Device> device;
  KvCacheView kv;

 private:
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

// Four blocks. Scores and positions are numbers that mean something; the rest is any bytes.
std::vector<std::byte> MadeUpBlocks() {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(4 * kLayout.block_bytes());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const size_t slots = size_t{3} * 4 * kBlockSlots;
  for (size_t block = 0; block < 4; ++block) {
    std::byte* beside = bytes.data() + (block + 1) * kLayout.block_bytes() - kLayout.score_block_bytes();
    for (size_t i = 0; i < slots; ++i) {
      const float score = static_cast<float>(random() % 1000) / 7;
      const auto position = static_cast<int32_t>(block * kBlockSlots + i % kBlockSlots);
      std::memcpy(beside + i * 4, &score, 4);
      std::memcpy(beside + (slots + i) * 4, &position, 4);
      std::memcpy(beside + (2 * slots + i) * 4, &position, 4);
    }
  }
  return bytes;
}

const std::vector<int32_t> kTable = {4, 1, 0, 5};

TEST(ShardedDeviceCache, BlocksLeaveAndComeAsThoseOfOne) {
  const std::vector<std::byte> blocks = MadeUpBlocks();
  RankedCache one(1);
  one.device->ImportBlocks(kTable, 0.7f, one.kv, blocks.data());
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    RankedCache cache(ranks);
    cache.device->ImportBlocks(kTable, 1.0f, cache.kv, blocks.data());
    EXPECT_EQ(cache.Export(kTable, kTable), blocks);
    cache.device->ImportBlocks(kTable, 0.7f, cache.kv, blocks.data());
    EXPECT_EQ(cache.Export({1, 5}, {1, 5}), one.Export({1, 5}, {1, 5}));
    const std::vector<ScoreInit> inits = {{.from = 4, .to = 6, .position = 16}, {.from = -1, .to = 7}};
    const std::vector<BlockCopy> copies = {{.from = 1, .from_score_block = 6, .to = 2}};
    for (RankedCache* each : {&cache, &one}) {
      each->device->InitScores(inits, each->kv);
      each->device->CopyBlocks(copies, each->kv);
    }
    EXPECT_EQ(cache.Export({2, 0, 5}, {2, 7, 6}), one.Export({2, 0, 5}, {2, 7, 6}));
  }
}

// A cache that is made after another one, and is smaller, leaves that one's blocks their room on the way.
TEST(ShardedDeviceCache, BlocksLeaveBesideASmallerCache) {
  const std::vector<std::byte> blocks = MadeUpBlocks();
  RankedCache cache(2);
  KvCacheLayout smaller = kLayout;
  smaller.layers = 1;
  const auto other = cache.device->AllocateByHead(smaller, 6 * 4, smaller.tile_bytes());
  cache.device->ImportBlocks(kTable, 1.0f, cache.kv, blocks.data());
  EXPECT_EQ(cache.Export(kTable, kTable), blocks);
}

TEST(ShardedDeviceCache, AnyStretchOfUnitsIsReadAsOfOne) {
  const std::vector<std::byte> blocks = MadeUpBlocks();
  RankedCache one(1), cache(2);
  for (RankedCache* each : {&cache, &one}) each->device->ImportBlocks(kTable, 1.0f, each->kv, blocks.data());
  for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 96}, {1, 1}, {2, 5}, {15, 40}, {95, 1}}) {
    std::vector<float> a(count * kBlockSlots), b(a.size());
    cache.device->CopyToHost(a.data(), cache.kv.score + first * kBlockSlots, a.size() * sizeof(float));
    one.device->CopyToHost(b.data(), one.kv.score + first * kBlockSlots, b.size() * sizeof(float));
    EXPECT_EQ(a, b) << first;
  }
}

TEST(ShardedDeviceCache, StateRowsLeaveAndComeAsThoseOfOne) {
  std::vector<int32_t> state;
  for (int32_t i = 0; i <= 3 * 4; ++i) state.push_back(100 + i);
  ASSERT_EQ(state.size() * sizeof(int32_t), kLayout.state_bytes());
  for (const int ranks : {2, 4}) {
    RankedCache cache(ranks);
    cache.device->ImportState(1, cache.kv, reinterpret_cast<const std::byte*>(state.data()));
    std::vector<int32_t> left(state.size());
    cache.device->ExportState(1, cache.kv, reinterpret_cast<std::byte*>(left.data()));
    EXPECT_EQ(left, state);
    cache.device->CopyToHost(left.data(), cache.kv.victim + 12, 12 * sizeof(int32_t));
    EXPECT_EQ(left, state);
  }
}

TEST(ShardedDeviceCache, CutsCostAndKeepWhatTheyDoOnOne) {
  const std::vector<std::byte> blocks = MadeUpBlocks();
  const EvictionPolicy policy{.evicts = true, .heavy = 20, .recent = 20};
  RankedCache one(1);
  std::vector<float> losses_of_one;
  std::vector<std::byte> left_by_one;
  for (const int ranks : {1, 2, 4}) {
    RankedCache cache(ranks);
    cache.device->ImportBlocks(kTable, 1.0f, cache.kv, blocks.data());
    std::vector<float> losses(3);
    const LossOp loss{
        .live = 60, .logical_length = 64, .keep_max = 40, .policy = policy, .block_table = kTable, .losses = losses};
    cache.device->MeasureLosses({&loss, 1}, cache.kv);
    const ShrinkOp cut{.live_from = 60, .live_to = 40, .logical_length = 64, .policy = policy, .block_table = kTable};
    cache.device->Shrink({&cut, 1}, cache.kv);
    const std::vector<std::byte> left = cache.Export(kTable, kTable);
    if (ranks == 1) {
      losses_of_one = losses;
      left_by_one = left;
      EXPECT_GT(losses.front(), 0);
      EXPECT_LT(losses.front(), losses.back());
    }
    EXPECT_EQ(losses, losses_of_one);
    EXPECT_EQ(left, left_by_one);
  }
}

}  // namespace
}  // namespace hydrant
