// TensorTable gives every tensor of a checkpoint its role, and refuses a checkpoint whose tensors do not fit its config.
//
// Thread: any (immutable once built). Sources point into the file mappings, which must outlive the table.
#ifndef HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_
#define HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint/tensor_names.h"
#include "model/checkpoint/tensor_source.h"
#include "model/config/model_config.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// The facts about a checkpoint's tensors that its config says and ModelConfig does not keep.
struct TensorExpectation {
  bool attention_bias = false;
  bool mlp_bias = false;
  bool affine_norms = true;  // norms have weights (and biases, where the family's have)
};

// The shape that the config gives a tensor of this role; vectors have one dimension.
std::vector<int64_t> ShapeOf(TensorRole role, const ModelConfig& config);

// The stored tensor of a role outside the layers, or of layer 0; null: there is none.
const RawTensor* FindTensor(const TensorNaming& naming, TensorRole role, const std::vector<RawTensor>& tensors);

class TensorTable {
 public:
  // Errors name file and tensor: missing, wrong shape. Tensors that nothing asks for become a warning.
  static absl::StatusOr<TensorTable> Bind(const TensorNaming& naming, const ModelConfig& config,
                                          const TensorExpectation& expectation, std::string_view file,
                                          const std::vector<RawTensor>& tensors, std::vector<std::string>& warnings);

  // A table made by hand: what Bind does for a file's tensors. `layer` is ignored for roles outside layers, `expert` for
  // those of which a layer has one; the same holds below.
  void Set(TensorRole role, int32_t layer, std::unique_ptr<TensorSource> source, int32_t expert = 0);
  // Takes a source out. REQUIRES: Find has it.
  std::unique_ptr<TensorSource> Take(TensorRole role, int32_t layer, int32_t expert = 0);

  // Null when the checkpoint has no such tensor (optional biases, the head of a tied model).
  const TensorSource* Find(TensorRole role, int32_t layer, int32_t expert = 0) const;
  // Names of tensors of which a row read so far held a NaN or an infinity: worth a log line once all weights are packed.
  std::vector<std::string> NonFinite() const;
  // The type that holds the most elements; quantised types count as bf16.
  DType stored_dtype() const { return stored_dtype_; }

 private:
  std::map<std::tuple<int32_t, TensorRole, int32_t>, std::unique_ptr<TensorSource>> sources_;  // layer, role, expert
  DType stored_dtype_ = DType::kF32;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_
