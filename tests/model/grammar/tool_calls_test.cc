// Calls in every format: what models write is read, byte by byte and at once, and nothing else can be written.
#include "model/grammar/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/call_reader.h"
#include "model/grammar/notation/tool_format.h"
#include "model/grammar/regex/marker_bytes.h"
#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

constexpr std::string_view kTools =
    R"("tools":[{"name":"get","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"],"additionalProperties":false}},)"
    R"({"name":"get_all"},{"name":"stop","parameters":{"type":"object","properties":{},"additionalProperties":false}}])";

std::string Spec(std::string_view format, std::string_view choice, bool parallel = true,
                 std::string_view tools = kTools) {
  return R"({"format":")" + std::string(format) + R"(","choice":")" + std::string(choice) + R"(","parallel":)" +
         (parallel ? "true" : "false") + (tools.empty() ? "" : "," + std::string(tools)) + "}";
}

struct Read {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  bool whole = false;
};

// "forbidden" as text where the grammar does not allow it.
Read ReadAnswer(Grammar& grammar, std::string_view answer, size_t piece, bool loose) {
  GrammarState state = grammar.Begin();
  CallReader reader(loose);
  std::vector<CallEvent> events;
  std::vector<ByteRegion> regions;
  for (size_t at = 0; at < answer.size(); at += piece) {
    const std::string_view bytes = answer.substr(at, piece);
    if (grammar.Advance(state, bytes, &regions) != Grammar::Verdict::kAllowed) return {"forbidden", {}, false};
    reader.Push(bytes, regions, events);
  }
  Read read;
  read.whole = grammar.Accepts(state);
  reader.Finish(read.whole, events);
  for (const CallEvent& event : events) {
    if (event.kind == CallEvent::Kind::kText) read.text += event.text;
    if (event.kind == CallEvent::Kind::kCall) read.calls.emplace_back(event.text, "");
    if (event.kind == CallEvent::Kind::kArguments) read.calls.back().second += event.text;
    if (event.kind == CallEvent::Kind::kCallEnd) read.calls.back().second += ";";
  }
  return read;
}

struct Example {
  const char* format;
  const char* answer;  // text "Hm. " if the format allows any, get, get_all
  bool text, two;
};

const std::vector<Example> kExamples = {
    {"hermes",
     "Hm. <tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"O\\\"x\", \"days\": 3}}\n</tool_call>\n"
     "<tool_call>{\"name\":\"get_all\",\"arguments\":{\"k\":[1]}}</tool_call>",
     true, true},
    {"llama3_json",
     "<|python_tag|>{\"name\": \"get\", \"parameters\": {\"city\": \"O\\\"x\", \"days\": 3}}; {\"name\": \"get_all\", "
     "\"parameters\": {\"k\":[1]}}",
     false, true},
    {"mistral",
     "Hm. [TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"city\": \"O\\\"x\", \"days\": 3}}, {\"name\": "
     "\"get_all\", "
     "\"arguments\": {\"k\":[1]}}]",
     true, true},
    {"mistral_args", "Hm. [TOOL_CALLS]get[ARGS]{\"city\": \"O\\\"x\", \"days\": 3}[TOOL_CALLS]get_all[ARGS]{\"k\":[1]}",
     true, true},
    {"qwen3_coder",
     "Hm. "
     "<tool_call>\n<function=get>\n<parameter=city>\nO\"x\n</parameter>\n<parameter=days>\n3\n</parameter>\n</"
     "function>\n"
     "</tool_call>\n<tool_call>\n<function=get_all>\n<parameter=k>\n[1]\n</parameter>\n</function>\n</tool_call>",
     true, true},
    {"deepseek_v3",
     "Hm. <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"city\": \"O\\\"x\", "
     "\"days\": 3}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_all\n```json\n{\"k\":[1]}\n```<"
     "｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     true, true},
    {"deepseek_v31",
     "Hm. <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": \"O\\\"x\", \"days\": "
     "3}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>get_all<｜tool▁sep｜>{\"k\":[1]}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     true, true},
    {"harmony",
     "Hm. <|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"city\": \"O\\\"x\", \"days\": "
     "3}<|channel|>commentary to=functions.get_all<|message|>{\"k\":[1]}",
     true, true},
    {"glm45",
     "Hm. <tool_call>get\n<arg_key>city</arg_key>\n<arg_value>O\"x</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get_all<arg_key>k</arg_key><arg_value>[1]</arg_value>"
     "</tool_call>",
     true, true},
    {"functionary_v31",
     "Hm. <function=get>{\"city\": \"O\\\"x\", \"days\": 3}</function><function=get_all>{\"k\":[1]}</function>", true,
     true},
    {"hunyuan_a13b",
     "Hm. <tool_calls>[{\"name\": \"get\", \"arguments\": {\"city\": \"O\\\"x\", \"days\": 3}}, {\"name\": "
     "\"get_all\", \"arguments\": {\"k\":[1]}}]</tool_calls>",
     true, true},
    {"pythonic", "<|python_start|>[get(city=\"O\\\"x\", days=3), get_all(k=[1])]<|python_end|>", false, true},
};

std::string WithoutSpace(std::string text) {
  std::erase(text, ' ');
  return text;
}

TEST(ToolCalls, AreReadInEveryFormat) {
  for (const Example& example : kExamples) {
    for (const bool loose : {false, true}) {
      const auto grammar =
          MustCompileKind(GrammarKind::kToolCalls, Spec(example.format, "auto", true, loose ? "" : kTools));
      ASSERT_NE(grammar, nullptr) << example.format;
      for (const size_t piece : {size_t{1}, size_t{5}, size_t{1000}}) {
        const bool bare = FindToolFormat(example.format)->style == ArgumentStyle::kMarkup;
        const Read read = ReadAnswer(*grammar, example.answer, piece, loose || bare);
        EXPECT_EQ(read.text.substr(0, 4), example.text ? "Hm. " : "") << example.format;
        ASSERT_EQ(read.calls.size(), 2u) << example.format << " text " << read.text;
        EXPECT_EQ(read.calls[0].first, "get");
        EXPECT_EQ(WithoutSpace(read.calls[0].second), R"({"city":"O\"x","days":3};)") << example.format;
        EXPECT_EQ(read.calls[1].first, "get_all");
        EXPECT_EQ(WithoutSpace(read.calls[1].second), R"({"k":[1]};)") << example.format;
        EXPECT_TRUE(read.whole) << example.format;
      }
      EXPECT_EQ(ReadAnswer(*grammar, "No call, <tool [and] {\"x\":1}.", 3, loose).text,
                "No call, <tool [and] {\"x\":1}.");
    }
  }
}

TEST(ToolCalls, ChoicesAreKept) {
  for (const Example& example : kExamples) {
    const auto one = MustCompileKind(GrammarKind::kToolCalls, Spec(example.format, "auto", false));
    EXPECT_EQ(ReadAnswer(*one, example.answer, 1, true).text, "forbidden") << example.format;
    const auto required = MustCompileKind(GrammarKind::kToolCalls, Spec(example.format, "required"));
    const std::string_view answer = std::string_view(example.answer).substr(example.text ? 4 : 0);
    const Read read = ReadAnswer(*required, answer, 1, true);
    EXPECT_EQ(read.text, "") << example.format;
    EXPECT_EQ(read.calls.size(), 2u) << example.format;
    EXPECT_TRUE(read.whole);
    EXPECT_FALSE(IsAnswer(*required, "")) << example.format;
    EXPECT_EQ(ReadAnswer(*required, "Hm. ", 1, true).text, "forbidden") << example.format;
    // Names and schemas, of all tools and of the one that is named.
    std::string other(answer);
    other.replace(other.find("get"), 3, "got");
    EXPECT_EQ(ReadAnswer(*required, other, 1, true).text, "forbidden") << example.format;
    other = answer;
    other.replace(other.find("days"), 4, "week");
    EXPECT_EQ(ReadAnswer(*required, other, 1, true).text, "forbidden") << example.format;
    const auto named = MustCompileKind(GrammarKind::kToolCalls,
                                       Spec(example.format, "required", false, R"("tools":[{"name":"get_all"}])"));
    EXPECT_EQ(ReadAnswer(*named, answer, 1, true).text, "forbidden") << example.format;
  }
}

// The request for a vocabulary in which these are special tokens.
std::string Marked(std::string spec, const std::vector<std::string>& markers) {
  std::string list;
  for (const std::string& marker : markers) list += (list.empty() ? "\"" : ",\"") + marker + "\"";
  spec.pop_back();
  return spec + ",\"markers\":[" + list + "]}";
}
std::string WithMarkers(std::string answer, const std::vector<std::string>& markers) {
  for (size_t i = 0; i < markers.size(); ++i) {
    for (size_t at = 0; (at = answer.find(markers[i], at)) != answer.npos;) {
      answer.replace(at, markers[i].size(), 1, MarkerByte(i));
    }
  }
  return answer;
}

TEST(ToolCalls, SpecialTokensAreReadWhereTheFormatHasThemAndNowhereElse) {
  for (const Example& example : kExamples) {
    std::vector<std::string> markers;
    for (const std::string_view marker : FindToolFormat(example.format)->markers) {
      if (!marker.empty()) markers.emplace_back(marker);
    }
    if (markers.empty()) continue;
    const std::string answer = WithMarkers(example.answer, markers);
    const auto automatic = MustCompileKind(GrammarKind::kToolCalls, Marked(Spec(example.format, "auto"), markers));
    for (const size_t piece : {size_t{1}, size_t{7}}) {
      const Read read = ReadAnswer(*automatic, answer, piece, true);
      EXPECT_EQ(read.text.substr(0, 4), example.text ? "Hm. " : "") << example.format;
      ASSERT_EQ(read.calls.size(), 2u) << example.format << " text " << read.text;
      EXPECT_EQ(WithoutSpace(read.calls[0].second), R"({"city":"O\"x","days":3};)") << example.format;
      EXPECT_TRUE(read.whole) << example.format;
    }
    EXPECT_EQ(ReadAnswer(*automatic, example.answer, 1, true).text, "forbidden") << example.format << " spelled out";
    const auto required = MustCompileKind(GrammarKind::kToolCalls, Marked(Spec(example.format, "required"), markers));
    EXPECT_EQ(ReadAnswer(*required, answer.substr(example.text ? 4 : 0), 1, true).calls.size(), 2u);
    // In text, another one of the format's, and one that is none of its.
    if (markers.size() > 1) {
      EXPECT_EQ(ReadAnswer(*automatic, std::string("Hm. ") + MarkerByte(1), 1, true).text, "forbidden");
    }
    EXPECT_EQ(ReadAnswer(*automatic, "Hm. \xff", 1, true).text, "forbidden");
    const auto plain = MustCompileKind(GrammarKind::kToolCalls, Spec("hermes", "auto"));
    EXPECT_EQ(ReadAnswer(*plain, std::string("Hm. ") + MarkerByte(0), 1, true).text, "forbidden");
    for (const auto* const text : {"Hm. ", "<tool [and] <|py"}) EXPECT_TRUE(IsAnswer(*automatic, text)) << text;
  }
}

TEST(ToolCalls, TheShortestWayToTheEndIsACall) {
  for (const Example& example : kExamples) {
    const auto required = MustCompileKind(GrammarKind::kToolCalls, Spec(example.format, "required"));
    GrammarState state = required->Begin();
    std::string answer;
    for (auto left = required->BytesToEnd(state); left != 0; --*left) {
      ASSERT_TRUE(left.has_value()) << example.format << " behind " << answer;
      bool goes_on = false;
      for (int byte = 0; byte < 256 && !goes_on; ++byte) {
        GrammarState next = state;
        const char own = static_cast<char>(byte);
        if (required->Advance(next, {&own, 1}) != Grammar::Verdict::kAllowed) continue;
        if (required->BytesToEnd(next) != *left - 1) continue;
        goes_on = true;
        state = next;
        answer += own;
      }
      ASSERT_TRUE(goes_on) << example.format << " behind " << answer;
    }
    EXPECT_EQ(ReadAnswer(*required, answer, 1, true).calls.size(), 1u) << answer;
  }
}

TEST(ToolCalls, MarkedAndAssignedArgumentsKeepToTheirSchema) {
  const std::string tools =
      R"("tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":["x y","<"],"type":"string"},"b":{"type":"boolean"},"c":{"type":"array","items":{"type":"integer"}},"d":{"type":"string"}},"required":["b"]}}])";
  const auto marked = MustCompileKind(GrammarKind::kToolCalls, Spec("qwen3_coder", "required", false, tools));
  const auto of = [&](const std::string& arguments) {
    return ReadAnswer(*marked, "<tool_call>\n<function=f>\n" + arguments + "</function>\n</tool_call>", 1, false);
  };
  const auto argument = [](std::string_view key, std::string_view value) {
    return "<parameter=" + std::string(key) + ">\n" + std::string(value) + "\n</parameter>\n";
  };
  const Read read =
      of(argument("a", "x y") + argument("b", "true") + argument("c", "[1, 2]") + argument("d", "\"\\\t</parameter>"));
  ASSERT_EQ(read.calls.size(), 1u);
  EXPECT_EQ(read.calls[0].second, R"({"a": "x y", "b": true, "c": [1, 2], "d": "\"\\\t</parameter>"};)");
  EXPECT_EQ(of(argument("b", "false") + argument("d", "")).calls.at(0).second, R"({"b": false, "d": ""};)");
  EXPECT_EQ(of(argument("a", "x y")).text, "forbidden");
  EXPECT_EQ(of(argument("a", "x")).text, "forbidden");
  EXPECT_EQ(of(argument("b", "yes")).text, "forbidden");
  const auto optional = MustCompileKind(
      GrammarKind::kToolCalls,
      Spec(
          "qwen3_coder", "required", false,
          R"("tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"$ref":"#/$defs/B"}},"required":["a","b"],"$defs":{"B":{"enum":["x","y"],"type":"string"}}}}])"));
  const auto call = [&](std::string_view a, std::string_view b) {
    return ReadAnswer(*optional,
                      "<tool_call>\n<function=f>\n" + argument("a", a) + argument("b", b) + "</function>\n</tool_call>",
                      1, true);
  };
  EXPECT_EQ(call("null", "y").calls.at(0).second, R"({"a": null, "b": "y"};)");
  EXPECT_EQ(call("any <thing>", "x").calls.at(0).second, R"({"a": "any <thing>", "b": "x"};)");
  EXPECT_EQ(call("any", "z").text, "forbidden");
  const auto keyed = MustCompileKind(GrammarKind::kToolCalls, Spec("glm45", "required", false, tools));
  const auto key = [](std::string_view name, std::string_view value) {
    return "<arg_key>" + std::string(name) + "</arg_key>\n<arg_value>" + std::string(value) + "</arg_value>\n";
  };
  const auto in_keys = [&](const std::string& arguments) {
    return ReadAnswer(*keyed, "<tool_call>f\n" + arguments + "</tool_call>", 1, false);
  };
  EXPECT_EQ(
      in_keys(key("a", "<") + key("b", "true") + key("c", "[1, 2]") + key("d", "\n\"</arg_key>")).calls.at(0).second,
      R"({"a": "<", "b": true, "c": [1, 2], "d": "\n\"</arg_key>"};)");
  EXPECT_EQ(in_keys(key("a", "x y")).text, "forbidden");
  EXPECT_EQ(in_keys(key("b", "yes")).text, "forbidden");
  EXPECT_EQ(in_keys("").text, "forbidden");
  const auto assigned = MustCompileKind(GrammarKind::kToolCalls, Spec("pythonic", "required", false, tools));
  EXPECT_EQ(ReadAnswer(*assigned, "[f(a=\"<\", b=true, d=\"é\")]", 1, false).calls.at(0).second,
            R"({"a": "<", "b": true, "d": "é"};)");
  EXPECT_EQ(ReadAnswer(*assigned, "[f()]", 1, false).text, "forbidden");
  const auto loose = MustCompileKind(GrammarKind::kToolCalls, Spec("pythonic", "auto", true, ""));
  EXPECT_EQ(ReadAnswer(*loose, "[f(a='it\\'s', b=None, c=True)]", 1, true).calls.at(0).second,
            R"({"a": 'it\'s', "b": None, "c": True};)");
}

TEST(ToolCalls, WhatCannotBeEnforcedIsRefused) {
  const auto refused = [](const std::string& spec, std::string_view pointer, std::string_view text) {
    const Refusal refusal = MustRefuseKind(GrammarKind::kToolCalls, spec);
    EXPECT_EQ(refusal.pointer, pointer) << spec;
    EXPECT_NE(refusal.text.find(text), std::string::npos) << refusal.text;
  };
  refused("[]", "", "object");
  refused(Spec("none", "auto"), "", "'format'");
  refused(Spec("hermes", "none"), "", "'choice'");
  refused(Marked(Spec("hermes", "auto"), {""}), "/markers/0", "no marker");
  refused(Marked(Spec("hermes", "auto"), {"</tool_call>", "name"}), "/markers/1", "no marker");
  refused(Spec("hermes", "auto", true, R"("tools":[])"), "/tools", "no tool");
  refused(Spec("hermes", "auto", true, R"("tools":[{"name":"f"},{"name":"f"}])"), "/tools/1", "two tools");
  refused(Spec("hermes", "auto", true, R"("tools":[{"name":"f","parameters":{"type":"string"}}])"),
          "/tools/0/parameters", "no object");
  refused(Spec("hermes", "auto", true,
               R"("tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"uniqueItems":true}}}}])"),
          "/tools/0/parameters/properties/a", "uniqueItems");
  refused(
      Spec(
          "qwen3_coder", "auto", true,
          R"("tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","maxLength":3}}}}])"),
      "/tools/0/parameters/properties/a/maxLength", "not enforced");
  refused(Spec("pythonic", "auto", true, R"("tools":[{"name":"f","parameters":{"type":"object","minProperties":1}}])"),
          "/tools/0/parameters/minProperties", "not enforced");
  for (const char* format : {"pythonic", "qwen3_coder", "glm45"}) {
    refused(
        Spec(
            format, "auto", true,
            R"("tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]}}])"),
        "/tools/0/parameters/required", "does not name");
  }
  std::string many = "\"tools\":[";
  for (int i = 0; i < 129; ++i) many += (i == 0 ? "{\"name\":\"f" : ",{\"name\":\"f") + std::to_string(i) + "\"}";
  refused(Spec("hermes", "auto", true, many + "]"), "/tools", "more than 128");
}

TEST(ToolCalls, ManyToolsAreTold) {
  std::string many = "\"tools\":[";
  for (int i = 0; i < 128; ++i) {
    many += (i == 0 ? "" : ",") + std::string("{\"name\":\"") + static_cast<char>('a' + i % 26) + "_tool_" +
            std::to_string(i) +
            R"(","parameters":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}})";
  }
  const auto grammar = MustCompileKind(GrammarKind::kToolCalls, Spec("hermes", "required", false, many + "]"));
  EXPECT_EQ(
      ReadAnswer(*grammar, "<tool_call>\n{\"name\": \"x_tool_127\", \"arguments\": {\"x\": 1}}\n</tool_call>", 1, false)
          .calls.size(),
      1u);
}

std::string Loose(std::string_view format, const std::vector<std::string>& markers = {}) {
  std::string spec = Spec(format, "auto");
  spec.pop_back();
  return Marked(spec + ",\"loose\":true}", markers);
}

TEST(ToolCalls, LooseOnesAreWhatTheReaderTakes) {
  for (const Example& example : kExamples) {
    const auto loose = MustCompileKind(GrammarKind::kToolCalls, Loose(example.format));
    EXPECT_EQ(ReadAnswer(*loose, example.answer, 3, true).calls.size(), 2u) << example.format;
    std::string other(example.answer);
    other.replace(other.find("get"), 3, "got");
    EXPECT_EQ(ReadAnswer(*loose, other, 1, true).text, example.text ? "forbidden" : other) << example.format;
  }
  const auto hermes = MustCompileKind(GrammarKind::kToolCalls, Loose("hermes"));
  const Read spaced = ReadAnswer(
      *hermes, "<tool_call> \n{ \"name\" :\"get_all\" , \"parameters\" : {\"any\":1}, \"id\": 7 }\n\n</tool_call>", 1,
      true);
  ASSERT_EQ(spaced.calls.size(), 1u);
  EXPECT_EQ(spaced.calls[0].second, R"({"any":1};)");
  EXPECT_EQ(ReadAnswer(*hermes, "<tool_call>x", 1, true).text, "forbidden");
  EXPECT_NE(ReadAnswer(*hermes, "<tool_call>" + std::string(8, '\n') + "{", 1, true).text, "forbidden");
  EXPECT_EQ(ReadAnswer(*hermes, "<tool_call>" + std::string(9, '\n'), 1, true).text, "forbidden");
  const std::string begun = R"(<tool_call>{"name":"get_all","arguments":{})", member = R"(,"k":"v")";
  const std::string four = member + member + member + member;
  for (const std::string& more : {member, four, R"(,"k":-1.5,"k":")" + std::string(256, 'v') + '"'}) {
    EXPECT_EQ(ReadAnswer(*hermes, begun + more + "}</tool_call>", 1, true).calls.size(), 1u) << more;
  }
  for (const std::string& more :
       {four + ",", ", \"" + std::string(100, '\n'), ",\"" + std::string(65, 'k'), ",\"k\":\"" + std::string(257, 'v'),
        std::string(",\"k\":\"\n"), ",\"k\":" + std::string(65, '1')}) {
    EXPECT_EQ(ReadAnswer(*hermes, begun + more, 1, true).text, "forbidden") << more;
  }
  const std::vector<std::string> markers = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
  const auto mistral = MustCompileKind(GrammarKind::kToolCalls, Loose("mistral_args", markers));
  for (const std::string text :
       {"[TOOL_CALLS]get_all[CALL_ID]a1[ARGS]{}", "[TOOL_CALLS] [{\"name\": \"get_all\", \"arguments\": {}}]",
        "Hm.[TOOL_CALLS]get_all[ARGS]{}", "[TOOL_CALLS]get_all {}"}) {
    EXPECT_EQ(ReadAnswer(*mistral, WithMarkers(text, markers), 1, true).calls.size(), 1u) << text;
  }
}

TEST(ToolCalls, WhereTheAnswerStandsInTextIsKnown) {
  const auto grammar = MustCompileKind(GrammarKind::kToolCalls, Loose("hermes"));
  GrammarState state = grammar->Begin();
  std::string inside;  // for each byte of it: in text or not
  const std::string call = "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {\"a\":\"<tool_call>\"}}\n</tool_call>";
  for (const char c : "Hm. <" + call + " then " + call) {
    ASSERT_EQ(grammar->Advance(state, {&c, 1}), Grammar::Verdict::kAllowed);
    inside += Grammar::InText(state) ? 't' : 'c';
  }
  const std::string of_call = std::string(10, 't') + std::string(call.size() - 11, 'c') + "t";
  EXPECT_EQ(inside, "ttttt" + of_call + "tttttt" + of_call);
}

}  // namespace
}  // namespace hydrant::grammar
