// Bytes [begin, end) of a text.
//
// Thread: any (plain data).
#ifndef HYDRANT_MODEL_TEXT_BYTE_RANGE_H_
#define HYDRANT_MODEL_TEXT_BYTE_RANGE_H_

#include <cstddef>

namespace hydrant {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_BYTE_RANGE_H_
