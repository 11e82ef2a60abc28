// ReserveOne makes room for one more at the end of a vector, so that to add it cannot fail: what is in a vector and in an index of it
// stays the same in both where memory runs out.
//
// Thread: any (stateless).
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_RESERVE_ONE_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_RESERVE_ONE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hydrant::grammar {

template <typename T>
void ReserveOne(std::vector<T>& vector) {
  if (vector.size() == vector.capacity()) vector.reserve(std::max<size_t>(16, 2 * vector.size()));
}

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_RESERVE_ONE_H_
