// What the machine reads of a script.
#include <algorithm>
#include <vector>

#include "model/grammar/json_machine.h"

namespace hydrant::grammar {

void JsonMachine::End(FrameId id, Fuel& fuel, Configurations& to) {
  if (id == kNoFrame || frame(id).kind != FrameKind::kScript) return to.push_back(Ended(id));
  const Frame own = frame(id);
  Enter(own.shape, own.parent, fuel, to);
}

FrameId JsonMachine::Return(FrameId parent, const ScriptNode& node) {
  const int32_t calls = parent == kNoFrame ? 1 : frame(parent).count + 1;
  if (calls > kCallsMax) return kNoFrame;
  return Intern({parent, node.next, FrameKind::kScript, static_cast<int32_t>(node.region), calls, -1, 0});
}

// Loops of what may be empty come back to places that were there already; rules that would call themselves without reading anything
// are refused when a script is made.
void JsonMachine::Enter(NodeId first, FrameId outer, Fuel& fuel, Configurations& to) {
  entered_.assign(1, {first, outer});
  const auto add = [&](NodeId id, FrameId inside) {
    if (!fuel.Spend(1 + static_cast<int64_t>(entered_.size()) / 16)) return;
    const std::pair<NodeId, FrameId> place{id, inside};
    if (std::ranges::find(entered_, place) == entered_.end()) entered_.push_back(place);
  };
  for (size_t i = 0; i < entered_.size() && fuel.Spend(1); ++i) {
    const auto [id, inside] = entered_[i];
    const ScriptNode& own = node(id);
    Configuration here;
    here.frame = inside;
    here.target = id;
    switch (own.kind) {
      case ScriptNode::Kind::kReturn:
        if (inside == kNoFrame) {
          to.push_back(Ended(kNoFrame));
        } else {
          add(frame(inside).shape, frame(inside).parent);
        }
        break;
      case ScriptNode::Kind::kText:
        here.phase = Phase::kText;
        here.lexeme = own.what;
        to.push_back(here);
        if (dfa_.arena().nullable(own.what)) add(own.next, inside);
        break;
      case ScriptNode::Kind::kFree:
        here.phase = Phase::kFree;
        to.push_back(here);
        if (own.next != kNoNode) add(own.next, inside);
        break;
      case ScriptNode::Kind::kValue: {
        const ValueShape& value = plan_->shapes.values[static_cast<size_t>(own.what)];
        if (!value.objects.empty() || !value.arrays.empty()) {
          here.phase = Phase::kOpen;
          to.push_back(here);
        }
        if (value.scalars == kNothing) break;
        here.phase = Phase::kText;
        here.lexeme = value.scalars;
        to.push_back(here);
        break;
      }
      case ScriptNode::Kind::kCall:
        // A call that is the last thing in its rule needs no way back: lists of any length take no depth.
        if (own.next == kReturnNode) {
          add(own.what, inside);
        } else if (const FrameId back = Return(inside, own); back != kNoFrame) {
          add(own.what, back);
        }
        break;
      case ScriptNode::Kind::kFork:
        for (const NodeId way : own.ways) add(way, inside);
        break;
    }
  }
}

void JsonMachine::StepText(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const RegexId left = dfa_.Step(from.lexeme, byte, fuel);
  if (left == kNothing) return;
  if (left != kEmptyText) {
    to.push_back(from);
    to.back().lexeme = left;
  }
  if (dfa_.arena().nullable(left)) Enter(node(from.target).next, from.frame, fuel, to);
}

void JsonMachine::StepFree(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to) {
  const ScriptNode& own = node(from.target);
  const TriggerTable& triggers = plan_->script.triggers(own);
  const int32_t state = triggers.Step(from.lexeme, byte);
  if (!MayBeFree(triggers, state, byte)) return;
  const std::span<const int32_t> fired = triggers.Fired(state);
  const auto way = [&](int32_t trigger) { return own.ways[static_cast<size_t>(trigger)]; };
  if (std::ranges::find(fired, kNoNode, way) != fired.end()) return;
  for (const int32_t trigger : fired) Enter(way(trigger), from.frame, fuel, to);
  if (!fired.empty()) return;
  to.push_back(from);
  to.back().lexeme = state;
  if (own.next != kNoNode) Enter(own.next, from.frame, fuel, to);
}

void JsonMachine::StepOpen(const Configuration& from, uint8_t byte, Configurations& to) {
  if (byte != '{' && byte != '[') return;
  const ScriptNode& own = node(from.target);
  Configuration inside;
  inside.frame = Return(from.frame, own);
  if (inside.frame == kNoFrame) return;
  BeginBrackets(inside, plan_->shapes.values[static_cast<size_t>(own.what)], byte, to);
}

bool JsonMachine::InText(const Configurations& configurations) const {
  return std::ranges::all_of(configurations, [&](const Configuration& each) {
    if (each.phase == Phase::kDone) return true;
    return each.phase == Phase::kFree && each.frame == kNoFrame && node(each.target).region == Region::kText;
  });
}

bool JsonMachine::InArguments(const Configurations& configurations) const {
  return std::ranges::all_of(configurations, [&](const Configuration& each) {
    const bool inside = each.phase != Phase::kDone && each.phase != Phase::kOpen;
    return inside && RegionAt(each) >= Region::kArguments;
  });
}

Configurations JsonMachine::BehindText(const Configuration& from, Fuel& fuel) {
  Configurations behind;
  Enter(node(from.target).next, from.frame, fuel, behind);
  std::ranges::sort(behind);
  behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  return behind;
}

Configurations JsonMachine::BehindTrigger(const Configuration& from, int32_t trigger, Fuel& fuel) {
  Configurations behind;
  Enter(node(from.target).ways[static_cast<size_t>(trigger)], from.frame, fuel, behind);
  std::ranges::sort(behind);
  behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  return behind;
}

Region JsonMachine::RegionAt(const Configuration& from) const {
  if (from.phase == Phase::kText || from.phase == Phase::kOpen || from.phase == Phase::kFree) {
    return node(from.target).region;
  }
  FrameId id = from.frame;
  while (id != kNoFrame && frame(id).kind != FrameKind::kScript) id = frame(id).parent;
  return id == kNoFrame ? Region::kText : static_cast<Region>(frame(id).place);
}

ByteRegion JsonMachine::RegionOf(const Configuration& from, uint8_t byte) const {
  if (from.phase == Phase::kFree) {
    const ScriptNode& own = node(from.target);
    const TriggerTable& triggers = plan_->script.triggers(own);
    const int32_t state = triggers.Step(from.lexeme, byte);
    if (!triggers.Fired(state).empty()) return {Region::kMarkup, 0};
    return {own.region, triggers.Depth(state)};
  }
  return {RegionAt(from), 0};
}

// --- the way to the end

void JsonMachine::MeasureScript(Fuel& fuel) {
  const Script& script = plan_->script;
  node_bytes_.assign(script.size(), kFar);
  free_bytes_.assign(script.size(), {});
  const auto bytes_of = [&](NodeId id) { return id == kNoNode ? kFar : node_bytes_[static_cast<size_t>(id)]; };
  const auto measure = [&](size_t id) {
    const ScriptNode& own = script.node(static_cast<NodeId>(id));
    switch (own.kind) {
      case ScriptNode::Kind::kReturn:
        return int64_t{0};
      case ScriptNode::Kind::kText:
        return std::min(BytesOf(own.what, fuel) + bytes_of(own.next), kFar);
      case ScriptNode::Kind::kValue:
        return std::min(value_bytes_[static_cast<size_t>(own.what)] + bytes_of(own.next), kFar);
      case ScriptNode::Kind::kCall:
        return std::min(bytes_of(own.what) + bytes_of(own.next), kFar);
      case ScriptNode::Kind::kFork: {
        int64_t least = kFar;
        for (const NodeId way : own.ways) least = std::min(least, bytes_of(way));
        return least;
      }
      case ScriptNode::Kind::kFree: {
        const TriggerTable& triggers = script.triggers(own);
        std::vector<int64_t> cost;
        for (const NodeId way : own.ways) cost.push_back(bytes_of(way));
        fuel.Spend(static_cast<int64_t>(triggers.states()) * 64);
        free_bytes_[id] = triggers.Distances(cost, kFar);
        for (int64_t& bytes : free_bytes_[id]) bytes = std::min(bytes, bytes_of(own.next));
        return free_bytes_[id][0];
      }
    }
    return kFar;
  };
  for (bool changed = true; changed && fuel.Spend(static_cast<int64_t>(script.size()));) {
    changed = false;
    for (size_t i = 0; i < script.size() && !fuel.empty(); ++i) {
      const int64_t bytes = measure(i);
      changed |= bytes < node_bytes_[i];
      node_bytes_[i] = std::min(node_bytes_[i], bytes);
    }
  }
}

int64_t JsonMachine::BytesInScript(const Configuration& from, Fuel& fuel) {
  const ScriptNode& own = node(from.target);
  if (from.phase == Phase::kFree)
    return free_bytes_[static_cast<size_t>(from.target)][static_cast<size_t>(from.lexeme)];
  const int64_t behind = node_bytes_[static_cast<size_t>(own.next)];
  if (from.phase == Phase::kText) return std::min(BytesOf(from.lexeme, fuel) + behind, kFar);
  // Before an object or array: the shortest of those, as scalars have a configuration of their own.
  const ValueShape& value = plan_->shapes.values[static_cast<size_t>(own.what)];
  int64_t least = kFar;
  for (const int32_t id : value.objects)
    least = std::min(least, 1 + BytesOfRest({kNoFrame, id, FrameKind::kObject}, true));
  for (const int32_t id : value.arrays)
    least = std::min(least, 1 + BytesOfRest({kNoFrame, id, FrameKind::kArray}, true));
  return std::min(least + behind, kFar);
}

}  // namespace hydrant::grammar
