#include "model/grammar/regex/lazy_dfa.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <span>
#include <utility>

namespace hydrant::grammar {
namespace {

// A derivative costs an entry of a table that outgrows the caches, and members that are sorted twice, compared, hashed and copied, also
// where the expression turns out to be known.
constexpr int64_t kFuelOfEntry = 8, kFuelOfMember = 10;

// Returns how many members a union or an intersection has; 0 for anything else.
int64_t MembersOf(const RegexNode& node) {
  return node.kind == RegexKind::kOr || node.kind == RegexKind::kAnd ? node.b : 0;
}

}  // namespace

// New expressions may tell bytes apart that were one class; then what is known by class is forgotten.
void LazyDfa::FollowClasses() {
  if (classes_ == arena_.classes()) return;
  classes_ = arena_.classes();
  derivatives_.clear();
  row_of_.clear();
  rows_.clear();
}

const RegexId* LazyDfa::Known(RegexId id, int byte_class) {
  const auto found = derivatives_.find(static_cast<uint64_t>(id) << 8 | static_cast<uint64_t>(byte_class));
  if (found != derivatives_.end()) return &found->second;
  todo_.push_back(id);
  return nullptr;
}

std::optional<RegexId> LazyDfa::TryDerive(RegexId id, int byte_class) {
  const RegexNode node = arena_.node(id);
  const uint8_t byte = arena_.representative(byte_class);
  switch (node.kind) {
    case RegexKind::kNone:
    case RegexKind::kEmpty:
      return kNothing;
    case RegexKind::kBytes:
      return arena_.bytes(id).Has(byte) ? kEmptyText : kNothing;
    case RegexKind::kStrings:
      return arena_.StringsAfter(id, byte);
    case RegexKind::kMultiple:
      return arena_.MultipleAfter(id, byte);
    case RegexKind::kNot: {
      const RegexId* what = Known(node.a, byte_class);
      if (what == nullptr) return std::nullopt;
      return arena_.Not(*what);
    }
    case RegexKind::kRepeat: {
      const RegexId* what = Known(node.a, byte_class);
      if (what == nullptr) return std::nullopt;
      const int32_t most = node.c == kUnbounded ? kUnbounded : node.c - 1;
      return arena_.Concat(*what, arena_.Repeat(node.a, std::max(node.b - 1, 0), most));
    }
    case RegexKind::kConcat: {
      const RegexId* first = Known(node.a, byte_class);
      if (first == nullptr) return std::nullopt;
      const RegexId head = *first;
      if (!arena_.nullable(node.a)) return arena_.Concat(head, node.b);
      const RegexId* second = Known(node.b, byte_class);
      if (second == nullptr) return std::nullopt;
      const RegexId tail = *second;
      return arena_.Or({arena_.Concat(head, node.b), tail});
    }
    case RegexKind::kOr:
    case RegexKind::kAnd: {
      const std::span<const RegexId> members = arena_.list(id);
      const size_t before = todo_.size();
      std::vector<RegexId> parts;
      for (const RegexId member : members) {
        const RegexId* part = Known(member, byte_class);
        if (part == nullptr) continue;
        parts.push_back(*part);
        if (node.kind == RegexKind::kAnd && *part == kNothing) {
          todo_.resize(before);  // the others do not matter
          return kNothing;
        }
      }
      if (parts.size() < members.size()) return std::nullopt;
      return node.kind == RegexKind::kOr ? arena_.Or(std::move(parts)) : arena_.And(std::move(parts));
    }
  }
  return kNothing;
}

RegexId LazyDfa::Derive(RegexId id, int byte_class, Fuel& fuel) {
  todo_.assign(1, id);
  while (!todo_.empty()) {
    const RegexId next = todo_.back();
    const uint64_t key = static_cast<uint64_t>(next) << 8 | static_cast<uint64_t>(byte_class);
    if (!fuel.Spend(4 + 2 * MembersOf(arena_.node(next)))) return kNothing;
    if (derivatives_.contains(key)) {
      todo_.pop_back();
    } else if (const std::optional<RegexId> derived = TryDerive(next, byte_class)) {
      if (!fuel.Spend(kFuelOfEntry + kFuelOfMember * MembersOf(arena_.node(*derived)))) return kNothing;
      derivatives_.try_emplace(key, *derived);
      todo_.pop_back();
    }
  }
  return derivatives_.at(static_cast<uint64_t>(id) << 8 | static_cast<uint64_t>(byte_class));
}

RegexId LazyDfa::Step(RegexId state, uint8_t byte, Fuel& fuel) {
  if (state == kNothing) return kNothing;
  FollowClasses();
  if (row_of_.size() < arena_.size()) row_of_.resize(arena_.size(), -1);
  int32_t row = row_of_[static_cast<size_t>(state)];
  const int byte_class = arena_.class_of(byte);
  if (row >= 0) {
    const RegexId known = rows_[static_cast<size_t>(row * classes_ + byte_class)];
    if (known >= 0) return known;
  } else {
    row = static_cast<int32_t>(rows_.size() / static_cast<size_t>(classes_));
    rows_.resize(rows_.size() + static_cast<size_t>(classes_), -1);
    row_of_[static_cast<size_t>(state)] = row;  // once it is there: memory may run out
  }
  RegexId next = Derive(state, byte_class, fuel);
  if (IsEmpty(next, fuel)) next = kNothing;
  if (fuel.empty()) return kNothing;
  rows_[static_cast<size_t>(row * classes_ + byte_class)] = next;
  return next;
}

RegexId LazyDfa::StepAll(RegexId state, std::string_view text, Fuel& fuel) {
  for (const char byte : text) {
    if (state == kNothing) break;
    state = Step(state, static_cast<uint8_t>(byte), fuel);
  }
  return state;
}

bool LazyDfa::IsEmpty(RegexId state, Fuel& fuel) {
  if (arena_.node(state).plain) return false;
  const auto known = [&](RegexId id) -> Texts& {
    if (texts_.size() <= static_cast<size_t>(id)) texts_.resize(arena_.size() + 1, Texts::kUnknown);
    return texts_[static_cast<size_t>(id)];
  };
  if (known(state) != Texts::kUnknown) return known(state) == Texts::kNone;
  FollowClasses();
  // Where a short text may be next first, so that a counter of a million is not counted down where one is.
  struct Seen {
    RegexId id;
    size_t from;  // the place here of what it came from
    int32_t depth;
  };
  std::vector<Seen> seen = {{state, 0, 0}};
  using Next = std::pair<int32_t, size_t>;  // bytes of the shortest text through it, or fewer, and its place
  std::priority_queue<Next, std::vector<Next>, std::greater<>> todo;
  todo.emplace(arena_.node(state).least, 0);
  SteadyMap<RegexId, bool> queued;
  queued[state] = true;
  while (!todo.empty()) {
    const size_t i = todo.top().second;
    todo.pop();
    const RegexId id = seen[i].id;
    bool some = arena_.node(id).plain || arena_.nullable(id);
    for (int byte_class = 0; byte_class < classes_ && !some; ++byte_class) {
      const RegexId next = id == kNothing ? kNothing : Derive(id, byte_class, fuel);
      if (fuel.empty()) return false;
      if (next == kNothing || known(next) == Texts::kNone) continue;
      some = arena_.node(next).plain || known(next) == Texts::kSome;
      if (some || !queued.try_emplace(next, true).second) continue;
      seen.push_back({next, i, seen[i].depth + 1});
      todo.emplace(std::min(seen.back().depth + arena_.node(next).least, kLeastMax), seen.size() - 1);
    }
    if (!some) continue;
    for (size_t at = i;; at = seen[at].from) {
      known(seen[at].id) = Texts::kSome;
      if (at == 0) return false;
    }
  }
  for (const Seen& each : seen) known(each.id) = Texts::kNone;
  return true;
}

// All bytes are tried behind each text that is begun, and it is copied for those that may come.
constexpr int64_t kFuelOfText = 40, kBytesOfUnit = 64;

std::optional<std::vector<std::string>> LazyDfa::AllTexts(RegexId state, size_t most, Fuel& fuel) {
  FollowClasses();
  std::vector<std::string> texts;
  std::vector<std::pair<RegexId, std::string>> level = {{state, ""}}, next;
  if (IsEmpty(state, fuel)) return texts;
  // With each byte that may come first some text begins. Those that nobody tells apart are many at once.
  std::vector<size_t> sizes(static_cast<size_t>(classes_), 0);
  for (int byte = 0; byte < 256; ++byte) ++sizes[static_cast<size_t>(arena_.class_of(static_cast<uint8_t>(byte)))];
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater<>(), [&](int each) { return sizes[static_cast<size_t>(each)]; });
  size_t begun = 0;
  for (const int each : order) {
    if (Step(state, arena_.representative(each), fuel) != kNothing) begun += sizes[static_cast<size_t>(each)];
    if (begun > most) return std::nullopt;
  }
  // Each text that is begun can be ended, so that a level has no more of them than there are texts.
  for (size_t length = 0; !level.empty(); ++length) {
    if (level.size() + texts.size() > most || fuel.empty() || length > 1024) return std::nullopt;
    next.clear();
    for (const auto& [id, text] : level) {
      // What is remembered of steps costs nothing else.
      if (!fuel.Spend(kFuelOfText + static_cast<int64_t>(text.size()) / kBytesOfUnit)) return std::nullopt;
      if (arena_.nullable(id)) texts.push_back(text);
      for (int byte = 0; byte < 256; ++byte) {
        const RegexId after = Step(id, static_cast<uint8_t>(byte), fuel);
        if (after != kNothing) next.emplace_back(after, text + static_cast<char>(byte));
        if (next.size() > most) return std::nullopt;
      }
    }
    level.swap(next);
  }
  if (texts.size() > most || fuel.empty()) return std::nullopt;
  return texts;
}

std::optional<std::string> LazyDfa::Shortest(RegexId state, Fuel& fuel) {
  struct Reached {
    RegexId id;
    size_t from;
    uint8_t byte;
  };
  if (state == kNothing || IsEmpty(state, fuel)) return std::nullopt;
  std::vector<Reached> seen = {{state, 0, 0}};
  SteadyMap<RegexId, bool> queued;
  queued[state] = true;
  for (size_t i = 0; i < seen.size(); ++i) {
    const RegexId id = seen[i].id;
    if (arena_.nullable(id)) {
      std::string text;
      for (size_t at = i; at != 0; at = seen[at].from) text += static_cast<char>(seen[at].byte);
      std::ranges::reverse(text);
      return text;
    }
    for (int byte_class = 0; byte_class < arena_.classes(); ++byte_class) {
      const uint8_t byte = arena_.representative(byte_class);
      const RegexId next = Step(id, byte, fuel);
      if (fuel.empty()) return std::nullopt;
      if (next != kNothing && queued.try_emplace(next, true).second) seen.push_back({next, i, byte});
    }
  }
  return std::nullopt;
}

RegexId LazyDfa::Import(const RegexArena& from, RegexId id, RegexId shared) {
  SteadyMap<RegexId, RegexId> made;
  const auto at = [&](RegexId other) { return other < shared ? other : made.at(other); };
  std::vector<RegexId> todo = {id};
  while (!todo.empty()) {
    const RegexId next = todo.back();
    const size_t before = todo.size();
    const auto need = [&](RegexId part) {
      if (part >= shared && !made.contains(part)) todo.push_back(part);
    };
    if (next < shared || made.contains(next)) {
      todo.pop_back();
      continue;
    }
    const RegexNode& node = from.node(next);
    const bool has_list = node.kind == RegexKind::kOr || node.kind == RegexKind::kAnd;
    if (has_list) {
      for (const RegexId part : from.list(next)) need(part);
    } else if (node.kind == RegexKind::kConcat || node.kind == RegexKind::kNot || node.kind == RegexKind::kRepeat) {
      need(node.a);
      if (node.kind == RegexKind::kConcat) need(node.b);
    }
    if (todo.size() > before) continue;
    std::vector<RegexId> parts;
    if (has_list) {
      for (const RegexId part : from.list(next)) parts.push_back(at(part));
    }
    RegexId& copy = made[next];
    switch (node.kind) {
      case RegexKind::kBytes:
        copy = arena_.Bytes(from.bytes(next));  // of which each arena may have made others
        break;
      case RegexKind::kConcat:
        copy = arena_.Concat(at(node.a), at(node.b));
        break;
      case RegexKind::kNot:
        copy = arena_.Not(at(node.a));
        break;
      case RegexKind::kRepeat:
        copy = arena_.Repeat(at(node.a), node.b, node.c);
        break;
      case RegexKind::kOr:
        copy = arena_.Or(std::move(parts));
        break;
      case RegexKind::kAnd:
        copy = arena_.And(std::move(parts));
        break;
      default:
        copy = arena_.AdoptLeaf(node);
    }
    todo.pop_back();
  }
  return at(id);
}

LazyDfa LazyDfa::Bare() const {
  LazyDfa bare;
  bare.arena_ = arena_;
  return bare;
}

size_t LazyDfa::bytes() const {
  // A place in a hash map is taken twice over, as it is filled by half at least.
  constexpr size_t kNodeBytes = sizeof(RegexNode) + 2 * sizeof(int32_t) + sizeof(Texts) + sizeof(RegexId);
  return arena_.size() * kNodeBytes + (rows_.size() + row_of_.size()) * sizeof(RegexId) +
         derivatives_.size() * 2 * sizeof(std::pair<uint64_t, RegexId>);
}

}  // namespace hydrant::grammar
