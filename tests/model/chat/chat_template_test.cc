#include "model/chat/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{% if tools is none %}.{% endif %}";

absl::StatusOr<ChatTemplate::Prompt> Render(std::string_view source, const Json& messages, bool continues = false) {
  const auto parsed = ChatTemplate::Parse(source, "<s>", "</s>");
  if (!parsed.ok()) return parsed.status();
  const Json none = nullptr;
  return parsed->Render({messages, none, none, none, !continues, continues, 0});
}

std::string ClientText(const ChatTemplate::Prompt& prompt) {
  std::string text;
  for (const ByteRange& range : prompt.client) text += prompt.text.substr(range.begin, range.end - range.begin) + "|";
  return text;
}

TEST(ChatTemplate, TellsWhatTheClientWrote) {
  const auto prompt = Render(kChatMl, {{{"role", "user"}, {"content", "<|im_end|>"}}});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text, "<s><|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n.");
  EXPECT_EQ(ClientText(*prompt), "<|im_end|>|");
}

// gpt-oss's template looks at all later messages for each call: an agent was refused from its 313th call on.
TEST(ChatTemplate, ALongConversationMayTakeMoreSteps) {
  constexpr std::string_view kQuadratic =
      "{% for m in messages %}{% for n in messages %}{% if n.tool_calls %}!{% endif %}{% endfor %}{% endfor %}";
  const auto render = [&](int count) {
    Json messages = Json::array();
    for (int i = 0; i < count; ++i) messages.push_back({{"role", "user"}, {"content", "a"}});
    return Render(kQuadratic, messages).status();
  };
  // Where a sanitizer watches it may run out of time, which is another limit.
  EXPECT_EQ(render(700).message().find("steps"), absl::string_view::npos) << render(700);
  EXPECT_EQ(Render("{% for i in range(10**7) %}{{ i }}{% endfor %}", Json::array({{{"role", "user"}}})).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ChatTemplate, KeepsIntegersOf64BitsAsTheyAre) {
  const auto parsed = ChatTemplate::Parse(
      "{{ documents | tojson }} {{ documents[0].a }} {{ documents[0].a is integer }} {{ documents[0].a is float }} "
      "{{ documents[0].a > 1 }} {{ [documents[0].b] }}",
      "", "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Json documents = Json::parse(R"([{"a":18446744073709551615,"b":9223372036854775808,"c":9223372036854775807}])");
  const auto prompt = parsed->Render({Json::array(), nullptr, documents, nullptr, false, false, 0});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text,
            R"([{"a": 18446744073709551615, "b": 9223372036854775808, "c": 9223372036854775807}] 18446744073709551615 )"
            "True False True [9223372036854775808]");
}

TEST(ChatTemplate, TrustsNoMemberOfToolsAndDocuments) {
  const auto parsed = ChatTemplate::Parse("{{ tools | tojson }}{{ documents | tojson }}", "", "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  for (const char* key : {"", "role", "x"}) {
    const Json given = {{{key, "<|im_start|>"}}};
    const auto prompt = parsed->Render({Json::array(), given, given, nullptr, false, false, 0});
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    size_t found = 0;
    for (size_t at = 0; (at = prompt->text.find("<|im_start|>", at)) != std::string::npos; ++at, ++found) {
      bool inside = false;
      for (const ByteRange& range : prompt->client) inside |= range.begin <= at && at < range.end;
      EXPECT_TRUE(inside) << "key '" << key << "' in " << prompt->text;
    }
    EXPECT_EQ(found, 2u);
  }
}

TEST(ChatTemplate, EndsWhereTheFinalMessageDoesWhenThatGoesOn) {
  const Json messages = {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "Sure, "}}};
  const auto kept = Render(kChatMl, messages, true);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->text, "<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nSure, ");
  EXPECT_EQ(ClientText(*kept), "hi|Sure, |");
  const auto trimmed = Render("{% for m in messages %}{{ m.content | trim }};{% endfor %}", messages, true);
  EXPECT_EQ(trimmed->text, "hi;Sure,");
  EXPECT_EQ(Render("nothing", messages, true).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Render(kChatMl, {{{"role", "assistant"}, {"content", nullptr}}}, true).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// An answer that is a call has content null, and clients send it back as it is.
TEST(ChatTemplate, TakesNullContentForEmptyTextWhereTheTemplateHasNoOtherUseForIt) {
  const Json messages = {{{"role", "user"}, {"content", "None of it"}}, {{"role", "assistant"}, {"content", nullptr}}};
  const struct {
    std::string source, text;
  } cases[] = {
      {"{{ m.content }};", "None of it;;"},
      {"{{ 'x' in m.content }};", "False;False;"},
      {"{% if m.content is none %}call{% endif %};", ";call;"},
      {"{% if m.content is not string %}{{ raise_exception('text') }}{% endif %};", ";;"},
      {"{{ m.content }}{% if m.content is none %} is null{% endif %};", "None of it;;"},
      {"{{ m.content | tojson }};", "\"None of it\";null;"},
  };
  for (const auto& c : cases) {
    const auto prompt = Render("{% for m in messages %}" + c.source + "{% endfor %}", messages);
    ASSERT_TRUE(prompt.ok()) << c.source << ": " << prompt.status();
    EXPECT_EQ(prompt->text, c.text) << c.source;
  }
  const auto refused = Render("{{ messages[1].content[0] + 1 }}", messages);
  EXPECT_FALSE(refused.ok());
}

TEST(ChatTemplate, TakesACallSentBackWhereTheTemplateTakesEmptyText) {
  const std::filesystem::path folder = SourceDir() + "/../shared/data/chat_templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no chat templates in " << folder;
  const auto conversation = [](const Json& content) {
    const Json call = {{"id", "abcdefghi"},
                       {"type", "function"},
                       {"function", {{"name", "weather"}, {"arguments", {{"city", "Paris"}}}}}};
    return Json{{{"role", "user"}, {"content", "How is the weather?"}},
                {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}},
                {{"role", "tool"}, {"content", "sunny"}, {"name", "weather"}, {"tool_call_id", "abcdefghi"}}};
  };
  size_t templates = 0, taken = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path());
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const auto empty = Render(source, conversation("")), null = Render(source, conversation(nullptr));
    ++templates;
    if (!empty.ok()) continue;
    ++taken;
    ASSERT_TRUE(null.ok()) << entry.path() << ": " << null.status();
    EXPECT_EQ(null->text.find("None"), std::string::npos) << entry.path() << ": " << null->text;
  }
  EXPECT_EQ(templates, 64u);
  EXPECT_GT(taken, 40u);
}

TEST(ChatTemplate, HasTheArgumentsThatItReads) {
  const auto chat = ChatTemplate::Parse(
      "{% macro f(p) %}{{ p }}{% endmacro %}{% set s = namespace(x=0) %}{% if a is defined and a %}{{ f(a) }}{% elif b "
      "%}{{ '<|' + b + '|>' }}{% endif %}{{ range(1) | length }}{{ messages[0].c }}",
      "", "");
  ASSERT_TRUE(chat.ok()) << chat.status();
  for (const char* name : {"a", "b", "messages", "p", "f", "s"}) {
    EXPECT_EQ(chat->Reads(name), name != std::string_view("s")) << name;
  }
  for (const char* name : {"c", "x", "range", "namespace", "length", "defined", ""}) EXPECT_FALSE(chat->Reads(name));
  EXPECT_TRUE(ChatTemplate::IsOwnVariable("messages"));
  EXPECT_FALSE(ChatTemplate::IsOwnVariable("enable_thinking"));
  const Json messages = {{{"role", "user"}}}, none = nullptr, arguments = {{"a", false}, {"b", "c"}};
  const auto prompt = chat->Render({messages, none, none, none, true, false, 0, std::nullopt, &arguments});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text, "<|c|>1");
  EXPECT_EQ(ClientText(*prompt), "c|") << "a client's word makes no special token";
}

TEST(ChatTemplate, PassesRefusalsOn) {
  const auto refused = Render("{{ raise_exception('no') }}", {{{"role", "user"}, {"content", "x"}}});
  EXPECT_EQ(refused.status(), absl::InvalidArgumentError("no"));
  EXPECT_EQ(ChatTemplate::Parse("{% if %}", "", "").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hydrant
