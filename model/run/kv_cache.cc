#include "model/run/kv_cache.h"

#include <cassert>

namespace hydrant {
namespace {

KvCacheLayout OneBlock(const ModelConfig& config, KvType type) {
  return KvCacheLayout{.layers = config.layers,
                       .blocks = 1,
                       .kv_heads = config.kv_heads,
                       .head_dim = config.head_dim,
                       .type = type,
                       .state_rows = 0};
}

// `unit_bytes` of every layer and KV head in each of `rows` blocks, score blocks or state rows.
std::unique_ptr<DeviceBuffer> Take(Device& device, const KvCacheLayout& layout, int32_t rows, size_t unit_bytes) {
  const auto heads = static_cast<size_t>(layout.layers) * static_cast<size_t>(layout.kv_heads);
  return device.AllocateByHead(layout, static_cast<size_t>(rows) * heads, unit_bytes);
}

}  // namespace

KvCache::KvCache(Device& device, const KvCacheLayout& layout)
    : k_(Take(device, layout, layout.blocks, layout.tile_bytes())),
      v_(Take(device, layout, layout.blocks, layout.tile_bytes())),
      score_(Take(device, layout, layout.score_blocks(), kBlockSlots * sizeof(float))),
      position_(Take(device, layout, layout.score_blocks(), kBlockSlots * sizeof(int32_t))),
      victim_(Take(device, layout, layout.state_rows, sizeof(int32_t))),
      logical_position_(layout.inspected ? Take(device, layout, layout.score_blocks(), kBlockSlots * sizeof(int32_t))
                                         : nullptr) {
  assert(layout.blocks > 0);
  view_ =
      KvCacheView{.layout = layout,
                  .k = k_->data(),
                  .v = v_->data(),
                  .score = static_cast<float*>(score_->data()),
                  .position = static_cast<int32_t*>(position_->data()),
                  .victim = static_cast<int32_t*>(victim_->data()),
                  .logical_position = layout.inspected ? static_cast<int32_t*>(logical_position_->data()) : nullptr};
}

size_t KvCache::BytesPerBlock(const ModelConfig& config, KvType type) { return OneBlock(config, type).block_bytes(); }

size_t KvCache::BytesPerScoreBlock(const ModelConfig& config) {
  return OneBlock(config, KvType::kF32).score_block_bytes();
}

}  // namespace hydrant
