#include "api/request/constraint_fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "api/wire/limits.h"

namespace hydrant {
namespace {

struct ReadBack {
  std::optional<Constraint> constraint;
  std::optional<ApiError> error;
};

ReadBack Constrained(const std::string& members) {
  RequestLimits limits;
  const ApiResult<JsonBody> document = JsonBody::Parse("{" + members + "}", limits);
  EXPECT_TRUE(document.ok()) << members.substr(0, 100);
  ReadBack read;
  ObjectReader reader(document.value().root(), "", &read.error);
  read.constraint = ReadConstraint(&reader);
  return read;
}

TEST(ConstraintFieldsTest, EveryNameSaysTheSame) {
  const std::string schema = R"({"type":"object","multipleOf":0.010,"b":1e2,"a":[null,-5]})";
  const std::string text = R"({"type":"object","multipleOf":0.01,"b":100,"a":[null,-5]})";
  struct Case {
    std::string member;
    const char* field;
    ConstraintKind kind;
    std::string text;
  };
  using enum ConstraintKind;
  const Case cases[] = {
      {R"("response_format":{"type":"json_object"})", "response_format", kJsonObject, ""},
      {R"("response_format":{"type":"json_object","schema":)" + schema + "}", "response_format.schema", kJsonSchema,
       text},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)" + schema + "}}",
       "response_format.json_schema.schema", kJsonSchema, text},
      {R"("response_format":{"type":"json_schema","name":"n","schema":)" + schema + "}", "response_format.schema",
       kJsonSchema, text},
      {R"("response_format":{"type":"regex","regex":"a+"})", "response_format.regex", kRegex, "a+"},
      {R"("response_format":{"type":"regex","pattern":"a+"})", "response_format.pattern", kRegex, "a+"},
      {R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":)" + schema + "}}",
       "output_config.format.schema", kJsonSchema, text},
      {R"("output_format":{"type":"json_schema","schema":)" + schema + "}", "output_format.schema", kJsonSchema, text},
      {R"("structured_outputs":{"json":)" + schema + "}", "structured_outputs.json", kJsonSchema, text},
      {R"("structured_outputs":{"json":"{ \"type\": \"null\" }"})", "structured_outputs.json", kJsonSchema,
       R"({ "type": "null" })"},
      {R"("structured_outputs":{"regex":"a+"})", "structured_outputs.regex", kRegex, "a+"},
      {R"("structured_outputs":{"json_object":true})", "structured_outputs.json_object", kJsonObject, ""},
      {R"("guided_json":)" + schema + R"(,"guided_decoding_backend":"outlines")", "guided_json", kJsonSchema, text},
      {R"("guided_regex":"a+")", "guided_regex", kRegex, "a+"},
      {R"("json_schema":)" + schema, "json_schema", kJsonSchema, text},
      {R"("json_schema":"{}")", "json_schema", kJsonSchema, "{}"},
      {R"("regex":"a+")", "regex", kRegex, "a+"},
      {R"("response_format":{"type":"structural_tag","format":{"type":"any_text"}})", "response_format", kStructuralTag,
       R"({"type":"structural_tag","format":{"type":"any_text"}})"},
      {R"("response_format":{"type":"grammar","grammar":"root ::= \"x\""})", "response_format.grammar", kGrammar,
       R"(root ::= "x")"},
      {R"("grammar":"x")", "grammar", kGrammar, "x"},
      {R"("guided_grammar":"x")", "guided_grammar", kGrammar, "x"},
      {R"("ebnf":"x")", "ebnf", kGrammar, "x"},
      {R"("structural_tag":{"structures":[]})", "structural_tag", kStructuralTag, R"({"structures":[]})"},
      {R"("structured_outputs":{"structural_tag":"{}"})", "structured_outputs.structural_tag", kStructuralTag, "{}"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.member);
    const ReadBack read = Constrained(c.member);
    ASSERT_FALSE(read.error.has_value()) << read.error->message;
    ASSERT_TRUE(read.constraint.has_value());
    EXPECT_EQ(read.constraint->field, c.field);
    EXPECT_EQ(read.constraint->spec.kind, c.kind);
    EXPECT_EQ(read.constraint->spec.text, c.text);
    EXPECT_EQ(read.constraint->spec.white_space_max, 8);
  }
  for (const char* member : {R"("guided_choice":["a","b"])", R"("structured_outputs":{"choice":["a","b"]})"}) {
    const ReadBack read = Constrained(member);
    ASSERT_TRUE(read.constraint.has_value());
    EXPECT_EQ(read.constraint->spec.kind, kChoice);
    EXPECT_EQ(read.constraint->spec.choices, (std::vector<std::string>{"a", "b"}));
  }
}

TEST(ConstraintFieldsTest, WhatAsksForNothingIsNone) {
  for (const char* member :
       {R"("response_format":{"type":"text"})", R"("response_format":null)", R"("structured_outputs":null)",
        R"("guided_json":null)", R"("output_config":{"effort":"high"})", R"("output_config":{"format":null})",
        R"("guided_decoding_backend":"auto")", R"("grammar":"")", R"("x":1)"}) {
    const ReadBack read = Constrained(member);
    EXPECT_FALSE(read.error.has_value()) << member << read.error->message;
    EXPECT_FALSE(read.constraint.has_value()) << member;
  }
}

TEST(ConstraintFieldsTest, OptionsGoWithAnyName) {
  const ReadBack read = Constrained(
      R"("response_format":{"type":"json_object"},)"
      R"("structured_outputs":{"max_whitespace":2,"close_at_max_tokens":true,"in_reasoning":true,"format":"annotation"})");
  ASSERT_TRUE(read.constraint.has_value());
  EXPECT_EQ(read.constraint->spec.white_space_max, 2);
  EXPECT_TRUE(read.constraint->close_at_max_tokens);
  EXPECT_TRUE(read.constraint->in_reasoning);
  EXPECT_TRUE(read.constraint->spec.unknown_formats_pass);
  EXPECT_EQ(Constrained(R"("structured_outputs":{"regex":"a","disable_any_whitespace":true})")
                .constraint->spec.white_space_max,
            0);
}

TEST(ConstraintFieldsTest, WrongOnesAreNamed) {
  struct Case {
    const char* member;
    const char* param;
    const char* code;
  };
  const Case cases[] = {
      {R"("response_format":"text")", "response_format", "invalid_type"},
      {R"("response_format":{})", "response_format.type", "missing_field"},
      {R"("response_format":{"type":"xml"})", "response_format.type", "invalid_value"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema", "missing_field"},
      {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema", "missing_field"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})", "response_format.json_schema.schema",
       "missing_field"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":5,"schema":{}}})",
       "response_format.json_schema.name", "invalid_type"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":[]}})", "response_format.json_schema.schema",
       "invalid_type"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"maximum":99999999999999999999}}})",
       "response_format.json_schema.schema", "invalid_value"},
      {R"("response_format":{"type":"grammar"})", "response_format.grammar", "invalid_type"},
      {R"("response_format":{"type":"text","schema":{}})", "response_format.schema", "unknown_field"},
      {R"("response_format":{"type":"json_object","json_schema":{"schema":{}}})", "response_format.json_schema",
       "unknown_field"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{}},"schema":{}})", "response_format.schema",
       "unknown_field"},
      {R"("response_format":{"type":"json_schema","schema":{},"regex":"a"})", "response_format.regex", "unknown_field"},
      {R"("response_format":{"type":"regex","regex":"a","pattern":"b"})", "response_format.pattern", "unknown_field"},
      {R"("response_format":{"type":"grammar","grammar":"x","regex":"a"})", "response_format.regex", "unknown_field"},
      {R"("structured_outputs":{})", "structured_outputs.json", "missing_field"},
      {R"("structured_outputs":{"json_object":false})", "structured_outputs.json", "missing_field"},
      {R"("structured_outputs":{"close_at_max_tokens":true})", "structured_outputs.json", "missing_field"},
      {R"("structured_outputs":{"jsn":{}})", "structured_outputs.jsn", "unknown_field"},
      {R"("structured_outputs":{"grammar":5})", "structured_outputs.grammar", "invalid_type"},
      {R"("structured_outputs":{"regex":"a","whitespace_pattern":" "})", "structured_outputs.whitespace_pattern",
       "unsupported"},
      {R"("structured_outputs":{"regex":"a","max_whitespace":65})", "structured_outputs.max_whitespace",
       "invalid_value"},
      {R"("structured_outputs":{"regex":"a","format":"skip"})", "structured_outputs.format", "invalid_value"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs.choice", "conflicting_constraints"},
      {R"("guided_json":{},"response_format":{"type":"json_object"})", "guided_json", "conflicting_constraints"},
      {R"("guided_json":5)", "guided_json", "invalid_type"},
      {R"("guided_regex":{})", "guided_regex", "invalid_type"},
      {R"("guided_choice":"a")", "guided_choice", "invalid_type"},
      {R"("guided_choice":[])", "guided_choice", "invalid_value"},
      {R"("guided_choice":["a",""])", "guided_choice", "invalid_value"},
      {R"("grammar":"x","regex":"a")", "grammar", "conflicting_constraints"},
      {R"("structural_tag":5)", "structural_tag", "invalid_type"},
      {R"("guided_whitespace_pattern":"a")", "guided_whitespace_pattern", "unsupported"},
      {R"("guided_json":{},"whitespace_pattern":"a")", "whitespace_pattern", "unsupported"},
      {R"("response_format":{"type":"json_object"},"whitespace_pattern":"a")", "whitespace_pattern", "unsupported"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.member);
    const ReadBack read = Constrained(c.member);
    ASSERT_TRUE(read.error.has_value());
    EXPECT_FALSE(read.constraint.has_value());
    EXPECT_EQ(read.error->status, 400);
    EXPECT_EQ(read.error->param, c.param) << read.error->message;
    EXPECT_EQ(read.error->code, c.code);
  }
  const ReadBack both = Constrained(R"("guided_regex":"a","regex":"b")");
  EXPECT_EQ(both.error->message, "'guided_regex' and 'regex' both say what the answer has to be: send one of them.");
}

TEST(ConstraintFieldsTest, CapsComeBeforeAnyWork) {
  const std::string large(kConstraintBytesMax, 'a');
  std::string choices = "\"x\"";
  for (size_t i = 0; i < kConstraintChoicesMax; ++i) choices += ",\"x\"";
  for (const std::string& member :
       {"\"guided_json\":{\"title\":\"" + large + "\"}", "\"json_schema\":\"" + large + "b\"",
        "\"regex\":\"" + std::string(kRegexBytesMax + 1, 'a') + "\"", "\"guided_choice\":[" + choices + "]",
        "\"guided_choice\":[\"" + large + "\",\"b\"]"}) {
    const ReadBack read = Constrained(member);
    ASSERT_TRUE(read.error.has_value()) << member.substr(0, 40);
    EXPECT_EQ(read.error->code, "structured_output_too_large") << read.error->message;
  }
}

TEST(ConstraintFieldsTest, StrictHasRulesOfItsOwn) {
  struct Case {
    const char* schema;
    const char* fault;
  };
  const Case cases[] = {
      {R"({"type":"object","properties":{},"additionalProperties":false})", ""},
      {R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false})", ""},
      {R"({"type":"array"})", "the root must be of type object"},
      {R"({"anyOf":[]})", "the root must be of type object"},
      {R"({"type":"object"})", "'additionalProperties' must be false at ''"},
      {R"({"type":"object","properties":{"a":{},"b":{}},"required":["a"],"additionalProperties":false})",
       "'required' must name every property at ''"},
      {R"({"type":"object","properties":{"x/y":{"items":{"anyOf":[{"type":"null"},{"type":["object"]}]}}},)"
       R"("required":["x/y"],"additionalProperties":false})",
       "'additionalProperties' must be false at '/properties/x~1y/items/anyOf/1'"},
      {R"({"type":"object","$defs":{"t":{"properties":{"l":{"$ref":"#/$defs/t"}},"additionalProperties":false}},)"
       R"("additionalProperties":false})",
       "'required' must name every property at '/$defs/t'"},
  };
  for (const Case& c : cases) {
    const std::string format =
        R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" +
        std::string(c.schema) + "}}";
    const ReadBack read = Constrained(format);
    if (*c.fault == '\0') {
      EXPECT_TRUE(read.constraint.has_value()) << c.schema << read.error->message;
      continue;
    }
    ASSERT_TRUE(read.error.has_value()) << c.schema;
    EXPECT_EQ(read.error->param, "response_format.json_schema.schema");
    EXPECT_NE(read.error->message.find(c.fault), std::string::npos) << read.error->message;
  }
  // It is said of no schema that does not say so.
  EXPECT_TRUE(Constrained(R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array"}}})")
                  .constraint.has_value());
}

}  // namespace
}  // namespace hydrant
