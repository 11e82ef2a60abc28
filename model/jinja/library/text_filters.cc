// The filters that make strings of strings.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/formatting.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/string_operations.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/letter_case.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// The subject as text: what is no string is printed.
Text Subject(const BuiltinCall& call) { return Str(call.workspace, call.subject); }

Value Make(const BuiltinCall& call, Text text) {
  return call.workspace.String(std::move(text), call.subject.is_markup());
}

template <Text (*kConvert)(const Text&)>
Value Converted(const BuiltinCall& call) {
  const Bound bound("filter", call.arguments, {});
  return Make(call, kConvert(Subject(call)));
}

Value Escape(const BuiltinCall& call) {
  const Bound bound("escape", call.arguments, {});
  if (call.subject.is_markup()) return call.subject;
  return call.workspace.String(EscapeHtml(call.workspace, Subject(call)), true);
}

Value ForceEscape(const BuiltinCall& call) {
  return call.workspace.String(EscapeHtml(call.workspace, Subject(call)), true);
}

Value Safe(const BuiltinCall& call) { return call.workspace.String(Subject(call), true); }

Value String(const BuiltinCall& call) {
  return call.subject.is_string() ? call.subject : call.workspace.String(Subject(call));
}

Value Trim(const BuiltinCall& call) {
  const Bound bound("trim", call.arguments, {"chars"});
  return Make(call, Stripped(call.workspace, Subject(call), bound.at(0), true, true));
}

Value Replace(const BuiltinCall& call) {
  const Bound bound("replace", call.arguments, {"old", "new", "count"}, 2);
  const int64_t times_max = bound.has(2) && !bound.at(2).is_none() ? bound.Int(2, -1) : -1;
  return Make(call, Replaced(call.workspace, Subject(call), Str(call.workspace, bound.at(0)),
                             Str(call.workspace, bound.at(1)), times_max));
}

Value Center(const BuiltinCall& call) {
  const Bound bound("center", call.arguments, {"width"});
  const auto width = static_cast<size_t>(std::max<int64_t>(bound.Int(0, 80), 0));
  return Make(call, Centered(call.workspace, Subject(call), width, Text(" ", Origin::kTemplate)));
}

Value Format(const BuiltinCall& call) {
  const Value format = call.workspace.String(Subject(call), call.subject.is_markup());
  if (call.arguments.named.empty()) {
    return PercentFormat(call.workspace, format,
                         call.workspace.Tuple(Values(call.arguments.positional, call.workspace)));
  }
  if (!call.arguments.positional.empty()) Fail("can't handle positional and keyword arguments at the same time");
  auto dict = MakeObject<Dict>(&call.workspace);
  for (const auto& [name, value] : call.arguments.named) dict->Set(call.workspace, call.workspace.String(name), value);
  return PercentFormat(call.workspace, format, call.workspace.Mapping(std::move(dict)));
}

Value Indent(const BuiltinCall& call) {
  const Bound bound("indent", call.arguments, {"width", "first", "blank"});
  Text indention;
  if (bound.has(0) && bound.at(0).is_string()) {
    indention = bound.at(0).text();
  } else {
    const auto width = static_cast<size_t>(std::max<int64_t>(bound.Int(0, 4), 0));
    call.workspace.Reserve(width);
    indention.Append(std::string(width, ' '), Origin::kTemplate);
  }
  const bool first = bound.Truth(1, false), blank = bound.Truth(2, false);
  // A last line without a break counts too, so Jinja appends one.
  Text text = Subject(call);
  text.Append("\n", Origin::kTemplate);
  Text out;
  const Counted<Line> lines = Lines(call.workspace, text.view());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n", text.OriginAt(lines[i - 1].end));
    if ((i > 0 || first) && (blank || lines[i].begin != lines[i].end || (i == 0 && first))) out.Append(indention);
    out.AppendSlice(text, lines[i].begin, lines[i].end);
    call.workspace.Reserve(out.footprint_bytes());
  }
  return Make(call, std::move(out));
}

Value Truncate(const BuiltinCall& call) {
  const Bound bound("truncate", call.arguments, {"length", "killwords", "end", "leeway"});
  const Text text = Subject(call);
  const Text& end = bound.String(2, "...");
  const int64_t length = bound.Int(0, 255), leeway = bound.has(3) && !bound.at(3).is_none() ? bound.Int(3, 5) : 5;
  const auto end_length = static_cast<int64_t>(CharacterCount(call.workspace, end.view()));
  if (length < end_length) Fail("expected length >= the length of the end");
  if (leeway < 0) Fail("expected leeway >= 0");
  const auto count = static_cast<int64_t>(CharacterCount(call.workspace, text.view()));
  if (count - length <= leeway) return Make(call, text);
  size_t cut = CharacterOffset(call.workspace, text.view(), static_cast<size_t>(length - end_length));
  if (!bound.Truth(1, false)) {
    const size_t blank = text.view().substr(0, cut).rfind(' ');
    if (blank != std::string_view::npos) cut = blank;
  }
  Text out = text.Slice(0, cut);
  out.Append(end);
  return Make(call, std::move(out));
}

Value UrlEncode(const BuiltinCall& call) {
  if (call.subject.is_dict() || call.subject.is_sequence()) Fail("urlencode() wants a str");
  const Text text = Subject(call);
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text.bytes()[i]);
    if (absl::ascii_isalnum(byte) || std::string_view("_.-~/").find(text.bytes()[i]) != std::string_view::npos) {
      out.AppendSlice(text, i, i + 1);
    } else {
      out.Append(absl::StrFormat("%%%02X", byte), text.OriginAt(i));
      call.workspace.Reserve(out.footprint_bytes());
    }
  }
  return call.workspace.String(std::move(out));
}

Value WordCount(const BuiltinCall& call) {
  const Text text = Subject(call);
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.view().substr(at));
    // ASCII punctuation ends a word; of the rest only white space is told apart.
    const bool in_word = unit.code_point < 0x80 ? absl::ascii_isalnum(static_cast<unsigned char>(unit.code_point)) ||
                                                      unit.code_point == '_'
                                                : !IsSpace(unit.code_point);
    count += in_word && !inside;
    inside = in_word;
    at += unit.bytes;
  }
  return Value::Int(count);
}

Value JsonFilter(const BuiltinCall& call) {
  const Bound bound("tojson", call.arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.Truth(0, false);
  style.sort_keys = bound.Truth(3, false);
  if (bound.has(1) && !bound.at(1).is_none()) {
    style.indented = true;
    style.item_separator.pop_back();  // the blank: the break follows
    if (bound.at(1).is_string()) {
      style.indent = bound.at(1).text().bytes();
    } else {
      // Deeper than any reader follows; the product with the nesting stays small.
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(bound.Int(1, 0), 0, 1000)), ' ');
    }
  }
  if (bound.has(2) && !bound.at(2).is_none()) {
    const Values separators = Items(call.workspace, bound.at(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      Fail("tojson() wants two separators");
    }
    style.item_separator = separators[0].text().bytes();
    style.key_separator = separators[1].text().bytes();
  }
  return call.workspace.String(ToJson(call.workspace, call.subject, style));
}

}  // namespace

const BuiltinTable& TextFilters() {
  static const BuiltinTable table = {
      {"lower", Converted<Lower>},
      {"upper", Converted<Upper>},
      {"capitalize", Converted<Capitalize>},
      {"title", Converted<TitleWords>},
      {"e", Escape},
      {"escape", Escape},
      {"forceescape", ForceEscape},
      {"safe", Safe},
      {"string", String},
      {"trim", Trim},
      {"replace", Replace},
      {"center", Center},
      {"format", Format},
      {"indent", Indent},
      {"truncate", Truncate},
      {"urlencode", UrlEncode},
      {"wordcount", WordCount},
      {"tojson", JsonFilter},
  };
  return table;
}

}  // namespace hydrant::jinja
