#include "api/wire/json_text.h"

#include <charconv>
#include <system_error>

#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

template <typename Number>
void AppendNumber(std::string* out, Number number) {
  char buffer[32];  // the longest is -2.2250738585072014e-308
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), number);
  out->append(buffer, end.ptr);
}

// False: there is an integer beyond 64 bits.
bool Append(std::string* out, JsonView view) {
  if (view.absent()) {
    out->append("null");
  } else if (view.is_bool()) {
    AppendJsonBool(out, view.boolean());
  } else if (view.is_string()) {
    AppendJsonString(out, view.string());
  } else if (view.is_integer()) {
    if (const std::optional<int64_t> integer = view.integer()) {
      AppendNumber(out, *integer);
    } else if (const std::optional<uint64_t> natural = view.unsigned_integer()) {
      AppendNumber(out, *natural);
    } else {
      return false;
    }
  } else if (view.is_number()) {
    AppendNumber(out, view.number());
  } else {
    const bool is_object = view.is_object();
    out->push_back(is_object ? '{' : '[');
    bool first = true;
    for (JsonView member = view.first(); member.valid(); member = member.next()) {
      if (!first) out->push_back(',');
      first = false;
      if (is_object) {
        AppendJsonString(out, member.key());
        out->push_back(':');
      }
      if (!Append(out, member)) return false;
    }
    out->push_back(is_object ? '}' : ']');
  }
  return true;
}

}  // namespace

std::optional<std::string> JsonText(JsonView view) {
  std::string text;
  if (!Append(&text, view)) return std::nullopt;
  return text;
}

}  // namespace hydrant
