#include "server/generation/stop_strings.h"

#include <cassert>
#include <utility>

namespace hydrant {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)), nodes_(1) {
  for (size_t i = 0; i < strings_.size(); ++i) Insert(static_cast<int32_t>(i));
  LinkEnds();
}

StopStrings::State StopStrings::ChildOf(State state, char byte, int64_t* visited) const {
  State child = nodes_[static_cast<size_t>(state)].first_child;
  while (child >= 0) {
    if (visited != nullptr) ++*visited;
    const Node& node = nodes_[static_cast<size_t>(child)];
    if (node.byte == byte) return child;
    child = node.next_sibling;
  }
  return -1;
}

void StopStrings::Insert(int32_t index) {
  assert(!strings_[static_cast<size_t>(index)].empty());
  State state = kStart;
  for (const char byte : strings_[static_cast<size_t>(index)]) {
    State child = ChildOf(state, byte, nullptr);
    if (child < 0) {
      child = static_cast<State>(nodes_.size());
      Node& parent = nodes_[static_cast<size_t>(state)];
      Node node;
      node.byte = byte;
      node.depth = parent.depth + 1;
      node.next_sibling = std::exchange(parent.first_child, child);
      nodes_.push_back(node);
    }
    state = child;
  }
  // Among equal strings the first one is reported.
  Node& last = nodes_[static_cast<size_t>(state)];
  if (last.match < 0) last.match = index;
}

// By depth, for a link leads to a shorter beginning.
void StopStrings::LinkEnds() {
  std::vector<State> order = {kStart};
  for (size_t i = 0; i < order.size(); ++i) {
    const State parent = order[i];
    for (State child = nodes_[static_cast<size_t>(parent)].first_child; child >= 0;) {
      Node& node = nodes_[static_cast<size_t>(child)];
      if (parent != kStart) node.shorter = Next(nodes_[static_cast<size_t>(parent)].shorter, node.byte);
      // What ends here besides the whole is shorter, and starts later.
      if (node.match < 0) node.match = nodes_[static_cast<size_t>(node.shorter)].match;
      order.push_back(child);
      child = node.next_sibling;
    }
  }
}

StopStrings::State StopStrings::Next(State state, char byte, int64_t* visited) const {
  while (true) {
    if (visited != nullptr) ++*visited;
    const State child = ChildOf(state, byte, visited);
    if (child >= 0) return child;
    if (state == kStart) return kStart;
    state = nodes_[static_cast<size_t>(state)].shorter;
  }
}

}  // namespace hydrant
