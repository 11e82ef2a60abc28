#include "api/request/past_arguments.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "api/response/tool_call_parser.h"
#include "api/wire/json_strings.h"
#include "api/wire/json_writer.h"
#include "api/wire/ordered_json.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

bool IsWideInteger(std::string_view number) {
  const auto fits = [&](auto value) {
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    return error == std::errc();
  };
  if (number.find_first_of(".eE") != number.npos) return false;
  return !fits(int64_t{0}) && !fits(uint64_t{0});
}

// The same with strings in place of what would be lost, or refused.
std::string Held(std::string_view text, int32_t depth_max) {
  std::string held;
  int32_t depth = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t bytes = 1;
    bool quoted = false;
    if (c == '"') {
      bytes = StringBytes(text.substr(at));
    } else if ((c == '{' || c == '[') && depth == depth_max) {
      bytes = BracketBytes(text.substr(at));
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      bytes = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size()) - at;
      quoted = IsWideInteger(text.substr(at, bytes));
    }
    if (bytes == 0) bytes = text.size() - at;  // it was cut off
    if (quoted) {
      AppendJsonString(&held, text.substr(at, bytes));
    } else {
      held.append(text.substr(at, bytes));
    }
    at += bytes;
  }
  return held;
}

}  // namespace

ApiResult<Json> ReadPastArguments(std::string_view text, JsonBudget* budget) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == text.npos) return Json(Json::object());
  if (text[begin] != '{') {
    return InvalidField("", "A call's 'arguments' must be the text of a JSON object.", ErrorCode<400>("invalid_type"));
  }
  ApiResult<JsonBody> parsed = JsonBody::Parse(Held(text, budget->depth_max), budget);
  if (!parsed.ok() && parsed.error().code == "invalid_json") {
    parsed = JsonBody::Parse(Held(WholeMembers(text.substr(begin)), budget->depth_max), budget);
    if (!parsed.ok() && parsed.error().code == "invalid_json") return Json(Json::object());
  }
  if (!parsed.ok()) return parsed.error();
  return OrderedJson(parsed.value().root()).value_or(Json::object());
}

}  // namespace hydrant
