#include "model/grammar/script.h"

#include <algorithm>

namespace hydrant::grammar {

NodeId Script::Add(ScriptNode node) {
  if (!too_large()) nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size()) - 1;
}

NodeId Script::Text(RegexId lexeme, NodeId next, Region region) {
  if (lexeme == kEmptyText) return next;
  return Add({ScriptNode::Kind::kText, region, lexeme, next, {}});
}

NodeId Script::Free(const std::vector<std::string>& triggers, std::vector<NodeId> ways, NodeId next, Region region) {
  return Free(TriggerTable(triggers), std::move(ways), next, region);
}

NodeId Script::Free(TriggerTable triggers, std::vector<NodeId> ways, NodeId next, Region region) {
  triggers_.push_back(std::move(triggers));
  return Add({ScriptNode::Kind::kFree, region, static_cast<int32_t>(triggers_.size()) - 1, next, std::move(ways)});
}

NodeId Script::Value(ShapeId shape, NodeId next, Region region) {
  return Add({ScriptNode::Kind::kValue, region, shape, next, {}});
}

NodeId Script::Call(NodeId rule, NodeId next) { return Add({ScriptNode::Kind::kCall, Region::kText, rule, next, {}}); }

NodeId Script::Fork(std::vector<NodeId> ways) {
  return Add({ScriptNode::Kind::kFork, Region::kText, 0, kNoNode, std::move(ways)});
}

size_t Script::bytes() const {
  size_t bytes = sizeof(*this) + nodes_.size() * sizeof(ScriptNode);
  for (const ScriptNode& node : nodes_) bytes += node.ways.size() * sizeof(NodeId);
  for (const TriggerTable& table : triggers_) bytes += table.bytes();
  return bytes;
}

bool Script::Prune(LazyDfa& dfa, Fuel& fuel) {
  std::vector<bool> ends(nodes_.size());
  const auto leads = [&](NodeId id) { return id != kNoNode && ends[static_cast<size_t>(id)]; };
  const auto found = [&](const ScriptNode& node) {
    switch (node.kind) {
      case ScriptNode::Kind::kReturn:
        return true;
      case ScriptNode::Kind::kText:
        return leads(node.next) && !dfa.IsEmpty(node.what, fuel);
      case ScriptNode::Kind::kFree:
        return leads(node.next) || std::ranges::any_of(node.ways, leads);
      case ScriptNode::Kind::kValue:
        return leads(node.next) && node.what != kNoShape;
      case ScriptNode::Kind::kCall:
        return leads(node.what) && leads(node.next);
      case ScriptNode::Kind::kFork:
        return std::ranges::any_of(node.ways, leads);
    }
    return false;
  };
  for (bool changed = true; changed && fuel.Spend(static_cast<int64_t>(nodes_.size()));) {
    changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (ends[i] || !found(nodes_[i])) continue;
      ends[i] = changed = true;
    }
  }
  for (ScriptNode& node : nodes_) {
    if (node.kind == ScriptNode::Kind::kFork) std::erase_if(node.ways, [&](NodeId way) { return !leads(way); });
    if (node.kind != ScriptNode::Kind::kFree) continue;
    for (NodeId& way : node.ways) way = leads(way) ? way : kNoNode;
    if (!leads(node.next)) node.next = kNoNode;
  }
  return leads(root);
}

}  // namespace hydrant::grammar
