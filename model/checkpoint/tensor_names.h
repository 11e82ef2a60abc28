// TensorNaming is how a family and a format name their tensors: data, so that a new family is a new table of names, or another
// family's with what differs.
//
// Thread: any (constants).
#ifndef HYDRANT_MODEL_CHECKPOINT_TENSOR_NAMES_H_
#define HYDRANT_MODEL_CHECKPOINT_TENSOR_NAMES_H_

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/checkpoint/tensor_source.h"

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

// How q, k and v, or the gate and the up projection, share one tensor.
enum class Fusion : uint8_t {
  kNone,
  kStacked,  // the rows of q, then those of k, then those of v; the rows of the gate, then those of up
  kPerHead,  // for one head after the other its rows of q, of k and of v; as many KV heads as query heads
  kInTurn,   // of experts: a row of the gate, then one of up, and so on
};

struct TensorName {
  TensorRole role = TensorRole::kEmbedding;
  Presence presence = Presence::kRequired;
  // '#' stands for the layer's number; without it the tensor lies outside the layers. '@' stands for the expert's; without it one
  // tensor has all experts, [experts, rows, cols], of gates and up projections maybe both, [experts, 2 rows, cols], gates first
  // unless `fusion` is kInTurn.
  std::string_view name = {};
  Fusion fusion = Fusion::kNone;
  std::string_view other_name = {};  // what some files call it
};

struct TensorNaming {
  std::span<const TensorName> names;
  // Further tensors that may be there and are not weights: read by other code, or known to be redundant. '#' as above.
  std::span<const std::string_view> known;
  // q and k rows are stored for interleaved rotary pairs (2i, 2i + 1); undone when read.
  bool interleaved_qk = false;
  // A matrix of all experts is stored as [experts, cols, rows].
  bool transposed_experts = false;
  // A prefix that names may lack, because the base model was saved without its head.
  std::string_view prefix = {};
};

// A table with the names of further roles.
template <size_t N, size_t M>
constexpr std::array<TensorName, N + M> WithMore(const std::array<TensorName, N>& base, const TensorName (&more)[M]) {
  std::array<TensorName, N + M> names = {};
  std::copy(base.begin(), base.end(), names.begin());
  std::copy(more, more + M, names.begin() + N);
  return names;
}

// A table in which the roles of `changes` have these entries in the place of their own.
template <size_t N, size_t M>
constexpr std::array<TensorName, N> WithChanges(std::array<TensorName, N> base, const TensorName (&changes)[M]) {
  for (const TensorName& change : changes) {
    auto entry =
        std::find_if(base.begin(), base.end(), [&](const TensorName& name) { return name.role == change.role; });
    assert(entry != base.end());
    *entry = change;
  }
  return base;
}

// A table with experts in the place of the MLP that all tokens have, which it has kOfMlp entries of.
template <size_t kOfMlp, size_t N, size_t M>
constexpr std::array<TensorName, N - kOfMlp + M> WithExperts(const std::array<TensorName, N>& base,
                                                             const TensorName (&experts)[M]) {
  std::array<TensorName, N - kOfMlp> others = {};
  [[maybe_unused]] const auto end = std::copy_if(base.begin(), base.end(), others.begin(), [](const TensorName& name) {
    return name.role < TensorRole::kGate || name.role > TensorRole::kDownBias;
  });
  assert(end == others.end());
  return WithMore(others, experts);
}

// A table without these roles.
template <size_t N, size_t M>
constexpr std::array<TensorName, N - M> Without(const std::array<TensorName, N>& base, const TensorRole (&roles)[M]) {
  std::array<TensorName, N - M> names = {};
  [[maybe_unused]] const auto end = std::copy_if(base.begin(), base.end(), names.begin(), [&](const TensorName& name) {
    return std::find(roles, roles + M, name.role) == roles + M;
  });
  assert(end == names.end());
  return names;
}

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_TENSOR_NAMES_H_
