#include "api/response/tool_call_parser.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/cpu_time.h"

namespace hydrant {
namespace {

std::string Shown(const AnswerPieces& pieces) {
  const WholeAnswer answer = Joined(pieces);
  std::string shown = answer.text;
  for (const ToolCall& call : answer.calls) shown += "|" + call.name + call.arguments + (call.whole ? "" : "!");
  return shown;
}

// Text, then name and arguments of each call, and ! where they are cut off. `step`: bytes given at once; 0: all.
std::string Parsed(ToolCallFormat format, std::string_view answer, size_t step = 0,
                   std::shared_ptr<const grammar::ArgumentTypes> types = nullptr) {
  ToolCallParser parser(format, "id", /*parallel=*/true, std::move(types));
  AnswerPieces all;
  const auto add = [&](const AnswerPieces& pieces) { all.insert(all.end(), pieces.begin(), pieces.end()); };
  for (size_t at = 0; at < answer.size(); at += step == 0 ? answer.size() : step) {
    add(parser.Push(answer.substr(at, step == 0 ? answer.size() : step)));
  }
  add(parser.Finish());
  return Shown(all);
}

struct CallCase {
  std::string answer, expected;
};

void Check(ToolCallFormat format, const std::vector<CallCase>& cases) {
  for (const CallCase& c : cases) {
    for (const size_t step : {0, 1, 2, 3, 7}) EXPECT_EQ(Parsed(format, c.answer, step), c.expected) << c.answer;
  }
}

TEST(ToolCallParser, ReadsHermesCallsAndLeavesOthersAsText) {
  Check(ToolCallFormat::kHermes,
        {{"", ""},
         {"no calls, a < b <tool", "no calls, a < b <tool"},
         {R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>)", R"(|f{"x": 1})"},
         {" \n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "|f{}"},
         {" \n", " \n"},
         {R"(<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call>)", R"(|f{"x":1})"},
         {R"(<tool_call>{"name": "f", "arguments": {"x": 1, "y)", R"(|f{"x": 1, "y!)"},
         {R"(<tool_call>{"name": "f", "arguments": {"x": a}}</tool_call>)", R"(a}}</tool_call>|f{"x": !)"},
         {R"(<tool_call>{"name": "f", "arguments": {}} no)", R"( no|f{})"},
         {R"(<tool_call>{"name": "f", "arguments": {"x": 1}} <b> no)", R"( <b> no|f{"x": 1})"},
         {"<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n<tool_call>{\"name\": \"g\", \"arguments\": "
          "{}}</tool_call>",
          R"(|f{"x": 1}|g{})"},
         {R"(<tool_call>{"name": "f", "arguments": {}}<tool_call>{"arguments": {}, "name": "g"}</tool_call> x)",
          " x|f{}|g{}"},
         {"<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_", "|f{}"},
         {"so:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
          "\"g\"}\n</tool_call>\n",
          "so:\n|f{}|g{}"},
         {"<tool_call>{\"name\": \"f\"}</tool_call>\n\nIt is 2 1\n", "\n\nIt is 2 1|f{}"},
         {"<tool_call>{\"name\": \"f\"}</tool_call> \n<tool", " \n<tool|f{}"},
         {R"(<tool_call>{"name": "f", "parameters": {"x": 1}}</tool_call>)", R"(|f{"x": 1})"},
         {R"(<tool_call>{"name": "f", "arguments": "{\"a\": 2}"}</tool_call>)", R"(|f{"a":2})"},
         {R"(<tool_call>{"name": "f", "arguments": {}})", "|f{}"},
         {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}, \"id\" : \"a\\\"\"}\n</tool_call>", "|f{}"},
         {R"(<tool_call>{"name": "f", )", R"(<tool_call>{"name": "f", )"},
         {"<tool_call>not json</tool_call> x", "<tool_call>not json</tool_call> x"},
         {R"(<tool_call>{"arguments": {}}</tool_call>)", R"(<tool_call>{"arguments": {}}</tool_call>)"}});
}

TEST(ToolCallParser, TakesAClosingTagInAnArgumentForText) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"x": "a</tool_call>b"}})";
  const std::string read = R"(|f{"x": "a</tool_call>b"})";
  const std::string open_string = R"(<tool_call>{"name": "f</tool_call>)";
  Check(ToolCallFormat::kHermes, {{call + "</tool_call>", read},
                                  {call, read},
                                  {call + "</tool_call> " + call + "</tool_call>", read + read},
                                  {open_string, open_string},
                                  {open_string + " x", open_string + " x"},
                                  {open_string + "<tool_call>{\"name\": \"g\"}", open_string + "|g{}"},
                                  {open_string + "<tool_call>{\"name\": \"g\"}</tool_call> x", open_string + " x|g{}"},
                                  {open_string + "<tool_call>{}</tool_call>" + call + "</tool_call>",
                                   open_string + "<tool_call>{}</tool_call>" + read}});
}

TEST(ToolCallParser, ChangesNoInteger) {
  const auto call = [](const std::string& n) { return R"({"name":"f","parameters":{"n":)" + n + "}}"; };
  Check(ToolCallFormat::kLlama3Json, {{call("18446744073709551615"), R"(|f{"n":18446744073709551615})"},
                                      {call("-9223372036854775808"), R"(|f{"n":-9223372036854775808})"},
                                      {call("18446744073709551616"), R"(|f{"n":18446744073709551616})"}});
}

TEST(ToolCallParser, ReadsLlamaCallsAtTheBeginningOnly) {
  Check(ToolCallFormat::kLlama3Json,
        {{R"({"name": "f", "parameters": {"x": "}"}})", R"(|f{"x": "}"})"},
         {R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "arguments": {"y": [1, 2]}})",
          R"(|f{}|g{"y": [1, 2]})"},
         {"hello {\"name\": \"f\"}", "hello {\"name\": \"f\"}"},
         {R"({"answer": 42})", R"({"answer": 42})"},
         {R"({"name": "Alice", "age": 30})", R"({"name": "Alice", "age": 30})"},
         {R"({"name": "f", "par)", R"({"name": "f", "par)"},
         {R"({"name": "f", "parameters": {})", R"(|f{})"},
         {R"({"name": "f", "parameters": {)", R"(|f{!)"},
         {R"({"name": "f", "parameters": "{}"})", "|f{}"},
         {R"({"name": "f", "parameters": {}, "id": null, "type": "function"}; {"name": "g", "parameters": {}})",
          "|f{}|g{}"},
         {R"({"name": "f", "parameters": {}} and more)", R"( and more|f{})"},
         {R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": "{}"})", "|f{}|g{}"},
         {R"({"name": "f", "parameters": {}}; {"parameters": {"x": 1}, "name": "g"};)", R"(|f{}|g{"x":1})"},
         {R"({"name": "f", "parameters": {}} ; {"name": "g", "parameters": "{}"} no)",
          R"( ; {"name": "g", "parameters": "{}"} no|f{})"},
         {R"({"name": "f", "parameters": {}}; )", "|f{}"},
         {R"({"name": "f", "parameters": {}, no)", ", no|f{}"}});
}

TEST(ToolCallParser, ReadsMistralCallsInBothSpellings) {
  Check(
      ToolCallFormat::kMistral,
      {{R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}])", R"(|f{"x": 1}|g{})"},
       {R"(well[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g{"y": 2})", R"(well|f{"x": 1}|g{"y": 2})"},
       {R"([TOOL_CALLS] [{"name": "f"}, {"arguments": {"x": 1}, "name": "g"}])", R"(|f{}|g{"x":1})"},
       {R"([TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{"x": 1})", R"(|f{"x": 1})"},
       {R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abc123def"}, )"
        R"({"name": "g", "arguments": {}, "type": "function", "n": 1}])",
        R"(|f{"x": 1}|g{})"},
       {R"([TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": "{}"}])", "|f{}|g{}"},
       {R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"arguments": {"x": 1}, "name": "g"},{"name": "h"}])",
        R"(|f{}|g{"x":1}|h{})"},
       {R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arg)", R"(, {"name": "g", "arg|f{})"},
       {R"([TOOL_CALLS][{"name": "f", "arguments": {}}, and so on)", ", and so on|f{}"},
       {R"([TOOL_CALLS][{"name": "f", "arguments": {}}][TOOL_CALLS][{"arguments": {}, "name": "g"}])", "|f{}|g{}"},
       {"[TOOL", "[TOOL"},
       {"[TOOL_CALLS] nonsense", "[TOOL_CALLS] nonsense"}});
}

TEST(ToolCallParser, ReadsFormatsByTheirGrammar) {
  const std::string
      f = "<tool_call>\n<function=f>\n<parameter=a>\nb \"c\n</parameter>\n<parameter=n>\n[1, 2]\n</parameter>\n"
          "</function>\n</tool_call>",
      g = "<tool_call><function=g>\n</function></tool_call>";
  Check(ToolCallFormat::kQwen3Coder,
        {{"no calls, a < b <tool", "no calls, a < b <tool"},
         {f, R"(|f{"a": "b \"c", "n": [1, 2]})"},
         {"so:\n" + f + "\n" + g + "\n", R"(so:
|f{"a": "b \"c", "n": [1, 2]}|g{})"},
         {g + " and\n" + g + "<tool_c", " and<tool_c|g{}|g{}"},
         {"<tool_call>{\"name\": \"f\"}</tool_call> " + g, "<tool_call>{\"name\": \"f\"}</tool_call> |g{}"},
         {f.substr(0, 40), f.substr(0, 40)},
         {"x<tool_call><function=f>\n<parameter=a>\n18446744073709551616\n</parameter>\n</function></tool_call> y",
          "x y|f{\"a\": 18446744073709551616}"},
         {f.substr(0, 60), R"(|f{"a": "b \"c"!)"},
         {f.substr(0, f.find("1, 2") + 2), R"(|f{"a": "b \"c", "n": "[1,!)"},
         {f.substr(0, f.find("</function>") + 9), R"(|f{"a": "b \"c", "n": [1, 2]})"},
         // What models leave out, and blanks that they add.
         {"I'll look.\n\n<function=f>\n<parameter=a>\nb\n</parameter>\n</function>\n</tool_call>", R"(I'll look.

|f{"a": "b"})"},
         {"<tool_call>\n\n<function=f>\n<parameter=x>*.md</parameter>\n<parameter=y>1</parameter></function>\n\n</"
          "tool_call> so",
          R"( so|f{"x": "*.md", "y": 1})"},
         {"<function=f>\n<parameter=x>*.md</parameter>\n</function>", R"(|f{"x": "*.md"})"},
         {"<tool_call>\n<function=f></function>\n</tool_call>", "|f{}"},
         {"<function=f>\n\n<parameter=x>\n\n a\n\n</parameter>\n\n</function></tool_call>", R"(|f{"x": "\n a\n"})"},
         {"<function=f>\n<parameter=x>\n</parameter>\n<parameter=y>\n\n</parameter>\n</function>",
          R"(|f{"x": "", "y": ""})"},
         {"<function=f>\n<parameter=x>\n<b></parameter></b>\n</parameter>\n</function>",
          R"(|f{"x": "<b></parameter></b>"})"},
         {"Write <function=name> and a < b.", "Write <function=name> and a < b."},
         {f.substr(0, f.rfind("\n</tool_call>")) + "\n" + g, R"(|f{"a": "b \"c", "n": [1, 2]}|g{})"}});
  Check(ToolCallFormat::kDeepSeekV31,
        {{"a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": "
          "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"
          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          R"(a|f{"x": 1}|g{})"},
         {"a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": 1", "a|f{\"x\": 1!"}});
  Check(ToolCallFormat::kHarmony,
        {{"<|channel|>commentary to=functions.f<|message|>{\"a\": 1}", R"(|f{"a": 1})"},
         {"I look.<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|channel|>commentary "
          "to=functions.g<|message|>{\"b\": [2]}",
          R"(I look.|f{}|g{"b": [2]})"},
         {"<|channel|>commentary to=python<|message|>1", "<|channel|>commentary to=python<|message|>1"}});
  const std::string glm =
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>\n b</tool_call></arg_value>\n<arg_key>n</arg_key>\n"
      "<arg_value>[1, 2]</arg_value>\n</tool_call>";
  Check(ToolCallFormat::kGlm45,
        {{"no calls, a < b <tool", "no calls, a < b <tool"},
         {"so:\n" + glm + "\n<tool_call>g\n</tool_call>\n", R"(so:
|f{"a": "\n b</tool_call>", "n": [1, 2]}|g{})"},
         {"<tool_call>g<arg_key>a</arg_key><arg_value></arg_value><arg_key>b</arg_key><arg_value>\"1\"</arg_value>"
          "</tool_call><tool_call>g</tool_call> and",
          R"( and|g{"a": "", "b": "\"1\""}|g{})"},
         {"<tool_call>\n g \n\n<arg_key>a</arg_key> <arg_value>é</arg_value></tool_call>", R"(|g{"a": "é"})"},
         {"<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n</tool_call> " + glm,
          "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n</tool_call> "
          R"(|f{"a": "\n b</tool_call>", "n": [1, 2]})"},
         {"<tool_call>f\n<arg_key>a</arg_key>\n<arg_key>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_key>"},
         {"<tool_call>f and <tool_call>g</tool_call>", "<tool_call>f and |g{}"},
         {glm.substr(0, glm.find("\n b") + 2), glm.substr(0, glm.find("\n b") + 2)},
         {glm.substr(0, glm.find(", 2")), R"(|f{"a": "\n b</tool_call>", "n": "[1!)"},
         {glm.substr(0, glm.find("2]") + 10), R"(|f{"a": "\n b</tool_call>", "n": "[1, 2]!)"}});
  Check(ToolCallFormat::kFunctionaryV31,
        {{"a <function= b", "a <function= b"},
         {"I look. <function=f>{\"a\": \"</function>\"}</function><function=g>{}</function>\n",
          R"(I look. |f{"a": "</function>"}|g{})"},
         {"<function=g>\n{\"a\": [1]}\n</function> and", R"( and|g{"a": [1]})"},
         {"<function=f>x</function> <function=f>{}</function>", "<function=f>x</function> |f{}"},
         {"<function=f>{\"a\": [1", R"(|f{"a": [1!)"}});
  Check(ToolCallFormat::kHunyuanA13b,
        {{"a <tool_calls> b", "a <tool_calls> b"},
         {R"(so <tool_calls>[{"name": "f", "arguments": {"a": "]</tool_calls>"}}, {"name": "g", "arguments": {}}])"
          "</tool_calls>\n",
          R"(so |f{"a": "]</tool_calls>"}|g{})"},
         {"<tool_calls>\n[\n{\"name\":\"g\",\"arguments\":{\"a\":1},\"id\":\"x\"}\n]\n</tool_calls> and",
          R"( and|g{"a":1})"},
         {R"(<tool_calls>[{"name": <function-name-1>}] or <tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>)",
          R"(<tool_calls>[{"name": <function-name-1>}] or |f{})"},
         {R"(<tool_calls>[{"name": "f", "arguments": {"a": [1)", R"(|f{"a": [1!)"}});
  Check(ToolCallFormat::kPythonic,
        {{"[f(a=1, b='x', c=None), g()]", R"(|f{"a": 1, "b": "x", "c": null}|g{})"},
         {" [f(i=1,s='\\d'), g(a=['x', True])]\n", R"(|f{"i": 1, "s": "\\d"}|g{"a": ["x", true]})"},
         {"[1, 2] is a list", "[1, 2] is a list"},
         {"[f(a=1), g(] x", "[f(a=1), g(] x"},
         {"[f(a=1, b=[1, 2", "[f(a=1, b=[1, 2"},
         {"[f(a=1, b=g()]", "[f(a=1, b=g()]"},
         {"See [f(a=1)]", "See [f(a=1)]"}});
}

TEST(ToolCallParser, DecidesWhatLlamaSaysByItsFirstBytes) {
  ToolCallParser parser(ToolCallFormat::kLlama3Json, "id");
  EXPECT_EQ(Shown(parser.Push("\n <|py")), "");
  EXPECT_EQ(Shown(parser.Push(" ")), "\n <|py ") << "no tag any more";
  EXPECT_EQ(Shown(parser.Push("{")), "{");
}

using Kind = AnswerPiece::Kind;

TEST(ToolCallParser, TellsOfACallWhileItIsWritten) {
  ToolCallParser parser(ToolCallFormat::kHermes, "id");
  const auto push = [&](std::string_view text) { return parser.Push(text); };
  EXPECT_TRUE(push(R"(<tool_call>{"name": "f", "arguments": )").empty()) << "it may have none";
  const AnswerPieces begun = push(R"({"x)");
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].kind, Kind::kCall);
  EXPECT_EQ(begun[0].text, "f");
  EXPECT_EQ(begun[1], (AnswerPiece{Kind::kArguments, "{\"x", 0, ""}));
  EXPECT_EQ(push("\": 1"), (AnswerPieces{{Kind::kArguments, "\": 1", 0, ""}}));
  EXPECT_EQ(push("}}"), (AnswerPieces{{Kind::kArguments, "}", 0, ""}, {Kind::kCallEnd, "", 0, ""}}));
  // What is written otherwise comes argument by argument.
  ToolCallParser pythonic(ToolCallFormat::kPythonic, "id");
  EXPECT_EQ(Shown(pythonic.Push("[f(a='b")), "");
  EXPECT_EQ(Shown(pythonic.Push("c')]")), "") << "more may come";
  EXPECT_EQ(Shown(pythonic.Finish()), R"(|f{"a": "bc"})");
}

// Whatever the formats and wherever an answer is cut in two, the same comes out, and the pieces of a call stand together.
TEST(ToolCallParser, CutsMakeNoDifference) {
  const std::string answers[] = {
      "So:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"</tool_call>é\\n\"]}}\n</tool_call>\n"
      "<tool_call>{\"name\":\"g\"}</tool_call> <tool_call>{\"name\": \"h\", \"arguments\": {\"x\": tru}}</tool_call>",
      " {\"name\": \"f\", \"parameters\": {\"x\": {}}}; {\"name\": \"g\", \"parameters\": \"{}\"}",
      "a [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}] "
      "b[TOOL_CALLS]h[ARGS]{\"y\":2",
      "<tool_call>\n<function=f>\n<parameter=a>\nb "
      "<c>\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>\n\nx",
      "so <tool_call>f\n<arg_key>a</arg_key>\n<arg_value>\n<b> é</arg_value>\n</tool_call>\n<tool_call>g</tool_call> x",
      "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b</arg_key><arg_value>x</arg_v",
      "a <function=f>{\"x\": [1, \"</function>é\"]}</function><function=g>{}</func</function>",
      "a <tool_calls>[{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}]</tool_calls> "
      "b",
      "<tool_calls>[{\"name\": \"f\", \"arguments\": {}}, {\"arguments\": {}, \"name\": \"g\"}]</tool_calls>",
      "[f(a=1, b='x'), g()] [",
      "[f(a=1, b='x\\n",
      "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"id\": \"a\"}\n<tool_call>{\"arguments\": {}, \"name\": \"g\"}",
      "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"arguments\": {}, \"name\": \"g\"}] x",
      "{\"name\": \"f\", \"parameters\": {}} ;{\"name\": \"g\"};",
      "<tool_call><function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</p",
      "<tool_call><function=f>\n</function>\n<tool_call><function=g>\n</func</tool_call>",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"};
  for (const std::string_view name : ToolCallFormatNames()) {
    const ToolCallFormat format = *ToolCallFormatOf(name);
    for (const std::string& answer : answers) {
      const std::string whole = Parsed(format, answer);
      EXPECT_EQ(Parsed(format, answer, 1), whole) << name;
      // Everywhere in the answers that are of the format.
      const size_t step = whole.find('|') == whole.npos ? 9 : 1;
      for (size_t cut = 1; cut < answer.size(); cut += step) {
        ToolCallParser parser(format, "id");
        AnswerPieces all = parser.Read(answer.substr(0, cut), false);
        for (AnswerPiece& piece : parser.Read(std::string_view(answer).substr(cut), true))
          all.push_back(std::move(piece));
        EXPECT_EQ(Shown(all), whole) << name << " cut at " << cut;
        if (Joined(all).calls.empty()) {
          EXPECT_EQ(Shown(all), answer);
        }
        bool open = false;
        for (const AnswerPiece& piece : all) {
          EXPECT_FALSE(open && (piece.kind == Kind::kText || piece.kind == Kind::kCall));
          open = piece.kind == Kind::kCall || piece.kind == Kind::kArguments;
        }
        EXPECT_FALSE(open);
      }
    }
  }
}

TEST(ToolCallParser, TakesTheWholeMembersOfWhatIsCutOff) {
  EXPECT_EQ(WholeMembers(R"({"a": [1, 2], "b": ", 3)"), R"({"a": [1, 2]})");
  EXPECT_EQ(WholeMembers(R"({"a": [1, 2)"), "{}");
  EXPECT_EQ(WholeMembers("{"), "{}");
  EXPECT_EQ(WholeMembers(R"({"a": 1, "b": "x")"), R"({"a": 1, "b": "x"})");
  EXPECT_EQ(WholeMembers(R"({"a": {"b": [1]} )"), R"({"a": {"b": [1]}})");
  EXPECT_EQ(WholeMembers(R"({"a": 1, "b")"), R"({"a": 1})");
  EXPECT_EQ(WholeMembers(R"({"a": 12)"), "{}") << "more digits may follow";
  EXPECT_EQ(WholeMembers(R"({"a": {}})"), R"({"a": {}})");
}

// Looking again at all that is held for every piece would look at 4 MB a million times, 2e12 bytes: over a minute where one
// look at each byte takes a second in the slowest of builds.
TEST(ToolCallParser, TakesTimeLinearInAnAnswerThatNeverCloses) {
  const struct {
    ToolCallFormat format;
    std::string begin;
    char filler;
  } cases[] = {{ToolCallFormat::kHermes, "<tool_call>", 'x'},
               {ToolCallFormat::kHermes, R"(<tool_call>{"name":"f"}</tool_call>)", ' '},
               {ToolCallFormat::kLlama3Json, "", ' '},
               {ToolCallFormat::kLlama3Json, "{", '{'},
               {ToolCallFormat::kMistral, "[TOOL_CALLS]", '['}};
  for (const auto& each : cases) {
    const auto read = [&](size_t pieces) {
      ToolCallParser parser(each.format, "id");
      size_t passed = 0;
      parser.Push(each.begin);
      for (size_t i = 0; i < pieces; ++i) passed += Joined(parser.Push(std::string(4, each.filler))).text.size();
      parser.Finish();
      EXPECT_EQ(passed, 0u) << each.begin << each.filler;
    };
    EXPECT_LT(GrowthOfEightfold(10'000, read), kLinearGrowth) << each.begin << each.filler;
  }
}

// The format writes 42 and "42" alike: a program's text that is JSON came as an object, and failed the schema of the tool.
TEST(ToolCallParser, BareTextIsWhatTheToolsSchemaSaysItIs) {
  const auto tools = nlohmann::ordered_json::parse(R"([
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {
      "path": {"type": "string"}, "text": {"type": "string"}, "mode": {"type": "integer"}, "force": {"type": "boolean"},
      "note": {"type": ["string", "null"]}, "tags": {"type": "array"}, "any": {}}}}},
    {"type": "function", "function": {"name": "bare"}}])");
  const auto types = ArgumentTypesOf(ToolCallFormat::kQwen3Coder, tools);
  ASSERT_NE(types, nullptr);
  EXPECT_EQ(ArgumentTypesOf(ToolCallFormat::kHermes, tools), nullptr) << "its arguments are JSON";
  const auto call = [](std::string_view name, const std::vector<std::pair<std::string, std::string>>& arguments) {
    std::string text = "<tool_call>\n<function=" + std::string(name) + ">\n";
    for (const auto& [key, value] : arguments) text += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
    return text + "</function>\n</tool_call>";
  };
  const std::string own = call("write", {{"path", "42"},
                                         {"text", "{\"a\": [true]}"},
                                         {"mode", "420"},
                                         {"force", "True"},
                                         {"note", "null"},
                                         {"tags", "[1, 2]"},
                                         {"any", "7"},
                                         {"unknown", "true"}});
  const std::string expected =
      R"(|write{"path": "42", "text": "{\"a\": [true]}", "mode": 420, "force": true, "note": null, "tags": [1, 2], )"
      R"("any": 7, "unknown": true})";
  const std::string other = call("bare", {{"path", "42"}, {"force", "True"}});
  for (const size_t step : {0, 1, 5}) {
    EXPECT_EQ(Parsed(ToolCallFormat::kQwen3Coder, own + "\n" + other, step, types),
              expected + R"(|bare{"path": 42, "force": "True"})");
  }
  const std::string cut = own.substr(0, own.find("2]"));
  EXPECT_TRUE(Parsed(ToolCallFormat::kQwen3Coder, cut, 0, types).ends_with(R"("tags": [1, !)"));
}

// A file's text is an argument of minutes.
TEST(ToolCallParser, BareTextThatCanOnlyBeAStringComesAsItIsWritten) {
  const auto tools = nlohmann::ordered_json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"properties": {
      "text": {"type": "string"}, "maybe": {"type": ["string", "null"]}}}}}])");
  ToolCallParser parser(ToolCallFormat::kQwen3Coder, "id", true, ArgumentTypesOf(ToolCallFormat::kQwen3Coder, tools));
  const auto push = [&](std::string_view text) { return Shown(parser.Push(text)); };
  const auto arguments = [&](std::string_view text) {
    std::string said;
    for (const AnswerPiece& piece : parser.Push(text)) said += piece.text;
    return said;
  };
  EXPECT_EQ(push("<tool_call>\n<function=f>\n<parameter=text>\nfirst"), "") << "it may still be no call";
  EXPECT_EQ(push("\n</parameter>\n"), R"(|f{"text": "first")");
  EXPECT_EQ(arguments("<parameter=text>\na \"b\"\n<"), R"(, "text": "a \"b\")") << "the end may come";
  EXPECT_EQ(arguments("c\n"), R"(\n<c)");
  EXPECT_EQ(arguments("é\n</parameter>\n<parameter=maybe>\nnu"), R"(\né")") << "null may come";
  EXPECT_EQ(arguments("ll\n</parameter>\n<parameter=text>\nd\n</para"), R"(, "maybe": null, "text": "d)");
  const AnswerPieces end = parser.Finish();
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].kind, AnswerPiece::Kind::kCallCut);
}

// Comparing each key with all before it would be 10^9 steps.
TEST(ToolCallParser, TakesTimeLinearInTheKeysOfOneObject) {
  const auto read = [](size_t keys) {
    ToolCallParser parser(ToolCallFormat::kHermes, "id");
    std::string arguments = "{\"k\": 0";
    for (size_t i = 0; i < keys; ++i) arguments += ",\"" + std::to_string(i) + "\":1";
    arguments += "}";
    const WholeAnswer answer =
        Joined(parser.Read("<tool_call>{\"name\":\"f\",\"arguments\":" + arguments + "}</tool_call>", true));
    ASSERT_EQ(answer.calls.size(), 1u);
    EXPECT_EQ(answer.calls[0].arguments, arguments);
  };
  EXPECT_LT(GrowthOfEightfold(4'000, read), kLinearGrowth);
}

// A thousand calls at once: what is behind each must not be moved for it.
TEST(ToolCallParser, TakesManyCallsOutOfOnePiece) {
  std::string answer;
  for (int i = 0; i < 1000; ++i) answer += R"(<tool_call>{"name":"f"}</tool_call>)";
  ToolCallParser parser(ToolCallFormat::kHermes, "id");
  EXPECT_EQ(Joined(parser.Push(answer + "<tool_call>")).calls.size(), 1000u);
  EXPECT_EQ(Joined(parser.Push("{\"name\":\"f\"}</tool_ca")).calls.size(), 0u);
  EXPECT_EQ(Joined(parser.Push("ll> ")).calls.size(), 1u);
  EXPECT_TRUE(parser.Finish().empty());
}

TEST(ToolCallParser, GivesIdsThatTheModelsTemplatesTake) {
  ToolCallParser hermes(ToolCallFormat::kHermes, "a"), mistral(ToolCallFormat::kMistral, "a");
  WholeAnswer output = Joined(hermes.Push(R"(<tool_call>{"name":"f"}</tool_call><tool_call>{"name":"f"}</tool_call>)"));
  ASSERT_EQ(output.calls.size(), 2u);
  EXPECT_TRUE(output.calls[0].id.starts_with("call_"));
  EXPECT_NE(output.calls[0].id, output.calls[1].id);
  mistral.Push(R"([TOOL_CALLS] [{"name":"f"}])");
  output = Joined(mistral.Finish());
  ASSERT_EQ(output.calls.size(), 1u);
  EXPECT_EQ(output.calls[0].id.size(), 9u);
}

TEST(ToolCallParser, KnowsTheFormatByTheTemplate) {
  EXPECT_EQ(DetectToolCallFormat("… return <tool_call>\\n{…}\\n</tool_call>"), ToolCallFormat::kHermes);
  EXPECT_EQ(DetectToolCallFormat("{{ '<|python_tag|>' }}"), ToolCallFormat::kLlama3Json);
  EXPECT_EQ(DetectToolCallFormat("{{ '[TOOL_CALLS]' }}"), ToolCallFormat::kMistral);
  EXPECT_EQ(DetectToolCallFormat("<|im_start|>"), ToolCallFormat::kNone);
  EXPECT_EQ(Parsed(ToolCallFormat::kNone, "<tool_call>{}</tool_call>"), "<tool_call>{}</tool_call>");
}

TEST(ToolCallParser, EveryFormatHasItsNameAndSomeHaveOthers) {
  for (const std::string_view name : ToolCallFormatNames())
    EXPECT_EQ(ToolCallFormatName(*ToolCallFormatOf(name)), name);
  for (const std::string_view alias : ToolCallFormatAliases()) {
    ASSERT_TRUE(ToolCallFormatOf(alias).has_value()) << alias;
    EXPECT_NE(ToolCallFormatName(*ToolCallFormatOf(alias)), alias);
  }
  EXPECT_EQ(ToolCallFormatOf("glm47"), ToolCallFormat::kGlm45);
  EXPECT_EQ(ToolCallFormatOf("glm"), std::nullopt);
}

TEST(ToolCallParser, AMarkIsASpecialTokenOrSpelled) {
  const std::vector<std::string> markers = {"</tool_call>", "[TOOL_CALLS]"};
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kMistral, markers), CallMark::kToken);
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kMistral, {}), CallMark::kSpelled);
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kHermes, markers), CallMark::kSpelled) << "its letters alone";
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kLlama3Json, markers), CallMark::kNone) << "calls have no mark";
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kHarmony, markers), CallMark::kNone) << "a message's head is no text";
  EXPECT_EQ(CallMarkOf(ToolCallFormat::kNone, markers), CallMark::kNone);
}

}  // namespace
}  // namespace hydrant
