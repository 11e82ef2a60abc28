#include "model/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/unicode_class.h"
#include "model/text/utf8.h"
#include "model/tokenizer/text_rewriter.h"

namespace hydrant {
namespace {

using Kind = NormalizerStep::Kind;

// No text becomes more than so many times as long by the step, in bytes.
double GrowthOf(const NormalizerStep& step) {
  const auto content = static_cast<double>(step.content.size());
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfd:
      return 3;  // Unicode's UAX 15 has the worst case of each form
    case Kind::kNfkc:
    case Kind::kNfkd:
      return 11;  // U+FDFA
    case Kind::kLowercase:
      return 1.5;  // U+0130, U+023A
    case Kind::kReplace:
      return std::max(1.0, content / static_cast<double>(step.pattern.size()));
    case Kind::kReplaceRegex:
      return 1 + 2 * content;  // before and after one byte, where it matches nothing
    case Kind::kPrepend:
      return 1 + content;  // of a text of one byte
    case Kind::kStripAccents:
    case Kind::kStrip:
      return 1;
  }
  return 1;
}

bool IsAscii(std::string_view text) { return AsciiPrefix(text) == text.size(); }

// Whether no character from here on composes with, or is sorted before, one that stands before `at`: true below U+0300.
bool MayCut(std::string_view text, size_t at) {
  if (at == 0 || at == text.size()) return true;
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 0x80 || (byte >= 0xC2 && byte < 0xCC);
}

// Valid UTF-8 changed by `change`, everything else as it is.
template <typename Change>
std::string ChangeValid(std::string_view text, const Change& change) {
  std::string out;
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(change(text.substr(0, valid)));
    text.remove_prefix(valid);
    if (text.empty()) break;
    const size_t invalid = NextUtf8Unit(text).bytes;
    out.append(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return out;
}

std::string Normalize(std::string_view text, NormalForm form, std::vector<ByteRange>& ranges) {
  const auto change = [&](std::string_view part) {
    return ChangeValid(part, [&](std::string_view valid) { return Normalized(valid, form); });
  };
  const std::vector<ByteRange> before = ranges;
  TextRewriter rewriter(text, ranges);
  for (const ByteRange& range : before) {
    if (range.begin == range.end || range.end <= rewriter.at()) continue;
    size_t begin = std::max(range.begin, rewriter.at()), end = range.end;
    while (begin > rewriter.at() && !MayCut(text, begin)) --begin;
    while (!MayCut(text, end)) ++end;
    const size_t between = begin - rewriter.at();
    rewriter.Replace(between, change(text.substr(rewriter.at(), between)));
    rewriter.Replace(end - begin, change(text.substr(begin, end - begin)));
  }
  rewriter.Replace(text.size() - rewriter.at(), change(text.substr(rewriter.at())));
  return rewriter.Finish();
}

void AppendLower(uint32_t code_point, std::string& out) {
  // The one character whose small form is two, whatever stands around it.
  if (code_point == 0x130) {
    out.append("i\u0307");
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))), out);
  }
}

// Character by character: `change` gets a code point and appends what it becomes.
template <typename Change>
std::string ChangeEach(std::string_view text, std::vector<ByteRange>& ranges, const Change& change) {
  TextRewriter rewriter(text, ranges);
  std::string by;
  while (rewriter.at() < text.size()) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(rewriter.at()));
    if (unit.kind != Utf8Kind::kCharacter) {
      rewriter.Keep(unit.bytes);
      continue;
    }
    by.clear();
    change(unit.code_point, by);
    rewriter.Replace(unit.bytes, by);
  }
  return rewriter.Finish();
}

std::string Strip(std::string_view text, bool left, bool right, std::vector<ByteRange>& ranges) {
  size_t begin = 0, end = 0;  // of what stays
  bool stays = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    const bool space = unit.kind == Utf8Kind::kCharacter && IsWhiteSpace(unit.code_point);
    if (!stays && !space) begin = at;
    stays = stays || !space;
    at += unit.bytes;
    if (!space) end = at;
  }
  if (!stays) begin = end = left ? text.size() : 0;
  TextRewriter rewriter(text, ranges);
  if (left) rewriter.Replace(begin, "");
  if (right) {
    rewriter.Keep(end - rewriter.at());
    rewriter.Replace(text.size() - end, "");
  }
  return rewriter.Finish();
}

std::string Replace(std::string_view text, std::string_view pattern, std::string_view by,
                    std::vector<ByteRange>& ranges) {
  TextRewriter rewriter(text, ranges);
  for (size_t at = text.find(pattern); at != text.npos; at = text.find(pattern, rewriter.at())) {
    rewriter.Keep(at - rewriter.at());
    rewriter.Replace(pattern.size(), by);
  }
  return rewriter.Finish();
}

std::string ReplaceRegex(std::string_view text, const SplitRegex& regex, std::string_view by,
                         std::vector<ByteRange>& ranges) {
  TextRewriter rewriter(text, ranges);
  SplitRegex::Matcher matcher(regex);
  for (size_t base = 0; base < text.size();) {
    const std::string_view valid = text.substr(base, ValidUtf8Prefix(text.substr(base)));
    SplitRegex::Match match;
    for (size_t at = 0; at <= valid.size() && matcher.Find(valid, at, match);) {
      rewriter.Keep(base + match.begin - rewriter.at());
      rewriter.Replace(match.end - match.begin, by);
      // After an empty match the search goes on one character further.
      at = match.end > match.begin    ? match.end
           : match.end < valid.size() ? match.end + NextUtf8Unit(valid.substr(match.end)).bytes
                                      : valid.size() + 1;
    }
    base += valid.size();
    if (base < text.size()) base += NextUtf8Unit(text.substr(base)).bytes;
  }
  return rewriter.Finish();
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Create(const std::vector<NormalizerStep>& steps, std::string_view file) {
  // Published normalizers have at most five.
  constexpr size_t kStepsMax = 16;
  if (steps.size() > kStepsMax) {
    return FileError(file, "normalizer", "has ", steps.size(), " steps; at most ", kStepsMax, " are supported");
  }
  Normalizer normalizer;
  for (const NormalizerStep& step : steps) {
    Step built{step, nullptr};
    if (step.kind == Kind::kReplaceRegex) {
      HYDRANT_ASSIGN_OR_RETURN(SplitRegex regex, SplitRegex::Create(step.pattern, file));
      built.regex = std::make_unique<SplitRegex>(std::move(regex));
    }
    if (step.kind == Kind::kReplace && step.pattern.empty()) {
      return FileError(file, "normalizer", "replaces an empty string");
    }
    normalizer.growth_ *= GrowthOf(step);
    normalizer.steps_.push_back(std::move(built));
  }
  return normalizer;
}

std::string Normalizer::Apply(std::string_view text, std::vector<ByteRange>& ranges) const {
  std::string current(text);
  for (const Step& step : steps_) {
    const NormalizerStep& what = step.what;
    switch (what.kind) {
      case Kind::kNfc:
        if (!IsAscii(current)) current = Normalize(current, NormalForm::kNfc, ranges);
        break;
      case Kind::kNfd:
        if (!IsAscii(current)) current = Normalize(current, NormalForm::kNfd, ranges);
        break;
      case Kind::kNfkc:
        if (!IsAscii(current)) current = Normalize(current, NormalForm::kNfkc, ranges);
        break;
      case Kind::kNfkd:
        if (!IsAscii(current)) current = Normalize(current, NormalForm::kNfkd, ranges);
        break;
      case Kind::kLowercase:
        current = ChangeEach(current, ranges, AppendLower);
        break;
      case Kind::kStripAccents:
        current = ChangeEach(current, ranges, [](uint32_t code_point, std::string& out) {
          if (!IsMark(code_point)) AppendUtf8(code_point, out);
        });
        break;
      case Kind::kStrip:
        current = Strip(current, what.left, what.right, ranges);
        break;
      case Kind::kReplace:
        current = Replace(current, what.pattern, what.content, ranges);
        break;
      case Kind::kReplaceRegex:
        current = ReplaceRegex(current, *step.regex, what.content, ranges);
        break;
      case Kind::kPrepend:
        if (!current.empty()) {
          TextRewriter rewriter(current, ranges);
          rewriter.Replace(0, what.content);
          current = rewriter.Finish();
        }
        break;
    }
  }
  return current;
}

std::string Normalized(std::string_view text, NormalForm form) {
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  // ASCII is its own form everywhere, and below U+0300 everything its own form C: 0xCC is the first lead byte above.
  const unsigned char changing = form == NormalForm::kNfc ? 0xCC : 0x80;
  if (std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < changing; }))
    return std::string(text);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    utf8proc_int32_t decomposed[32];  // the longest decomposition, of U+FDFA, has 18
    int last_boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code_point), decomposed,
                                                           32, options, &last_boundary);
    assert(count >= 1 && count <= 32);
    points.insert(points.end(), decomposed, decomposed + count);
    rest.remove_prefix(unit.bytes);
  }
  // Canonical order by a real sort: utf8proc's own ordering is quadratic in a run of marks, which a client could send.
  const auto mark_class = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (auto begin = points.begin(); begin != points.end();) {
    if (mark_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, points.end(), [&](utf8proc_int32_t point) { return mark_class(point) == 0; });
    std::stable_sort(begin, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (composes) {
    count = utf8proc_normalize_utf32(points.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  assert(count >= 0);
  std::string normalized;
  normalized.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    AppendUtf8(static_cast<uint32_t>(points[static_cast<size_t>(i)]), normalized);
  return normalized;
}

}  // namespace hydrant
