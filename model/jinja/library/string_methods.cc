// The methods of str that make strings.
#include <algorithm>
#include <cstdint>
#include <string>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/formatting.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/string_operations.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/letter_case.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

Value Make(const BuiltinCall& call, Text text) {
  return call.workspace.String(std::move(text), call.subject.is_markup());
}

template <Text (*kConvert)(const Text&)>
Value Converted(const BuiltinCall& call) {
  const Bound bound("str method", call.arguments, {});
  call.workspace.StepBytes(call.subject.text().size());
  return Make(call, kConvert(call.subject.text()));
}

template <bool kLeft, bool kRight>
Value Strip(const BuiltinCall& call) {
  const Bound bound("strip", call.arguments, {"chars"});
  return Make(call, Stripped(call.workspace, call.subject.text(), bound.at(0), kLeft, kRight));
}

Value Replace(const BuiltinCall& call) {
  const Bound bound("replace", call.arguments, {"old", "new", "count"}, 2);
  return Make(call, Replaced(call.workspace, call.subject.text(), bound.String(0), bound.String(1), bound.Int(2, -1)));
}

template <bool kFromRight>
Value Split(const BuiltinCall& call) {
  const Bound bound("split", call.arguments, {"sep", "maxsplit"});
  const int64_t times_max = bound.Int(1, -1);
  const Text& text = call.subject.text();
  const Counted<ByteRange> ranges =
      bound.has(0) && !bound.at(0).is_none()
          ? SplitBy(call.workspace, text.view(), bound.String(0).view(), times_max, kFromRight)
          : SplitSpace(call.workspace, text.view(), times_max, kFromRight);
  Values parts(call.workspace);
  for (const ByteRange& range : ranges) parts.push_back(Make(call, text.Slice(range.begin, range.end)));
  return call.workspace.List(std::move(parts));
}

Value SplitLines(const BuiltinCall& call) {
  const Bound bound("splitlines", call.arguments, {"keepends"});
  const Text& text = call.subject.text();
  Values lines(call.workspace);
  for (const Line& line : Lines(call.workspace, text.view())) {
    lines.push_back(Make(call, text.Slice(line.begin, bound.Truth(0, false) ? line.next : line.end)));
  }
  return call.workspace.List(std::move(lines));
}

Value JoinOf(const BuiltinCall& call) {
  const Bound bound("join", call.arguments, {"iterable"}, 1);
  Text result;
  bool first = true;
  for (const Value& item : Items(call.workspace, bound.at(0))) {
    if (!item.is_string()) Fail("sequence item: expected str instance");
    if (!first) result.Append(call.subject.text());
    first = false;
    result.Append(item.text());
    call.workspace.Reserve(result.footprint_bytes());
  }
  return Make(call, std::move(result));
}

template <bool kFromRight>
Value Partition(const BuiltinCall& call) {
  const Bound bound("partition", call.arguments, {"sep"}, 1);
  const Text& separator = bound.String(0);
  if (separator.empty()) Fail("empty separator");
  const Text& text = call.subject.text();
  const auto found = Search(call.workspace, text.view(), separator.view(), kFromRight).Next();
  const auto slice = [&](size_t begin, size_t end) { return Make(call, text.Slice(begin, end)); };
  if (!found) {
    const Value empty = Make(call, Text());
    return kFromRight ? call.workspace.Tuple({empty, empty, call.subject})
                      : call.workspace.Tuple({call.subject, empty, empty});
  }
  const size_t at = *found, end = at + separator.size();
  return call.workspace.Tuple({slice(0, at), slice(at, end), slice(end, text.size())});
}

Value RemovePrefix(const BuiltinCall& call) {
  const Bound bound("removeprefix", call.arguments, {"prefix"}, 1);
  const Text& prefix = bound.String(0);
  const Text& text = call.subject.text();
  call.workspace.StepBytes(prefix.size());
  return text.view().starts_with(prefix.view()) ? Make(call, text.Slice(prefix.size(), text.size())) : call.subject;
}

Value RemoveSuffix(const BuiltinCall& call) {
  const Bound bound("removesuffix", call.arguments, {"suffix"}, 1);
  const Text& suffix = bound.String(0);
  const Text& text = call.subject.text();
  call.workspace.StepBytes(suffix.size());
  return text.view().ends_with(suffix.view()) ? Make(call, text.Slice(0, text.size() - suffix.size())) : call.subject;
}

template <char kAlign>
Value Justify(const BuiltinCall& call) {
  const Bound bound("justify", call.arguments, {"width", "fillchar"}, 1);
  const Text& fill = bound.String(1, " ");
  if (CharacterCount(call.workspace, fill.view()) != 1) Fail("The fill character must be exactly one character long");
  const auto width = static_cast<size_t>(std::max<int64_t>(bound.Int(0, 0), 0));
  const Text& text = call.subject.text();
  return Make(call, kAlign == '^' ? Centered(call.workspace, text, width, fill)
                                  : Pad(call.workspace, text, width, kAlign, fill));
}

Value ZeroFill(const BuiltinCall& call) {
  const Bound bound("zfill", call.arguments, {"width"}, 1);
  const Text& text = call.subject.text();
  const bool has_sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text result = text.Slice(0, has_sign ? 1 : 0);
  const auto width = static_cast<size_t>(std::max<int64_t>(bound.Int(0, 0), has_sign ? 1 : 0) - (has_sign ? 1 : 0));
  result.Append(
      Pad(call.workspace, text.Slice(has_sign ? 1 : 0, text.size()), width, '>', Text("0", Origin::kTemplate)));
  return Make(call, std::move(result));
}

Value ExpandTabs(const BuiltinCall& call) {
  const Bound bound("expandtabs", call.arguments, {"tabsize"});
  const auto size = static_cast<size_t>(std::clamp<int64_t>(bound.Int(0, 8), 0, 1 << 20));
  const Text& text = call.subject.text();
  call.workspace.StepBytes(text.size());
  Text result;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.view().substr(at));
    if (unit.code_point == '\t') {
      const size_t blanks = size == 0 ? 0 : size - column % size;
      call.workspace.Reserve(result.footprint_bytes() + blanks);
      result.Append(std::string(blanks, ' '), text.OriginAt(at));
      column += blanks;
    } else {
      result.AppendSlice(text, at, at + unit.bytes);
      column = unit.code_point == '\n' || unit.code_point == '\r' ? 0 : column + 1;
    }
    at += unit.bytes;
  }
  return Make(call, std::move(result));
}

Value Format(const BuiltinCall& call) { return BraceFormat(call.workspace, call.subject, call.arguments); }

Value FormatMap(const BuiltinCall& call) {
  const Bound bound("format_map", call.arguments, {"mapping"}, 1);
  if (!bound.at(0).is_dict()) Fail("format_map() wants a dict");
  Arguments named(call.workspace);
  for (const auto& [key, value] : bound.at(0).dict().entries()) {
    call.workspace.StepBytes(key.is_string() ? key.text().size() : 0);
    if (key.is_string()) named.named.emplace_back(key.text(), value);
  }
  return BraceFormat(call.workspace, call.subject, named);
}

}  // namespace

const BuiltinTable& StringMethods() {
  static const BuiltinTable table = {
      {"lower", Converted<Lower>},     {"casefold", Converted<Lower>},
      {"upper", Converted<Upper>},     {"capitalize", Converted<Capitalize>},
      {"title", Converted<Title>},     {"swapcase", Converted<SwapCase>},
      {"strip", Strip<true, true>},    {"lstrip", Strip<true, false>},
      {"rstrip", Strip<false, true>},  {"replace", Replace},
      {"split", Split<false>},         {"rsplit", Split<true>},
      {"splitlines", SplitLines},      {"join", JoinOf},
      {"partition", Partition<false>}, {"rpartition", Partition<true>},
      {"removeprefix", RemovePrefix},  {"removesuffix", RemoveSuffix},
      {"center", Justify<'^'>},        {"ljust", Justify<'<'>},
      {"rjust", Justify<'>'>},         {"zfill", ZeroFill},
      {"expandtabs", ExpandTabs},      {"format", Format},
      {"format_map", FormatMap},
  };
  return table;
}

}  // namespace hydrant::jinja
