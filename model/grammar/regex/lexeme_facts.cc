#include "model/grammar/regex/lexeme_facts.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant::grammar {
namespace {

// The second byte of a character that is not ASCII.
struct Border {
  int missing;
  uint8_t low, high;
};
Border BorderOf(uint8_t lead) {
  const int missing = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  return {missing, low, static_cast<uint8_t>(lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf)};
}

}  // namespace

int KindOfByte(uint8_t first) {
  static constexpr std::array<uint8_t, 256> kKinds = [] {
    std::array<uint8_t, 256> kinds{};
    kinds.fill(kNoKind);
    uint8_t next = 0;
    const auto range = [&](int begin, int end) {
      for (int byte = begin; byte <= end; ++byte) kinds[static_cast<size_t>(byte)] = next;
      ++next;
    };
    for (int byte = 'a'; byte <= 'z'; ++byte) range(byte, byte);
    range('A', 'F');
    range('G', 'Z');
    range('0', '9');
    for (const char byte : std::string_view(" \"\\_-./:,@+'=*")) range(byte, byte);
    for (const auto& [begin, end] : {std::pair(0xc2, 0xc2), std::pair(0xc3, 0xc3), std::pair(0xc4, 0xdf),
                                     std::pair(0xe0, 0xef), std::pair(0xf0, 0xf4)}) {
      range(begin, end);
    }
    // White space beyond ASCII begins with these.
    for (const int lead : {0xe1, 0xe2, 0xe3, 0xef}) range(lead, lead);
    // What is left of ASCII: white space, other control bytes, and signs by fours.
    range('\t', '\r');
    for (int byte = 0, count = 0; byte < 0x80; ++byte) {
      if (kinds[static_cast<size_t>(byte)] != kNoKind) continue;
      kinds[static_cast<size_t>(byte)] = byte < 0x20 ? next : static_cast<uint8_t>(next + 1 + count++ / 4);
    }
    return kinds;
  }();
  return kKinds[first];
}

bool LexemeFacts::AllLead(RegexId from, uint8_t lead, const Ends& ends, Fuel& fuel) {
  struct Place {
    RegexId left;
    Border border;
  };
  const RegexId first = dfa_.Step(from, lead, fuel);
  if (first == kNothing) return false;
  std::vector<Place> places = {{first, BorderOf(lead)}};
  for (size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    if (!fuel.Spend(8)) return false;
    for (int byte = place.border.low; byte <= place.border.high; ++byte) {
      const RegexId left = dfa_.Step(place.left, static_cast<uint8_t>(byte), fuel);
      if (place.border.missing == 1) {
        if (!ends(left)) return false;
        continue;
      }
      if (left == kNothing) return false;
      const auto same = [&](const Place& other) {
        return other.left == left && other.border.missing == place.border.missing - 1;
      };
      if (std::ranges::none_of(places, same)) places.push_back({left, {place.border.missing - 1, 0x80, 0xbf}});
    }
  }
  return true;
}

// Whether it matches each single character of plain text.
bool LexemeFacts::TakesEveryCharacter(RegexId id, Fuel& fuel) {
  for (const TextEncoding encoding : {TextEncoding::kUtf8, TextEncoding::kJsonString}) {
    const RegexId star = dfa_.arena().star(encoding);
    if (star >= 0 && dfa_.arena().node(star).a == id) return true;
  }
  if (const auto known = takes_every_.find(id); known != takes_every_.end()) return known->second;
  const Ends is_whole = [&](RegexId left) { return dfa_.arena().nullable(left); };
  bool every = true;
  for (int byte = 0x20; byte < 0x80 && every; ++byte) {
    every = byte == '"' || byte == '\\' || is_whole(dfa_.Step(id, static_cast<uint8_t>(byte), fuel));
  }
  for (int lead = 0xc2; lead <= 0xf4 && every; ++lead) every = AllLead(id, static_cast<uint8_t>(lead), is_whole, fuel);
  if (fuel.empty()) return false;
  return takes_every_[id] = every;
}

int32_t LexemeFacts::PlainCharacters(RegexId left, Fuel& fuel) {
  const RegexArena& arena = dfa_.arena();
  if (plain_characters_.size() <= static_cast<size_t>(left)) plain_characters_.resize(arena.size(), -1);
  if (const int32_t known = plain_characters_[static_cast<size_t>(left)]; known >= 0) return known;
  // A union takes what any of its members does.
  const RegexNode whole = arena.node(left);
  const std::vector<RegexId> members = whole.kind == RegexKind::kOr
                                           ? std::vector<RegexId>(arena.list(left).begin(), arena.list(left).end())
                                           : std::vector<RegexId>{left};
  int32_t characters = 0;
  for (const RegexId member : members) {
    RegexNode node = arena.node(member);
    RegexId head = member;
    if (node.kind == RegexKind::kConcat) {
      if (!arena.node(node.b).plain) continue;
      head = node.a;
      node = arena.node(head);
    }
    if (node.kind == RegexKind::kAnd && IsAllButFew(head, fuel)) characters = kUnbounded;
    if (node.kind == RegexKind::kRepeat && node.c > characters && TakesEveryCharacter(node.a, fuel))
      characters = node.c;
  }
  if (fuel.empty()) return 0;
  return plain_characters_[static_cast<size_t>(left)] = characters;
}

// A turn that is begun has taken a byte. Of turns that have to come those beyond what the bytes can be need not be told apart, either.
LexemeFacts::Wide LexemeFacts::WidenedLoop(RegexId loop, int32_t bytes, int32_t spare, Fuel& fuel) {
  const RegexNode node = dfa_.arena().node(loop);
  if (node.kind != RegexKind::kRepeat) return {loop};
  const int32_t each = dfa_.arena().node(node.a).least;
  if (each == 0) return {loop};
  const int32_t turns = (bytes + each - 1) / each;
  if (node.c < turns + std::max(spare, 0)) return {loop};
  const int32_t least = spare == kKeepLeast ? node.b : std::min(node.b, turns + 1);
  const int64_t cut = node.b - least;
  const int64_t characters = cut == 0 ? 0 : LengthsOf(node.a, fuel).least;
  return {dfa_.arena().Repeat(node.a, least, kUnbounded),
          characters > kFar / std::max<int64_t>(cut, 1) ? kFar : cut * characters};
}

// Widens those of the first few parts that are loops, or unions of what begins with them.
LexemeFacts::Wide LexemeFacts::WidenedParts(RegexId left, int32_t bytes, int32_t spare, bool in_unions, Fuel& fuel) {
  constexpr size_t kPartsMax = 4;
  RegexArena& arena = dfa_.arena();
  std::vector<RegexId> parts, todo = {left};
  int64_t cut = 0;
  while (!todo.empty() && parts.size() < kPartsMax && fuel.Spend(1)) {
    const RegexId next = todo.back();
    const RegexNode node = arena.node(next);
    todo.pop_back();
    if (node.kind == RegexKind::kConcat) {
      todo.push_back(node.b);
      todo.push_back(node.a);
    } else if (node.kind == RegexKind::kOr && in_unions) {
      std::vector<RegexId> members(arena.list(next).begin(), arena.list(next).end());
      int64_t most = 0;
      for (RegexId& each : members) {
        const Wide wide = WidenedParts(each, bytes, spare, /*in_unions=*/false, fuel);
        each = wide.left;
        most = std::max(most, wide.cut);
      }
      parts.push_back(arena.Or(std::move(members)));
      cut += most;
    } else {
      const Wide wide = WidenedLoop(next, bytes, spare, fuel);
      parts.push_back(wide.left);
      cut += wide.cut;
    }
  }
  parts.insert(parts.end(), todo.rbegin(), todo.rend());
  return {arena.Concat(parts), cut};
}

LexemeFacts::Wide LexemeFacts::WidenedOf(const std::array<int32_t, 3>& own, Fuel& fuel) {
  if (const auto known = widened_.find(own); known != widened_.end()) return known->second;
  const auto [left, bytes, spare] = own;
  // What must come behind it is there only if it has a text at all.
  const Wide widened =
      dfa_.arena().node(left).plain ? WidenedParts(left, bytes, spare, /*in_unions=*/true, fuel) : Wide{left};
  if (fuel.empty()) return {left};
  return widened_[own] = widened;
}

// Whether it is any text but for some of a list: whatever was read, more may come. So are the keys that no property has.
bool LexemeFacts::IsAllButFew(RegexId intersection, Fuel& fuel) {
  const RegexArena& arena = dfa_.arena();
  const std::vector<RegexId> members(arena.list(intersection).begin(), arena.list(intersection).end());
  return std::ranges::all_of(members, [&](RegexId member) {
    const RegexNode node = arena.node(member);
    if (node.kind == RegexKind::kNot) return arena.node(node.a).kind == RegexKind::kStrings;
    return node.kind == RegexKind::kRepeat && node.c == kUnbounded && TakesEveryCharacter(node.a, fuel);
  });
}

uint64_t LexemeFacts::Loops(RegexId left, bool ask, Fuel& fuel) {
  if (loops_.size() <= static_cast<size_t>(left)) loops_.resize(dfa_.arena().size(), kUnknownLoops);
  if (const uint64_t known = loops_[static_cast<size_t>(left)]; known != kUnknownLoops) return known;
  if (!ask) return 0;
  const Ends is_back = [&](RegexId there) { return there == left; };
  uint64_t loops = (uint64_t{1} << kByteKinds) - 1;
  for (int byte = 0; byte < 256 && loops != 0; ++byte) {
    const uint64_t kind = uint64_t{1} << KindOfByte(static_cast<uint8_t>(byte));
    if ((loops & kind) == 0) continue;
    const bool back = byte < 0x80 ? is_back(dfa_.Step(left, static_cast<uint8_t>(byte), fuel))
                                  : AllLead(left, static_cast<uint8_t>(byte), is_back, fuel);
    if (!back) loops &= ~kind;
  }
  if (!fuel.Spend(64)) return 0;
  return loops_[static_cast<size_t>(left)] = loops;
}

// The parts first. An intersection or complement has texts of which nothing is known here.
LexemeFacts::Lengths LexemeFacts::LengthsOf(RegexId id, Fuel& fuel) {
  const RegexArena& arena = dfa_.arena();
  if (lengths_.size() <= static_cast<size_t>(id)) lengths_.resize(arena.size());
  if (lengths_[static_cast<size_t>(id)].known) return lengths_[static_cast<size_t>(id)];
  std::vector<RegexId> todo = {id};
  while (!todo.empty() && fuel.Spend(1)) {
    const RegexId next = todo.back();
    const RegexNode node = arena.node(next);
    const size_t before = todo.size();
    const auto of = [&](RegexId part) {
      const Lengths& known = lengths_[static_cast<size_t>(part)];
      if (!known.known) todo.push_back(part);
      return known;
    };
    Lengths lengths;
    switch (node.kind) {
      case RegexKind::kEmpty:
        lengths.least = 0;
        break;
      case RegexKind::kBytes:
        lengths.least = 1;
        break;
      case RegexKind::kConcat: {
        const Lengths a = of(node.a), b = of(node.b);
        lengths.least = std::min(a.least + b.least, kFar);
        lengths.endless = std::min({a.endless + b.least, a.least + b.endless, kFar});
        break;
      }
      case RegexKind::kRepeat: {
        const Lengths each = of(node.a);
        if (node.b == 0) {
          lengths.least = 0;
        } else if (each.least < kFar / node.b) {
          lengths.least = each.least * node.b;
        }
        if (node.c == kUnbounded && TakesSingleBytes(node.a, fuel)) lengths.endless = node.b;
        break;
      }
      case RegexKind::kOr:
        for (const RegexId part : arena.list(next)) {
          const Lengths each = of(part);
          lengths.least = std::min(lengths.least, each.least);
          lengths.endless = std::min(lengths.endless, each.endless);
        }
        break;
      default:
        break;
    }
    if (todo.size() > before) continue;
    if (fuel.empty()) break;
    lengths.known = true;
    lengths_[static_cast<size_t>(next)] = lengths;
    todo.pop_back();
  }
  return lengths_[static_cast<size_t>(id)];
}

int64_t LexemeFacts::MostOfLeastCharacters(RegexId left, Fuel& fuel) {
  if (dfa_.arena().node(left).kind != RegexKind::kOr) return LengthsOf(left, fuel).least;
  int64_t most = 0;
  for (const RegexId part : dfa_.arena().list(left)) most = std::max(most, LengthsOf(part, fuel).least);
  return most;
}

bool LexemeFacts::TakesSingleBytes(RegexId id, Fuel& fuel) {
  for (int byte = 0x20; byte < 0x7f; ++byte) {
    if (dfa_.arena().nullable(dfa_.Step(id, static_cast<uint8_t>(byte), fuel))) return true;
  }
  return false;
}

std::optional<LexemeFacts::Counted> LexemeFacts::Count(RegexId left) {
  RegexArena& arena = dfa_.arena();
  const RegexNode whole = arena.node(left);
  const RegexId star = arena.star(TextEncoding::kJsonString);
  if (star < 0 || whole.kind != RegexKind::kConcat || arena.node(whole.a).kind != RegexKind::kAnd) return std::nullopt;
  if (whole.b != arena.Byte('"')) return std::nullopt;
  std::vector<RegexId> rest(arena.list(whole.a).begin(), arena.list(whole.a).end());
  for (size_t i = 0; i < rest.size(); ++i) {
    const RegexNode member = arena.node(rest[i]);
    if (member.kind != RegexKind::kRepeat || member.a != arena.node(star).a || rest[i] == star) continue;
    const RegexId count = rest[i];
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    const RegexId others = arena.And(std::move(rest));
    // What is no text of whole characters the counter may not take.
    if ((arena.node(others).whole >> static_cast<int>(TextEncoding::kJsonString) & 1) == 0) return std::nullopt;
    return Counted{count, arena.Concat(others, whole.b)};
  }
  return std::nullopt;
}

bool LexemeFacts::HaveCommon(const Counted& counted, Fuel& fuel) {
  RegexNode count = dfa_.arena().node(counted.count);
  // Inside a character.
  if (count.kind == RegexKind::kConcat) count = dfa_.arena().node(count.b);
  if (count.kind != RegexKind::kRepeat) return false;
  if (count.b == 0 && count.c == kUnbounded) return true;
  const Lengths lengths = LengthsOf(counted.rest, fuel);
  const int64_t most = count.c == kUnbounded ? kFar - 1 : count.c + int64_t{1};
  return (count.b == 0 ? std::min(lengths.least, lengths.endless) : lengths.endless) <= most;
}

bool LexemeFacts::HaveCommonBehind(const Counted& counted, int32_t characters, Fuel& fuel) {
  const RegexNode count = dfa_.arena().node(counted.count);
  if (count.kind != RegexKind::kRepeat || count.c < characters) return false;
  return count.c == kUnbounded || LengthsOf(counted.rest, fuel).least <= count.c - characters + int64_t{1};
}

}  // namespace hydrant::grammar
