// ReadGbnf reads a grammar as llama.cpp has them (GBNF), which is also what others call EBNF: rules `name ::= …` of texts in quotes,
// classes of characters, `.`, names of rules, groups, `|`, and *, +, ?, {m}, {m,}, {m,n}; # begins a comment. The answer is a text of the
// rule `root`.
//
// Rules that do not call themselves, over however many others, become expressions; the others are rules of a script. A rule that begins
// with itself is refused, with the place; so are tokens by number (<[1]>) and look-ahead.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_GBNF_READER_H_
#define HYDRANT_MODEL_GRAMMAR_GBNF_READER_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "model/grammar/grammar_parts.h"

namespace hydrant::grammar {

inline constexpr size_t kGbnfBytesMax = 256 << 10;

// Sets the script's root, or says why not: "line 3, column 9: …".
std::optional<Refusal> BuildGbnf(std::string_view text, GrammarParts& parts);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_GBNF_READER_H_
