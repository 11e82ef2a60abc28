// ByteSet is a set of bytes, 256 bits.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_BYTE_SET_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_BYTE_SET_H_

#include <array>
#include <cstdint>

namespace hydrant::grammar {

struct ByteSet {
  std::array<uint64_t, 4> words = {};

  static ByteSet Range(int first, int last) {  // both included
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.Add(static_cast<uint8_t>(byte));
    return set;
  }
  void Add(uint8_t byte) { words[byte >> 6] |= uint64_t{1} << (byte & 63); }
  bool Has(uint8_t byte) const { return (words[byte >> 6] >> (byte & 63) & 1) != 0; }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  // Whether all of it is in `other`.
  bool Within(const ByteSet& other) const { return (*this & other) == *this; }

  ByteSet operator&(const ByteSet& other) const {
    ByteSet set;
    for (int i = 0; i < 4; ++i) set.words[i] = words[i] & other.words[i];
    return set;
  }
  ByteSet operator|(const ByteSet& other) const {
    ByteSet set;
    for (int i = 0; i < 4; ++i) set.words[i] = words[i] | other.words[i];
    return set;
  }
  bool operator==(const ByteSet&) const = default;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_BYTE_SET_H_
