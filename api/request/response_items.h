// Items are what POST /v1/responses has instead of messages: messages, function calls, what functions gave, and reasoning. A
// request's are read and checked once, into a form that is also what is kept of them; conversations are made of that form.
//
//   message                                      a message; those of system and developer that come first are one, of the first's role
//   reasoning                                    `reasoning_content` of the assistant's message after it; where none comes in its turn,
//                                                of the one before it, or of one of its own
//   function_call, custom_tool_call              `tool_calls` of the assistant's message before it, or of one of their own; without
//                                                arguments where its status says that it is incomplete
//   function_call_output, custom_tool_call_output   a message of role tool
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_REQUEST_RESPONSE_ITEMS_H_
#define HYDRANT_API_REQUEST_RESPONSE_ITEMS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/request/request_context.h"
#include "api/wire/api_error.h"
#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// The member `name`: a string, which is a message of the user, or an array of items. Sets request's error. Arguments, which are texts
// of JSON, draw on `budget`.
nlohmann::ordered_json::array_t ReadItems(ObjectReader* request, std::string_view name, const RequestContext& context,
                                          JsonBudget* budget);

// ItemMessages makes the messages that templates read of items, which may come in several lists.
class ItemMessages {
 public:
  // Instructions are a system message before all others; empty: none.
  explicit ItemMessages(std::string_view instructions);

  // `items`: ReadItems' or, once read, those of an answer. Error: 400 for an output without its call, which names it below `path`.
  std::optional<ApiError> Add(const nlohmann::ordered_json::array_t& items, std::string_view path);

  const nlohmann::ordered_json::array_t& messages();

 private:
  using Json = nlohmann::ordered_json;

  void AddMessage(const Json& item);
  void AddReasoning(const Json& item);
  void EndReasoning();
  void AddCall(const Json& item, bool custom);
  bool AddOutput(const Json& item);
  bool EndsWith(std::string_view role) const;

  Json::array_t messages_;
  std::optional<std::string>
      lead_;  // what the first message says, where it is a system's or a developer's; not in messages_
  std::map<std::string, std::string, std::less<>> names_;  // of what was called, by id
  std::string reasoning_;                                  // of the assistant's next message, in this turn
};

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_RESPONSE_ITEMS_H_
