// TensorSource is a validated tensor of a checkpoint, on the host; TensorRole says what it is for.
//
// Thread: any. Rows may be read by several threads at once.
#ifndef HYDRANT_MODEL_CHECKPOINT_TENSOR_SOURCE_H_
#define HYDRANT_MODEL_CHECKPOINT_TENSOR_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/types.h"

namespace hydrant {

// What a tensor is for, in every family. Weights are [out, in], row-major as seen through TensorSource.
enum class TensorRole : uint8_t {
  kEmbedding,   // [vocab, embedding_cols]
  kHead,        // [vocab, embedding_cols]; absent when embeddings are tied
  kPositions,   // [position_rows, hidden]
  kProjectIn,   // [hidden, embedding_cols]
  kProjectOut,  // [embedding_cols, hidden]
  kFinalNorm,
  kFinalNormBias,
  kAttentionNorm,
  kAttentionNormBias,
  kQ,
  kQBias,
  kK,
  kKBias,
  kV,
  kVBias,
  kQNorm,  // [head_dim], or of all query heads
  kKNorm,  // [head_dim], or of all KV heads
  kO,
  kOBias,
  kSinks,             // [query_heads], where attention has them
  kAttentionOutNorm,  // of what attention adds, where the config has such norms
  kMlpNorm,
  kMlpNormBias,
  kMlpOutNorm,  // the same of the MLP
  kGate,
  kGateBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kRouterBias,
  kRouter,  // [experts, hidden]
  // Each expert has these, biases where the family has them.
  kExpertGate,  // [ffn, hidden]
  kExpertGateBias,
  kExpertUp,  // [ffn, hidden]
  kExpertUpBias,
  kExpertDown,  // [hidden, ffn]
  kExpertDownBias,
};

// Whether every layer has one of its own.
constexpr bool InLayers(TensorRole role) { return role > TensorRole::kFinalNormBias; }
static_assert(InLayers(TensorRole::kAttentionNorm));
// Whether every expert of a layer has one of its own.
constexpr bool InExperts(TensorRole role) { return role > TensorRole::kRouter; }
static_assert(InExperts(TensorRole::kExpertGate));

// Vectors are [1, n]. Rows are in the order that the layers want, whatever that of the file: un-permuted (q, k of GGUF's
// llama), picked from a fused tensor (q, k, v of GPT-NeoX).
class TensorSource {
 public:
  TensorSource(std::string name, int64_t rows, int64_t cols, WeightFormat format)
      : name_(std::move(name)), rows_(rows), cols_(cols), format_(format) {}
  virtual ~TensorSource() = default;

  const std::string& name() const { return name_; }  // the file's, for messages
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  WeightFormat format() const { return format_; }  // what its elements are stored in

  // Rows [begin, end) as fp32 into out [end - begin, cols].
  virtual void ReadRows(int64_t begin, int64_t end, float* out) const = 0;

  // Whether a row lies in the file as the layers want it, so that it can be had without being expanded. Not so where the order
  // of elements changes within a row: the vectors of a permuted or fused tensor.
  virtual bool has_stored_rows() const { return false; }
  // The bytes of rows [begin, end) into out [end - begin, RowBytes(format, cols)]. REQUIRES has_stored_rows().
  virtual void ReadStoredRows(int64_t begin, int64_t end, std::byte* out) const;

  // Where row `row` lies among those of the stored tensor, which may be of several matrices.
  virtual int64_t StoredRow(int64_t row) const { return row; }

  // The rows will be read soon: their file may be read from the disk meanwhile.
  virtual void ReadAhead() const {}
  // The rows have been read, and will hardly be again: their memory may be returned. Reading them is allowed still.
  virtual void ReturnMemory() const {}
  // The same of rows [begin, end), by who goes on at `end`: of a large tensor not all is to wait for the last row. Where
  // rows do not lie one after the other in a file, all of it waits for ReturnMemory.
  virtual void ReturnRows(int64_t /*begin*/, int64_t /*end*/) const {}

  // Whether a row that was read so far held a NaN or an infinity; of stored rows, those of a quantised format.
  virtual bool non_finite() const { return false; }

 private:
  std::string name_;
  int64_t rows_, cols_;
  WeightFormat format_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_TENSOR_SOURCE_H_
