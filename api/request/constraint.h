// Constraint is what a request says about the form of its answer: a JSON schema, any JSON object, a regular expression, one of
// several texts, text with tags behind which something has to follow, calls of tools, or what a grammar in llama.cpp's notation
// says. Nothing here knows whether a schema can be enforced; server/shapes compiles it.
//
// Thread: any (plain data).
#ifndef HYDRANT_API_REQUEST_CONSTRAINT_H_
#define HYDRANT_API_REQUEST_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {

enum class ConstraintKind : uint8_t { kJsonSchema, kJsonObject, kRegex, kChoice, kStructuralTag, kGrammar, kToolCalls };

// What is compiled: equal specs make equal automata.
struct ConstraintSpec {
  ConstraintKind kind = ConstraintKind::kJsonObject;
  std::string text;                   // of the schema, expression, tag or grammar
  std::vector<std::string> choices;   // none empty
  int32_t white_space_max = 8;        // bytes in a row between two tokens of JSON; 0: none
  bool unknown_formats_pass = false;  // a schema's `format` that is not enforced is an annotation

  bool operator==(const ConstraintSpec&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConstraintSpec& s) {
    return H::combine(std::move(h), s.kind, s.text, s.choices, s.white_space_max, s.unknown_formats_pass);
  }
};

struct Constraint {
  ConstraintSpec spec;
  std::string field;  // the path that says it, for errors: "response_format.json_schema.schema"
  bool close_at_max_tokens = false;
  // Calls alone are held to it, from behind their marks, and where even that cannot be done it is not: nobody asked for it.
  bool calls_only = false;
  bool from_arguments = false;  // from inside their arguments: their marks may be prose
  bool in_reasoning = false;    // from the first token, also where the answer begins with thinking
};

// Caps before any work, in bytes.
inline constexpr size_t kConstraintBytesMax = 256 << 10;  // of a schema, or of all choices
inline constexpr size_t kRegexBytesMax = 64 << 10;
inline constexpr size_t kConstraintChoicesMax = 4096;
inline constexpr int32_t kWhiteSpaceMax = 64;

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_CONSTRAINT_H_
