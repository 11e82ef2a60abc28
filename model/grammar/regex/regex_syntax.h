// RegexSyntax is a pattern as a tree: what was written, before it is an expression over bytes.
//
// Invariant: a node stands behind its parts, so that a loop forward sees parts first and a loop backward parents first.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_SYNTAX_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_SYNTAX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/regex_parser.h"

namespace hydrant::grammar {

enum class SyntaxKind : uint8_t { kEmpty, kClass, kConcat, kOr, kRepeat, kBegin, kEnd };

struct SyntaxNode {
  SyntaxKind kind = SyntaxKind::kEmpty;
  bool nullable = false;      // it may match nothing; anchors do
  bool has_begin = false;     // ^, in it or below
  bool has_end = false;       // $
  size_t column = 0;          // where it begins
  CharClass characters;       // kClass
  std::vector<size_t> parts;  // kConcat, kOr; the one of kRepeat
  int32_t least = 0, most = 0;
};

// What `.` is: every character but line ends.
CharClass AnyOfLine();

// The root is the last one.
std::variant<std::vector<SyntaxNode>, RegexRefusal> ReadRegexSyntax(std::string_view pattern);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_SYNTAX_H_
