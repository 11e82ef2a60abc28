// What the readers of an answer's text have in common: text comes in pieces, and the end of one may be the beginning of a marker.
//
// Thread: any.
#ifndef HYDRANT_API_RESPONSE_HELD_TEXT_H_
#define HYDRANT_API_RESPONSE_HELD_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hydrant {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

// Bytes at the end of `text` that may be the beginning of `marker`. REQUIRES: the marker is not empty.
inline size_t HeldBytes(std::string_view text, std::string_view marker) {
  for (size_t held = std::min(text.size(), marker.size() - 1); held > 0; --held) {
    if (text.ends_with(marker.substr(0, held))) return held;
  }
  return 0;
}

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_HELD_TEXT_H_
