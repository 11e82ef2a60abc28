// GrammarParts is a grammar while it is made: shapes and script over the expressions of one automaton, with the fuel that is left.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_GRAMMAR_PARTS_H_
#define HYDRANT_MODEL_GRAMMAR_GRAMMAR_PARTS_H_

#include <string>
#include <string_view>
#include <variant>

#include "model/grammar/refusal.h"
#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/script.h"
#include "model/grammar/shape.h"
#include "model/grammar/shape_builder.h"

namespace hydrant::grammar {

struct GrammarParts {
  LazyDfa dfa;
  ShapeSet shapes;
  Script script;
  SchemaOptions options;
  Fuel& fuel;

  // The shape of a schema that stands at `pointer` of what the client sent.
  std::variant<ShapeId, Refusal> Schema(std::string_view schema, const std::string& pointer);
  // The expression of a pattern that has to match a text as a whole; it has a text.
  std::variant<RegexId, Refusal> Pattern(std::string_view pattern, const std::string& pointer);
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_GRAMMAR_PARTS_H_
