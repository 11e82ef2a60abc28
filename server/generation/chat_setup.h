// ChatSetup is what a server knows about chats with its model: the template, and how the model spells tool calls and
// marks its reasoning.
//
// Thread: any (immutable once made).
#ifndef HYDRANT_SERVER_GENERATION_CHAT_SETUP_H_
#define HYDRANT_SERVER_GENERATION_CHAT_SETUP_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/request/request_context.h"
#include "api/response/tool_call_parser.h"
#include "model/chat/chat_template.h"
#include "model/chat/reasoning_format.h"
#include "model/tokenizer/tokenizer.h"
#include "server/shapes/shape_vocabulary.h"

namespace hydrant {

struct ChatSetup {
  struct Template {
    std::string source;                          // as the checkpoint or the operator has it; empty: there is none
    std::shared_ptr<const ChatTemplate> parsed;  // null: there is none, or it does not parse
    ReasoningFormat reasoning;                   // how the model marks it; not known() where it does not reason
    bool names_developers = false;               // it has the word, so it has heard of messages of theirs
  };
  Template for_all;
  Template for_tools;  // for conversations with tools, where the model has one of its own for these
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
  std::string bos_token, eos_token;

  const Template& For(bool has_tools) const { return has_tools && !for_tools.source.empty() ? for_tools : for_all; }
};

struct ChatTemplateSources {
  std::string for_all, for_tools;  // empty: none
};

// What `tool_call_parser` may be: "auto", "none", and the names of formats.
std::vector<std::string> ToolCallParserNames();

// `tool_call_parser`: a name that ToolCallFormatOf knows, or "auto", which goes by the template. A template that does not
// parse leaves the server without the chats that it is for, and with a warning: completions need none.
ChatSetup MakeChatSetup(ChatTemplateSources sources, std::string_view bos, std::string_view eos,
                        std::string_view tool_call_parser, std::vector<std::string>* warnings);

// The special tokens of which answers are made up: those of the format of calls, in its order, and those around messages.
// They are the tokenizer's texts.
std::vector<std::string_view> AnswerMarkers(const ChatSetup& setup, const Tokenizer& tokenizer);
// Says how the model writes calls.
void DescribeCalls(const ChatSetup& setup, const ShapeVocabulary& vocabulary, RequestContext* request);

// The text of a template file that the operator names (--chat-template).
absl::StatusOr<std::string> ReadChatTemplateFile(const std::string& path);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_CHAT_SETUP_H_
