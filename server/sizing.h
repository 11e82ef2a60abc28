// DeriveLimits sizes everything that depends on the model, the device and this machine, and says in words how.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SIZING_H_
#define HYDRANT_SERVER_SIZING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/step_batch.h"
#include "kernels/types.h"
#include "model/config/model_config.h"
#include "model/weights/adapter_slots.h"
#include "model/weights/weight_plan.h"
#include "server/config.h"
#include "server/process/limits.h"

namespace hydrant {

struct HostFacts {
  int64_t available_memory_bytes = 0;
  int64_t open_files_max = 0;
};

struct DeviceFacts {
  std::function<int64_t(const StepBounds&)> scratch_bytes;  // Device::ScratchBytes
  std::optional<int64_t> memory_bytes = {};                 // free memory of a device that has its own
  std::function<int64_t(const LinearSpec&, const AdapterSpec&)> adapter_bytes = {};  // Device::AdapterBytes
  int64_t copies = 1;                                                                // Device::copies
};

struct Sizing {
  WeightChoice weights;
  std::string weight_formats;                                 // WeightPlan::Formats
  std::vector<std::pair<std::string, int64_t>> weight_bytes;  // WeightPlan::BytesByFormat
  KvType kv_type = KvType::kF32;
  AdapterLimits adapters;
  int32_t logits_rows_max = 0;  // ModelExecutorOptions::logits_rows_max
  int32_t drafts_max = 0;       // ModelExecutorOptions::drafts_max
  int64_t stream_bytes = 0;     // memory of the weights, of which the others are streamed; 0: all lie in memory
  Limits limits;
  int64_t block_bytes = 0;               // of a block with its part of the spare score blocks: the pool's unit
  int64_t kv_block_bytes = 0;            // KvCache::BytesPerBlock: of a block outside the pool
  int64_t score_block_bytes = 0;         // KvCache::BytesPerScoreBlock
  int32_t replay_blocks = 0;             // EngineCoreOptions::replay_blocks, beside limits.blocks
  std::vector<std::string> explanation;  // lines for the log: every term of every sum
  std::vector<std::string> warnings;     // lines for the log: what an operator would not expect
};

// PlanWeights of the model's checkpoint and the device, which sizing asks once it knows the rest.
using WeightPlanner = std::function<WeightPlan(WeightChoice choice, int32_t positions_max)>;

// Errors: INVALID_ARGUMENT (a flag contradicts the model or another
// flag), FAILED_PRECONDITION (the model's context does not fit into memory), RESOURCE_EXHAUSTED (not one block fits).
absl::StatusOr<Sizing> DeriveLimits(const Config& config, const ModelConfig& model, const WeightPlanner& plan_weights,
                                    const DeviceFacts& device, const HostFacts& host);

// What fits, in words for one line of the log: "KV pool of 8192 blocks = 131072 tokens, 16 full contexts; …".
std::string DescribeRoom(const Limits& limits);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SIZING_H_
