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

}  // namespace

KvCache::KvCache(Device& device, const KvCacheLayout& layout)
    : k_(device.Allocate(layout.kv_bytes())),
      v_(device.Allocate(layout.kv_bytes())),
      score_(device.Allocate(layout.score_count() * sizeof(float))),
      position_(device.Allocate(layout.score_count() * sizeof(int32_t))),
      victim_(device.Allocate(layout.victim_count() * sizeof(int32_t))),
      logical_position_(layout.inspected ? device.Allocate(layout.score_count() * sizeof(int32_t)) : nullptr) {
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
