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

inline Compiled CompileKind(GrammarKind kind, std::string text) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  Fuel fuel;
  return Grammar::Compile(spec, fuel);
}
inline Compiled CompileSchema(std::string schema) { return CompileKind(GrammarKind::kJsonSchema, std::move(schema)); }

inline bool IsAnswer(Grammar& grammar, std::string_view text) {
  GrammarState state = grammar.Begin();
  return grammar.Advance(state, text) == Grammar::Verdict::kAllowed && grammar.Accepts(state);
}

inline std::shared_ptr<Grammar> MustCompileKind(GrammarKind kind, const std::string& text) {
  Compiled made = CompileKind(kind, text);
  const auto* refusal = std::get_if<Refusal>(&made);
  EXPECT_EQ(refusal, nullptr) << text << ": " << refusal->pointer << ": " << refusal->text;
  return refusal != nullptr ? nullptr : std::get<0>(made);
}
inline std::shared_ptr<Grammar> MustCompile(const std::string& schema) {
  return MustCompileKind(GrammarKind::kJsonSchema, schema);
}

inline Refusal MustRefuseKind(GrammarKind kind, const std::string& text) {
  Compiled made = CompileKind(kind, text);
  EXPECT_EQ(made.index(), 1u) << text;
  return made.index() == 1 ? std::get<Refusal>(made) : Refusal{};
}
inline Refusal MustRefuse(const std::string& schema) { return MustRefuseKind(GrammarKind::kJsonSchema, schema); }

}  // namespace hydrant::grammar

#endif  // HYDRANT_TESTS_MODEL_GRAMMAR_GRAMMAR_CHECKS_H_
