#include "model/grammar/regex/char_class.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/json_escape.h"
#include "model/text/utf8.h"

namespace hydrant::grammar {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

// What JSON writes instead of the character, or "".
std::string JsonEscape(uint32_t code_point) {
  if (const std::string_view escape = ShortJsonEscape(code_point); !escape.empty()) return std::string(escape);
  if (code_point >= 0x20) return "";
  return std::string("\\u00") + kHexDigits[code_point >> 4] + kHexDigits[code_point & 15];
}

// Some characters of several bytes, from first to last byte.
struct Sequence {
  std::string from, to;

  bool HasSame(const Sequence& other, size_t place) const {
    return from[place] == other.from[place] && to[place] == other.to[place];
  }
};

// Adds the characters of [first, last], which all take the same number of bytes, in order. REQUIRES: none is ASCII.
void AddSequences(uint32_t first, uint32_t last, std::vector<Sequence>& out) {
  const size_t bytes = first < 0x800 ? 2 : first < 0x10000 ? 3 : 4;
  // From the last byte on: whole runs of it need no more than a range in the byte before. At most 7 pieces.
  std::vector<std::pair<uint32_t, uint32_t>> todo = {{first, last}};
  while (!todo.empty()) {
    const auto [low, high] = todo.back();
    todo.pop_back();
    bool split = false;
    for (size_t i = 1; i < bytes && !split; ++i) {
      const uint32_t mask = (uint32_t{1} << (6 * i)) - 1;
      if ((low & ~mask) == (high & ~mask)) continue;
      if ((low & mask) != 0) {
        todo.emplace_back((low | mask) + 1, high);
        todo.emplace_back(low, low | mask);
        split = true;
      } else if ((high & mask) != mask) {
        todo.emplace_back(high & ~mask, high);
        todo.emplace_back(low, (high & ~mask) - 1);
        split = true;
      }
    }
    if (split) continue;
    Sequence& sequence = out.emplace_back();
    AppendUtf8(low, sequence.from);
    AppendUtf8(high, sequence.to);
  }
}

// Sequences from a place on, an expression for all of those that begin alike: whoever reads a byte looks at few.
// REQUIRES: they are sorted.
std::vector<RegexId> Grouped(RegexArena& arena, std::span<const Sequence> sequences, size_t place) {
  std::vector<RegexId> groups;
  for (size_t begin = 0, end = 0; begin < sequences.size(); begin = end) {
    const Sequence& first = sequences[begin];
    while (end < sequences.size() && sequences[end].HasSame(first, place)) ++end;
    const RegexId own =
        arena.Bytes(ByteSet::Range(static_cast<uint8_t>(first.from[place]), static_cast<uint8_t>(first.to[place])));
    const bool is_last = place + 1 == first.from.size();
    groups.push_back(
        is_last ? own : arena.Concat(own, arena.Or(Grouped(arena, sequences.subspan(begin, end - begin), place + 1))));
  }
  return groups;
}

}  // namespace

void CharClass::Normalise() {
  std::ranges::sort(ranges_);
  std::vector<Range> merged;
  for (const auto& [first, last] : ranges_) {
    if (!merged.empty() && first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, last);
    } else {
      merged.emplace_back(first, last);
    }
  }
  ranges_.clear();
  for (const auto& [first, last] : merged) {
    if (first < 0xd800) ranges_.emplace_back(first, std::min(last, uint32_t{0xd7ff}));
    if (last > 0xdfff) ranges_.emplace_back(std::max(first, uint32_t{0xe000}), last);
  }
}

CharClass CharClass::Complement() const {
  CharClass rest;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (next < first) rest.Add(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastCodePoint) rest.Add(next, kLastCodePoint);
  rest.Normalise();
  return rest;
}

RegexId EncodedClass(RegexArena& arena, const CharClass& characters, TextEncoding encoding) {
  constexpr std::array<uint32_t, 5> kBorders = {0, 0x80, 0x800, 0x10000, kLastCodePoint + 1};
  std::vector<RegexId> parts;
  std::vector<Sequence> sequences;
  ByteSet unescaped;
  for (const auto& [first, last] : characters.ranges()) {
    for (uint32_t each = first; each <= std::min(last, uint32_t{0x7f}); ++each) {
      const std::string escape = encoding == TextEncoding::kJsonString ? JsonEscape(each) : "";
      if (escape.empty()) {
        unescaped.Add(static_cast<uint8_t>(each));
      } else {
        parts.push_back(arena.Literal(escape));
        arena.MarkWhole(parts.back(), encoding);
      }
    }
    for (size_t i = 1; i + 1 < kBorders.size(); ++i) {
      const uint32_t low = std::max(first, kBorders[i]), high = std::min(last, kBorders[i + 1] - 1);
      if (low <= high) AddSequences(low, high, sequences);
    }
  }
  const std::vector<RegexId> groups = Grouped(arena, sequences, 0);
  parts.insert(parts.end(), groups.begin(), groups.end());
  for (const RegexId part : parts) arena.MarkWhole(part, encoding);
  parts.push_back(arena.Bytes(unescaped));
  return arena.Or(std::move(parts));
}

RegexId AnyText(RegexArena& arena, TextEncoding encoding) {
  if (arena.star(encoding) < 0) {
    arena.SetStar(arena.Star(EncodedClass(arena, CharClass::All(), encoding)), encoding);
  }
  return arena.star(encoding);
}

std::string EncodedText(std::string_view text, TextEncoding encoding) {
  if (encoding == TextEncoding::kUtf8) return std::string(text);
  std::string encoded;
  for (const char byte : text) {
    const std::string escape = JsonEscape(static_cast<uint8_t>(byte));
    if (escape.empty()) {
      encoded += byte;
    } else {
      encoded += escape;
    }
  }
  return encoded;
}

}  // namespace hydrant::grammar
