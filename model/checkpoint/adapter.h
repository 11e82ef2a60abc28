// Adapter is a LoRA adapter as PEFT saves it: a folder with adapter_config.json and adapter_model.safetensors, checked against the
// model in full. What is not plain LoRA on the layers' matrices is refused by name.
//
// Thread: any.
//
// Source: the configuration of PEFT's LoRA (`LoraConfig`), and its rule for `rank_pattern` and `alpha_pattern`: a key is a module's
// name or the end of one.
#ifndef HYDRANT_MODEL_CHECKPOINT_ADAPTER_H_
#define HYDRANT_MODEL_CHECKPOINT_ADAPTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/types.h"
#include "model/checkpoint/adapter_targets.h"
#include "model/checkpoint/tensor_source.h"

namespace hydrant {

// The largest rank that may be asked for; published adapters have up to 512.
inline constexpr int32_t kAdapterRankMax = 1024;

// A or B as its tensor has it: an adapter is expanded one matrix at a time.
struct AdapterFactor {
  WeightFormat format = WeightFormat::kF32;  // not quantised
  int64_t count = 0;                         // of its rows
  int64_t cols = 0;
  std::string_view data;           // of the tensor, row by row, in Adapter::weights
  std::vector<int32_t> rows = {};  // [count]: which of the tensor's these are; empty: the first, in their order

  // [count, cols], finite. Throws std::bad_alloc.
  std::vector<float> Values() const;
};

// What is added to one matrix W: y = W x + b (scale * (a x)).
struct AdapterChange {
  int32_t rank = 0;
  float scale = 0;
  AdapterFactor a;  // [rank, cols]
  AdapterFactor b;  // [rows, rank], rows as the layers have them
};

struct Adapter {
  using Place = std::pair<int32_t, TensorRole>;  // layer, role

  std::map<Place, AdapterChange> changes;      // not empty
  int32_t rank = 0;                            // the largest
  std::string base_model;                      // what the folder says it was made for; may be empty
  std::shared_ptr<const std::string> weights;  // the file that the changes are in

  // Null: the matrix stays as it is.
  const AdapterChange* Find(int32_t layer, TensorRole role) const {
    const auto found = changes.find({layer, role});
    return found != changes.end() ? &found->second : nullptr;
  }
};

// The contents of the folder's two files. They are memory and no map: whoever cuts a mapped file short ends the process.
struct AdapterFiles {
  std::string config;
  std::string weights;
};

// Errors: the folder or a file of it cannot be read, or is larger than an adapter of this rank can be, which is known before memory
// is taken for it. Throws std::bad_alloc.
absl::StatusOr<AdapterFiles> ReadAdapterFiles(const std::string& path, const AdapterTargets& targets, int32_t rank_max);

// Errors name the file and the field or the tensor, in one line. Throws std::bad_alloc; it takes little beside the files.
absl::StatusOr<Adapter> ParseAdapter(AdapterFiles files, const AdapterTargets& targets, int32_t rank_max);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_ADAPTER_H_
