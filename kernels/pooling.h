// What a request may want of its prompt instead of an answer: one vector, made of the hidden states of its tokens.
#ifndef HYDRANT_KERNELS_POOLING_H_
#define HYDRANT_KERNELS_POOLING_H_

#include <cstdint>

namespace hydrant {

enum class Pooling : uint8_t {
  kNone,
  kLast,  // the state of the last token
  kMean,  // the mean of all
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_POOLING_H_
