#include "model/grammar/grammar_parts.h"

#include <utility>

#include "model/grammar/regex/regex_parser.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {

std::variant<ShapeId, Refusal> GrammarParts::Schema(std::string_view schema, const std::string& pointer) {
  auto built = BuildShapes(schema, options, dfa, fuel);
  if (auto* refusal = std::get_if<Refusal>(&built)) {
    refusal->pointer = pointer + refusal->pointer;
    return std::move(*refusal);
  }
  return shapes.Append(std::move(std::get<ShapeSet>(built)));
}

std::variant<RegexId, Refusal> GrammarParts::Pattern(std::string_view pattern, const std::string& pointer) {
  auto parsed = ParseRegex(pattern, dfa.arena(), TextEncoding::kUtf8, RegexExtent::kWhole, fuel);
  if (const auto* refusal = std::get_if<RegexRefusal>(&parsed)) {
    return Refusal{RefusalKind::kInvalidRegex, pointer, "", StrCat("column ", refusal->column, ": ", refusal->text)};
  }
  const RegexId texts = std::get<RegexId>(parsed);
  if (dfa.IsEmpty(texts, fuel)) {
    return Refusal{RefusalKind::kUnsatisfiable, pointer, "", "no text matches the expression"};
  }
  return texts;
}

}  // namespace hydrant::grammar
