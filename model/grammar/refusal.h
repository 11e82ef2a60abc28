// Refusal says why a schema or pattern cannot be enforced, in words for the client.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_REFUSAL_H_
#define HYDRANT_MODEL_GRAMMAR_REFUSAL_H_

#include <cstdint>
#include <string>

namespace hydrant::grammar {

enum class RefusalKind : uint8_t {
  kInvalid,             // no schema: not JSON, a keyword with a value that it cannot have
  kUnsupportedKeyword,  // a keyword that is not enforced here, or not where it stands
  kUnprovableOneOf,     // branches of oneOf that may both match
  kUnsatisfiable,       // no value fits
  kInvalidRegex,
  kInvalidGrammar,  // the text says line and column
  kTooLarge,
  kTooComplex,  // fuel or a limit ended
};

struct Refusal {
  RefusalKind kind = RefusalKind::kInvalid;
  std::string pointer;  // JSON Pointer into the schema, "" for all of it
  std::string keyword;  // or ""
  std::string text;     // what is wrong there
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REFUSAL_H_
