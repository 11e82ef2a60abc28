// However a body is cut into pieces, the same events come out of it; and what is read of an event in place is part of it and,
// where the event is JSON, JSON. The first byte says the pieces.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/wire/json_body.h"
#include "loadgen/client/sse_reader.h"
#include "loadgen/client/stream_event.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

std::vector<std::string> Events(std::string_view body, size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size(); at += step) {
    const bool fits = reader.Feed(body.substr(at, step), [&](std::string_view data) { events.emplace_back(data); });
    Require(fits, "no input is longer than an event may be");
  }
  return events;
}

void CheckEvent(std::string_view data) {
  const StreamEvent event = ReadStreamEvent(data);
  const ApiResult<JsonBody> json = JsonBody::Parse(data, RequestLimits());
  const bool is_object = json.ok() && json.value().root().is_object();
  Require(!is_object || event.kind != StreamEvent::Kind::kMalformed, "a JSON object is not malformed");
  for (const std::string_view text : {event.text, event.finish_reason, event.error}) {
    if (text.empty()) continue;
    Require(text.data() >= data.data() && text.data() + text.size() <= data.data() + data.size(),
            "views lie in the event");
    if (!is_object) continue;
    const std::string again = absl::StrCat("{\"a\":\"", std::string(text), "\"}");
    Require(JsonBody::Parse(again, RequestLimits()).ok(), "a piece of the answer goes into another JSON string");
  }
}

}  // namespace

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const size_t step = 1 + static_cast<unsigned char>(input.front()) % 16;
  input.remove_prefix(1);
  const std::vector<std::string> events = Events(input, step);
  Require(events == Events(input, input.size() + 1), "events do not depend on how the bytes are cut");
  for (const std::string& event : events) CheckEvent(event);
  CheckEvent(input);
}

}  // namespace hydrant
