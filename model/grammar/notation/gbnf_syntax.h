// GbnfSyntax is a grammar as it was written: rules, and for each what it is made of.
//
// Invariant: a node stands behind its parts.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_GBNF_SYNTAX_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_GBNF_SYNTAX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/grammar/regex/char_class.h"

namespace hydrant::grammar {

struct GbnfNode {
  enum class Kind : uint8_t { kText, kClass, kRule, kConcat, kOr, kRepeat };
  Kind kind = Kind::kConcat;
  size_t place = 0;           // where it begins, in bytes
  std::string text;           // kText
  CharClass characters;       // kClass
  int32_t rule = -1;          // kRule
  std::vector<size_t> parts;  // kConcat, kOr; the one of kRepeat
  int32_t least = 0, most = 0;
};

struct GbnfRule {
  std::string name;
  size_t place = 0;  // of its first mention
  bool is_defined = false;
  size_t root = 0;
};

struct GbnfSyntax {
  std::vector<GbnfNode> nodes;
  std::vector<GbnfRule> rules;
};

// "line 3, column 9: what", with the column in characters.
std::string AtPlace(std::string_view text, size_t place, std::string_view what);

inline constexpr size_t kGbnfDepthMax = 200;  // groups inside groups
inline constexpr int kGbnfRepeatsMax = 8;     // behind one part
inline constexpr int32_t kGbnfCountMax = 100'000;
inline constexpr size_t kGbnfRulesMax = 5'000;

// All rules are defined, and one is `root`. Otherwise what is wrong, and where.
std::variant<GbnfSyntax, std::string> ReadGbnfSyntax(std::string_view text);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_GBNF_SYNTAX_H_
