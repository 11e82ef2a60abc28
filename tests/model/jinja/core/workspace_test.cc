// What a template, or what a client puts into one, may cost: steps by the bytes looked at, memory by what is held, stack by
// nothing at all.
#include "model/jinja/core/workspace.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "model/jinja/template.h"
#include "nlohmann/json.hpp"

namespace hydrant::jinja {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Rendering> Render(std::string_view source, const Json& values = Json::object(),
                                 const Limits& limits = {}) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  std::vector<Variable> variables;
  for (const auto& [name, value] : values.items()) variables.push_back({name, &value, Origin::kClient});
  return parsed->Render(variables, 0, limits);
}

Limits Generous() {
  Limits limits;
  limits.steps_max = 1'000'000'000;
  limits.bytes_max = size_t{1} << 30;
  limits.time_max = std::chrono::seconds(60);
  return limits;
}

TEST(Workspace, CountsEveryByteLookedAt) {
  // 64 bytes are a step, so a megabyte is 16384.
  const std::string big(1 << 20, 'a');
  const Json values = {{"big", big}, {"other", big + "b"}, {"many", {big, big, big}}};
  const std::vector<std::string> sources = {
      "{{ 'ab' in big }}",
      "{{ other in big }}",
      "{{ 'a' in other }}",
      "{{ big.find('b') }}",
      "{{ big.rfind('b') }}",
      "{{ big.find('a', 1000000) }}",
      "{{ 'x'.find(big) }}",
      "{{ big.count('b') }}",
      "{{ big.partition('b')[1] }}",
      "{{ big.rpartition('b')[1] }}",
      "{{ big.replace('b', 'c')[0] }}",
      "{{ big.split('b')[0][0] }}",
      "{{ big.rsplit('b')[0][0] }}",
      "{{ 'x'.split(big) }}",
      "{{ 'x'.strip(big) }}",
      "{{ big.strip('b')[0] }}",
      "{{ big[10**9] }}",
      "{{ big[1000000] }}",
      "{{ big[-1:] }}",
      "{{ big.isascii() }}",
      "{{ big.startswith(many | list) if false else 'x'.removeprefix(big) }}",
      "{{ big.startswith((other, other)) }}",
      "{{ big | length }}",
      "{{ big | int }}",
      "{{ big | float }}",
      "{{ big | escape == 1 }}",
      "{{ big is filter }}",
      "{{ big is test }}",
      "{{ 'x'[big] is defined }}",
      "{{ 'x' | attr(big) is defined }}",
      "{{ big.format() == 1 }}",
      "{{ (big % ()) == 1 }}",
      "{{ big | truncate(9) }}",
      "{{ '%.1s' % big }}",
      "{{ 'x'.center(1, 'y') ~ big.center(1)[0] }}",
      "{{ big | string == 1 or big | trim == 1 }}",
  };
  for (const std::string& source : sources) {
    const auto rendering = Render(source, values, Generous());
    ASSERT_TRUE(rendering.ok()) << source << ": " << rendering.status();
    EXPECT_GE(rendering->steps, 16'000) << source;
  }
}

TEST(Workspace, CountsEveryFieldOfAFormat) {
  std::string fields;
  for (int i = 0; i < 1000; ++i) fields += "{}";
  const std::string items = "{% set l = range(1000) | list %}";
  EXPECT_GE(Render(items + "{{ '" + fields + "'.format(*l) | length }}")->steps, 1000);
  Json named;
  for (int i = 0; i < 8000; ++i) named["k" + std::to_string(i)] = 1;
  EXPECT_GE(Render("{{ '{k1}{k2}{k3}'.format(**d) }}", {{"d", named}})->steps, 3000);
}

TEST(Workspace, SearchesInLinearTime) {
  // 2^18 * 2^17 byte comparisons, were it not.
  const std::string text(1 << 18, 'a'), half(1 << 17, 'a');
  const Json values = {{"text", text}, {"late", half + "b"}, {"early", "b" + half}};
  for (const char* sought : {"late", "early"}) {
    for (const std::string& use :
         {std::string("{{ S in text }}"), std::string("{{ text.find(S) }}"), std::string("{{ text.rfind(S) }}"),
          std::string("{{ text.count(S) }}"), std::string("{{ text.partition(S) | length }}"),
          std::string("{{ text.rpartition(S) | length }}"), std::string("{{ text.replace(S, 'x') | length }}"),
          std::string("{{ text.split(S) | length }}"), std::string("{{ text.rsplit(S) | length }}")}) {
      std::string source = use;
      source.replace(source.find('S'), 1, sought);
      const auto rendering = Render(source, values);
      EXPECT_TRUE(rendering.ok()) << source << ": " << rendering.status();
    }
  }
}

// What the client sent does not count; what a template gathers of it does, for as long as it is held.
TEST(Workspace, CountsTheMemoryOfWhatIsGathered) {
  const auto values = [](size_t count) {
    Json numbers = Json::array(), entries = Json::object();
    for (size_t i = 0; i < count; ++i) numbers.push_back(i);
    for (size_t i = 0; i < count / 10; ++i) entries["k" + std::to_string(i)] = i;
    return Json{{"l", numbers}, {"d", entries}, {"breaks", std::string(40 * count, '\n')}};
  };
  Limits limits = Generous();
  limits.bytes_max = Limits().bytes_max;
  const std::vector<std::string> sources = {
      "{% macro f(n) %}{% for x in l %}{% if n and loop.first %}{{ f(n - 1) }}{% endif %}{% endfor %}{% endmacro %}"
      "{{ f(20) }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1, *l) }}{% endif %}{{ varargs[:0] }}{% endmacro %}{{ f(20) }}",
      "{% set n = namespace(a=[]) %}{% for i in range(20) %}{% set n.a = [n.a, cycler(*l)] %}{% endfor %}",
      "{% set n = namespace(a=[]) %}{% for i in range(100) %}{% set n.a = [n.a, namespace(**d)] %}{% endfor %}",
      "{% set n = namespace(a=[]) %}{% for i in range(100) %}{% set n.a = [n.a, dict(d)] %}{% endfor %}",
      "{% for x in l %}{% if loop.changed(*l) %}{% set a = loop %}{% endif %}{% if loop.index == 20 %}{% break %}"
      "{% endif %}{% endfor %}{% macro f(n) %}{% for x in [1] %}{% if loop.changed(*l) and n %}{{ f(n - 1) }}{% endif "
      "%}"
      "{% endfor %}{% endmacro %}{{ f(20) }}",
      "{{ breaks | indent(0) | length }}",
      "{{ breaks.split('\\n') | length }}",
      "{{ breaks[::-1] | length }}",
      "{{ l | map(attribute=breaks.replace('\\n', '0.'), default=1) | list | length }}",
  };
  const Json few = values(50), many = values(30'000);
  for (const std::string& source : sources) {
    const auto small = Render(source, few, limits);
    EXPECT_TRUE(small.ok()) << source << ": " << small.status();
    const auto rendering = Render(source, many, limits);
    EXPECT_EQ(rendering.status().code(), absl::StatusCode::kResourceExhausted) << source;
    EXPECT_NE(rendering.status().message().find("bytes"), std::string_view::npos) << rendering.status();
  }
}

TEST(Workspace, DeletesChainsOfAnyLengthWithoutStack) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"methods of lists",
       "{% set n = namespace(a=[]) %}{% for i in range(99999) %}{% set n.a = [n.a.copy] %}{% endfor %}ok"},
      {"methods of dicts",
       "{% set n = namespace(a={}) %}{% for i in range(99999) %}{% set n.a = {1: n.a.copy} %}{% endfor %}ok"},
      {"loops over loops",
       "{% set n = namespace(a=1) %}{% for i in range(50000) %}{% for x in [n.a] %}{% set n.a = loop %}{% endfor %}"
       "{% endfor %}ok"},
      {"loops that saw loops",
       "{% set n = namespace(a=1) %}{% for i in range(50000) %}{% for x in [1] %}{% if loop.changed(n.a) %}{% endif %}"
       "{% set n.a = loop %}{% endfor %}{% endfor %}ok"},
      {"cyclers of cyclers",
       "{% set n = namespace(a=1) %}{% for i in range(50000) %}{% set n.a = cycler(n.a) %}{% endfor %}ok"},
      {"macros around macros",
       "{% set n = namespace(a=1) %}{% for i in range(50000) %}{% set b = n.a %}{% macro m() %}{{ b }}{% endmacro %}"
       "{% set n.a = m %}{% endfor %}ok"},
  };
  for (const auto& [name, source] : cases) {
    const auto rendering = Render(source, Json::object(), Generous());
    ASSERT_TRUE(rendering.ok()) << name << ": " << rendering.status();
    EXPECT_EQ(rendering->text, "ok") << name;
  }
}

TEST(Workspace, ForgetsALoopThatSawItself) {
  // The leak checker of the sanitizer build is what would fail.
  EXPECT_EQ(Render("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}")->text, "True");
}

TEST(Workspace, FiltersThatApplyThemselvesNestNoDeeperThanTheRest) {
  // A character of a string is a string of one character, and so on.
  const std::string source = "{% set maps = ['map'] * 5000 %}{{ 'a' | map(*maps) | list }}";
  EXPECT_EQ(Render(source, Json::object(), Generous()).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Workspace, RoundsWithoutUndefinedBehaviour) {
  EXPECT_EQ(Render("{{ 9223372036854775807 | round(-18) }}")->text, "9000000000000000000");
  for (const char* source : {"{{ 9223372036854775807 | round(-19) }}", "{{ 1 | round(400, 'ceil') }}",
                             "{{ 1 | round(-9223372036854775807, 'floor') }}"}) {
    EXPECT_EQ(Render(source).status().code(), absl::StatusCode::kFailedPrecondition) << source;
  }
  EXPECT_EQ(Render("{{ 1.5 | round(9223372036854775807) }}{{ 1.5 | round(-9223372036854775807) }}")->text, "1.50.0");
  EXPECT_EQ(Render("{{ '-1'.zfill(-9223372036854775807 - 1) }}")->text, "-1");
}

}  // namespace
}  // namespace hydrant::jinja
