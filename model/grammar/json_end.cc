// How far it is from a configuration to the end of the text: what is left of the scalar or key, and of each frame around it.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/grammar/json_machine.h"

namespace hydrant::grammar {

// By its parts, where it has neither intersection nor complement: a text of a million characters at least is not looked for.
std::optional<int64_t> JsonMachine::BytesByParts(RegexId lexeme) {
  const RegexArena& arena = dfa_.arena();
  std::vector<RegexId> todo = {lexeme};
  while (!todo.empty()) {
    const RegexId id = todo.back();
    const RegexNode node = arena.node(id);
    const size_t before = todo.size();
    const auto of = [&](RegexId part) {
      if (arena.nullable(part)) return int64_t{0};
      if (const auto known = lexeme_bytes_.find(part); known != lexeme_bytes_.end()) return known->second;
      todo.push_back(part);
      return kFar;
    };
    int64_t bytes = kFar;
    switch (node.kind) {
      case RegexKind::kBytes:
        bytes = 1;
        break;
      case RegexKind::kConcat: {
        const int64_t first = of(node.a);
        bytes = std::min(first + of(node.b), kFar);
        break;
      }
      case RegexKind::kRepeat: {
        const int64_t each = of(node.a);
        bytes = each > kFar / node.b ? kFar : each * node.b;
        break;
      }
      case RegexKind::kOr:
        for (const RegexId part : arena.list(id)) bytes = std::min(bytes, of(part));
        break;
      case RegexKind::kStrings:
        for (int32_t i = node.b; i < node.c; ++i) {
          bytes = std::min(bytes, static_cast<int64_t>(arena.StringAt(node.a, i).size()) - node.d);
        }
        break;
      default:
        return std::nullopt;
    }
    if (todo.size() > before) continue;
    lexeme_bytes_[id] = bytes;
    todo.pop_back();
  }
  return lexeme_bytes_.at(lexeme);
}

int64_t JsonMachine::BytesOf(RegexId lexeme, Fuel& fuel) {
  if (lexeme == kNothing) return kFar;
  if (dfa_.arena().nullable(lexeme)) return 0;
  if (const auto known = lexeme_bytes_.find(lexeme); known != lexeme_bytes_.end()) return known->second;
  if (const auto bytes = BytesByParts(lexeme)) return *bytes;
  const std::optional<std::string> shortest = dfa_.Shortest(lexeme, fuel);
  const int64_t bytes = shortest ? static_cast<int64_t>(shortest->size()) : kFar;
  if (!fuel.empty()) lexeme_bytes_[lexeme] = bytes;
  return bytes;
}

// Values from those that need no others upwards, until nothing gets shorter.
void JsonMachine::MeasureShapes(Fuel& fuel) {
  const ShapeSet& shapes = plan_->shapes;
  value_bytes_.assign(shapes.values.size(), kFar);
  for (const ObjectShape& object : shapes.objects) {
    std::vector<int64_t>& own = extra_bytes_.emplace_back();
    for (const ExtraShape& extra : object.extras) own.push_back(BytesOf(extra.keys, fuel));
  }
  for (bool changed = true; changed && fuel.Spend(static_cast<int64_t>(shapes.values.size()));) {
    changed = false;
    for (size_t i = 0; i < shapes.values.size(); ++i) {
      const ValueShape& value = shapes.values[i];
      int64_t least = BytesOf(value.scalars, fuel);
      for (const int32_t id : value.objects)
        least = std::min(least, 1 + BytesOfRest({kNoFrame, id, FrameKind::kObject}, true));
      for (const int32_t id : value.arrays)
        least = std::min(least, 1 + BytesOfRest({kNoFrame, id, FrameKind::kArray}, true));
      changed |= least < value_bytes_[i];
      value_bytes_[i] = std::min(value_bytes_[i], least);
    }
  }
}

// From between two members or items to behind the closing bracket; `first`: nothing is in it yet, so that no comma is needed.
int64_t JsonMachine::BytesOfRest(const Frame& frame, bool first) const {
  if (frame.kind == FrameKind::kScript) return node_bytes_[static_cast<size_t>(frame.shape)];
  if (frame.kind == FrameKind::kObject) return BytesOfObjectRest(frame, first);
  const ArrayShape& shape = array(frame);
  int64_t bytes = 1;
  const int64_t missing = shape.least - frame.count, prefix = static_cast<int64_t>(shape.prefix.size());
  if (missing <= 0) return bytes;
  int64_t left = missing;
  for (int64_t place = frame.place; left > 0 && place < prefix; ++place, --left) {
    bytes += 1 + value_bytes_[static_cast<size_t>(shape.prefix[static_cast<size_t>(place)])];
  }
  if (left > 0) {
    const int64_t each = shape.rest == kNoShape ? kFar : 1 + value_bytes_[static_cast<size_t>(shape.rest)];
    if (each >= kFar || left > kFar / each) return kFar;
    bytes += left * each;
  }
  return std::min(bytes - (first ? 1 : 0), kFar);
}

int64_t JsonMachine::BytesOfObjectRest(const Frame& frame, bool first) const {
  const ObjectShape& shape = object(frame);
  int64_t bytes = 1, members = 0;
  std::vector<int64_t> optional;
  for (size_t i = static_cast<size_t>(frame.place); i < shape.properties.size(); ++i) {
    const PropertyShape& property = shape.properties[i];
    if (property.value == kNoShape) continue;
    const int64_t own =
        4 + static_cast<int64_t>(property.key.size()) + value_bytes_[static_cast<size_t>(property.value)];
    if (property.required) {
      bytes = std::min(bytes + own, kFar);
      ++members;
    } else {
      optional.push_back(own);
    }
  }
  const int64_t missing = shape.least - frame.count - members;
  if (missing > 0) {
    // One more of its own choice may be the shortest; several have to differ, which is not counted here.
    int64_t extra = kFar;
    for (size_t i = 0; i < shape.extras.size() && frame.seen < 0; ++i) {
      extra = std::min(extra, 4 + extra_bytes_[static_cast<size_t>(frame.shape)][i] +
                                  value_bytes_[static_cast<size_t>(shape.extras[i].value)]);
    }
    if (!shape.extras.empty() && (frame.seen >= 0 || missing > 1)) return kFar;
    optional.push_back(extra);
    if (missing > static_cast<int64_t>(optional.size())) return kFar;
    std::ranges::sort(optional);
    for (int64_t i = 0; i < missing; ++i) bytes = std::min(bytes + optional[static_cast<size_t>(i)], kFar);
    members += missing;
  }
  return first && members > 0 ? bytes - 1 : bytes;
}

int64_t JsonMachine::BytesOfMember(const Frame& frame, int32_t property) const {
  const ShapeId value = object(frame).properties[static_cast<size_t>(property)].value;
  return 2 + value_bytes_[static_cast<size_t>(value)] + BytesOfRest(WithMember(frame, property + 1), false);
}

// The rest of one of the keys from `first` to `last` among the sorted, and all behind it.
int64_t JsonMachine::BytesOfKey(const Frame& frame, int32_t first, int32_t last, size_t read) const {
  const JsonPlan::Keys& keys = plan_->keys[static_cast<size_t>(frame.shape)];
  int64_t least = kFar;
  for (int32_t i = first; i < last; ++i) {
    const int32_t property = keys.order[static_cast<size_t>(i)];
    if (!MayTake(frame, property)) continue;
    const auto left = static_cast<int64_t>(keys.sorted[static_cast<size_t>(i)].size() - read);
    least = std::min(least, left + BytesOfMember(frame, property));
  }
  return least;
}

// Behind the bytes of an extra key: its quote, the colon, a value, and the rest.
int64_t JsonMachine::BytesOfExtra(const Frame& frame, size_t extra) const {
  Frame with = WithMember(frame, static_cast<int32_t>(object(frame).properties.size()));
  with.seen = std::max(with.seen, 0);  // there is one now
  const ShapeId value = object(frame).extras[extra].value;
  return 2 + value_bytes_[static_cast<size_t>(value)] + BytesOfRest(with, false);
}

int64_t JsonMachine::BytesFrom(const Configuration& from, Fuel& fuel) {
  if (from.phase == Phase::kDone) return 0;
  int64_t bytes = 0;
  const bool in_frame = from.frame != kNoFrame;
  const Frame own = in_frame ? frame(from.frame) : Frame{};
  switch (from.phase) {
    case Phase::kValue:
      bytes = value_bytes_[static_cast<size_t>(from.target)] + (in_frame ? BytesOfRest(own, false) : 0);
      break;
    case Phase::kScalar:
      bytes = BytesOf(from.lexeme, fuel) + (in_frame ? BytesOfRest(own, false) : 0);
      break;
    case Phase::kKeyBegin: {
      bytes = BytesOfKey(own, 0, static_cast<int32_t>(object(own).properties.size()), 0);
      for (size_t i = 0; i < object(own).extras.size() && MayTakeExtra(own); ++i) {
        if (own.seen >= 0) return kFar;  // the shortest key may be one that was there
        bytes = std::min(bytes, extra_bytes_[static_cast<size_t>(own.shape)][i] + BytesOfExtra(own, i));
      }
      ++bytes;  // the quote
      break;
    }
    case Phase::kPropertyKey:
      bytes = BytesOfKey(own, from.lexeme, from.target, static_cast<size_t>(from.depth));
      break;
    case Phase::kExtraKey:
      if (own.seen >= 0) return kFar;
      bytes = BytesOf(from.lexeme, fuel) + BytesOfExtra(own, static_cast<size_t>(from.target));
      break;
    case Phase::kColon:
      bytes = 1 + value_bytes_[static_cast<size_t>(from.target)] + BytesOfRest(own, false);
      break;
    default:
      bytes = BytesOfRest(own, from.phase != Phase::kAfter);
      break;
    case Phase::kText:
    case Phase::kFree:
    case Phase::kOpen:
      bytes = BytesInScript(from, fuel) + (in_frame ? BytesOfRest(own, false) : 0);
      break;
  }
  for (FrameId above = in_frame ? own.parent : kNoFrame; above != kNoFrame; above = frame(above).parent) {
    bytes = std::min(bytes + BytesOfRest(frame(above), false), kFar);
  }
  return bytes;
}

std::optional<int64_t> JsonMachine::BytesToEnd(const Configurations& configurations, Fuel& fuel) {
  if (!measured_) {
    extra_bytes_.clear();
    MeasureShapes(fuel);
    MeasureScript(fuel);
    if (fuel.empty()) return std::nullopt;
    measured_ = true;
  }
  int64_t least = kFar;
  for (const Configuration& each : configurations) {
    const int64_t bytes = BytesFrom(each, fuel);
    if (fuel.empty() || bytes >= kFar) return std::nullopt;  // it may be the nearest
    least = std::min(least, bytes);
  }
  return least;
}

}  // namespace hydrant::grammar
