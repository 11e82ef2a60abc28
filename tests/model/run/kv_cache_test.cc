#include "model/run/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "kernels/cpu/cpu_device.h"

namespace hydrant {
namespace {

TEST(KvCache, BlocksCostWhatTheyTakeOfTheDevice) {
  const auto device = CpuDevice::Create(CpuDeviceOptions{.threads = 1});
  ASSERT_TRUE(device.ok());
  ModelConfig config;
  config.layers = 3;
  config.kv_heads = 2;
  config.head_dim = 8;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kInt8}) {
    const KvCacheLayout layout{.layers = 3, .blocks = 5, .kv_heads = 2, .head_dim = 8, .type = type, .state_rows = 4};
    const KvCache cache(**device, layout);
    const KvCacheView& view = cache.view();
    // 16 slots of K and V, and beside each slot an fp32 score and an int32 position.
    const size_t of_token = type == KvType::kInt8 ? 8 + 4 : 8 * DTypeBytes(DTypeOf(type));
    const size_t block_bytes = 3 * 2 * 16 * (2 * of_token + 8);
    EXPECT_EQ(KvCache::BytesPerBlock(config, type), block_bytes);
    EXPECT_EQ(2 * layout.kv_bytes() + 8 * layout.score_count(), 5 * block_bytes);
    EXPECT_EQ(view.layout.blocks, 5);
    // Every array is there in full and writable to its last byte; a sanitizer sees one byte more.
    std::memset(view.k, 1, layout.kv_bytes());
    std::memset(view.v, 1, layout.kv_bytes());
    std::memset(view.score, 1, layout.score_count() * sizeof(float));
    std::memset(view.position, 1, layout.score_count() * sizeof(int32_t));
    std::memset(view.victim, 1, layout.victim_count() * sizeof(int32_t));
    EXPECT_EQ(layout.victim_count(), 4u * 3 * 2);
  }
}

}  // namespace
}  // namespace hydrant
