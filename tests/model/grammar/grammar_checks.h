// What tests of grammars ask: whether a text is an answer, and why a schema is refused.
#ifndef HYDRANT_TESTS_MODEL_GRAMMAR_GRAMMAR_CHECKS_H_
#define HYDRANT_TESTS_MODEL_GRAMMAR_GRAMMAR_CHECKS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "model/grammar/grammar.h"

namespace hydrant::grammar {

using Compiled = std::variant<std::shared_ptr<Grammar>, Refusal>;

inline Compiled CompileSchema(std::string schema) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kJsonSchema;
  spec.text = std::move(schema);
  Fuel fuel;
  return Grammar::Compile(spec, fuel);
}

inline bool IsAnswer(Grammar& grammar, std::string_view text) {
  GrammarState state = grammar.Begin();
  return grammar.Advance(state, text) == Grammar::Verdict::kAllowed && grammar.Accepts(state);
}

inline std::shared_ptr<Grammar> MustCompile(const std::string& schema) {
  Compiled made = CompileSchema(schema);
  const auto* refusal = std::get_if<Refusal>(&made);
  EXPECT_EQ(refusal, nullptr) << schema << ": " << refusal->pointer << ": " << refusal->text;
  return refusal != nullptr ? nullptr : std::get<0>(made);
}

inline Refusal MustRefuse(const std::string& schema) {
  Compiled made = CompileSchema(schema);
  EXPECT_EQ(made.index(), 1u) << schema;
  return made.index() == 1 ? std::get<Refusal>(made) : Refusal{};
}

}  // namespace hydrant::grammar

#endif  // HYDRANT_TESTS_MODEL_GRAMMAR_GRAMMAR_CHECKS_H_
