#include "model/grammar/regex/regex_arena.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/grammar/regex/reserve_one.h"

namespace hydrant::grammar {
namespace {

constexpr uint8_t kWholeInBoth = 3;
// Places in a number: before it, in its whole part, behind a whole part that is "0". From 0: digits read behind the point.
constexpr int32_t kBefore = -3, kInWhole = -2, kAfterZero = -1;

uint8_t WholeOf(const ByteSet& set) {
  ByteSet unescaped = ByteSet::Range(0x20, 0x7f);
  unescaped.words['"' >> 6] &= ~(uint64_t{1} << ('"' & 63));
  unescaped.words['\\' >> 6] &= ~(uint64_t{1} << ('\\' & 63));
  const int utf8 = set.Within(ByteSet::Range(0, 0x7f)) ? 1 : 0;
  const int json = set.Within(unescaped) ? 2 : 0;
  return static_cast<uint8_t>(utf8 | json);
}

}  // namespace

RegexArena::RegexArena() : index_(64, -1) {
  Intern({RegexKind::kNone, false, false, kWholeInBoth, 0, 0, 0, 0, kLeastMax});
  Intern({RegexKind::kEmpty, true, true, kWholeInBoth});
  Intern({RegexKind::kNot, true, true, 0, kNothing});
}

std::span<const RegexId> RegexArena::list(RegexId id) const {
  return std::span(lists_).subspan(static_cast<size_t>(node(id).a), static_cast<size_t>(node(id).b));
}

uint64_t RegexArena::HashOf(const RegexNode& node, std::span<const RegexId> list) const {
  uint64_t hash = static_cast<uint64_t>(node.kind) + 1;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  if (node.kind == RegexKind::kOr || node.kind == RegexKind::kAnd) {
    for (const RegexId each : list) mix(static_cast<uint32_t>(each));
  } else {
    mix(static_cast<uint32_t>(node.a) | uint64_t{static_cast<uint32_t>(node.b)} << 32);
    mix(static_cast<uint32_t>(node.c) | uint64_t{static_cast<uint32_t>(node.d)} << 32);
  }
  return hash;
}

RegexId RegexArena::Intern(RegexNode node, std::span<const RegexId> members) {
  const size_t mask = index_.size() - 1;
  const bool has_list = node.kind == RegexKind::kOr || node.kind == RegexKind::kAnd;
  size_t slot = HashOf(node, members) & mask;
  for (; index_[slot] >= 0; slot = (slot + 1) & mask) {
    const RegexNode& other = nodes_[static_cast<size_t>(index_[slot])];
    if (other.kind != node.kind) continue;
    if (has_list ? std::ranges::equal(list(index_[slot]), members)
                 : other.a == node.a && other.b == node.b && other.c == node.c && other.d == node.d) {
      return index_[slot];
    }
  }
  if (has_list) {
    node.a = static_cast<int32_t>(lists_.size());
    node.b = static_cast<int32_t>(members.size());
    lists_.insert(lists_.end(), members.begin(), members.end());
  }
  const auto id = static_cast<RegexId>(nodes_.size());
  nodes_.push_back(node);
  index_[slot] = id;
  if (nodes_.size() * 2 > index_.size()) GrowIndex();
  return id;
}

void RegexArena::GrowIndex() {
  index_.assign(index_.size() * 2, -1);
  const size_t mask = index_.size() - 1;
  for (size_t id = 0; id < nodes_.size(); ++id) {
    const RegexNode& node = nodes_[id];
    const bool has_list = node.kind == RegexKind::kOr || node.kind == RegexKind::kAnd;
    size_t slot = HashOf(node, has_list ? list(static_cast<RegexId>(id)) : std::span<const RegexId>()) & mask;
    while (index_[slot] >= 0) slot = (slot + 1) & mask;
    index_[slot] = static_cast<int32_t>(id);
  }
}

// A class of which some bytes are in the set and some are not becomes two.
void RegexArena::SplitClasses(const ByteSet& set) {
  const size_t before = representatives_.size();
  if (before == 256) return;
  std::array<int, 256> inside = {}, outside = {};
  for (int byte = 0; byte < 256; ++byte) {
    ++(set.Has(static_cast<uint8_t>(byte)) ? inside : outside)[class_of_[static_cast<size_t>(byte)]];
  }
  std::array<int, 256> moved;
  moved.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    uint8_t& own = class_of_[static_cast<size_t>(byte)];
    if (own >= before || inside[own] == 0 || outside[own] == 0) continue;
    // The bytes like the representative keep the class.
    if (set.Has(static_cast<uint8_t>(byte)) == set.Has(representatives_[own])) continue;
    int& target = moved[own];
    if (target < 0) {
      target = static_cast<int>(representatives_.size());
      representatives_.push_back(static_cast<uint8_t>(byte));
    }
    own = static_cast<uint8_t>(target);
  }
}

RegexId RegexArena::Bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  SplitClasses(set);
  ReserveOne(sets_);
  const auto [found, added] = set_index_.try_emplace(set.words, static_cast<int32_t>(sets_.size()));
  const int32_t index = found->second;
  if (added) sets_.push_back(set);
  return Intern({RegexKind::kBytes, false, true, WholeOf(set), index, 0, 0, 0, 1});
}

RegexId RegexArena::Byte(uint8_t byte) { return Bytes(ByteSet::Range(byte, byte)); }

RegexId RegexArena::Literal(std::string_view bytes) {
  RegexId result = kEmptyText;
  for (size_t i = bytes.size(); i-- > 0;) result = Concat(Byte(static_cast<uint8_t>(bytes[i])), result);
  return result;
}

RegexId RegexArena::Concat(RegexId a, RegexId b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kEmptyText) return b;
  if (b == kEmptyText) return a;
  const RegexNode left = node(a), right = node(b);
  // x* x* is x*.
  if (left.kind == RegexKind::kRepeat && left.b == 0 && left.c == kUnbounded &&
      (a == b || (right.kind == RegexKind::kConcat && right.a == a))) {
    return b;
  }
  RegexNode both{RegexKind::kConcat,
                 left.nullable && right.nullable,
                 left.plain && right.plain,
                 static_cast<uint8_t>(left.whole & right.whole),
                 a,
                 b};
  both.least = std::min(left.least + right.least, kLeastMax);
  both.endless = (left.endless && right.plain) || (right.endless && left.plain);
  return Intern(both);
}

RegexId RegexArena::Concat(std::span<const RegexId> parts) {
  RegexId result = kEmptyText;
  for (size_t i = parts.size(); i-- > 0;) result = Concat(parts[i], result);
  return result;
}

RegexId RegexArena::Repeat(RegexId a, int32_t least, int32_t most) {
  assert(0 <= least && least <= most);
  if (most == 0 || a == kEmptyText) return kEmptyText;
  if (a == kNothing) return least == 0 ? kEmptyText : kNothing;
  const RegexNode what = node(a);
  if (what.nullable) least = 0;  // those that are asked for may be empty
  if (least == 1 && most == 1) return a;
  if (what.kind == RegexKind::kRepeat && what.b == 0 && what.c == kUnbounded) return a;  // (x*)* is x*
  RegexNode repeated{RegexKind::kRepeat, least == 0, least == 0 || what.plain, what.whole, a, least, most};
  repeated.least = static_cast<int32_t>(std::min<int64_t>(int64_t{least} * what.least, kLeastMax));
  repeated.endless = what.endless || (most == kUnbounded && what.plain && what.least > 0);
  return Intern(repeated);
}

RegexId RegexArena::Not(RegexId a) {
  const RegexNode what = node(a);
  if (what.kind == RegexKind::kNot) return what.a;
  return Intern({RegexKind::kNot, !what.nullable, !what.nullable, 0, a});
}

// Members of members are members; sorted, each once.
void RegexArena::Flatten(RegexKind kind, std::vector<RegexId>& parts) {
  const size_t count = parts.size();
  for (size_t i = 0; i < count; ++i) {
    if (node(parts[i]).kind != kind) continue;
    const std::span<const RegexId> members = list(parts[i]);
    parts.insert(parts.end(), members.begin(), members.end());
    parts[i] = members[0];
  }
  std::ranges::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
}

// In a union all that is written in whole characters is part of "any characters"; in an intersection it is the other way round.
bool RegexArena::AbsorbByStar(std::vector<RegexId>& parts, bool keep_star) {
  bool changed = false;
  for (size_t encoding = 0; encoding < stars_.size(); ++encoding) {
    const RegexId star = stars_[encoding];
    if (!std::ranges::binary_search(parts, star)) continue;
    const auto is_whole = [&](RegexId id) { return id != star && (node(id).whole >> encoding & 1) != 0; };
    if (keep_star) {
      changed |= std::erase_if(parts, is_whole) > 0;
    } else if (std::ranges::any_of(parts, is_whole)) {
      changed |= std::erase(parts, star) > 0;
    }
  }
  return changed;
}

// x{1,3} y | x{2,9} y is x{1,9} y. Without this a text that two counters may count has as many states as their product.
void RegexArena::MergeRepeats(std::vector<RegexId>& parts) {
  struct Counted {
    RegexId what, tail;
    int32_t least, most;
    RegexId whole;
  };
  std::vector<Counted> counted;
  for (const RegexId id : parts) {
    const RegexNode& part = node(id);
    const bool has_tail = part.kind == RegexKind::kConcat;
    const RegexNode& head = has_tail ? node(part.a) : part;
    if (head.kind == RegexKind::kRepeat) {
      counted.push_back({head.a, has_tail ? part.b : kEmptyText, head.b, head.c, id});
    } else {
      // x y is x{1,1} y.
      counted.push_back({has_tail ? part.a : id, has_tail ? part.b : kEmptyText, 1, 1, id});
    }
  }
  std::ranges::sort(counted, [](const Counted& x, const Counted& y) {
    return std::tie(x.what, x.tail, x.least, x.most) < std::tie(y.what, y.tail, y.least, y.most);
  });
  std::vector<RegexId> merged;
  for (size_t i = 0; i < counted.size();) {
    Counted group = counted[i];
    size_t j = i + 1;
    for (; j < counted.size() && counted[j].what == group.what && counted[j].tail == group.tail &&
           (group.most == kUnbounded || counted[j].least <= group.most + 1);
         ++j) {
      group.most = std::max(group.most, counted[j].most);
    }
    merged.push_back(j == i + 1 ? group.whole : Concat(Repeat(group.what, group.least, group.most), group.tail));
    i = j;
  }
  if (merged.size() < parts.size()) {
    parts = std::move(merged);
    Flatten(RegexKind::kOr, parts);
  }
}

RegexId RegexArena::Or(std::vector<RegexId> parts) {
  if (parts.empty()) return kNothing;
  Flatten(RegexKind::kOr, parts);
  if (std::ranges::binary_search(parts, kAnything)) return kAnything;
  std::erase(parts, kNothing);
  AbsorbByStar(parts, true);
  ByteSet bytes;
  size_t sets = 0;
  for (const RegexId id : parts) {
    if (node(id).kind != RegexKind::kBytes) continue;
    bytes = bytes | this->bytes(id);
    ++sets;
  }
  if (sets > 1) {
    std::erase_if(parts, [&](RegexId id) { return node(id).kind == RegexKind::kBytes; });
    parts.push_back(Bytes(bytes));
    std::ranges::sort(parts);
  }
  if (parts.size() > 1) MergeRepeats(parts);
  const auto is_nullable = [&](RegexId id) { return nullable(id); };
  if (std::ranges::binary_search(parts, kEmptyText) && std::ranges::count_if(parts, is_nullable) > 1) {
    std::erase(parts, kEmptyText);
  }
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  RegexNode node{RegexKind::kOr, false, false, kWholeInBoth, 0, 0, 0, 0, kLeastMax};
  for (const RegexId id : parts) {
    node.nullable |= this->node(id).nullable;
    node.plain |= this->node(id).plain;
    node.whole &= this->node(id).whole;
    node.least = std::min(node.least, this->node(id).least);
    node.endless |= this->node(id).endless;
  }
  return Intern(node, parts);
}

RegexId RegexArena::And(std::vector<RegexId> parts) {
  if (parts.empty()) return kAnything;
  Flatten(RegexKind::kAnd, parts);
  if (std::ranges::binary_search(parts, kNothing)) return kNothing;
  std::erase(parts, kAnything);
  if (ExcludeEachOther(parts)) return kNothing;
  AbsorbByStar(parts, false);
  if (parts.empty()) return kAnything;
  if (parts.size() == 1) return parts[0];
  RegexNode node{RegexKind::kAnd, true, false, 0};
  ByteSet bytes = ByteSet::Range(0, 255);
  size_t sets = 0;
  for (const RegexId id : parts) {
    const RegexNode& part = this->node(id);
    node.nullable &= part.nullable;
    node.whole |= part.whole;
    node.least = std::max(node.least, part.least);
    if (part.kind == RegexKind::kNot && std::ranges::binary_search(parts, part.a)) return kNothing;
    if (part.kind != RegexKind::kBytes) continue;
    bytes = bytes & this->bytes(id);
    ++sets;
  }
  if (parts[0] == kEmptyText) return node.nullable ? kEmptyText : kNothing;
  if (sets > 1) {
    std::erase_if(parts, [&](RegexId id) { return this->node(id).kind == RegexKind::kBytes; });
    parts.push_back(Bytes(bytes));
    return And(std::move(parts));  // once: there is one set now
  }
  node.endless = CountsEndless(parts);
  node.plain = node.nullable || node.endless;
  return Intern(node, parts);
}

// Whether some part is whole characters, and another one forbids all such texts.
bool RegexArena::ExcludeEachOther(std::span<const RegexId> parts) const {
  for (const RegexId id : parts) {
    if (node(id).kind != RegexKind::kNot) continue;
    for (size_t encoding = 0; encoding < stars_.size(); ++encoding) {
      if (node(id).a != stars_[encoding]) continue;
      const auto is_whole = [&](RegexId other) { return (node(other).whole >> encoding & 1) != 0; };
      if (std::ranges::any_of(parts, is_whole)) return true;
    }
  }
  return false;
}

// Whether it is texts of whole characters, endlessly many, of which those with few characters are left out.
bool RegexArena::CountsEndless(std::span<const RegexId> parts) const {
  if (parts.size() != 2) return false;
  for (size_t encoding = 0; encoding < stars_.size(); ++encoding) {
    const RegexId star = stars_[encoding];
    for (size_t i = 0; star >= 0 && i < 2; ++i) {
      const RegexNode &counter = node(parts[i]), &texts = node(parts[1 - i]);
      const bool counts = counter.kind == RegexKind::kRepeat && counter.a == node(star).a && counter.c == kUnbounded;
      if (counts && texts.endless && (texts.whole >> encoding & 1) != 0) return true;
    }
  }
  return false;
}

void RegexArena::MarkWhole(RegexId id, TextEncoding encoding) {
  nodes_[static_cast<size_t>(id)].whole |= static_cast<uint8_t>(1 << static_cast<int>(encoding));
}

RegexId RegexArena::Strings(std::vector<std::string> texts, uint8_t whole) {
  if (texts.empty()) return kNothing;
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  ByteSet used;
  for (const std::string& text : texts) {
    for (const char byte : text) used.Add(static_cast<uint8_t>(byte));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (used.Has(static_cast<uint8_t>(byte))) SplitClasses(ByteSet::Range(byte, byte));
  }
  size_t table = 0;
  while (table < tables_.size() && *tables_[table] != texts) ++table;
  const auto count = static_cast<int32_t>(texts.size());
  if (table == tables_.size()) {
    ReserveOne(table_whole_);
    tables_.push_back(std::make_shared<const std::vector<std::string>>(std::move(texts)));
    table_whole_.push_back(whole);
  }
  return StringsNode(static_cast<int32_t>(table), 0, count, 0);
}

RegexId RegexArena::StringsNode(int32_t table, int32_t first, int32_t last, int32_t depth) {
  if (first == last) return kNothing;
  const bool ends = StringAt(table, first).size() == static_cast<size_t>(depth);
  const uint8_t whole = depth == 0 ? table_whole_[static_cast<size_t>(table)] : uint8_t{0};
  return Intern({RegexKind::kStrings, ends, true, whole, table, first, last, depth, ends ? 0 : 1});
}

RegexId RegexArena::StringsAfter(RegexId id, uint8_t byte) {
  const RegexNode strings = node(id);
  const std::vector<std::string>& table = *tables_[static_cast<size_t>(strings.a)];
  const auto depth = static_cast<size_t>(strings.d);
  const auto begin = table.begin() + strings.b + (strings.nullable ? 1 : 0), end = table.begin() + strings.c;
  const auto first = std::partition_point(
      begin, end, [&](const std::string& text) { return static_cast<uint8_t>(text[depth]) < byte; });
  const auto last = std::partition_point(
      first, end, [&](const std::string& text) { return static_cast<uint8_t>(text[depth]) == byte; });
  return StringsNode(strings.a, static_cast<int32_t>(first - table.begin()), static_cast<int32_t>(last - table.begin()),
                     strings.d + 1);
}

RegexId RegexArena::Multiple(int32_t of, int32_t scale) {
  assert(of >= 1 && scale >= 0 && scale <= 18);
  for (int digit = '0'; digit <= '9'; ++digit) SplitClasses(ByteSet::Range(digit, digit));
  SplitClasses(ByteSet::Range('.', '.'));
  return MultipleNode(of, scale, 0, kBefore);
}

RegexId RegexArena::MultipleNode(int32_t of, int32_t scale, int32_t remainder, int32_t place) {
  int64_t left = remainder;
  for (int32_t i = std::max(place, 0); i < scale; ++i) left = left * 10 % of;
  const bool ends = place != kBefore && place != 0 && left == 0;
  // Digits of a whole part can always be added until it is a multiple; those behind the point are limited.
  return Intern({RegexKind::kMultiple, ends, ends || place == kBefore || place == kInWhole, kWholeInBoth, of, scale,
                 remainder, place});
}

RegexId RegexArena::MultipleAfter(RegexId id, uint8_t byte) {
  const RegexNode number = node(id);
  const int32_t of = number.a, scale = number.b, place = number.d;
  if (byte == '.') {
    return scale > 0 && (place == kInWhole || place == kAfterZero) ? MultipleNode(of, scale, number.c, 0) : kNothing;
  }
  if (byte < '0' || byte > '9' || place == kAfterZero || place == scale) return kNothing;
  const auto remainder = static_cast<int32_t>((int64_t{number.c} * 10 + (byte - '0')) % of);
  if (place == kBefore) return MultipleNode(of, scale, remainder, byte == '0' ? kAfterZero : kInWhole);
  return MultipleNode(of, scale, remainder, place == kInWhole ? kInWhole : place + 1);
}

}  // namespace hydrant::grammar
