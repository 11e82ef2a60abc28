// Checkpoint is an opened model on disk, validated in full: config, tensor table and tokenizer, from a Hugging Face
// directory or one .gguf file. Nothing after it knows which it was.
//
// Thread: any (immutable after Open). Tensor data is mapped; Read* may be called from several threads at once.
#ifndef HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_
#define HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/model_config.h"

namespace hydrant {

class Tokenizer;

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
  kQNorm,  // [head_dim]
  kKNorm,  // [head_dim]
  kO,
  kOBias,
  kMlpNorm,
  kMlpNormBias,
  kGate,
  kGateBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
};

// A validated host tensor; vectors are [1, n].
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // Rows [begin, end) as fp32 into out [end - begin, cols], dequantised and in the order that the layers
  // want: un-permuted (q, k of GGUF's llama), picked from a fused tensor (q, k, v of GPT-NeoX).
  virtual void ReadRows(int64_t begin, int64_t end, float* out) const = 0;
};

class Checkpoint {
 public:
  // Errors are one line that names the file and the field: "model.safetensors: tensor 'x': …".
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  virtual ~Checkpoint() = default;
  virtual const ModelConfig& config() const = 0;
  // Null when the checkpoint has no such tensor (optional biases, the head of a tied model). `layer` is ignored for
  // roles outside layers.
  virtual const TensorSource* Find(TensorRole role, int32_t layer) const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // Shared so that the tokenizer may outlive the checkpoint, whose mappings are dropped once weights are packed.
  virtual std::shared_ptr<const Tokenizer> shared_tokenizer() const = 0;
  // What generation_config.json says of requests that do not, in its own words.
  struct GenerationDefaults {
    double temperature = -1, top_p = -1, min_p = -1, repetition_penalty = -1;  // -1: unset
    int32_t top_k = -1;                                                        // -1: unset
    int32_t max_new_tokens = -1;                                               // -1: unset
  };
  virtual const GenerationDefaults& generation_defaults() const = 0;
  virtual const std::string& chat_template() const = 0;  // empty when there is none
  // For conversations with tools; empty when chat_template is for these, too.
  virtual const std::string& tool_use_template() const = 0;
  // What chat templates call bos_token and eos_token: texts, empty where the model has none.
  virtual const std::string& bos_token() const = 0;
  virtual const std::string& eos_token() const = 0;
  virtual const std::vector<std::string>& warnings()
      const = 0;  // things worth a log line: extra tensors, ignored fields
  // Names of tensors of which a row read so far held a NaN or an infinity: worth a log line once all weights are packed.
  virtual std::vector<std::string> NonFiniteTensors() const = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_
