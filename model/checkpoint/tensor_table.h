// TensorTable gives every tensor of a checkpoint its role, and refuses a checkpoint whose tensors do not fit its config. How a
// family and a format name their tensors is data: a new family is a new table of names.
//
// Thread: any (immutable once built). Sources point into the file mappings, which must outlive the table.
#ifndef HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_
#define HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint/checkpoint.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

enum class Presence : uint8_t {
  kRequired,
  kUnlessTied,     // the head: absent when embeddings are tied, and then not read even if stored
  kAttentionBias,  // required when the config says so, else not read
  kMlpBias,        // the same
  kOptional,       // in every layer or in none
  kAffineNorm,     // required unless the config says that norms have no weights
  kFinalNorm,      // the same, of a final norm if there is one
  kProjected,      // required when the embedding table is not as wide as the layers
};

// How q, k and v share one tensor.
enum class QkvFusion : uint8_t {
  kNone,
  kStacked,  // the rows of q, then those of k, then those of v
  kPerHead,  // for one head after the other its rows of q, of k and of v; as many KV heads as query heads
};

struct TensorName {
  TensorRole role;
  Presence presence;
  std::string_view name;  // '#' stands for the layer's number; without it the tensor lies outside the layers
  QkvFusion fusion = QkvFusion::kNone;
  std::string_view other_name = {};  // what some files call it
};

struct TensorNaming {
  std::span<const TensorName> names;
  // Further tensors that may be there and are not weights: read by other code, or known to be redundant. '#' as above.
  std::span<const std::string_view> known;
  // q and k rows are stored for interleaved rotary pairs (2i, 2i + 1); undone when read.
  bool interleaved_qk = false;
  // What names may lack: the base model was saved without its head.
  std::string_view prefix = {};
};

// The facts about a checkpoint's tensors that its config says and ModelConfig does not keep.
struct TensorExpectation {
  bool attention_bias = false;
  bool mlp_bias = false;
  bool affine_norms = true;  // norms have weights (and biases, where the family's have)
};

class TensorTable {
 public:
  // Errors name file and tensor: missing, wrong shape. Tensors that nothing asks for become a warning.
  static absl::StatusOr<TensorTable> Bind(const TensorNaming& naming, const ModelConfig& config,
                                          const TensorExpectation& expectation, std::string_view file,
                                          const std::vector<RawTensor>& tensors, std::vector<std::string>& warnings);

  TensorTable();
  TensorTable(TensorTable&&) noexcept;
  TensorTable& operator=(TensorTable&&) noexcept;
  ~TensorTable();

  const TensorSource* Find(TensorRole role, int32_t layer) const;
  // Names of tensors of which a row that was read held a NaN or an infinity.
  std::vector<std::string> NonFinite() const;
  // The type that holds the most elements; quantised types count as bf16.
  DType stored_dtype() const { return stored_dtype_; }

 private:
  class Source;
  class Binder;

  std::vector<std::unique_ptr<Source>> sources_;  // [layer][role]
  DType stored_dtype_ = DType::kF32;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_TENSOR_TABLE_H_
