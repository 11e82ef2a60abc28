// AdapterSlots keeps the adapters (LoRA) that a model can run with: for every layer's matrices what they add, in slots that are fixed
// from the start. Rows of a step name their slot (RowCounts::adapter).
//
// Thread: any for Put; the rest engine.
#ifndef HYDRANT_MODEL_WEIGHTS_ADAPTER_SLOTS_H_
#define HYDRANT_MODEL_WEIGHTS_ADAPTER_SLOTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "model/checkpoint/adapter.h"
#include "model/config/model_config.h"
#include "model/weights/weight_plan.h"
#include "model/weights/weights.h"

namespace hydrant {

struct AdapterLimits {
  int32_t slots = 0;  // 0: there are no adapters
  int32_t rank_max = 0;
  DType dtype = DType::kF32;  // of A and B

  // The type that goes with weights of this choice: what they are expanded to, but fp32 for fp16, which has not the range.
  static DType DTypeFor(const WeightChoice& choice) {
    return choice.expanded == DType::kBF16 ? DType::kBF16 : DType::kF32;
  }
};

class AdapterSlots {
 public:
  // Null beside experts: adapters do not change these.
  struct Layer {
    std::unique_ptr<AdapterWeight> qkv, o, up, down;
  };

  // All slots are empty. Throws std::bad_alloc. `device` outlives it.
  AdapterSlots(const ModelConfig& config, const Weights& weights, Device& device, const AdapterLimits& limits);

  // Bytes that they take on the device. `bytes_of`: Device::AdapterBytes.
  static int64_t Bytes(const WeightPlan& plan, const AdapterLimits& limits,
                       const std::function<int64_t(const LinearSpec&, const AdapterSpec&)>& bytes_of);

  // Expands and lays out one matrix after the other, beside whatever steps run. REQUIRES: no step that is queued or runs has a row
  // with the slot; no other Put is in progress. Throws std::runtime_error where the adapter's sizes are not those of this model and
  // its limits, std::bad_alloc, or what the device throws: the slot is empty then.
  void Put(int32_t slot, const Adapter& adapter);

  const Layer& layer(int32_t layer) const { return layers_[static_cast<size_t>(layer)]; }
  const AdapterLimits& limits() const { return limits_; }

 private:
  int64_t ColsOf(WeightRole role) const;
  // call(weight, layer, role) for all that there are.
  template <typename Call>
  void ForEach(const Call& call) const;

  Device& device_;
  const AdapterLimits limits_;
  const int64_t hidden_, attention_cols_, ffn_;
  std::vector<Layer> layers_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_WEIGHTS_ADAPTER_SLOTS_H_
