// BuildShapes makes shapes of a JSON schema (shape.h). Each keyword is enforced, an annotation, or refused by name
// (schema_keywords.h); nothing is enforced in part.
//
// A shape belongs to a conjunction of schemas: those that a value has to fit at once, by allOf, $ref, siblings, or because several
// schemas of an object speak of one property. There are finitely many, so references may go in circles.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_SHAPE_BUILDER_H_
#define HYDRANT_MODEL_GRAMMAR_SHAPE_BUILDER_H_

#include <string_view>
#include <variant>

#include "model/grammar/refusal.h"
#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/shape.h"

namespace hydrant::grammar {

struct SchemaOptions {
  bool unknown_formats_pass = false;  // a format that is not enforced is an annotation
};

// The root of the result is a shape that some value fits. Expressions are in the arena of `dfa`.
std::variant<ShapeSet, Refusal> BuildShapes(std::string_view schema, const SchemaOptions& options, LazyDfa& dfa,
                                            Fuel& fuel);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SHAPE_BUILDER_H_
