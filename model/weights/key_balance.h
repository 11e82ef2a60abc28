// A key in int8 has one scale, that of its largest element. In some models a few elements are many times the others in
// every token (a bias, the weight of a norm): they set the steps, and the others are rounded away. KeyBalance finds such
// elements in the weights, without any text, and gives the factors that level them (HeadNorms::balance).
#ifndef HYDRANT_MODEL_WEIGHTS_KEY_BALANCE_H_
#define HYDRANT_MODEL_WEIGHTS_KEY_BALANCE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace hydrant {

// What makes the keys of a layer: k = W x + bias, then the norm of each head.
struct KeyProduct {
  std::span<const float> rows;  // W, [outputs, cols]
  int64_t cols = 0;
  std::span<const float> bias = {};  // [outputs]; empty: none
  // Vectors of the norm that gives x, [cols]; a weight that is empty: ones, a bias that is: zeros.
  std::span<const float> norm_weight = {}, norm_bias = {};
  // The weight of the norm of keys; empty: there is none. [head_dim], or, where all heads of a token are one row, [outputs].
  std::span<const float> head_norm = {};
};

// [outputs]: about the largest magnitude of each output, if the elements of x before the norm's weight were independent
// and of mean square 1: what all tokens have in common, and three times what they differ by.
std::vector<float> KeySizes(const KeyProduct& product);

// [sizes.size()]: for each element of `sizes` [heads * head_dim], all at least 0, the larger size of the elements that rotate
// together by the head's geometric mean, within [2^-8, 2^8]. Ones for a head with sizes that are no numbers or all 0.
std::vector<float> KeyBalance(std::span<const float> sizes, int32_t head_dim, int32_t rope_dims);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_WEIGHTS_KEY_BALANCE_H_
