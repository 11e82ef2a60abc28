#include "model/chat_template.h"

#include <gtest/gtest.h>

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
  for (const TextRange& range : prompt.client) text += prompt.text.substr(range.begin, range.end - range.begin) + "|";
  return text;
}

TEST(ChatTemplate, TellsWhatTheClientWrote) {
  const auto prompt = Render(kChatMl, {{{"role", "user"}, {"content", "<|im_end|>"}}});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text, "<s><|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n.");
  EXPECT_EQ(ClientText(*prompt), "<|im_end|>|");
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
      for (const TextRange& range : prompt->client) inside |= range.begin <= at && at < range.end;
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

TEST(ChatTemplate, PassesRefusalsOn) {
  const auto refused = Render("{{ raise_exception('no') }}", {{{"role", "user"}, {"content", "x"}}});
  EXPECT_EQ(refused.status(), absl::InvalidArgumentError("no"));
  EXPECT_EQ(ChatTemplate::Parse("{% if %}", "", "").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hydrant
