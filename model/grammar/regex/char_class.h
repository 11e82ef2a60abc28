// CharClass is a set of characters; EncodedClass the expression over bytes that writes one of them.
//
// Thread: any for CharClass; the one that uses the arena.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_CHAR_CLASS_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_CHAR_CLASS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "model/grammar/regex/regex_arena.h"

namespace hydrant::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10ffff;

class CharClass {
 public:
  using Range = std::pair<uint32_t, uint32_t>;  // both included

  CharClass() = default;
  CharClass(std::initializer_list<Range> ranges) : ranges_(ranges) { Normalise(); }
  static CharClass All() { return {{0, kLastCodePoint}}; }

  // REQUIRES: first <= last.
  void Add(uint32_t first, uint32_t last) { ranges_.emplace_back(first, last); }
  void Add(const CharClass& other) { ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end()); }
  // Ascending, disjoint and apart, without surrogates, which are no characters.
  void Normalise();
  CharClass Complement() const;
  const std::vector<Range>& ranges() const { return ranges_; }  // REQUIRES: normalised

 private:
  std::vector<Range> ranges_;
};

// REQUIRES: normalised.
RegexId EncodedClass(RegexArena& arena, const CharClass& characters, TextEncoding encoding);
// Any text in the encoding.
RegexId AnyText(RegexArena& arena, TextEncoding encoding);
// A text as the encoding writes it. `text` is UTF-8.
std::string EncodedText(std::string_view text, TextEncoding encoding);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_CHAR_CLASS_H_
