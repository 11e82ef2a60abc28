// Whatever a body of /v1/responses is, reading it ends in an error that names its field, or in items that make messages which templates
// can read, now and from a note; and whatever a note is, reading it ends.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "api/request/response_items.h"
#include "api/request/responses_request.h"
#include "nlohmann/json.hpp"
#include "server/sessions/response_notes.h"
#include "tests/fuzz/request_properties.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kItemsMax = 8;

void CheckMessages(const Json::array_t& messages) {
  for (const Json& message : messages) {
    const std::string role = message.at("role");
    Require(role == "system" || role == "user" || role == "assistant" || role == "tool", "the role is known");
    Require(message.at("content").is_string() || role == "assistant", "content is text");
    if (!message.contains("tool_calls")) continue;
    for (const Json& call : message.at("tool_calls")) {
      Require(call.at("function").at("arguments").is_object(), "arguments are an object");
    }
  }
}

}  // namespace

void Fuzz(std::string_view input) {
  RequestContext context = FuzzContext();
  context.limits.messages_max = kItemsMax;
  TurnNote note;
  note.text = input;
  note.head = std::make_shared<const std::string>(R"("tools":[])");
  static_cast<void>(ItemsOf(note, context));
  TurnNotes notes = {std::make_shared<const TurnNote>(note)};
  const std::string_view rest = input.substr(std::min<size_t>(7, input.size()));  // after {"id":"
  const std::string_view id = rest.substr(0, rest.find('"'));
  RemoveResponse(&notes, id);
  Require(id.empty() || FindNote(notes, id) == notes.end(), "what is removed is not found");
  static_cast<void>(ResponseJson(*notes.front()));
  ApiResult<ResponsesRequest> request = ParseResponsesRequest(input, context);
  if (!request.ok()) return CheckError(request.error());
  CheckFields(request.value(), context);
  Require(Json::parse("{" + request.value().head + "," + request.value().echo + "}").is_object(), "the echo is JSON");
  Json::array_t& items = request.value().items;
  Require(items.size() <= static_cast<size_t>(kItemsMax), "items are bounded");
  for (const Json& item : items) {
    if (item.at("type") == "item_reference") return;
  }
  ItemMessages messages(request.value().instructions);
  const bool made = !messages.Add(items, "input").has_value();
  if (made) CheckMessages(messages.messages());
  NameItems(NewResponseStem("s"), &items);
  note.text = "{}\n" + Json(items).dump();
  const std::optional<NoteItems> kept = ItemsOf(note, context);
  Require(kept.has_value(), "what was read can be read again");
  ItemMessages again(request.value().instructions);
  Require(again.Add(kept->in, "input").has_value() != made, "and makes messages again");
  if (made) Require(again.messages() == messages.messages(), "the same");
}

}  // namespace hydrant
