// The tools of a chat request and the calls in its messages, checked and made into what templates read.
//
// Thread: any (pure functions). All set request's error, a 400 that names the field, and then return null. Integers beyond
// 64 bits are refused.
#ifndef HYDRANT_API_REQUEST_CHAT_TOOLS_H_
#define HYDRANT_API_REQUEST_CHAT_TOOLS_H_

#include <string>

#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// The member `tools`; null where there are none.
nlohmann::ordered_json ReadTools(ObjectReader* request);
// The same as /v1/messages has it, made into what /v1/chat/completions has.
nlohmann::ordered_json ReadMessagesTools(ObjectReader* request);

// What the readers of other endpoints' tools are made of: the member `tools`, absent where there are none; why `function` names no
// function, with its schema as the member `parameters`, empty: it does; whether its `strict` is one (that the arguments of a call follow
// the schema is for ReadToolConstraint to see to).
JsonView ToolArray(ObjectReader* request);
std::string FunctionFault(JsonView function, const std::string& parameters);
void CheckStrict(ObjectReader* request, JsonView function, const std::string& path);

// A message's tool calls. Templates read arguments as an object, where OpenAI has the text of one; such texts draw on
// `budget`, the request's.
nlohmann::ordered_json ReadToolCalls(ObjectReader* request, JsonView calls, const std::string& path,
                                     JsonBudget* budget);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_CHAT_TOOLS_H_
