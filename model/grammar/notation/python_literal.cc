#include "model/grammar/notation/python_literal.h"

#include <algorithm>
#include <utility>

#include "model/grammar/regex/char_class.h"
#include "model/text/string_literal.h"
#include "model/text/text_pieces.h"

namespace hydrant::grammar {
namespace {

constexpr int kPythonDepthMax = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsPythonNameByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

// A string of JSON, between its quotes.
bool IsJsonString(std::string_view inside) {
  for (size_t i = 0; i < inside.size(); ++i) {
    if (static_cast<unsigned char>(inside[i]) < 0x20) return false;
    if (inside[i] != '\\') continue;
    if (++i == inside.size() || std::string_view("\"\\/bfnrtu").find(inside[i]) == std::string_view::npos) return false;
    if (inside[i] != 'u') continue;
    for (int digit = 0; digit < 4; ++digit) {
      if (++i == inside.size() ||
          std::string_view("0123456789abcdefABCDEF").find(inside[i]) == std::string_view::npos) {
        return false;
      }
    }
  }
  return true;
}

// Digits, a point, an exponent: what JSON has as a number. Others of Python's are written otherwise.
size_t JsonNumberBytes(std::string_view text) {
  const auto digits = [&](size_t at) {
    size_t end = at;
    while (end < text.size() && IsDigit(text[end])) ++end;
    return end;
  };
  size_t at = text.starts_with('-') ? 1 : 0;
  size_t end = digits(at);
  if (end == at || (text[at] == '0' && end > at + 1)) return 0;
  if (end < text.size() && text[end] == '.') {
    at = end + 1;
    end = digits(at);
    if (end == at) return 0;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    at = end + 1;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    end = digits(at);
    if (end == at) return 0;
  }
  return end;
}

constexpr std::string_view kJsonSpace = " \t\n\r";

// The bytes of a value that is no list and no object; 0: there is none.
size_t JsonScalarBytes(std::string_view text) {
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text.starts_with(word)) return word.size();
  }
  if (!text.starts_with('"')) return JsonNumberBytes(text);
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return end < text.size() && IsJsonString(text.substr(1, end - 1)) ? end + 1 : 0;
}

}  // namespace

bool IsJson(std::string_view text) {
  std::string open;  // brackets
  enum { kValue, kFirst, kKey, kFirstKey, kBehind } next = kValue;
  for (size_t at = 0;;) {
    at = std::min(text.find_first_not_of(kJsonSpace, at), text.size());
    if (at == text.size()) return next == kBehind && open.empty();
    const char c = text[at];
    if (next == kBehind) {
      if (open.empty()) return false;
      ++at;
      if (c == ',') {
        next = open.back() == '{' ? kKey : kValue;
        continue;
      }
      if (c != (open.back() == '{' ? '}' : ']')) return false;
      open.pop_back();
    } else if ((next == kFirst && c == ']') || (next == kFirstKey && c == '}')) {
      ++at;
      open.pop_back();
      next = kBehind;
    } else if (next == kKey || next == kFirstKey) {
      const size_t bytes = c == '"' ? JsonScalarBytes(text.substr(at)) : 0;
      if (bytes == 0) return false;
      at = text.find_first_not_of(kJsonSpace, at + bytes);
      if (at == text.npos || text[at++] != ':') return false;
      next = kValue;
    } else if (c == '{' || c == '[') {
      ++at;
      open += c;
      next = c == '{' ? kFirstKey : kFirst;
    } else {
      const size_t bytes = JsonScalarBytes(text.substr(at));
      if (bytes == 0) return false;
      at += bytes;
      next = kBehind;
    }
  }
}

void PythonReader::SkipSpace() { at_ = std::min(text_.find_first_not_of(kWhiteSpace, at_), text_.size()); }

bool PythonReader::Take(char byte) {
  SkipSpace();
  if (at_ == text_.size() || text_[at_] != byte) return false;
  ++at_;
  return true;
}

bool PythonReader::AtEnd() {
  SkipSpace();
  return at_ == text_.size();
}

std::string_view PythonReader::Name() {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size() && IsPythonNameByte(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::optional<std::string> PythonReader::Value() {
  std::string json;
  if (!AddValue(json, 0)) return std::nullopt;
  return json;
}

bool PythonReader::AddValue(std::string& json, int depth) {
  SkipSpace();
  if (at_ == text_.size() || depth > kPythonDepthMax) return false;
  const char c = text_[at_];
  if (c == '"' || c == '\'') return AddString(json);
  if (IsDigit(c) || c == '-') return AddNumber(json);
  if (c == '[' || c == '(' || c == '{') {
    ++at_;
    json += c == '{' ? '{' : '[';
    if (!AddItems(json, c == '[' ? ']' : c == '(' ? ')' : '}', depth + 1)) return false;
    json += c == '{' ? '}' : ']';
    return true;
  }
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"}, {"false", "false"}, {"null", "null"}};
  const std::string_view name = Name();
  const auto word = std::ranges::find(kWords, name, &std::pair<std::string_view, std::string_view>::first);
  if (word == std::end(kWords)) return false;
  json += word->second;
  return true;
}

// Up to `close`, which may stand behind a comma. Of a dict each item is a key, which is a string, and a value.
bool PythonReader::AddItems(std::string& json, char close, int depth) {
  for (bool first = true; !Take(close); first = false) {
    if (!first && !Take(',')) return false;
    if (!first && Take(close)) return true;
    if (!first) json += ", ";
    if (close == '}') {
      SkipSpace();
      if (at_ == text_.size() || !AddString(json) || !Take(':')) return false;
      json += ": ";
    }
    if (!AddValue(json, depth)) return false;
  }
  return true;
}

bool PythonReader::AddString(std::string& json) {
  const char quote = text_[at_];
  if (quote != '"' && quote != '\'') return false;
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) return false;
  const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  // JSON's escapes are Python's but for those of halves of characters.
  if (quote == '"' && IsJsonString(inside)) {
    json.append(1, '"').append(inside).append(1, '"');
    return true;
  }
  const std::optional<std::string> decoded = DecodeStringLiteral(inside);
  if (!decoded.has_value()) return false;
  json.append(1, '"').append(EncodedText(*decoded, TextEncoding::kJsonString)).append(1, '"');
  return true;
}

bool PythonReader::AddNumber(std::string& json) {
  const size_t bytes = JsonNumberBytes(text_.substr(at_));
  if (bytes == 0 || (at_ + bytes < text_.size() && IsPythonNameByte(text_[at_ + bytes]))) return false;
  json += text_.substr(at_, bytes);
  at_ += bytes;
  return true;
}

}  // namespace hydrant::grammar
