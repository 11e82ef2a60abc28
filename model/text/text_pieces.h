// What readers of text that comes in pieces have in common: the end of a piece may be the beginning of a marker.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TEXT_TEXT_PIECES_H_
#define HYDRANT_MODEL_TEXT_TEXT_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hydrant {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

inline bool IsBlank(std::string_view text) { return text.find_first_not_of(kWhiteSpace) == std::string_view::npos; }

// Bytes at the end of `text` that may be the beginning of `marker`. REQUIRES: the marker is not empty.
inline size_t HeldBytes(std::string_view text, std::string_view marker) {
  for (size_t held = std::min(text.size(), marker.size() - 1); held > 0; --held) {
    if (text.ends_with(marker.substr(0, held))) return held;
  }
  return 0;
}

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_TEXT_PIECES_H_
