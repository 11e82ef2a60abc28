#include "model/chat/reasoning_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// "open|close|lead|member|open_in_prompt"
std::string Described(const ReasoningFormat& format) {
  if (!format.known()) return "";
  return format.open + "|" + format.close + "|" + format.lead + "|" + format.member + "|" +
         (format.open_in_prompt ? "open" : "");
}

std::string Detected(const std::string& source) {
  const auto chat = ChatTemplate::Parse(source, "<s>", "</s>");
  return chat.ok() ? Described(DetectReasoning(*chat, source)) : "does not parse";
}

// A template of chats whose assistant's messages are `said`, and whose prompts end with `begun`.
std::string Template(const std::string& said, const std::string& begun) {
  return "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}" + said +
         "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>" + begun +
         "{% endif %}";
}

TEST(ReasoningFormat, IsWhatTheTemplateWritesAroundReasoning) {
  const std::string shown = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}";
  const struct {
    const char* name;
    std::string source, format;
  } cases[] = {
      {"none", Template("{{ m.content }}", ""), ""},
      {"the model opens it", Template(shown + "{{ m.content }}", ""), "<think>|</think>||reasoning_content|"},
      {"the prompt opens it", Template(shown + "{{ m.content }}", "<think>\n"),
       "<think>|</think>||reasoning_content|open"},
      {"the prompt closes it", Template(shown + "{{ m.content }}", "<think>\n\n</think>\n\n"),
       "<think>|</think>||reasoning_content|"},
      {"another member, tags of more than a word",
       Template("<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|a|>final<|m|>{{ m.content }}", ""),
       "<|channel|>analysis<|message|>|<|end|>|<|a|>final<|m|>|thinking|"},
      {"brackets", Template("[THINK]{{ m.reasoning }}[/THINK]{{ m.content }}", ""), "[THINK]|[/THINK]||reasoning|"},
      {"past reasoning is taken out", Template("{{ m.content.split('</think>')[-1] }}", ""), "<think>|</think>|||"},
      {"past reasoning is not there", Template("{{ m.content }}", "<think>\n"), "<think>|</think>|||open"},
      {"reasoning in no tags", Template("I think: {{ m.reasoning_content }}. {{ m.content }}", ""), ""},
      {"only when told to think",
       Template("{% if enable_thinking %}<t>{{ m.thinking }}</t>{% endif %}{{ m.content }}", ""),
       "<t>|</t>||thinking|"},
      {"a template that refuses", "{{ raise_exception('no') }}</think>", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(Detected(c.source), c.format) << c.name;
}

TEST(ReasoningFormat, AnswersAreMessagesWhereTheirHeadsNameChannels) {
  const auto channels = [](const std::string& said, const std::string& begun) {
    const std::string source = Template(said, begun);
    const auto chat = ChatTemplate::Parse(source, "", "");
    if (!chat.ok()) return std::string("does not parse");
    const ChannelFormat found = DetectReasoning(*chat, source).channels;
    return found.start + "|" + found.channel + found.thought + found.message + found.end + found.answer;
  };
  EXPECT_EQ(channels("<s>assistant<c>think<m>{{ m.thinking }}<e><s>assistant<c>say<m>{{ m.content }}", "<s>assistant"),
            "<s>assistant|<c>think<m><e>say");
  EXPECT_EQ(channels("<s>assistant<c>think<m>{{ m.thinking }}<e><s>assistant<c>say<m>{{ m.content }}", "<s>model"), "|")
      << "its prompts do not begin a head";
  EXPECT_EQ(channels("<think>{{ m.thinking }}</think><text>{{ m.content }}", ""), "|");
  EXPECT_EQ(channels("<s>assistant<c>think<m>{{ m.thinking }}<e>{{ m.content }}", "<s>assistant"), "|");
}

TEST(ReasoningFormat, PromptsEndBehindTheStartOfAMessage) {
  const ChannelFormat channels = {.start = "<s>a", .channel = "<c>", .message = "<m>", .end = "<e>", .thought = "t"};
  EXPECT_TRUE(EndsWithStart(channels, "<s>u<m>hi<e><s>a\n"));
  EXPECT_FALSE(EndsWithStart(channels, "<s>u<m>hi<e>"));
  EXPECT_FALSE(EndsWithStart({}, "<s>a"));
}

TEST(ReasoningFormat, AnswersBeginWithinItWhereThePromptEndsWithinIt) {
  const ReasoningFormat format = {.open = "<think>", .close = "</think>"};
  const auto opens = [&](const std::string& before, const std::string& client, const std::string& after,
                         bool continues = false) {
    std::vector<ByteRange> ranges;
    if (!client.empty()) ranges = {{before.size(), before.size() + client.size()}};
    return OpensReasoning(format, before + client + after, ranges, continues);
  };
  EXPECT_TRUE(opens("u", "hi", "<think>\n"));
  EXPECT_FALSE(opens("u", "hi", ""));
  EXPECT_FALSE(opens("u", "hi", "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens("u", "hi", "</think>"));
  EXPECT_FALSE(opens("u", "say <think>", "<a>")) << "a client's word for it opens nothing";
  EXPECT_FALSE(opens("Think within <think>.", "hi", "")) << "nor does the template's in its instructions";
  EXPECT_TRUE(opens("", "", "<think>"));
  EXPECT_TRUE(opens("<a>", "<think>Let me", "", true));
  EXPECT_TRUE(opens("<a><think>", "Let me", "<think>", true));
  EXPECT_FALSE(opens("<a>", "<think>Yes</think>It", "", true));
  EXPECT_FALSE(opens("<a>", "The tag <think> is", "", true));
  EXPECT_FALSE(OpensReasoning({}, "<think>", {}, false));
}

TEST(ReasoningFormat, PastReasoningGoesWhereTheTemplateReadsIt) {
  const Json messages =
      Json::parse(R"([{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"r"},)"
                  R"({"role":"assistant","content":null,"reasoning_content":"s"}])");
  const auto placed = [&](const char* member, bool continues = false) {
    const auto changed =
        WithReasoningPlaced({.open = "<t>", .close = "</t>", .lead = "", .member = member}, messages, continues);
    return changed.has_value() ? changed->dump() : "unchanged";
  };
  EXPECT_EQ(placed(""), "unchanged");
  EXPECT_EQ(placed("reasoning_content"), "unchanged");
  EXPECT_EQ(placed("thinking"), R"([{"role":"user","content":"q"},{"role":"assistant","content":"a","thinking":"r"},)"
                                R"({"role":"assistant","content":null,"thinking":"s"}])");
  EXPECT_EQ(placed("content", true),
            R"([{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"r"},)"
            R"({"type":"text","text":"a"}]},{"role":"assistant","content":null,"reasoning_content":"s"}])");
}

TEST(ReasoningFormat, IsThatOfEveryPublishedTemplateThatHasOne) {
  const std::filesystem::path folder = SourceDir() + "/../shared/data/chat_templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no chat templates in " << folder;
  std::map<std::string, std::string> found;
  std::vector<std::string> of_messages;
  size_t templates = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    ++templates;
    std::ifstream file(entry.path());
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const std::string format = Detected(source);
    const auto chat = ChatTemplate::Parse(source, "<s>", "</s>");
    if (chat.ok() && DetectReasoning(*chat, source).channels.known())
      of_messages.push_back(entry.path().stem().string());
    if (!format.empty()) found[entry.path().stem().string()] = format;
  }
  EXPECT_EQ(of_messages, std::vector<std::string>{"openai-gpt-oss-120b"});
  EXPECT_EQ(templates, 64u);
  EXPECT_EQ(found.size(), 28u);
  const std::map<std::string, std::string> expected = {
      {"Qwen-Qwen3-0.6B", "<think>|</think>||reasoning_content|"},
      {"Qwen3.5-4B", "<think>|</think>||reasoning_content|open"},
      {"Qwen-QwQ-32B", "<think>|</think>|||"},
      {"Cohere2MoE", "<|START_THINKING|>|<|END_THINKING|>|<|START_TEXT|>|reasoning_content|open"},
      {"llama-cpp-deepseek-r1", "<think>|</think>|||open"},
      {"deepseek-ai-DeepSeek-V3.1", "<think>|</think>|||"},
      {"google-gemma-4-31B-it", "<|channel>thought|<channel|>|||"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "[THINK]|[/THINK]||content|"},
      {"openai-gpt-oss-120b",
       "<|channel|>analysis<|message|>|<|end|>|<|start|>assistant<|channel|>final<|message|>|thinking|"},
  };
  for (const auto& [name, format] : expected) EXPECT_EQ(found[name], format) << name;
  EXPECT_FALSE(found.contains("Qwen-Qwen2.5-7B-Instruct"));
}

}  // namespace
}  // namespace hydrant
