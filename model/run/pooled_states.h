// PooledStates adds up the states of one sequence's prompt, as its chunks are computed. A state is what the last norm, and where there
// is one the projection behind it, make of a token; one is as long as another.
//
// Thread: the engine's, until whoever asked has taken the event that ends the sequence; then theirs.
#ifndef HYDRANT_MODEL_RUN_POOLED_STATES_H_
#define HYDRANT_MODEL_RUN_POOLED_STATES_H_

#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/pooling.h"

namespace hydrant {

class PooledStates {
 public:
  // REQUIRES: pooling != kNone.
  explicit PooledStates(Pooling pooling) : pooling_(pooling) { assert(pooling != Pooling::kNone); }

  Pooling pooling() const { return pooling_; }

  // In the order of tokens, one by one: then the sum has the same bits however the prompt was cut into chunks. Throws std::bad_alloc, and
  // then the sequence has to fail.
  void Add(std::span<const float> state) {
    if (sum_.empty()) sum_.resize(state.size());
    assert(sum_.size() == state.size());
    for (size_t i = 0; i < state.size(); ++i) sum_[i] += static_cast<double>(state[i]);
  }

  // Empty: nothing was added.
  std::span<const double> sum() const { return sum_; }

  // Their direction, as a vector of length 1: a mean needs no division. Zeros stay zeros. Empty: nothing was added.
  std::vector<float> Normalised() const {
    double squares = 0;
    for (const double value : sum_) squares += value * value;
    const double factor = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::vector<float> vector;
    vector.reserve(sum_.size());
    for (const double value : sum_) vector.push_back(static_cast<float>(value * factor));
    return vector;
  }
  // False: the model made numbers that are not finite.
  bool finite() const {
    for (const double value : sum_) {
      if (!std::isfinite(value)) return false;
    }
    return true;
  }

 private:
  const Pooling pooling_;
  std::vector<double> sum_;  // [state]
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_POOLED_STATES_H_
