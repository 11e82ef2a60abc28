// ParseRegex reads a regular expression as JSON Schema's `pattern` has them (ECMA-262, without flags) and makes the expression over
// bytes of all texts in which it is found, or which it matches as a whole.
//
// Read: alternatives, groups of all kinds that only group, classes with ranges and \d \w \s and their complements, `.`, the escapes of
// ECMA-262 and of any sign that is no letter or digit, counted repetition, lazy marks (which say nothing about what is matched), ^
// and $ wherever what they mean can be said by the place alone. Refused by name: look-around, back-references, \b, \p, flags.
//
// Thread: any; the one that uses the arena.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_PARSER_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_PARSER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/regex_arena.h"

namespace hydrant::grammar {

struct RegexRefusal {
  size_t column = 0;  // in characters, from 1
  std::string text;   // what is wrong: "look-around '(?=' is not supported"
};

inline constexpr size_t kPatternBytesMax = 64 << 10;
inline constexpr int kPatternDepthMax = 250;  // groups inside groups

enum class RegexExtent : uint8_t { kSearch, kWhole };

// Linear in the pattern; whatever it is, nothing recurses over it.
std::variant<RegexId, RegexRefusal> ParseRegex(std::string_view pattern, RegexArena& arena, TextEncoding encoding,
                                               RegexExtent extent, Fuel& fuel);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_PARSER_H_
