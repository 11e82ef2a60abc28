#include "model/tokenizer/added_token_matcher.h"

#include <algorithm>

#include "model/text/unicode_class.h"
#include "model/text/utf8.h"

namespace hydrant {
namespace {

// The character before the end of `text`; an invalid byte counts as U+FFFD.
Utf8Unit LastUnit(std::string_view text) {
  for (size_t bytes = 1; bytes <= 4 && bytes <= text.size(); ++bytes) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(text.size() - bytes));
    if (unit.kind == Utf8Kind::kCharacter && unit.bytes == bytes) return unit;
  }
  return {Utf8Kind::kInvalid, 0xFFFD, 1};
}

bool EndsWithWord(std::string_view text) { return !text.empty() && IsWordCharacter(LastUnit(text).code_point); }
bool BeginsWithWord(std::string_view text) { return !text.empty() && IsWordCharacter(NextUtf8Unit(text).code_point); }

size_t SpacesAtEnd(std::string_view text) {
  const size_t before = text.size();
  while (!text.empty()) {
    const Utf8Unit unit = LastUnit(text);
    if (unit.kind != Utf8Kind::kCharacter || !IsWhiteSpace(unit.code_point)) break;
    text.remove_suffix(unit.bytes);
  }
  return before - text.size();
}

size_t SpacesAtFront(std::string_view text) {
  const size_t before = text.size();
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    if (unit.kind != Utf8Kind::kCharacter || !IsWhiteSpace(unit.code_point)) break;
    text.remove_prefix(unit.bytes);
  }
  return before - text.size();
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) : nodes_(1) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    uint32_t node = 0;
    for (const char c : token.content) {
      const auto byte = static_cast<unsigned char>(c);
      auto& children = nodes_[node].children;
      const auto found =
          std::find_if(children.begin(), children.end(), [&](const auto& child) { return child.first == byte; });
      if (found != children.end()) {
        node = found->second;
        continue;
      }
      const auto fresh = static_cast<uint32_t>(nodes_.size());
      children.emplace_back(byte, fresh);
      nodes_.emplace_back();
      node = fresh;
    }
    first_[static_cast<unsigned char>(token.content[0])] = true;
    if (nodes_[node].token >= 0) continue;
    nodes_[node].token = static_cast<int32_t>(tokens_.size());
    tokens_.push_back({token.id, token.content.size(), token.special, token.single_word, token.lstrip, token.rstrip});
  }
}

const AddedTokenMatcher::Token* AddedTokenMatcher::LongestAt(std::string_view text, size_t special_bytes_max) const {
  const Token* longest = nullptr;
  uint32_t node = 0;
  for (const char c : text) {
    const auto& children = nodes_[node].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const auto& child) { return child.first == static_cast<unsigned char>(c); });
    if (found == children.end()) break;
    node = found->second;
    if (nodes_[node].token < 0) continue;
    const Token& token = tokens_[static_cast<size_t>(nodes_[node].token)];
    if (!token.special || token.bytes <= special_bytes_max) longest = &token;
  }
  return longest;
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::Cut(std::string_view text,
                                                               std::span<const ByteRange> client_ranges) const {
  std::vector<Segment> segments;
  size_t done = 0;   // text before it is in segments
  ByteRange spaces;  // white space seen last after a token, so that tokens of white space do not each look through it
  auto range = client_ranges.begin();
  for (size_t at = 0; at < text.size();) {
    if (!first_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    while (range != client_ranges.end() && (range->end <= at || range->end == range->begin)) ++range;
    const bool is_client = range != client_ranges.end() && range->begin <= at;
    const size_t special_end = range == client_ranges.end() || is_client ? text.size() : range->begin;
    const Token* token = LongestAt(text.substr(at), special_end - at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->bytes;
    if (is_client && token->special) {
      at = std::min(end, range->end);
      continue;
    }
    at = end;  // whatever becomes of this match, the next one begins after it
    if (token->single_word && (EndsWithWord(text.substr(0, begin)) || BeginsWithWord(text.substr(end)))) continue;
    if (token->lstrip) begin = begin <= done ? done : begin - SpacesAtEnd(text.substr(done, begin - done));
    if (token->rstrip) {
      if (end < spaces.begin || end > spaces.end) spaces = {end, end + SpacesAtFront(text.substr(end))};
      end = spaces.end;
    }
    if (begin > done) segments.push_back({-1, text.substr(done, begin - done)});
    segments.push_back({token->id, text.substr(std::min(begin, end), end - std::min(begin, end))});
    done = end;
  }
  if (done < text.size()) segments.push_back({-1, text.substr(done)});
  return segments;
}

}  // namespace hydrant
