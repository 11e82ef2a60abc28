// MessagesRequest is a body of POST /v1/messages, Anthropic's protocol: parsed, validated, bounded, and made into the
// conversation that a chat request would be.
//
//   system                       a system message before the others; what Claude Code puts there for billing is left out
//   text                         content; the blocks of one message are joined
//   tool_use, tool_result        `tool_calls` of the assistant's message; a message of role tool
//   thinking, redacted_thinking  `reasoning_content`; nothing
//   an assistant's last message  is gone on with
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_REQUEST_MESSAGES_REQUEST_H_
#define HYDRANT_API_REQUEST_MESSAGES_REQUEST_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "api/request/chat_request.h"
#include "api/request/request_context.h"
#include "api/wire/api_error.h"

namespace hydrant {

struct MessagesRequest : ChatRequest {
  bool omits_thinking = false;  // who asked for thinking wants to know that there was some
  int32_t asked_tokens = 0;     // `max_tokens` as the client wrote it; the context may have room for fewer
};

// Reads and checks a body. Errors: 400 naming the field in `param`; 404 model_not_found.
ApiResult<MessagesRequest> ParseMessagesRequest(std::string_view body, const RequestContext& context);

// A body of POST /v1/messages/count_tokens: the same without `max_tokens`. Errors: likewise.
ApiResult<Conversation> ParseCountTokensRequest(std::string_view body, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_MESSAGES_REQUEST_H_
