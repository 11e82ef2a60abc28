#include "model/grammar/regex/trigger_table.h"

#include <algorithm>

namespace hydrant::grammar {

TriggerTable::TriggerTable(const std::vector<std::string>& triggers) : triggers_(triggers.size()) {
  for (const std::string& trigger : triggers) {
    for (const char c : trigger) {
      uint16_t& own = class_of_[static_cast<uint8_t>(c)];
      if (own == 0) own = static_cast<uint16_t>(classes_++);
    }
  }
  const auto add_state = [&](int32_t depth) {
    next_.resize(next_.size() + classes_, -1);
    fired_.emplace_back();
    depth_.push_back(depth);
    return static_cast<int32_t>(depth_.size()) - 1;
  };
  add_state(0);
  for (size_t i = 0; i < triggers.size(); ++i) {
    int32_t state = 0;
    for (const char c : triggers[i]) {
      const size_t at = static_cast<size_t>(state) * classes_ + class_of_[static_cast<uint8_t>(c)];
      if (next_[at] < 0) {
        const int32_t added = add_state(depth_[static_cast<size_t>(state)] + 1);
        next_[at] = added;
      }
      state = next_[at];
    }
    fired_[static_cast<size_t>(state)].push_back(static_cast<int32_t>(i));
  }
  // In order of depth: where a text cannot go on, the longest end of it goes on that begins one.
  std::vector<int32_t> order = {0}, rest(states(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto state = static_cast<size_t>(order[i]);
    const auto shorter = static_cast<size_t>(rest[state]);
    for (size_t c = 0; c < classes_; ++c) {
      int32_t& next = next_[state * classes_ + c];
      const int32_t otherwise = state == 0 ? 0 : next_[shorter * classes_ + c];
      if (next < 0) {
        next = otherwise;
        continue;
      }
      rest[static_cast<size_t>(next)] = otherwise;
      const std::vector<int32_t>& also = fired_[static_cast<size_t>(otherwise)];
      std::vector<int32_t>& own = fired_[static_cast<size_t>(next)];
      own.insert(own.end(), also.begin(), also.end());
      order.push_back(next);
    }
  }
  for (const std::vector<int32_t>& fired : fired_) fired_count_ += fired.size();
}

size_t TriggerTable::bytes() const {
  const size_t each = sizeof(fired_[0]) + sizeof(depth_[0]);
  return sizeof(*this) + next_.size() * sizeof(next_[0]) + states() * each + fired_count_ * sizeof(fired_[0][0]);
}

size_t TriggerTable::CellsMax(const std::vector<std::string>& triggers) {
  std::array<bool, 256> used = {};
  size_t bytes = 0;
  for (const std::string& trigger : triggers) {
    bytes += trigger.size();
    for (const char c : trigger) used[static_cast<uint8_t>(c)] = true;
  }
  return (bytes + 1) * (1 + static_cast<size_t>(std::ranges::count(used, true)));
}

std::vector<int64_t> TriggerTable::Distances(std::span<const int64_t> cost, int64_t far) const {
  std::vector<int64_t> distances(states(), far);
  for (size_t s = 0; s < states(); ++s) {
    bool forbidden = false;
    for (const int32_t trigger : fired_[s]) {
      const int64_t own = cost[static_cast<size_t>(trigger)];
      forbidden |= own >= far;
      distances[s] = std::min(distances[s], own);
    }
    if (forbidden) distances[s] = far;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = states(); s-- > 0;) {
      if (!fired_[s].empty()) continue;
      for (size_t c = 0; c < classes_; ++c) {
        const int64_t there = distances[static_cast<size_t>(next_[s * classes_ + c])];
        if (there + 1 >= distances[s]) continue;
        distances[s] = there + 1;
        changed = true;
      }
    }
  }
  return distances;
}

}  // namespace hydrant::grammar
