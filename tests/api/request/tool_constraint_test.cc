#include "api/request/tool_constraint.h"

#include <gtest/gtest.h>

#include <string>

#include "api/request/chat_request.h"
#include "api/request/messages_request.h"
#include "model/grammar/grammar.h"

namespace hydrant {
namespace {

RequestContext HoldingContext() {
  RequestContext context;
  context.model_names = {"smol"};
  context.vocab_size = 100;
  context.context = 512;
  context.constraints = true;
  context.tool_format = "hermes";
  return context;
}

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}},)"
    R"({"type":"function","function":{"name":"g"}}])";

std::string WithStrict() {
  std::string tools = kTools;
  return tools.insert(tools.find(R"("parameters")"), R"("strict":true,)");
}

ApiResult<ChatRequest> ParseChat(const std::string& members, const RequestContext& context = HoldingContext()) {
  return ParseChatRequest(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", context);
}

// What the request's answers are held to, tried on texts.
void ExpectAnswers(const std::string& members, const std::vector<std::string>& answers,
                   const std::vector<std::string>& others) {
  const ApiResult<ChatRequest> parsed = ParseChat(members);
  ASSERT_TRUE(parsed.ok()) << members << parsed.error().message;
  ASSERT_TRUE(parsed.value().constraint.has_value()) << members;
  grammar::GrammarSpec spec;
  spec.kind = grammar::GrammarKind::kToolCalls;
  spec.text = parsed.value().constraint->spec.text;
  grammar::Fuel fuel;
  const auto made = grammar::Grammar::Compile(spec, fuel);
  ASSERT_EQ(made.index(), 0u) << spec.text;
  grammar::Grammar& grammar = *std::get<0>(made);
  const auto is_answer = [&](const std::string& text) {
    grammar::GrammarState state = grammar.Begin();
    return grammar.Advance(state, text) == grammar::Grammar::Verdict::kAllowed && grammar.Accepts(state);
  };
  for (const std::string& answer : answers) EXPECT_TRUE(is_answer(answer)) << members << ": " << answer;
  for (const std::string& other : others) EXPECT_FALSE(is_answer(other)) << members << ": " << other;
}

std::string Call(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}

TEST(ToolConstraint, HoldsAnswersToWhatIsAskedFor) {
  const std::string f = Call("f", R"({"a": 1})"), loose = Call("f", R"({"b": 1})"), g = Call("g", "{}"),
                    any = Call("g", R"({"b": 1})");
  ExpectAnswers(kTools + std::string(R"(,"tool_choice":"required")"), {f, g, f + "\n" + g},
                {"", "hi", "hi " + f, loose, any});
  ExpectAnswers(kTools + std::string(R"(,"tool_choice":"required","parallel_tool_calls":false)"), {f, g}, {f + g});
  ExpectAnswers(kTools + std::string(R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"), {f},
                {g, f + f, "hi"});
  ExpectAnswers(WithStrict(), {"", "hi", "hi " + f + any, f}, {loose, Call("h", "{}")});
  ExpectAnswers(WithStrict() + R"(,"parallel_tool_calls":false)", {"hi " + f}, {f + g, f + " hi"});
}

TEST(ToolConstraint, NotAllToolsThatAreToldOfMayBeCalled) {
  const auto allowed = [](const std::string& mode, const std::string& name) {
    return kTools + std::string(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")") + mode +
           R"(","tools":[{"type":"function","function":{"name":")" + name + R"("}}]}})";
  };
  const std::string f = Call("f", R"({"a": 1})"), loose = Call("f", R"({"b": 1})"), g = Call("g", "{}");
  ExpectAnswers(allowed("required", "f"), {f, f + "\n" + f}, {g, "hi", loose, f + "\n" + g});
  ExpectAnswers(allowed("auto", "f"), {"", "hi", "hi " + f, loose}, {g, "hi " + g, f + "\n" + g});
  EXPECT_EQ(ParseChat(allowed("auto", "f")).value().conversation.tools.size(), 2u) << "the model is told of both";
}

TEST(ToolConstraint, AFormIsThatOfAnAnswerWithoutCalls) {
  const std::string form =
      R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":)"
      R"({"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}}})";
  const std::string f = Call("f", R"({"a": 1})"), loose = Call("f", R"({"b": 1})");
  ExpectAnswers(kTools + form, {R"({"x": 1})", f, loose, f + "\n" + f},
                {"", "hi", "{}", "hi " + f, f + R"({"x": 1})", Call("h", "{}")});
  ExpectAnswers(kTools + form + R"(,"parallel_tool_calls":false)", {R"({"x": 1})", f}, {f + "\n" + f});
  RequestContext llama = HoldingContext();
  llama.tool_format = "llama3_json";
  llama.calls_are_json_answers = true;
  const ApiResult<ChatRequest> either =
      ParseChat(kTools + std::string(R"(,"response_format":{"type":"json_object"})"), llama);
  ASSERT_FALSE(either.ok());
  EXPECT_EQ(either.error().param, "response_format");
  ExpectAnswers(WithStrict() + R"(,"response_format":{"type":"json_object"})", {"{}", R"({"y": [1]})", f},
                {"[]", loose});
  ExpectAnswers(kTools + form + R"(,"tool_choice":"required")", {f}, {R"({"x": 1})", loose});
}

TEST(ToolConstraint, IsNoneWhereNothingIsPromised) {
  for (const std::string members : {"", kTools, R"(,"tool_choice":"auto")"}) {
    const ApiResult<ChatRequest> parsed = ParseChat(members);
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(parsed.value().constraint.has_value()) << members;
  }
  const ApiResult<ChatRequest> none = ParseChat(WithStrict() + R"(,"tool_choice":"none")");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().constraint.has_value());
  EXPECT_FALSE(none.value().parses_tool_calls);
}

TEST(ToolConstraint, WhatIsNamedIsOneCall) {
  const ApiResult<ChatRequest> named =
      ParseChat(kTools + std::string(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"));
  ASSERT_TRUE(named.ok());
  EXPECT_TRUE(named.value().names_tool);
  EXPECT_FALSE(named.value().parallel_tool_calls);
  EXPECT_TRUE(named.value().parses_tool_calls);
}

TEST(ToolConstraint, RefusesWhatItCannotHold) {
  struct Case {
    std::string members;
    const char* param;
    const char* code;
  };
  const std::string tools = kTools;
  for (
      const Case& c :
      {Case{R"(,"tool_choice":"required")", "tool_choice", "invalid_value"},
       {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}})",
        "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":"any")", "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":{"type":"function"})", "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":{"type":"custom","custom":{"name":"f"}})", "tool_choice", "unsupported"},
       {tools + R"(,"tool_choice":{"type":"allowed_tools"})", "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})", "tool_choice",
        "invalid_value"},
       {tools +
            R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"h"}}]}})",
        "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]})",
        "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":{"type":"function","function":{"name":"h"}})", "tool_choice", "invalid_value"},
       {tools + R"(,"tool_choice":"required","stop":"x")", "stop", "invalid_value"},
       {tools + R"(,"tool_choice":"required","ignore_eos":true)", "ignore_eos", "invalid_value"},
       {tools + R"(,"tool_choice":"required","response_format":{"type":"regex","regex":"a"})", "tool_choice",
        "conflicting_constraints"},
       {WithStrict() + R"(,"guided_choice":["a"])", "tools", "conflicting_constraints"},
       {tools + R"(,"guided_json":"{},\"choice\":1")", "guided_json", "invalid_schema"},
       {tools +
            R"(,"guided_json":"{,","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}})",
        "guided_json", "invalid_schema"}}) {
    const ApiResult<ChatRequest> parsed = ParseChat(c.members);
    ASSERT_FALSE(parsed.ok()) << c.members;
    EXPECT_EQ(parsed.error().param, c.param) << c.members;
    EXPECT_EQ(parsed.error().code, c.code) << c.members;
  }
  RequestContext context = HoldingContext();
  context.tool_format = "";
  EXPECT_EQ(ParseChat(tools + R"(,"tool_choice":"required")", context).error().code, "no_tool_call_format");
  EXPECT_EQ(ParseChat(WithStrict(), context).error().param, "tools");
  context.constraints = false;
  EXPECT_EQ(ParseChat(tools + R"(,"tool_choice":"required")", context).error().code, "unsupported");
  EXPECT_EQ(ParseChat(WithStrict(), context).error().code, "unsupported");
}

TEST(ToolConstraint, MessagesSayTheSame) {
  const auto parse = [](const std::string& choice) {
    return ParseMessagesRequest(
        R"({"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"},"strict":true}])" +
            choice + "}",
        HoldingContext());
  };
  const auto has = [](const ApiResult<MessagesRequest>& parsed, const char* text) {
    return parsed.ok() && parsed.value().constraint.has_value() &&
           parsed.value().constraint->spec.text.find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(parse(""), R"("choice":"auto","parallel":true,"tools":[{"name":"f"},{"name":"g","parameters":)"));
  EXPECT_TRUE(has(parse(R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})"),
                  R"("choice":"required","parallel":false)"));
  EXPECT_TRUE(has(parse(R"(,"tool_choice":{"type":"tool","name":"f"})"),
                  R"("parallel":false,"tools":[{"name":"f","parameters":{"type":"object"}}]})"));
  EXPECT_EQ(parse(R"(,"tool_choice":{"type":"tool","name":"h"})").error().param, "tool_choice.name");
}

TEST(ToolConstraint, SpecialTokensOfTheFormatAreNamed) {
  RequestContext context = HoldingContext();
  context.tool_markers = {"<tool_call>"};
  const std::string members = kTools + std::string(R"(,"tool_choice":"required")");
  const auto marked = ParseChat(members, context);
  ASSERT_TRUE(marked.ok()) << marked.error().message;
  EXPECT_NE(marked.value().constraint->spec.text.find(R"("markers":["<tool_call>"])"), std::string::npos);
  EXPECT_EQ(ParseChat(members).value().constraint->spec.text.find("markers"), std::string::npos);
}

TEST(ToolConstraint, WithoutAPromiseCallsAloneAreHeld) {
  RequestContext context = HoldingContext();
  context.call_mark = CallMark::kToken;
  const auto held = [&context](const std::string& members) {
    const auto parsed = ParseChat(kTools + members, context);
    EXPECT_TRUE(parsed.ok()) << members << parsed.error().message;
    const std::optional<Constraint>& constraint = parsed.value().constraint;
    return constraint.has_value() && constraint->calls_only ? constraint->spec.text : std::string();
  };
  EXPECT_EQ(held(""),
            R"({"format":"hermes","choice":"auto","parallel":true,"loose":true,"tools":[{"name":"f"},{"name":"g"}]})");
  EXPECT_NE(held(R"(,"parallel_tool_calls":false)").find(R"("parallel":false)"), std::string::npos);
  EXPECT_NE(held(R"(,"min_tokens":2)"), "");
  EXPECT_NE(held(R"(,"stop_token_ids":[1])"), "");
  // What it could not be combined with is done all the same.
  for (const char* other : {R"(,"ignore_eos":true)", R"(,"allowed_token_ids":[1])", R"(,"tool_choice":"none")",
                            R"(,"tool_choice":"required")", R"(,"guided_choice":["a"])", R"(,"bad_words":["a"])",
                            R"(,"min_tokens":2,"stop_token_ids":[1])"}) {
    EXPECT_EQ(held(other), "") << other;
  }
  // What prose may spell holds nothing by itself.
  EXPECT_FALSE(ParseChat(kTools, context).value().constraint->from_arguments);
  context.call_mark = CallMark::kSpelled;
  EXPECT_NE(held(""), "");
  EXPECT_TRUE(ParseChat(kTools, context).value().constraint->from_arguments);
  context.call_mark = CallMark::kNone;
  EXPECT_EQ(held(""), "");
  context.call_mark = CallMark::kToken;
  context.tool_markers = {"<tool_call>"};
  EXPECT_NE(held("").find(R"("markers":["<tool_call>"])"), std::string::npos);
  context.constraints = false;
  EXPECT_EQ(held(""), "");
}

}  // namespace
}  // namespace hydrant
