#include "server/shapes/shape_refusal.h"

#include <string>
#include <string_view>

#include "api/wire/json_writer.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

// Pointers have names of the client's, which may be long.
constexpr size_t kPointerBytesMax = 200;

ErrorCode<400> CodeOf(grammar::RefusalKind kind) {
  switch (kind) {
    case grammar::RefusalKind::kInvalid:
      return "invalid_schema";
    case grammar::RefusalKind::kUnsupportedKeyword:
      return "unsupported_schema_keyword";
    case grammar::RefusalKind::kUnprovableOneOf:
      return "unprovable_one_of";
    case grammar::RefusalKind::kUnsatisfiable:
      return "unsatisfiable_schema";
    case grammar::RefusalKind::kInvalidRegex:
      return "invalid_regex";
    case grammar::RefusalKind::kInvalidGrammar:
      return "invalid_grammar";
    case grammar::RefusalKind::kTooLarge:
      return "structured_output_too_large";
    case grammar::RefusalKind::kTooComplex:
      return "structured_output_too_complex";
  }
  return "invalid_schema";
}

}  // namespace

ApiError RefusalError(const grammar::Refusal& refusal, const Constraint& constraint) {
  // A form that stands beside tools is compiled with them, and may not be what cannot be kept.
  const bool in_tools = constraint.spec.kind == ConstraintKind::kToolCalls && refusal.pointer.starts_with("/tools");
  const std::string_view field = in_tools ? "tools" : std::string_view(constraint.field);
  std::string message = StrCat("'", field, "'");
  if (!refusal.pointer.empty()) {
    const bool is_long = refusal.pointer.size() > kPointerBytesMax;
    message += StrCat(" at '", ToValidUtf8(refusal.pointer, kPointerBytesMax), is_long ? "…" : "", "'");
  }
  if (!refusal.keyword.empty()) message += StrCat(", '", refusal.keyword, "'");
  message += StrCat(": ", refusal.text, ".");
  return InvalidField(field, std::move(message), CodeOf(refusal.kind));
}

}  // namespace hydrant
