// A marker is a special token that a format of answers is written with. In an answer that has a shape it is one byte that is in no UTF-8:
// however text is spelled, it is no marker, and a marker is no text. Which byte it is its place in the format's list says.
//
// Thread: any (pure functions).
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_MARKER_BYTES_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_MARKER_BYTES_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hydrant::grammar {

inline constexpr uint8_t kMarkerFirst = 0xf5;
inline constexpr size_t kMarkersMax = 256 - kMarkerFirst;

inline bool IsMarkerByte(uint8_t byte) { return byte >= kMarkerFirst; }
inline bool HasMarkerBytes(std::string_view bytes) { return std::ranges::any_of(bytes, IsMarkerByte); }
// REQUIRES: place < kMarkersMax.
inline char MarkerByte(size_t place) {
  assert(place < kMarkersMax);
  return static_cast<char>(kMarkerFirst + place);
}

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_MARKER_BYTES_H_
