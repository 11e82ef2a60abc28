#include "model/grammar/json_machine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "model/grammar/regex/reserve_one.h"

namespace hydrant::grammar {
namespace {

bool IsSpace(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

}  // namespace

JsonPlan::JsonPlan(ShapeSet set) : shapes(std::move(set)) {
  for (const ObjectShape& object : shapes.objects) {
    Keys& own = keys.emplace_back();
    own.order.resize(object.properties.size());
    std::iota(own.order.begin(), own.order.end(), 0);
    const auto key_at = [&](int32_t place) -> const std::string& {
      return object.properties[static_cast<size_t>(place)].key;
    };
    std::ranges::sort(own.order, {}, key_at);
    for (const int32_t place : own.order) own.sorted.push_back(key_at(place));
    own.required_from.assign(object.properties.size() + 1, 0);
    own.possible_from = own.required_from;
    for (size_t i = object.properties.size(); i-- > 0;) {
      own.required_from[i] = own.required_from[i + 1] + (object.properties[i].required ? 1 : 0);
      own.possible_from[i] = own.possible_from[i + 1] + (object.properties[i].value != kNoShape ? 1 : 0);
    }
  }
}

size_t JsonPlan::bytes() const {
  size_t bytes = sizeof(*this) + script.bytes() + shapes.values.size() * sizeof(ValueShape);
  for (const ObjectShape& object : shapes.objects) {
    bytes += sizeof(object) + sizeof(Keys) + object.extras.size() * sizeof(ExtraShape);
    // The key twice, and its numbers.
    for (const PropertyShape& property : object.properties) bytes += 2 * (sizeof(property) + property.key.size()) + 16;
  }
  for (const ArrayShape& array : shapes.arrays) bytes += sizeof(array) + array.prefix.size() * sizeof(ShapeId);
  return bytes;
}

JsonMachine::JsonMachine(std::shared_ptr<const JsonPlan> plan, LazyDfa dfa)
    : plan_(std::move(plan)), dfa_(std::move(dfa)), base_(dfa_.arena().size()), base_bytes_(bytes()) {}

Configurations JsonMachine::Begin(Fuel& fuel) {
  if (!plan_->script.empty()) {
    Configurations first;
    Enter(plan_->script.root, kNoFrame, fuel, first);
    std::ranges::sort(first);
    first.erase(std::unique(first.begin(), first.end()), first.end());
    return first;
  }
  Configuration begin;
  const ValueShape& root = plan_->shapes.values[static_cast<size_t>(plan_->shapes.root)];
  // A text of any expression: brackets may be its first bytes, and it may be empty.
  if (root.objects.empty() && root.arrays.empty()) {
    if (root.scalars == kEmptyText) return {Ended(kNoFrame)};
    begin.phase = Phase::kScalar;
    begin.lexeme = root.scalars;
  } else {
    begin.phase = Phase::kValue;
    begin.target = plan_->shapes.root;
  }
  return {begin};
}

bool JsonMachine::Accepts(const Configurations& configurations) const {
  return std::ranges::any_of(configurations, [&](const Configuration& each) {
    return each.phase == Phase::kDone ||
           (each.phase == Phase::kScalar && each.frame == kNoFrame && dfa_.arena().nullable(each.lexeme));
  });
}

void JsonMachine::Step(const Configurations& from, uint8_t byte, Fuel& fuel, Configurations& to, ByteRegion* region) {
  to.clear();
  bool is_first = true;
  for (const Configuration& each : from) {
    const size_t before = to.size();
    StepOne(each, byte, fuel, to);
    if (region == nullptr || to.size() == before) continue;
    const ByteRegion own = RegionOf(each, byte);
    if (is_first) {
      *region = own;
    } else if (own.region != region->region) {
      const bool with_text = own.region == Region::kText || region->region == Region::kText;
      *region = {with_text ? std::max(own.region, region->region) : Region::kMarkup, ByteRegion::kAsBefore};
    } else if (region->undecided != ByteRegion::kAsBefore) {
      region->undecided = std::max(region->undecided, own.undecided);
    }
    is_first = false;
  }
  if (to.size() < 2) return;
  std::ranges::sort(to);
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

FrameId JsonMachine::Intern(const Frame& frame) {
  ReserveOne(frames_);
  const auto [found, added] = frame_ids_.try_emplace(frame, static_cast<FrameId>(frames_.size()));
  if (added) frames_.push_back(frame);
  return found->second;
}

void JsonMachine::BackTo(const Mark& mark) {
  for (; frames_.size() > mark.frames; frames_.pop_back()) frame_ids_.erase(frames_.back());
  seen_.BackTo(mark.seen);
}

bool JsonMachine::MaySpace(const Configuration& from, uint8_t byte) const {
  if (!IsSpace(byte) || from.frame == kNoFrame || plan_->white_space_max == 0) return false;
  return from.space < std::min(std::max(plan_->white_space_max, 1 + 4 * frame(from.frame).depth), 255);
}

Configuration JsonMachine::Ended(FrameId frame) const {
  Configuration ended;
  ended.frame = frame;
  ended.phase = frame == kNoFrame ? Phase::kDone : Phase::kAfter;
  return ended;
}

void JsonMachine::StepOne(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  switch (from.phase) {
    case Phase::kScalar:
      return StepScalar(from, byte, fuel, to);
    case Phase::kPropertyKey:
      return StepPropertyKey(from, byte, to);
    case Phase::kExtraKey:
      return StepExtraKey(from, byte, fuel, to);
    case Phase::kText:
      return StepText(from, byte, fuel, to);
    case Phase::kFree:
      return StepFree(from, byte, fuel, to);
    case Phase::kOpen:
      return StepOpen(from, byte, to);
    case Phase::kDone:
      return;
    default:
      break;
  }
  if (MaySpace(from, byte)) {
    to.push_back(from);
    ++to.back().space;
    return;
  }
  switch (from.phase) {
    case Phase::kValue:
      return BeginValue(from, byte, fuel, to);
    case Phase::kObjectBegin:
      if (byte == '}') return StepAfter(from, byte, fuel, to);
      if (byte == '"') BeginKeys(from, to);
      return;
    case Phase::kKeyBegin:
      if (byte == '"') BeginKeys(from, to);
      return;
    case Phase::kColon:
      if (byte != ':') return;
      to.push_back(from);
      to.back().phase = Phase::kValue;
      to.back().space = 0;
      return;
    case Phase::kArrayBegin: {
      if (byte == ']') return StepAfter(from, byte, fuel, to);
      const Frame own = frame(from.frame);
      Configuration first = from;
      first.target = NextItem(own);
      if (first.target == kNoShape) return;
      first.frame = Intern(WithItem(own));
      return BeginValue(first, byte, fuel, to);
    }
    default:
      return StepAfter(from, byte, fuel, to);
  }
}

void JsonMachine::BeginValue(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const ValueShape& value = plan_->shapes.values[static_cast<size_t>(from.target)];
  if (byte == '{' || byte == '[') return BeginBrackets(from, value, byte, to);
  const RegexId left = dfa_.Step(value.scalars, byte, fuel);
  if (left == kNothing) return;
  if (left == kEmptyText) return to.push_back(Ended(from.frame));
  Configuration inside;
  inside.frame = from.frame;
  inside.phase = Phase::kScalar;
  inside.lexeme = left;
  to.push_back(inside);
}

void JsonMachine::BeginBrackets(const Configuration& from, const ValueShape& value, uint8_t byte, Configurations& to) {
  const int32_t depth = from.frame == kNoFrame ? 1 : frame(from.frame).depth + 1;
  if (depth > kNestingMax) return;
  const bool is_object = byte == '{';
  for (const int32_t shape : is_object ? value.objects : value.arrays) {
    Configuration inside;
    inside.frame =
        Intern({from.frame, shape, is_object ? FrameKind::kObject : FrameKind::kArray, 0, 0, SeenKeys::kNone, depth});
    inside.phase = is_object ? Phase::kObjectBegin : Phase::kArrayBegin;
    to.push_back(inside);
  }
}

void JsonMachine::StepScalar(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const RegexId left = dfa_.Step(from.lexeme, byte, fuel);
  if (left == kEmptyText) {
    to.push_back(Ended(from.frame));
  } else if (left != kNothing) {
    to.push_back(from);
    to.back().lexeme = left;
  } else if (from.frame != kNoFrame && dfa_.arena().nullable(from.lexeme)) {
    StepOne(Ended(from.frame), byte, fuel, to);  // a number ends where something else begins
  }
}

void JsonMachine::StepAfter(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const Frame own = frame(from.frame);
  const bool is_object = own.kind == FrameKind::kObject;
  if (byte == (is_object ? '}' : ']')) {
    if (MayClose(own)) End(own.parent, fuel, to);
    return;
  }
  if (byte != ',') return;
  Configuration next;
  next.frame = from.frame;
  if (is_object) {
    if (!MayTakeAny(own)) return;
    next.phase = Phase::kKeyBegin;
  } else {
    next.target = NextItem(own);
    if (next.target == kNoShape) return;
    next.frame = Intern(WithItem(own));
    next.phase = Phase::kValue;
  }
  to.push_back(next);
}

// --- objects

bool JsonMachine::MayTake(const Frame& frame, int32_t property) const {
  const ObjectShape& shape = object(frame);
  const JsonPlan::Keys& keys = plan_->keys[static_cast<size_t>(frame.shape)];
  const auto at = static_cast<size_t>(property);
  if (property < frame.place || shape.properties[at].value == kNoShape) return false;
  const int32_t required_behind = keys.required_from[at + 1];
  // None that is required is left out.
  const int32_t required_here = shape.properties[at].required ? 1 : 0;
  if (keys.required_from[static_cast<size_t>(frame.place)] > required_behind + required_here) return false;
  if (frame.count + int64_t{1} + required_behind > shape.most) return false;
  return !shape.extras.empty() || frame.count + int64_t{1} + keys.possible_from[at + 1] >= shape.least;
}
bool JsonMachine::MayTakeExtra(const Frame& frame) const {
  const JsonPlan::Keys& keys = plan_->keys[static_cast<size_t>(frame.shape)];
  const ObjectShape& shape = object(frame);
  return !shape.extras.empty() && keys.required_from[static_cast<size_t>(frame.place)] == 0 && frame.count < shape.most;
}
bool JsonMachine::MayTakeAny(const Frame& frame) const {
  return MayTakeExtra(frame) || FitsSome(frame, 0, static_cast<int32_t>(object(frame).properties.size()));
}
bool JsonMachine::MayClose(const Frame& frame) const {
  if (frame.kind == FrameKind::kArray) return frame.count >= array(frame).least;
  return plan_->keys[static_cast<size_t>(frame.shape)].required_from[static_cast<size_t>(frame.place)] == 0 &&
         frame.count >= object(frame).least;
}
bool JsonMachine::FitsSome(const Frame& frame, int32_t first, int32_t last) const {
  const JsonPlan::Keys& keys = plan_->keys[static_cast<size_t>(frame.shape)];
  for (int32_t i = first; i < last; ++i) {
    if (MayTake(frame, keys.order[static_cast<size_t>(i)])) return true;
  }
  return false;
}

JsonMachine::Frame JsonMachine::WithMember(Frame frame, int32_t next_place) const {
  const ObjectShape& shape = object(frame);
  frame.place = next_place;
  // Where there is no most, to count beyond the least makes no difference.
  const int64_t useful = shape.most == kNoLimit ? shape.least : std::numeric_limits<int32_t>::max() - 1;
  frame.count = static_cast<int32_t>(std::min<int64_t>(frame.count + int64_t{1}, useful));
  return frame;
}

void JsonMachine::BeginKeys(const Configuration& from, Configurations& to) {
  const Frame own = frame(from.frame);
  const ObjectShape& shape = object(own);
  Configuration key;
  key.frame = from.frame;
  const auto count = static_cast<int32_t>(shape.properties.size());
  if (FitsSome(own, 0, count)) {
    key.phase = Phase::kPropertyKey;
    key.target = count;
    to.push_back(key);
  }
  if (!MayTakeExtra(own)) return;
  key.phase = Phase::kExtraKey;
  key.key_hash = kNoKeyHash;
  for (size_t i = 0; i < shape.extras.size(); ++i) {
    key.lexeme = shape.extras[i].keys;
    key.target = static_cast<int32_t>(i);
    to.push_back(key);
  }
}

void JsonMachine::StepPropertyKey(const Configuration& from, uint8_t byte, Configurations& to) {
  const Frame own = frame(from.frame);
  const JsonPlan::Keys& keys = plan_->keys[static_cast<size_t>(own.shape)];
  const auto depth = static_cast<size_t>(from.depth);
  const auto begin = keys.sorted.begin() + from.lexeme, end = keys.sorted.begin() + from.target;
  // An escaped quote stands behind a backslash, where no key ends.
  if (byte == '"' && begin->size() == depth) {
    const int32_t property = keys.order[static_cast<size_t>(from.lexeme)];
    if (!MayTake(own, property)) return;
    Configuration colon;
    colon.frame = Intern(WithMember(own, property + 1));
    colon.phase = Phase::kColon;
    colon.target = object(own).properties[static_cast<size_t>(property)].value;
    return to.push_back(colon);
  }
  const auto behind = begin->size() == depth ? begin + 1 : begin;
  const auto byte_at = [depth](const std::string& key) { return static_cast<uint8_t>(key[depth]); };
  const auto first = std::partition_point(behind, end, [&](const std::string& key) { return byte_at(key) < byte; });
  const auto last = std::partition_point(first, end, [&](const std::string& key) { return byte_at(key) == byte; });
  Configuration next = from;
  next.lexeme = static_cast<int32_t>(first - keys.sorted.begin());
  next.target = static_cast<int32_t>(last - keys.sorted.begin());
  ++next.depth;
  if (FitsSome(own, next.lexeme, next.target)) to.push_back(next);
}

// No object has a key twice, but where the plan lets keys repeat. Keys are told apart by 64 bits of hash: where nobody looks for keys of
// the same hash, one in 10^15 objects of a hundred keys lacks a key that it could have had.
void JsonMachine::StepExtraKey(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const RegexId left = dfa_.Step(from.lexeme, byte, fuel);
  const Frame own = frame(from.frame);
  if (left != kNothing) {
    const uint64_t hash = KeyHash(from.key_hash, byte);
    if (!CanBeUnseen(left, hash, own.seen, fuel)) return;
    to.push_back(from);
    to.back().lexeme = left;
    to.back().key_hash = hash;
    return;
  }
  if (byte != '"' || !dfa_.arena().nullable(from.lexeme) || seen_.Has(own.seen, from.key_hash)) return;
  Frame with = WithMember(own, static_cast<int32_t>(object(own).properties.size()));
  if (!plan_->keys_may_repeat) with.seen = seen_.With(own.seen, from.key_hash);
  Configuration colon;
  colon.frame = Intern(with);
  colon.phase = Phase::kColon;
  colon.target = object(own).extras[static_cast<size_t>(from.target)].value;
  to.push_back(colon);
}

// Exact for up to 64 texts that may be left: an object that has more keys with the same beginning may run out of them.
bool JsonMachine::CanBeUnseen(RegexId left, uint64_t hash, int32_t seen, Fuel& fuel) {
  if (seen == SeenKeys::kNone) return true;
  const std::vector<std::string>& texts = FewTexts(left, fuel);
  const auto is_seen = [&](const std::string& rest) {
    uint64_t whole = hash;
    for (const char byte : rest) whole = KeyHash(whole, static_cast<uint8_t>(byte));
    fuel.Spend(3 + static_cast<int64_t>(rest.size()) / 16);
    return seen_.Has(seen, whole);
  };
  return texts.empty() || !std::ranges::all_of(texts, is_seen);
}

const std::vector<std::string>& JsonMachine::FewTexts(RegexId left, Fuel& fuel) {
  static const std::vector<std::string> kUnknown;
  if (const auto found = few_left_.find(left); found != few_left_.end()) return found->second;
  fuel.Spend(16);  // what is remembered of steps costs nothing else
  auto texts = dfa_.AllTexts(left, kFewTexts, fuel);
  if (fuel.empty()) return kUnknown;
  // A place in a hash map is taken twice over, as it is filled by half at least.
  size_t bytes = 2 * sizeof(std::pair<RegexId, std::vector<std::string>>);
  if (texts.has_value()) {
    for (const std::string& text : *texts) bytes += sizeof(text) + text.capacity();
  }
  const std::vector<std::string>& known =
      few_left_.try_emplace(left, std::move(texts).value_or(std::vector<std::string>())).first->second;
  few_left_bytes_ += bytes;
  return known;
}

// --- arrays

ShapeId JsonMachine::NextItem(const Frame& frame) const {
  const ArrayShape& shape = array(frame);
  if (frame.count >= shape.most) return kNoShape;
  const auto place = static_cast<size_t>(frame.place);
  return place < shape.prefix.size() ? shape.prefix[place] : shape.rest;
}
JsonMachine::Frame JsonMachine::WithItem(Frame frame) const {
  const ArrayShape& shape = array(frame);
  frame.place = std::min(frame.place + 1, static_cast<int32_t>(shape.prefix.size()));
  const int64_t useful = shape.most == kNoLimit ? shape.least : std::numeric_limits<int32_t>::max() - 1;
  frame.count = static_cast<int32_t>(std::min<int64_t>(frame.count + int64_t{1}, useful));
  return frame;
}

Configurations JsonMachine::Import(const JsonMachine& from, const Configurations& configurations, Fuel& fuel) {
  Configurations moved;
  SteadyMap<FrameId, FrameId> known;
  for (Configuration each : configurations) {
    each.frame = ImportFrame(from, each.frame, known, fuel);
    if (fuel.empty()) return moved;
    if (each.phase == Phase::kScalar || each.phase == Phase::kExtraKey || each.phase == Phase::kText) {
      const size_t before = dfa_.arena().size();
      each.lexeme = dfa_.Import(from.dfa_.arena(), each.lexeme, static_cast<RegexId>(base_));
      fuel.Spend(kImportFuel * static_cast<int64_t>(dfa_.arena().size() - before));
    }
    moved.push_back(each);
  }
  std::ranges::sort(moved);
  return moved;
}

FrameId JsonMachine::ImportFrame(const JsonMachine& from, FrameId id, SteadyMap<FrameId, FrameId>& known, Fuel& fuel) {
  std::vector<FrameId> chain;
  for (; id != kNoFrame && !known.contains(id); id = from.frame(id).parent) chain.push_back(id);
  FrameId parent = id == kNoFrame ? kNoFrame : known.at(id);
  std::vector<uint64_t> hashes;
  for (size_t i = chain.size(); i-- > 0 && fuel.Spend(kImportFuel);) {
    Frame own = from.frame(chain[i]);
    hashes.clear();
    for (int32_t set = own.seen; set != SeenKeys::kNone && fuel.Spend(1); set = from.seen_.rest(set)) {
      hashes.push_back(from.seen_.key(set));
    }
    if (fuel.empty()) return parent;
    // Those that are here already cost no more, so that each try comes further than the last.
    own.seen = SeenKeys::kNone;
    for (size_t j = hashes.size(); j-- > 0;) {
      const size_t before = seen_.size();
      own.seen = seen_.With(own.seen, hashes[j]);
      if (seen_.size() > before && !fuel.Spend(kImportFuel)) return parent;
    }
    own.parent = parent;
    parent = Intern(own);
    known.try_emplace(chain[i], parent);
  }
  return parent;
}

}  // namespace hydrant::grammar
