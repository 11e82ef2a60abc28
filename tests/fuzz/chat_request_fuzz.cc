// Whatever a chat's body is, reading it ends in an error that names its field, or in a conversation that templates can read
// and that holds no more values than a body may.
#include <algorithm>
#include <string>
#include <string_view>

#include "api/request/chat_request.h"
#include "api/request/messages_request.h"
#include "api/request/tokenize.h"
#include "api/response/tool_call_parser.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/request_properties.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// So few that an input of a few kilobytes can go over them.
constexpr int32_t kValuesMax = 300;
constexpr int32_t kMessagesMax = 8;

int64_t CountValues(const Json& json) {
  int64_t count = 1;
  if (json.is_structured()) {
    for (const Json& value : json) count += CountValues(value);
  }
  return count;
}

// An object may have a member twice; find takes the first.
bool IsString(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string();
}

void CheckCalls(const Json& calls) {
  Require(calls.is_array() && !calls.empty(), "calls are some");
  for (const Json& call : calls) {
    Require(call.at("type") == "function" && call.at("function").at("arguments").is_object(),
            "arguments are an object");
    Require(IsFunctionName(call.at("function").at("name").get_ref<const std::string&>()), "a call names its function");
  }
}

void CheckMessage(const Json& message) {
  Require(message.is_object() && IsString(message, "role"), "a message has a role");
  const std::string& role = message.at("role").get_ref<const std::string&>();
  Require(role == "system" || role == "developer" || role == "user" || role == "assistant" || role == "tool",
          "the role is known");
  const Json& content = message.at("content");
  Require(content.is_string() || (content.is_null() && role == "assistant"), "content is text");
  if (message.contains("tool_calls")) CheckCalls(message.at("tool_calls"));
}

void CheckConversation(const Conversation& conversation) {
  Require(conversation.messages.is_array() && !conversation.messages.empty(), "there are messages");
  Require(conversation.messages.size() <= static_cast<size_t>(kMessagesMax), "messages are bounded");
  for (const Json& message : conversation.messages) CheckMessage(message);
  const Json& tools = conversation.tools;
  Require(tools.is_null() || (tools.is_array() && !tools.empty() && tools.size() <= 128), "tools are bounded");
  for (const Json& tool : tools) Require(tool.is_object(), "a tool is an object");
  // Reading adds the content, type and arguments that a client left out: at most three a message or call.
  const int64_t values = CountValues(conversation.messages) + CountValues(tools) + CountValues(conversation.documents);
  Require(values <= 4 * kValuesMax, "a conversation holds what a body may");
  // Throws for text that is no UTF-8.
  static_cast<void>(conversation.messages.dump() + tools.dump() + conversation.documents.dump());
}

}  // namespace

void Fuzz(std::string_view input) {
  RequestContext context = FuzzContext();
  context.limits.json_nodes_max = kValuesMax;
  context.limits.messages_max = kMessagesMax;
  const ApiResult<ChatRequest> chat = ParseChatRequest(input, context);
  if (chat.ok()) {
    CheckFields(chat.value(), context);
    CheckConversation(chat.value().conversation);
  } else {
    CheckError(chat.error());
  }
  const ApiResult<TokenizeRequest> tokenize = ParseTokenizeRequest(input, context);
  if (tokenize.ok() && tokenize.value().conversation.has_value()) CheckConversation(*tokenize.value().conversation);
  if (!tokenize.ok()) CheckError(tokenize.error());
  const ApiResult<MessagesRequest> messages = ParseMessagesRequest(input, context);
  const ApiResult<Conversation> counted = ParseCountTokensRequest(input, context);
  if (messages.ok()) {
    CheckFields(messages.value(), context);
    CheckConversation(messages.value().conversation);
    const bool is_cut = messages.value().truncate_prompt_tokens.has_value();
    Require(counted.ok() || is_cut, "what is answered whole can be counted");
  } else {
    CheckError(messages.error());
  }
  if (counted.ok()) CheckConversation(counted.value());
}

}  // namespace hydrant
