// KvCache owns the device memory behind every block id: K and V, and in the same block addressing the score and
// position of each (layer, KV head, slot). It knows nothing of sequences; block tables say whose slot is whose.
//
// Thread: engine.
#ifndef HYDRANT_MODEL_RUN_KV_CACHE_H_
#define HYDRANT_MODEL_RUN_KV_CACHE_H_

#include <memory>

#include "kernels/device.h"
#include "model/config/model_config.h"

namespace hydrant {

class KvCache {
 public:
  // REQUIRES: layout.blocks > 0. Throws std::bad_alloc if there is not enough memory.
  KvCache(Device& device, const KvCacheLayout& layout);

  const KvCacheView& view() const { return view_; }

  // Device bytes of one block over all layers and KV heads, scores and positions included: the unit in which a memory
  // limit becomes a number of blocks.
  static size_t BytesPerBlock(const ModelConfig& config, KvType type);
  // The part of these that holds scores and positions: one score block.
  static size_t BytesPerScoreBlock(const ModelConfig& config);

 private:
  std::unique_ptr<DeviceBuffer> k_, v_, score_, position_, victim_, logical_position_;
  KvCacheView view_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_KV_CACHE_H_
