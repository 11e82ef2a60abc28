#include "model/jinja/core/string_operations.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/formatting.h"
#include "model/jinja/core/workspace.h"
#include "model/text/utf8.h"

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
  for (size_t at = 0;; --times) {
    const size_t end = times > 0 && at < text.size() ? at + NextUtf8Unit(text.view().substr(at)).bytes : text.size();
    if (times > 0) out.Append(by);
    out.AppendSlice(text, at, end);
    workspace.Step();
    workspace.Reserve(out.footprint_bytes());
    if (times == 0 || at == text.size()) return out;
    at = end;
  }
}

// The characters of `text`, each once, in order.
Counted<std::string_view> DistinctCharacters(Workspace& workspace, std::string_view text) {
  workspace.StepBytes(text.size());
  Counted<std::string_view> characters(workspace);
  for (size_t at = 0; at < text.size(); at += characters.back().size()) {
    characters.push_back(text.substr(at, NextUtf8Unit(text.substr(at)).bytes));
  }
  workspace.Step(static_cast<int64_t>(characters.size()));
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  return characters;
}

}  // namespace

size_t CharacterCount(Workspace& workspace, std::string_view text) {
  workspace.StepBytes(text.size());
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += NextUtf8Unit(text.substr(at)).bytes) ++count;
  return count;
}

size_t CharacterOffset(Workspace& workspace, std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += NextUtf8Unit(text.substr(at)).bytes;
  workspace.StepBytes(at);
  return at;
}

Search::Search(Workspace& workspace, std::string_view text, std::string_view sought, bool from_right)
    : workspace_(workspace),
      from_right_(from_right),
      mirrored_text_(workspace),
      mirrored_sought_(workspace),
      text_(text),
      sought_(sought) {
  workspace.StepBytes(text.size() + sought.size());
  if (!from_right) return;
  mirrored_text_.assign(text.rbegin(), text.rend());
  mirrored_sought_.assign(sought.rbegin(), sought.rend());
  text_ = std::string_view(mirrored_text_.data(), text.size());
  sought_ = std::string_view(mirrored_sought_.data(), sought.size());
}

std::optional<size_t> Search::Next() {
  workspace_.Step();
  const std::string_view rest = text_.substr(at_);
  if (sought_.size() > rest.size()) return std::nullopt;
  // Empty strings may have no address, which memmem must not be given.
  const void* found = sought_.empty() ? rest.data() : memmem(rest.data(), rest.size(), sought_.data(), sought_.size());
  if (found == nullptr && !sought_.empty()) return std::nullopt;
  const size_t begin = at_ + static_cast<size_t>(static_cast<const char*>(found) - rest.data());
  at_ = begin + sought_.size();
  return from_right_ ? text_.size() - at_ : begin;
}

Text Stripped(Workspace& workspace, const Text& text, const Value& chars, bool left, bool right) {
  workspace.StepBytes(text.size());
  if (chars.is_none() || chars.is_undefined()) {
    const ByteRange kept = TrimSpace(text.view(), left, right);
    return text.Slice(kept.begin, kept.end);
  }
  if (!chars.is_string()) Fail("strip arg must be None or str");
  const Counted<std::string_view> stripped = DistinctCharacters(workspace, chars.view());
  ByteRange kept = {left ? text.size() : 0, right ? 0 : text.size()};
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    next = at + NextUtf8Unit(text.view().substr(at)).bytes;
    if (std::binary_search(stripped.begin(), stripped.end(), text.view().substr(at, next - at))) continue;
    kept.begin = std::min(kept.begin, at);
    if (right) kept.end = next;
  }
  return text.Slice(std::min(kept.begin, kept.end), kept.end);
}

Text Replaced(Workspace& workspace, const Text& text, const Text& old, const Text& by, int64_t times_max) {
  size_t times = Times(times_max);
  if (old.empty()) return Interleaved(workspace, text, by, times);
  Text out;
  size_t at = 0;
  Search search(workspace, text.view(), old.view());
  for (; times > 0; --times) {
    const auto found = search.Next();
    if (!found) break;
    out.AppendSlice(text, at, *found);
    out.Append(by);
    workspace.Reserve(out.footprint_bytes());
    at = *found + old.size();
  }
  out.AppendSlice(text, at, text.size());
  return out;
}

Text Centered(Workspace& workspace, const Text& text, size_t width, const Text& fill) {
  const size_t have = CharacterCount(workspace, text.view());
  if (width <= have) return text;
  const size_t missing = width - have;
  const size_t before = missing / 2 + (missing & width & 1);
  return Pad(workspace, Pad(workspace, text, have + before, '>', fill), width, '<', fill);
}

Counted<ByteRange> SplitBy(Workspace& workspace, std::string_view text, std::string_view separator, int64_t times_max,
                           bool from_right) {
  if (separator.empty()) Fail("empty separator");
  Counted<ByteRange> parts(workspace);
  Search search(workspace, text, separator, from_right);
  ByteRange rest = {0, text.size()};
  for (size_t times = Times(times_max); times > 0; --times) {
    const auto found = search.Next();
    if (!found) break;
    const size_t behind = *found + separator.size();
    parts.push_back(from_right ? ByteRange{behind, rest.end} : ByteRange{rest.begin, *found});
    (from_right ? rest.end : rest.begin) = from_right ? *found : behind;
  }
  parts.push_back(rest);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Counted<ByteRange> SplitSpace(Workspace& workspace, std::string_view text, int64_t times_max, bool from_right) {
  workspace.StepBytes(text.size());
  const size_t times = Times(times_max);
  Counted<ByteRange> words(workspace);
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

Counted<Line> Lines(Workspace& workspace, std::string_view text) {
  workspace.StepBytes(text.size());
  Counted<Line> lines(workspace);
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
