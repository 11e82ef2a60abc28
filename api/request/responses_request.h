// ResponsesRequest is a body of POST /v1/responses: parsed, validated, bounded, with what its answer repeats of it. Its conversation
// has no messages yet: they are made of what went before and of its items (response_items.h).
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_REQUEST_RESPONSES_REQUEST_H_
#define HYDRANT_API_REQUEST_RESPONSES_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request/chat_request.h"
#include "api/request/request_context.h"
#include "api/wire/api_error.h"
#include "nlohmann/json.hpp"

namespace hydrant {

struct ResponsesRequest : ChatRequest {
  std::string instructions;               // empty: none
  nlohmann::ordered_json::array_t items;  // ReadItems'
  std::string previous_response_id;       // empty: none
  std::string conversation_id;            // empty: none; excludes the one before
  std::optional<bool> store;              // empty: not said
  bool truncates = false;                 // the oldest messages go where not all of them fit
  std::vector<std::string> custom_tools;  // names of those whose input is a text
  std::string tools_not_offered;          // types of tools that the model is not told of, with commas between
  // Members of the answer, `"name":value` with commas between: what its tokens begin with, and the rest but `store` and those of a
  // chain.
  std::string head;
  std::string echo;
  bool encrypts_reasoning = false;  // the client wants it as a text to send back
};

// The member `metadata`, up to 16 texts; empty where there is none. Sets request's error.
nlohmann::ordered_json ReadMetadata(ObjectReader* request);

// Reads and checks a body. Errors: 400 naming the field in `param`; 404 model_not_found.
ApiResult<ResponsesRequest> ParseResponsesRequest(std::string_view body, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_RESPONSES_REQUEST_H_
