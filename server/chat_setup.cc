#include "server/chat_setup.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// The longest known template has 17 KB.
constexpr std::streamsize kTemplateBytesMax = 1 << 20;

}  // namespace

ChatSetup MakeChatSetup(std::string source, std::string_view bos, std::string_view eos,
                        std::string_view tool_call_parser, std::vector<std::string>* warnings) {
  ChatSetup setup;
  setup.bos_token = bos;
  setup.eos_token = eos;
  setup.tool_calls = ToolCallFormatOf(tool_call_parser).value_or(DetectToolCallFormat(source));
  setup.source = std::move(source);
  if (setup.source.empty()) return setup;
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(setup.source, bos, eos);
  if (parsed.ok()) {
    setup.chat_template = std::make_shared<const ChatTemplate>(*std::move(parsed));
  } else {
    setup.has_broken_template = true;
    warnings->push_back(
        absl::StrCat("chat template: ", std::string(parsed.status().message()), "; chats will be refused"));
  }
  return setup;
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
