// ModelConfig is everything the forward pass and the server need to know about a checkpoint's architecture. Families
// differ in data only: the Transformer reads these fields and has no per-family code.
#ifndef HYDRANT_MODEL_CONFIG_MODEL_CONFIG_H_
#define HYDRANT_MODEL_CONFIG_MODEL_CONFIG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/types.h"

namespace hydrant {

// Where a layer's norms stand.
enum class NormPlace : uint8_t {
  kBefore,          // they are of what attention and MLP read
  kBeforeAndAfter,  // of that, and of what these add to the residual stream
  kAfter,           // of what these add, alone
  kAfterSum,        // of the residual stream, after each has added to it
};

struct ModelConfig {
  int32_t hidden = 0;
  int32_t layers = 0;
  int32_t query_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn = 0;  // of one expert where there are experts
  int32_t vocab = 0;
  int32_t context = 0;  // positions the model was trained for

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  NormPlace norm_place = NormPlace::kBefore;
  bool norms_over_heads = false;  // norms of q and k are of all heads as one row; else of each head
  bool final_norm = true;         // one more norm before the head
  float norm_offset = 0;          // what is added to the stored weights of every norm
  Activation activation = Activation::kSilu;
  // Experts of a layer's MLP, of which a token goes through some; 0: the MLP is one for all tokens.
  int32_t experts = 0;
  int32_t experts_per_token = 0;
  bool normalised_experts = false;  // the weights of a token's experts add up to 1
  bool gated = true;                // gate and up projections; else one up projection
  bool tied_embeddings = false;     // the head is the embedding table
  bool parallel_residual = false;   // attention and MLP both read the layer's input

  float embedding_scale = 1;  // of the token's row of the table; the head has it as it is
  int32_t embedding_dim =
      0;  // columns of the embedding table and of the head, if not `hidden`: projections lead in and out

  // Positions are learned where there is such a table, and rotary where there is none.
  int32_t position_rows = 0;
  int32_t position_offset = 0;  // its row of position 0

  int32_t rope_dims = 0;              // rotated elements of a head; 0 beside learned positions
  std::vector<double> rope_inv_freq;  // [rope_dims / 2], scaling applied
  double rope_attention_factor = 1.0;
  // [rope_dims / 2] in the place of rope_inv_freq where texts longer than rope_short_context are served (LongRoPE,
  // decision 43); empty: those above always.
  std::vector<double> rope_long_inv_freq;
  double rope_short_context = 0;
  int32_t window = kNoWindow;         // positions that a token sees in windowed layers, itself included
  std::vector<bool> windowed_layers;  // [layers]; empty: none is
  // [rope_dims / 2] of the windowed layers; empty: those of the others.
  std::vector<double> windowed_inv_freq;
  std::vector<bool> unrotated_layers;  // [layers]: they have no positions at all (NoPE); empty: none is

  double attention_scale = 0;  // of the scores before their softmax; 0: 1 / sqrt(head_dim)
  // Where above 0, x counts as softcap * tanh(x / softcap): the scaled scores before their softmax; the logits.
  float attention_softcap = 0;
  float final_softcap = 0;

  int32_t bos_id = -1;           // -1: none
  std::vector<int32_t> eos_ids;  // any of them ends a generation

  // Whether the frequencies of long texts hold where `positions` positions are served, and which hold there.
  bool rope_is_long(int32_t positions) const { return !rope_long_inv_freq.empty() && positions > rope_short_context; }
  const std::vector<double>& rope_frequencies(int32_t positions) const {
    return rope_is_long(positions) ? rope_long_inv_freq : rope_inv_freq;
  }

  bool norms_inputs() const { return norm_place == NormPlace::kBefore || norm_place == NormPlace::kBeforeAndAfter; }
  bool norms_outputs() const { return norm_place == NormPlace::kAfter || norm_place == NormPlace::kBeforeAndAfter; }

  int32_t window_of(int32_t layer) const {
    return !windowed_layers.empty() && windowed_layers[static_cast<size_t>(layer)] ? window : kNoWindow;
  }

  // The tokens that begin a text or end a generation; -1 where there is none.
  std::vector<int32_t> control_ids() const {
    std::vector<int32_t> ids = eos_ids;
    ids.push_back(bos_id);
    return ids;
  }

  DType stored_dtype = DType::kF32;  // what most weights are stored as; bf16 stands for quantised types too

  int32_t embedding_cols() const { return embedding_dim > 0 ? embedding_dim : hidden; }
  bool projected() const { return embedding_cols() != hidden; }
  int32_t q_cols() const { return query_heads * head_dim; }
  int32_t kv_cols() const { return kv_heads * head_dim; }

  // Slots to which a token's attention takes as long as its layers' matrices do (the logits aside: a prompt needs them once).
  // `attention_cost`: Device::AttentionCost.
  int32_t attention_slots_per_token(double attention_cost) const {
    const int64_t mlp = int64_t{hidden} * ffn * (gated ? 3 : 2) * std::max(experts_per_token, 1);
    const int64_t matrices = int64_t{hidden} * (2 * q_cols() + 2 * kv_cols() + experts) + mlp;
    const double slots = static_cast<double>(matrices) / (2.0 * q_cols() * attention_cost);
    return static_cast<int32_t>(std::max(1.0, slots));
  }
};

// What a file calls the fields that can be out of range, for messages.
struct ConfigFieldNames {
  std::string_view hidden, layers, query_heads, kv_heads, head_dim, ffn, vocab, context, norm_eps, rope_dims, bos_id,
      eos_id;
  std::string_view embedding_dim = "";                    // empty where no file of the kind has one
  std::string_view experts = "", experts_per_token = "";  // the same
};

// How many layers a reader may make a list of before ValidateModelConfig has judged their number: that refuses more.
size_t LayersToList(int32_t layers);
// [layers]: all but every `period`-th, as ModelConfig::windowed_layers is in many families. REQUIRES: period >= 1.
std::vector<bool> AllButEvery(int32_t period, int32_t layers);

// The most experts of a layer; published models have up to 512.
inline constexpr int32_t kExpertsMax = 1024;

// Every range that later code relies on: sizes positive and small enough that their products fit in 64 bits, heads that
// divide, an even head_dim, no more experts for a token than there are, ids inside the vocabulary, at least one
// end-of-sequence id, finite rotary frequencies.
// Errors: "config.json: 'num_hidden_layers': 0 is out of range [1, 1024]".
absl::Status ValidateModelConfig(const ModelConfig& config, std::string_view file, const ConfigFieldNames& names);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CONFIG_MODEL_CONFIG_H_
