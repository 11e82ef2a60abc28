#include "model/kv_cache.h"

#include <cassert>

namespace hydrant {

KvCache::KvCache(Device& device, const KvCacheLayout& layout)
    : k_(device.Allocate(layout.kv_bytes())),
      v_(device.Allocate(layout.kv_bytes())),
      score_(device.Allocate(layout.side_count() * sizeof(float))),
      position_(device.Allocate(layout.side_count() * sizeof(int32_t))),
      victim_(device.Allocate(layout.victim_count() * sizeof(int32_t))) {
  assert(layout.blocks > 0);
  view_ = KvCacheView{.layout = layout,
                      .k = k_->data(),
                      .v = v_->data(),
                      .score = static_cast<float*>(score_->data()),
                      .position = static_cast<int32_t*>(position_->data()),
                      .victim = static_cast<int32_t*>(victim_->data())};
}

size_t KvCache::BytesPerBlock(const ModelConfig& config, DType dtype) {
  const KvCacheLayout one{.layers = config.layers,
                          .blocks = 1,
                          .kv_heads = config.kv_heads,
                          .head_dim = config.head_dim,
                          .dtype = dtype,
                          .state_rows = 0};
  return 2 * one.kv_bytes() + one.side_count() * (sizeof(float) + sizeof(int32_t));
}

}  // namespace hydrant
