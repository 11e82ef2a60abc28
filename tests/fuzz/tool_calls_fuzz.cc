// However an answer is cut into pieces, the same calls and the same text come out of it, and no text is lost where there are
// no calls. The first byte says the format and the pieces.
#include <string>
#include <string_view>

#include "api/response/tool_call_parser.h"
#include "api/wire/json_body.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

struct Parsed {
  std::string text;
  std::string calls;
  bool operator==(const Parsed&) const = default;
};

Parsed Parse(ToolCallFormat format, std::string_view answer, size_t step) {
  ToolCallParser parser(format, "id");
  Parsed parsed;
  const auto add = [&](const ToolCallParser::Output& output) {
    parsed.text += output.text;
    for (const ToolCall& call : output.calls) {
      Require(IsFunctionName(call.name), "a call names its function");
      const ApiResult<JsonBody> arguments = JsonBody::Parse(call.arguments, RequestLimits());
      Require(arguments.ok() && arguments.value().root().is_object(), "arguments are an object");
      parsed.calls += call.id + call.name + call.arguments;
    }
  };
  for (size_t at = 0; at < answer.size(); at += step) add(parser.Push(answer.substr(at, step)));
  add(parser.Finish());
  return parsed;
}

}  // namespace

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto first = static_cast<unsigned char>(input.front());
  const auto format = static_cast<ToolCallFormat>(first % 4);
  const std::string_view answer = input.substr(1);
  const Parsed whole = Parse(format, answer, answer.size() + 1);
  Require(whole == Parse(format, answer, 1 + first / 4 % 16), "pieces make no difference");
  Require(!whole.calls.empty() || whole.text == answer, "without calls all is text");
}

}  // namespace hydrant
