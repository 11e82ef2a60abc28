#include "server/shapes/shape_refusal.h"

#include <gtest/gtest.h>

#include "tests/server/shapes/shape_checks.h"

namespace hydrant {
namespace {

TEST(ShapeRefusal, NamesFieldPlaceAndKeyword) {
  struct Case {
    ConstraintSpec spec;
    const char* code;
    const char* message;
  };
  const Case cases[] = {
      {SchemaSpec("{"), "invalid_schema", "'f': "},
      {SchemaSpec(R"({"properties":{"tags":{"type":"array","uniqueItems":true}}})"), "unsupported_schema_keyword",
       "'f' at '/properties/tags', 'uniqueItems': "},
      {SchemaSpec(R"({"type":"array","items":{"oneOf":[{"items":{"type":"null"}},{"items":{"type":"string"}}]}})"),
       "unprovable_one_of", "'f' at '/items"},
      {SchemaSpec(R"({"type":"integer","minimum":5,"maximum":3})"), "unsatisfiable_schema", "'f'"},
      {RegexSpec("a(?!b)"), "invalid_regex", "'f': column 2: look-around is not supported."},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.spec.text);
    const auto made = CompiledShape::Compile(c.spec, ByteVocabulary());
    ASSERT_EQ(made.index(), 1u);
    const ApiError error = RefusalError(std::get<1>(made), {.spec = c.spec, .field = "f"});
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, "f");
    EXPECT_EQ(error.code, c.code) << error.message;
    EXPECT_EQ(error.message.substr(0, std::string(c.message).size()), c.message) << error.message;
  }
}

// A form beside tools: either may be what cannot be kept.
TEST(ShapeRefusal, NamesTheToolsWhereOneOfThemIsRefused) {
  const std::string bad = R"({"type":"object","properties":{"x":{"uniqueItems":true,"type":"array"}}})";
  const auto error_of = [](const std::string& parameters, const std::string& answer) {
    Constraint constraint;
    constraint.field = "response_format";
    constraint.spec.kind = ConstraintKind::kToolCalls;
    constraint.spec.text = R"({"format":"hermes","choice":"auto","parallel":true,"tools":[{"name":"f","parameters":)" +
                           parameters + R"(}],"answer":)" + answer + "}";
    const auto made = CompiledShape::Compile(constraint.spec, ByteVocabulary());
    EXPECT_EQ(made.index(), 1u) << constraint.spec.text;
    return RefusalError(std::get<1>(made), constraint);
  };
  EXPECT_EQ(error_of(bad, "{}").param, "tools");
  EXPECT_EQ(error_of("{}", bad).param, "response_format");
}

TEST(ShapeRefusal, LongPlacesAreCut) {
  grammar::Refusal refusal;
  refusal.kind = grammar::RefusalKind::kTooComplex;
  refusal.pointer = "/" + std::string(5000, 'x');
  refusal.text = "takes too much work";
  const ApiError error = RefusalError(refusal, {.spec = SchemaSpec("{}"), .field = "f"});
  EXPECT_EQ(error.code, "structured_output_too_complex");
  EXPECT_LT(error.message.size(), 300u);
}

}  // namespace
}  // namespace hydrant
