// A template of any bytes is refused, or renders within its limits and tells ranges of the client that are ascending,
// disjoint and inside the text.
#include <cstddef>
#include <string_view>

#include "model/chat/chat_template.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  using Json = nlohmann::ordered_json;
  static const Json messages = Json::parse(
      R"([{"role":"system","content":"a"},{"role":"user","content":"b<|c|>"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"function":{"name":"f","arguments":{"x":[1,2.5,null,"y"]}}}]}])");
  static const Json tools =
      Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  static const Json none = nullptr;
  const auto parsed = ChatTemplate::Parse(input, "<s>", "</s>");
  if (!parsed.ok()) return;
  const auto prompt = parsed->Render({messages, tools, none, none, true, false, 1721952000});
  if (!prompt.ok()) return;
  size_t end = 0;
  for (const ByteRange& range : prompt->client) {
    Require(range.begin >= end && range.begin < range.end, "ranges ascend and are disjoint");
    Require(range.end <= prompt->text.size(), "ranges are inside the text");
    end = range.end;
  }
}

}  // namespace hydrant
