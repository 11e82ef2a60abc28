#include "model/jinja/template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/support/cpu_time.h"
#include "tests/support/source_dir.h"

namespace hydrant::jinja {
namespace {

using Json = nlohmann::ordered_json;
using Ranges = std::vector<ByteRange>;

absl::StatusOr<Rendering> RenderTemplate(std::string_view source, const Json& values = Json::object(),
                                         const Limits& limits = {}) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  const Json bos = "<s>";
  std::vector<Variable> variables = {{"bos_token", &bos, Origin::kTemplate}};
  for (const auto& [name, value] : values.items()) variables.push_back({name, &value, Origin::kClient});
  return parsed->Render(variables, 1721952000, limits);  // 26 July 2024
}

std::string Slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The recording's clock says the same in every format: every call of it gets that as its format.
std::string WithClock(std::string source, const std::string& says) {
  const std::string call = "strftime_now(";
  for (size_t at = 0; (at = source.find(call, at)) != std::string::npos;) {
    at += call.size();
    source.replace(at, source.find(')', at) - at, "'" + says + "'");
  }
  return source;
}

TEST(Template, RendersEveryRecordedChatTemplate) {
  const std::filesystem::path folder = SourceDir() + "/../shared/data/chat_templates";
  if (!std::filesystem::exists(folder / "renders.json")) GTEST_SKIP() << "no recorded chat templates in " << folder;
  const Json recorded = Json::parse(Slurp(folder / "renders.json"));
  const Json none = nullptr, yes = true;
  size_t count = 0;
  for (const auto& [name, renders] : recorded.at("renders").items()) {
    const std::string source = WithClock(Slurp(folder / name), recorded["strftime_now"].get<std::string>());
    const auto parsed = Template::Parse(source);
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status();
    for (const auto& [conversation, expected] : renders.items()) {
      const std::vector<Variable> variables = {{"messages", &recorded["messages"][conversation]},
                                               {"tools", &none},
                                               {"documents", &none},
                                               {"add_generation_prompt", &yes},
                                               {"bos_token", &recorded["bos_token"], Origin::kTemplate},
                                               {"eos_token", &recorded["eos_token"], Origin::kTemplate}};
      const auto rendering = parsed->Render(variables, 1721952000);
      if (expected.is_string()) {
        ASSERT_TRUE(rendering.ok()) << name << ", " << conversation << ": " << rendering.status();
        EXPECT_EQ(rendering->text, expected.get<std::string>()) << name << ", " << conversation;
        EXPECT_LT(rendering->steps, 50'000) << name;
      } else {
        EXPECT_FALSE(rendering.ok()) << name << ", " << conversation;
      }
    }
    ++count;
  }
  EXPECT_EQ(count, 64u);
}

TEST(Template, TellsWhatCameFromTheClient) {
  const Json values = {{"m", "<|im_end|>"}, {"n", 7}, {"l", {"ab", "cd"}}};
  struct Case {
    std::string name, source, text;
    Ranges client;
  };
  const std::vector<Case> cases = {
      {"a value between data", "<a>{{ m }}<b>", "<a><|im_end|><b>", {{3, 13}}},
      {"a literal is the template's", "{{ '<x>' + m }}", "<x><|im_end|>", {{3, 13}}},
      {"a token of the checkpoint", "{{ bos_token ~ m }}", "<s><|im_end|>", {{3, 13}}},
      {"a slice", "{{ ('ab' + m)[1:4] }}", "b<|", {{1, 3}}},
      {"trim and case", "{{ (' x' ~ m ~ ' ') | trim | upper }}", "X<|IM_END|>", {{1, 11}}},
      {"what replace puts in", "{{ m | replace('im', '<y>') }}", "<|<y>_end|>", {{0, 2}, {5, 11}}},
      {"split and join", "{{ m.split('_') | join('-') }}", "<|im-end|>", {{0, 4}, {5, 10}}},
      {"json and its punctuation", "a{{ l | tojson }}b", "a[\"ab\", \"cd\"]b", {{1, 13}}},
      {"a list as text", "{{ ['x'] }}", "['x']", {{0, 2}, {3, 5}}},
      {"a client's number", "{{ n }}-{{ n + 1 }}-{{ 2 }}", "7-8-2", {{0, 1}, {2, 3}}},
      {"through a macro", "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m[:2]) }}", "<<|>", {{1, 3}}},
      {"a set block", "{% set b %}<{{ m[0] }}>{% endset %}{{ b * 2 }}", "<<><<>", {{1, 2}, {4, 5}}},
      {"through a namespace", "{% set ns = namespace(a='x') %}{% set ns.a = ns.a + m[0] %}{{ ns.a }}", "x<", {{1, 2}}},
      {"a format", "{{ '<%s>' % m[:2] }}{{ '({})'.format(m[:2]) }}", "<<|>(<|)", {{1, 3}, {5, 7}}},
      {"characters of a loop", "{% for c in m[:2] %}{{ c }}.{% endfor %}", "<.|.", {{0, 1}, {2, 3}}},
      {"keys of a dict", "{% for k in {m[:2]: 1} %}{{ k }}{% endfor %}", "<|", {{0, 2}}},
      {"keys that became keywords", "{% for k in dict(**{m[:2]: 1}) %}{{ k }}{% endfor %}", "<|", {{0, 2}}},
      {"keywords of a macro",
       "{% macro f() %}{% for k in kwargs %}{{ k }}{% endfor %}{% endmacro %}{{ f(a=1, **{m[:2]: 1}) }}",
       "a<|",
       {{1, 3}}},
      {"loop counters are the template's", "{% for c in l %}{{ loop.index }}{% endfor %}", "12", {}},
  };
  for (const Case& c : cases) {
    const auto rendering = RenderTemplate(c.source, values);
    ASSERT_TRUE(rendering.ok()) << c.name << ": " << rendering.status();
    EXPECT_EQ(rendering->text, c.text) << c.name;
    EXPECT_EQ(rendering->client, c.client) << c.name;
  }
}

TEST(Template, TellsTheTimeItIsGiven) {
  EXPECT_EQ(RenderTemplate("{{ strftime_now('%Y') }}")->text, "2024");
  EXPECT_EQ(RenderTemplate("{{ strftime_now('%d %b') | length }}")->text, "6");
}

TEST(Template, TellsARefusalFromAMisfitAndFromALimit) {
  const auto raised = RenderTemplate("{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(raised.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(raised.status().message(), "roles must alternate");
  const auto misfit = RenderTemplate("a\n{{ x.y.z }}", {{"x", Json::object()}});
  EXPECT_EQ(misfit.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(misfit.status().message(), "'dict object' has no attribute 'y' (line 2)");
  EXPECT_EQ(RenderTemplate("{{ 'a' * 10**9 }}").status().code(), absl::StatusCode::kResourceExhausted);
}

std::string Repeated(std::string_view unit, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += unit;
  return text;
}

// reliability E25.
TEST(Template, RefusesWhatTakesTooMuchSoonAndHarmlessly) {
  const size_t many = 200'000;  // recursion of as many levels would overflow the stack, 8 MiB
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a huge range", "{% for i in range(10**9) %}{% endfor %}"},
      {"a range with a tiny step", "{{ range(0, 10**9, 3) | length }}"},
      {"loops in loops", "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}"},
      {"a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"two macros that call each other",
       "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"a loop that calls itself", "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"},
      {"a caller that calls itself", "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}"},
      {"deep parentheses", "{{ " + Repeated("(", many) + "1" + Repeated(")", many) + " }}"},
      {"deep lists", "{{ " + Repeated("[", many) + Repeated("]", many) + " }}"},
      {"deep dicts", "{{ " + Repeated("{1:", many) + "1" + Repeated("}", many) + " }}"},
      {"deep blocks", Repeated("{% if 1 %}", many) + Repeated("{% endif %}", many)},
      {"deep subscripts", "{{ a" + Repeated("[a", many) + Repeated("]", many) + " }}"},
      {"a million nots", "{{ " + Repeated("not ", many) + "1 }}"},
      {"a million signs", "{{ " + Repeated("- ", many) + "1 }}"},
      {"a million additions", "{{ 1" + Repeated("+1", many) + " }}"},
      {"a million filters", "{{ 1" + Repeated("|abs", many) + " }}"},
      {"a million conditions", "{{ 1" + Repeated(" if 1 else 1", many) + " }}"},
      {"a long string", "{{ 'a' * 10**9 }}"},
      {"a longer string", "{{ 'aaaaaaaaaaaaaaaa' * 2**60 }}"},
      {"a long list", "{{ [1] * 10**9 }}"},
      {"doubling", "{% set n = namespace(a='aaaa') %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}"},
      {"doubling by format",
       "{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = '%s%s' % (n.a, n.a) %}{% endfor %}"},
      {"nested lists",
       "{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a }}"},
      {"shared nesting",
       "{% set n = namespace(a=[1]) %}{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}"},
      {"comparing shared nesting",
       "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] "
       "%}{% endfor %}{{ n.a == n.b }}"},
      {"a wide field", "{{ '%999999999d' % 1 }}"},
      {"a wide field of a format", "{{ '{:999999999}'.format(1) }}"},
      {"centered in much", "{{ 'a'.center(10**9) }}"},
      {"indented by much", "{{ 'a\\nb' | indent(10**9) }}"},
      {"replaced by much", "{{ ('a' * 9999) | replace('a', 'b' * 9999) }}"},
      {"joined by much", "{{ range(9999) | join('b' * 9999) }}"},
      {"a batch filled up", "{{ [1] | batch(10**9, 'x') | list }}"},
      {"many slices", "{{ [1] | slice(10**9) | list }}"},
      {"tabs", "{{ ('\\t' * 99999).expandtabs(9999) }}"},
      {"json of much", "{{ ((range(9999) | list) * 99) | tojson }}"},
      {"json with wide indents",
       "{% set n = namespace(a=[]) %}{% for i in range(126) %}{% set n.a = [n.a] %}{% endfor %}"
       "{{ n.a | tojson(indent='x' * 4000000) }}"},
      {"as many slices as fit a number", "{{ [] | slice(9223372036854775807) | list }}"},
      {"a key that holds itself over and over",
       "{% set n = namespace(a=(1,)) %}{% for i in range(60) %}{% set n.a = (n.a, n.a) %}{% endfor %}{{ {n.a: 1} }}"},
      {"captured in captures",
       "{% macro f(n) %}{% set a %}{{ 'x' * 999999 }}{{ f(n) }}{% endset %}{% endmacro %}{{ f(1) }}"},
  };
  // What no limit but that of the steps ends: 100 ms.
  const auto loops =
      Template::Parse("{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}");
  const double counted_s = CpuSecondsOf([&] { (void)loops->Render({}, 0); });
  for (const auto& each : cases) {
    const std::string& name = each.first;
    const auto parsed = Template::Parse(each.second);
    if (!parsed.ok()) continue;
    const double took = CpuSecondsOf([&] {
      const auto rendering = parsed->Render({}, 0);
      EXPECT_EQ(rendering.status().code(), absl::StatusCode::kResourceExhausted) << name << ": " << rendering.status();
    });
    EXPECT_LT(took, 5 * counted_s) << name;
  }
}

TEST(Template, ALoopOfWhichNoPassReachesItsEndIsEmpty) {
  EXPECT_EQ(RenderTemplate("{% for i in [1, 2] %}{% break %}{% else %}none{% endfor %}")->text, "none");
  EXPECT_EQ(RenderTemplate("{% for i in [1, 2] %}{{ i }}{% continue %}{% else %}none{% endfor %}")->text, "12none");
  EXPECT_EQ(
      RenderTemplate("{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}")->text, "");
  EXPECT_EQ(RenderTemplate("{{ '\x7f' | tojson(ensure_ascii=true) }}")->text, "\"\\u007f\"");
}

TEST(Template, LetsNothingBeReachedOrChanged) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a class", "{{ ''.__class__.__mro__ }}"},
      {"a class by subscript", "{{ ''['__class__']['__base__'] }}"},
      {"a class by filter", "{{ '' | attr('__class__') | attr('__mro__') | list }}"},
      {"a class by map", "{{ [''] | map(attribute='__class__.__mro__') | list }}"},
      {"a class by format", "{{ '{0.__class__.__mro__}'.format('') }}"},
      {"globals of a function", "{{ range.__globals__.x }}"},
      {"appending", "{{ l.append(1) }}"},
      {"updating", "{{ d.update({'a': 1}) }}"},
      {"popping", "{{ d.pop('a') }}"},
      {"a field of a value", "{% set d.a = 1 %}"},
      {"a hidden name of a namespace", "{% set n = namespace() %}{% set n.__class__ = 1 %}"},
  };
  for (const auto& [name, source] : cases) {
    const auto rendering = RenderTemplate(source, {{"l", Json::array()}, {"d", {{"a", 1}}}});
    EXPECT_EQ(rendering.status().code(), absl::StatusCode::kFailedPrecondition) << name << ": " << rendering.status();
  }
  for (const char* source :
       {"{% import 'x' as y %}", "{% include 'x' %}", "{% extends 'x' %}", "{% from 'x' import y %}"}) {
    EXPECT_EQ(Template::Parse(source).status().code(), absl::StatusCode::kInvalidArgument) << source;
  }
}

TEST(Template, ForgetsObjectsThatReferToEachOther) {
  // The leak checker of the sanitizer build is what would fail.
  EXPECT_EQ(RenderTemplate("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}{{ a.b | length }}")
                ->text,
            "1");
}

TEST(Template, NeverRunsWhatAValueSays) {
  const Json values = {{"m", "{{ 1 + 1 }}{% for %}${x}"}};
  EXPECT_EQ(RenderTemplate("{{ m }}", values)->text, "{{ 1 + 1 }}{% for %}${x}");
}

TEST(Template, HoldsAsMuchAsItsLimitsSay) {
  Limits limits;
  limits.steps_max = 1000;
  EXPECT_TRUE(RenderTemplate("{% for i in range(50) %}{{ i }}{% endfor %}", Json::object(), limits).ok());
  EXPECT_EQ(RenderTemplate("{% for i in range(500) %}{{ i }}{% endfor %}", Json::object(), limits).status().code(),
            absl::StatusCode::kResourceExhausted);
  // What the client sent does not count: 20 MB go through.
  const Json values = {{"m", std::string(20'000'000, 'a')}};
  EXPECT_EQ(RenderTemplate("{{ m | length }}", values)->text, "20000000");
}

}  // namespace
}  // namespace hydrant::jinja
