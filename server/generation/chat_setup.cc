#include "server/generation/chat_setup.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/generation/call_probe.h"

namespace hydrant {
namespace {

// The longest known template has 17 KB.
constexpr std::streamsize kTemplateBytesMax = 1 << 20;

// The format that the template's words suggest, if it reads what the template shows of calls, or else the first that does.
ToolCallFormat FindToolCalls(const ChatSetup::Template& chat, std::vector<std::string>* warnings) {
  const ToolCallFormat suggested = DetectToolCallFormat(chat.source);
  if (chat.parsed == nullptr) return suggested;
  std::vector<ToolCallFormat> formats = {suggested};
  std::vector<std::string> others;
  for (const std::string_view name : ToolCallFormatNames()) {
    const ToolCallFormat format = ToolCallFormatOf(name).value_or(ToolCallFormat::kNone);
    if (format == suggested || format == ToolCallFormat::kNone) continue;
    formats.push_back(format);
    others.emplace_back(name);
  }
  const ToolCallFormat found = FormatThatReads(*chat.parsed, chat.reasoning, formats);
  if (found == suggested || suggested == ToolCallFormat::kNone) return found;
  const std::string says =
      absl::StrCat("chat template: its words suggest tool calls of the format ",
                   std::string(ToolCallFormatName(suggested)), ", which does not read the call that it renders; ");
  warnings->push_back(
      found == ToolCallFormat::kNone
          ? absl::StrCat(says, "nor does any other (", absl::StrJoin(others, ", "),
                         "), so that calls will stay text; --tool-call-parser names a format all the same")
          : absl::StrCat(says, std::string(ToolCallFormatName(found)),
                         " does, and is taken; --tool-call-parser names another"));
  return found;
}

}  // namespace

std::vector<std::string> ToolCallParserNames() {
  std::vector<std::string> names = {"auto"};
  for (const std::string_view name : ToolCallFormatNames()) names.emplace_back(name);
  for (const std::string_view name : ToolCallFormatAliases()) names.emplace_back(name);
  return names;
}

ChatSetup MakeChatSetup(ChatTemplateSources sources, std::string_view bos, std::string_view eos,
                        std::string_view tool_call_parser, std::vector<std::string>* warnings) {
  ChatSetup setup;
  setup.bos_token = bos;
  setup.eos_token = eos;
  setup.for_all.source = std::move(sources.for_all);
  setup.for_tools.source = std::move(sources.for_tools);
  const auto parse = [&](ChatSetup::Template& one, std::string_view refused) {
    if (one.source.empty()) return;
    one.names_developers = one.source.find("developer") != std::string::npos;
    absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(one.source, bos, eos);
    if (parsed.ok()) {
      one.reasoning = DetectReasoning(*parsed, one.source);
      one.parsed = std::make_shared<const ChatTemplate>(*std::move(parsed));
    } else {
      warnings->push_back(absl::StrCat("chat template: ", std::string(parsed.status().message()), "; ",
                                       std::string(refused), " will be refused"));
    }
  };
  parse(setup.for_all, setup.for_tools.source.empty() ? "chats" : "chats without tools");
  parse(setup.for_tools, "chats with tools");
  const std::optional<ToolCallFormat> named = ToolCallFormatOf(tool_call_parser);
  setup.tool_calls = named.has_value() ? *named : FindToolCalls(setup.For(/*has_tools=*/true), warnings);
  return setup;
}

std::vector<std::string_view> AnswerMarkers(const ChatSetup& setup, const Tokenizer& tokenizer) {
  const std::span<const std::string_view> of_calls = ToolCallMarkers(setup.tool_calls);
  std::vector<std::string_view> markers(of_calls.begin(), of_calls.end());
  for (const ChatSetup::Template* chat : {&setup.for_all, &setup.for_tools}) {
    const ChannelFormat& channels = chat->reasoning.channels;
    for (const std::string* mark : {&channels.channel, &channels.message, &channels.start, &channels.end}) {
      for (const int32_t id : tokenizer.Encode(*mark, {.add_special_tokens = false})) {
        const std::string_view text = tokenizer.TokenBytes(id);
        const bool is_new = std::find(markers.begin(), markers.end(), text) == markers.end();
        if (is_new && tokenizer.IsSpecial(id)) markers.push_back(text);
      }
    }
  }
  return markers;
}

void DescribeCalls(const ChatSetup& setup, const ShapeVocabulary& vocabulary, RequestContext* request) {
  const ToolCallFormat calls = setup.tool_calls;
  if (calls == ToolCallFormat::kNone) return;
  request->tool_format = ToolCallFormatName(calls);
  const std::span<const std::string_view> own = ToolCallMarkers(calls);
  for (const std::string& marker : vocabulary.markers()) {
    if (std::find(own.begin(), own.end(), marker) != own.end()) request->tool_markers.push_back(marker);
  }
  request->call_mark = CallMarkOf(calls, request->tool_markers);
  request->calls_are_json_answers = CallsAreJsonAnswers(calls);
}

absl::StatusOr<std::string> ReadChatTemplateFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(kTemplateBytesMax) + 1, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (text.empty() && !file.eof())) {
    return absl::FailedPreconditionError(absl::StrCat("--chat-template: cannot read ", path));
  }
  if (std::ssize(text) > kTemplateBytesMax) {
    return absl::FailedPreconditionError(absl::StrCat("--chat-template: ", path, " is longer than 1 MiB"));
  }
  return text;
}

}  // namespace hydrant
