// Weights is a checkpoint's tensors packed for one device; after LoadWeights the checkpoint's mappings are not needed.
#ifndef HYDRANT_MODEL_WEIGHTS_WEIGHTS_H_
#define HYDRANT_MODEL_WEIGHTS_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/weights/weight_plan.h"
#include "model/weights/weight_stream.h"

namespace hydrant {

struct LayerWeights {
  NormWeight attention_norm;          // these four: used where the config says that norms stand
  std::unique_ptr<LinearWeight> qkv;  // [(query_heads + 2 kv_heads) * head_dim, hidden], rows in the order q, k, v
  HeadNorms head_norms;
  const RopeTable* rope = nullptr;  // one of Weights; null: nothing is rotated
  const float* sinks = nullptr;     // [query_heads], as in AttentionSpec; null: none
  std::unique_ptr<LinearWeight> o;  // [hidden, query_heads * head_dim]
  NormWeight attention_out_norm;
  NormWeight mlp_norm;
  std::unique_ptr<LinearWeight> up;      // gated: [2 ffn, hidden], gate rows first; else [ffn, hidden]
  std::unique_ptr<LinearWeight> down;    // [hidden, ffn]
  std::unique_ptr<LinearWeight> router;  // [experts, hidden]; null: `up` and `down` are there, and no experts
  std::unique_ptr<Experts> experts;
  NormWeight mlp_out_norm;
};

struct Weights {
  std::unique_ptr<WeightStream> stream;       // of the matrices below; null: all of them lie in memory
  std::unique_ptr<LinearWeight> embedding;    // [vocab, embedding_cols]
  std::unique_ptr<LinearWeight> own_head;     // [vocab, embedding_cols]; null when embeddings are tied
  std::unique_ptr<LinearWeight> project_in;   // [hidden, embedding_cols]; null where they are equal
  std::unique_ptr<LinearWeight> project_out;  // [embedding_cols, hidden]; the same
  std::unique_ptr<LinearWeight> positions;    // [positions_max, hidden]; null: rotary
  std::unique_ptr<RopeTable> rope;            // null: learned
  std::unique_ptr<RopeTable> windowed_rope;   // of windowed layers; null: theirs is `rope`
  NormWeight final_norm;                      // used if the config says so
  std::vector<LayerWeights> layers;
  std::vector<std::unique_ptr<DeviceBuffer>> vectors;  // what the NormWeights and `sinks` point into

  int32_t experts_per_token = 0;
  int64_t quantised_cols_max = 0;  // StepBounds::quantised_cols_max, of the plan that they were loaded by

  const LinearWeight& head() const { return own_head ? *own_head : *embedding; }
  // Device bytes that a step of one token reads: all matrices, of experts those of a token, the embedding table only where it is
  // the head.
  size_t step_bytes() const;
};

// PlanWeights for what LoadWeights takes.
inline WeightPlan PlanWeights(const Checkpoint& checkpoint, const Device& device, WeightChoice choice,
                              int32_t positions_max) {
  return PlanWeights(checkpoint.config, checkpoint.tensors, WeightDevice::Of(device), choice, positions_max);
}

// Told how many bytes of all matrices are packed.
using LoadProgress = std::function<void(int64_t loaded_bytes, int64_t total_bytes)>;

// Packs what the plan lists, and the norms. `progress`, if there is one, is called before the first matrix and after each.
// REQUIRES: the plan is of this checkpoint and device. Throws std::bad_alloc when the memory is not to be had.
Weights LoadWeights(const Checkpoint& checkpoint, Device& device, const WeightPlan& plan,
                    const LoadProgress& progress = nullptr);

struct StreamOptions {
  int64_t memory_bytes = 0;  // of all matrices, learned positions aside
  std::string image;         // the path of the image, which is written if there is none of this model and device
};

// The same with matrices that are read from an image on the disk as they are needed. Writing the image takes no more memory than
// multiplying from it. `progress` is told of the packing, or of nothing. Errors: INVALID_ARGUMENT where the memory does not do;
// UNIMPLEMENTED for a device or a model of which weights cannot be streamed; those of WeightImageWriter and WeightImage.
absl::StatusOr<Weights> StreamWeights(const Checkpoint& checkpoint, Device& device, const WeightPlan& plan,
                                      const StreamOptions& options, const LoadProgress& progress = nullptr);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_WEIGHTS_WEIGHTS_H_
