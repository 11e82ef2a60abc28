// ChatRequest is a body of POST /v1/chat/completions: parsed, validated and bounded. Messages, tools and documents are kept
// as the JSON that a chat template gets to see.
//
// Thread: any (plain data, pure functions).
//
// Invariants of a conversation that was read without an error:
//  1. `messages` is a non-empty array of objects with a known `role`; their `content` is a string, or null where an
//     assistant said nothing. Text parts have become one string.
//  2. `tools` is null or a non-empty array of functions with valid names; the arguments of tool calls are objects.
#ifndef HYDRANT_API_REQUEST_CHAT_REQUEST_H_
#define HYDRANT_API_REQUEST_CHAT_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>

#include "api/request/generation_fields.h"
#include "api/request/request_context.h"
#include "api/request/tool_constraint.h"
#include "api/wire/api_error.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// What a chat template is rendered with.
struct Conversation {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;             // null: none
  nlohmann::ordered_json documents;         // null: none
  nlohmann::ordered_json reasoning_effort;  // null: not said
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::optional<bool> enable_thinking;  // empty: not said
  // More variables for the template, an object of strings, numbers and booleans; null: none. Whether there are such variables is the
  // template's to say.
  nlohmann::ordered_json template_arguments;
};

struct ChatRequest : GenerationFields {
  Conversation conversation;
  bool parses_tool_calls = false;     // there are tools, and tool_choice is not none
  bool names_tool = false;            // tool_choice names the one to call
  bool parallel_tool_calls = true;    // false: the first call of an answer only
  bool splits_reasoning = true;       // what the model thinks comes apart from what it says
  bool include_reasoning = true;      // and is there at all
  bool echoes_final_message = false;  // the answer begins with the last message, which is the assistant's

  // REQUIRES: conversation.tools is what it is to be.
  void TakeToolChoice(const ToolChoice& choice);
};

// Reads `messages`, `tools` and the other members of a conversation. Sets request's error, a 400 that names the field.
// `budget`: what is left of it after the body.
void ReadConversation(ObjectReader* request, const RequestContext& context, JsonBudget* budget,
                      Conversation* conversation);

// Reads the effort with which to think, the member `name` of `object`, and returns it; empty: it is not said. Sets request's error
// likewise, as do the next two, which come after it, for they say whether `chat_template_kwargs` contradicts it.
std::string ReadEffort(ObjectReader* object, std::string_view name, Conversation* conversation);
// Reads `enable_thinking` and `chat_template_kwargs`.
void ReadTemplateFields(ObjectReader* request, Conversation* conversation);
// Reads `chat_template_kwargs` alone, where the endpoint has another field for whether to think, with the two that have a name of their
// own as what those say.
void ReadTemplateArguments(ObjectReader* request, Conversation* conversation);

// Reads and checks a body. Errors: 400 naming the field in `param`; 404 model_not_found.
ApiResult<ChatRequest> ParseChatRequest(std::string_view body, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_CHAT_REQUEST_H_
