// What drafts leave behind from a step until it is known which of them stay, and how the others are undone.
//
// Thread: engine; the pool's threads inside.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_DRAFTS_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_DRAFTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/layer_view.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/step_batch.h"

namespace hydrant {

// A head of nothing, as large as the kernels take.
inline constexpr std::array<float, 256> kNoElements = {};

// What stood in a slot of one (layer, KV head) before a draft took it. Its key and its value follow, head_dim elements each.
struct SavedToken {
  int32_t slot;
  int32_t position;
  int32_t logical_position;  // of an inspected cache
  float score;
  float k_scale, v_scale;  // of int8
};

// The memory of a step's drafts, each with a number.
class DraftScratch {
 public:
  explicit DraftScratch(const StepBounds& bounds);
  static size_t Bytes(const StepBounds& bounds);

  // Slots that a row with drafts may have where its policy scores.
  int32_t slots_max() const { return slots_max_; }
  // [slots_max] the scores that a draft leaves in a (layer, KV head).
  float* ScoresOf(int32_t draft, int32_t layer_head) const {
    return static_cast<float*>(scores_.data()) + Index(draft, layer_head) * slots_max_;
  }
  // What a draft at its row's budget has overwritten there.
  SavedToken* At(int32_t draft, int32_t layer_head) const {
    const int64_t byte = Index(draft, layer_head) * static_cast<int64_t>(token_bytes_);
    return reinterpret_cast<SavedToken*>(static_cast<std::byte*>(saved_.data()) + byte);
  }

 private:
  int64_t Index(int32_t draft, int32_t layer_head) const { return int64_t{draft} * layer_heads_ + layer_head; }

  const int32_t slots_max_;
  const int32_t layer_heads_;
  const size_t token_bytes_;
  CpuBuffer scores_, saved_;
};

// Copies what stands in a slot of the row out; puts it back.
void SaveToken(const LayerView& view, const BatchRow& row, int32_t head, int32_t slot, SavedToken* to);
void RestoreToken(const LayerView& view, const BatchRow& row, int32_t head, SavedToken& from);

// Device::KeepDrafts.
void KeepDrafts(const AttentionKernels& kernels, std::span<const BatchRow> rows, std::span<const int32_t> kept,
                const KvCacheView& kv, ThreadPool& pool, const DraftScratch& scratch);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_DRAFTS_H_
