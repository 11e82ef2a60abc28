// Templates that show a call in their own ways, and all published ones.
#include "server/generation/call_probe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

// What the words of the template suggest first, then all others.
std::vector<ToolCallFormat> FormatsFrom(ToolCallFormat first) {
  std::vector<ToolCallFormat> formats = {first};
  for (const std::string_view name : ToolCallFormatNames()) formats.push_back(*ToolCallFormatOf(name));
  return formats;
}

std::string_view Found(const std::string& source, ToolCallFormat first) {
  const absl::StatusOr<ChatTemplate> chat = ChatTemplate::Parse(source, "<s>", "</s>");
  if (!chat.ok()) return "does not parse";
  return ToolCallFormatName(FormatThatReads(*chat, DetectReasoning(*chat, source), FormatsFrom(first)));
}

// A template whose assistant's calls are what `call` writes of the function `f`.
std::string Template(std::string_view call) {
  return "{% for m in messages %}<|{{ m.role }}|>{% for c in m.tool_calls or [] %}{% set f = c.function %}" +
         std::string(call) +
         "{% endfor %}{{ m.content or '' }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

constexpr std::string_view kHermesCall =
    "<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}</tool_call>";
constexpr std::string_view kUnknownCall = "<call={{ f.name }}>{{ f.arguments | tojson }}</call>";

TEST(CallProbe, FindsTheFormatThatReadsWhatIsShown) {
  EXPECT_EQ(Found(Template(kHermesCall), ToolCallFormat::kHermes), "hermes");
  EXPECT_EQ(Found(Template(kHermesCall), ToolCallFormat::kLlama3Json), "hermes");
  EXPECT_EQ(Found(Template(kHermesCall), ToolCallFormat::kNone), "hermes");
  EXPECT_EQ(Found(Template("<tool_call>{{ f.name }}{% for k, v in f.arguments.items() %}<arg_key>{{ k }}</arg_key>"
                           "<arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>"),
                  ToolCallFormat::kHermes),
            "glm45");
  EXPECT_EQ(Found(Template("<function={{ f.name }}>{{ f.arguments | tojson }}</function>"), ToolCallFormat::kHermes),
            "functionary_v31");
  EXPECT_EQ(Found(Template(kUnknownCall), ToolCallFormat::kLlama3Json), "none");
  // Calls that are all of an answer are found where it begins and ends.
  EXPECT_EQ(Found(Template("{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}"),
                  ToolCallFormat::kHermes),
            "llama3_json");
  EXPECT_EQ(Found(Template("[{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v }}{% endfor %})]"),
                  ToolCallFormat::kHermes),
            "pythonic")
      << "though strings lack their quotes";
}

TEST(CallProbe, ReadsNameAndArgumentsAsGiven) {
  EXPECT_EQ(Found(Template("<tool_call>{\"name\": \"f\", \"arguments\": {{ f.arguments | tojson }}}</tool_call>"),
                  ToolCallFormat::kHermes),
            "none");
  EXPECT_EQ(Found(Template("<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {\"all\": {{ f.arguments | tojson "
                           "}}}}</tool_call>"),
                  ToolCallFormat::kHermes),
            "none");
}

TEST(CallProbe, TakesTheFirstWhereNothingIsShown) {
  for (const std::string& source :
       {Template(""), Template("{{ raise_exception('no calls') }}"), Template("{{ f.arguments + 'x' }}"),
        std::string("{% if tools %}{{ raise_exception('no tools') }}{% endif %}x"),
        std::string("{% for i in range(999999999) %}{% endfor %}")}) {
    EXPECT_EQ(Found(source, ToolCallFormat::kLlama3Json), "llama3_json") << source;
    EXPECT_EQ(Found(source, ToolCallFormat::kNone), "none") << source;
  }
}

TEST(CallProbe, SuitsTemplatesThatAskForMore) {
  const auto checked = [](std::string_view condition) {
    return Template("{% if not (" + std::string(condition) + ") %}{{ raise_exception('no') }}{% endif %}" +
                    std::string(kHermesCall));
  };
  EXPECT_EQ(Found(checked("c.id | length == 9"), ToolCallFormat::kLlama3Json), "hermes");
  EXPECT_EQ(Found(checked("f.arguments is mapping"), ToolCallFormat::kLlama3Json), "hermes");
  EXPECT_EQ(Found(checked("messages[-1].role == 'user'"), ToolCallFormat::kLlama3Json), "hermes");
  EXPECT_EQ(Found(checked("tools[0].function.parameters.properties"), ToolCallFormat::kLlama3Json), "hermes");
}

TEST(CallProbe, ThePromptMayEndWithinWhatPastAnswersLack) {
  const std::string call = "{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}";
  EXPECT_EQ(Found(Template(call) + "{% if add_generation_prompt %}{<think>{% endif %}", ToolCallFormat::kHermes),
            "llama3_json");
}

TEST(CallProbe, LeavesEveryPublishedTemplateAFormatThatReadsIt) {
  const std::filesystem::path folder = SourceDir() + "/../shared/data/chat_templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no chat templates in " << folder;
  std::map<std::string, std::string> changed;
  size_t templates = 0, formats = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    ++templates;
    std::ifstream file(entry.path());
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const ToolCallFormat suggested = DetectToolCallFormat(source);
    const std::string_view found = Found(source, suggested);
    formats += found != "none" ? 1 : 0;
    if (found == ToolCallFormatName(suggested)) continue;
    changed[entry.path().stem().string()] = std::string(ToolCallFormatName(suggested)) + " " + std::string(found);
  }
  EXPECT_EQ(templates, 64u);
  EXPECT_EQ(formats, 38u);
  EXPECT_EQ(changed, (std::map<std::string, std::string>{{"tool_chat_template_llama4_json", "none llama3_json"},
                                                         {"tool_chat_template_llama4_pythonic", "none pythonic"}}));
}

}  // namespace
}  // namespace hydrant
