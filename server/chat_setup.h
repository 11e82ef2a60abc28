// ChatSetup is what a server knows about chats with its model: the template, and how the model spells tool calls.
//
// Thread: any (immutable once made).
#ifndef HYDRANT_SERVER_CHAT_SETUP_H_
#define HYDRANT_SERVER_CHAT_SETUP_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/tool_call_parser.h"
#include "model/chat_template.h"

namespace hydrant {

struct ChatSetup {
  std::shared_ptr<const ChatTemplate> chat_template;  // null: none that can be used
  bool has_broken_template = false;                   // there is one, and it does not parse
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
  // As the checkpoint or the operator has them, for GET /tokenizer_info.
  std::string source, bos_token, eos_token;
};

// `tool_call_parser`: a name that ToolCallFormatOf knows, or "auto", which goes by the template. A template that does not
// parse leaves the server without chats, and with a warning: completions need none.
ChatSetup MakeChatSetup(std::string source, std::string_view bos, std::string_view eos,
                        std::string_view tool_call_parser, std::vector<std::string>* warnings);

// The text of a template file that the operator names (--chat-template).
absl::StatusOr<std::string> ReadChatTemplateFile(const std::string& path);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_CHAT_SETUP_H_
