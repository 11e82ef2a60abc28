#include "model/jinja/string_operations.h"

#include <algorithm>
#include <limits>
#include <set>

#include "model/jinja/fault.h"
#include "model/jinja/formatting.h"
#include "model/jinja/workspace.h"
#include "model/utf8.h"

namespace hydrant::jinja {
namespace {

size_t Times(int64_t times_max) {
  return times_max < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(times_max);
}

bool IsLineBreak(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// Where an empty separator stands: before every character and at the end.
Text Interleaved(Workspace& workspace, const Text& text, const Text& by, size_t times) {
  Text out;
  const std::vector<size_t> offsets = CharacterOffsets(text.view());
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (i < times) out.Append(by);
    if (i + 1 < offsets.size()) out.AppendSlice(text, offsets[i], offsets[i + 1]);
    workspace.Reserve(out.size());
  }
  return out;
}

}  // namespace

Text Stripped(Workspace& workspace, const Text& text, const Value& chars, bool left, bool right) {
  workspace.StepBytes(text.size());
  if (chars.is_none() || chars.is_undefined()) {
    const ByteRange kept = TrimSpace(text.view(), left, right);
    return text.Slice(kept.begin, kept.end);
  }
  if (!chars.is_string()) Fail("strip arg must be None or str");
  std::set<std::string_view> stripped;
  const std::vector<size_t> of_chars = CharacterOffsets(chars.view());
  for (size_t i = 0; i + 1 < of_chars.size(); ++i) {
    stripped.insert(chars.view().substr(of_chars[i], of_chars[i + 1] - of_chars[i]));
  }
  const std::vector<size_t> offsets = CharacterOffsets(text.view());
  size_t begin = 0, end = offsets.size() - 1;
  const auto strips = [&](size_t i) {
    return stripped.contains(text.view().substr(offsets[i], offsets[i + 1] - offsets[i]));
  };
  while (left && begin < end && strips(begin)) ++begin;
  while (right && begin < end && strips(end - 1)) --end;
  return text.Slice(offsets[begin], offsets[end]);
}

Text Replaced(Workspace& workspace, const Text& text, const Text& old, const Text& by, int64_t times_max) {
  workspace.StepBytes(text.size());
  size_t times = Times(times_max);
  if (old.empty()) return Interleaved(workspace, text, by, times);
  Text out;
  size_t at = 0;
  for (; times > 0; --times) {
    const size_t found = text.bytes().find(old.view(), at);
    if (found == std::string::npos) break;
    out.AppendSlice(text, at, found);
    out.Append(by);
    workspace.Reserve(out.footprint_bytes());
    at = found + old.size();
  }
  out.AppendSlice(text, at, text.size());
  return out;
}

Text Centered(Workspace& workspace, const Text& text, size_t width, const Text& fill) {
  const size_t have = CharacterCount(text.view());
  if (width <= have) return text;
  const size_t missing = width - have;
  const size_t before = missing / 2 + (missing & width & 1);
  return Pad(workspace, Pad(workspace, text, have + before, '>', fill), width, '<', fill);
}

std::vector<ByteRange> SplitBy(Workspace& workspace, std::string_view text, std::string_view separator,
                               int64_t times_max, bool from_right) {
  if (separator.empty()) Fail("empty separator");
  workspace.StepBytes(text.size());
  std::vector<ByteRange> parts;
  size_t times = Times(times_max);
  if (from_right) {
    size_t end = text.size();
    for (; times > 0; --times) {
      const size_t found =
          end < separator.size() ? std::string_view::npos : text.rfind(separator, end - separator.size());
      if (found == std::string_view::npos) break;
      parts.push_back({found + separator.size(), end});
      end = found;
    }
    parts.push_back({0, end});
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  size_t begin = 0;
  for (; times > 0; --times) {
    const size_t found = text.find(separator, begin);
    if (found == std::string_view::npos) break;
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<ByteRange> SplitSpace(Workspace& workspace, std::string_view text, int64_t times_max, bool from_right) {
  workspace.StepBytes(text.size());
  const size_t times = Times(times_max);
  std::vector<ByteRange> words;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    const bool space = IsSpace(unit.code_point);
    if (!space && !inside) words.push_back({at, text.size()});
    if (space && inside) words.back().end = at;
    inside = !space;
    at += unit.bytes;
  }
  if (words.size() <= times) return words;
  // What is beyond the last cut stays whole, blanks inside it too.
  const size_t joined = words.size() - times;
  const ByteRange trimmed = TrimSpace(text, true, true);
  if (from_right) {
    const ByteRange rest = {trimmed.begin, words[joined - 1].end};
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(joined));
    words.insert(words.begin(), rest);
  } else {
    // Python leaves the blanks at the end of the rest.
    const ByteRange rest = {words[times].begin, text.size()};
    words.resize(times);
    words.push_back(rest);
  }
  return words;
}

std::vector<Line> Lines(Workspace& workspace, std::string_view text) {
  workspace.StepBytes(text.size());
  std::vector<Line> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin, next = text.size();
    for (; end < text.size();) {
      const Utf8Unit unit = NextUtf8Unit(text.substr(end));
      if (IsLineBreak(unit.code_point)) {
        next = end + unit.bytes;
        if (unit.code_point == '\r' && next < text.size() && text[next] == '\n') ++next;
        break;
      }
      end += unit.bytes;
    }
    lines.push_back({begin, end, next});
    begin = next;
  }
  return lines;
}

}  // namespace hydrant::jinja
