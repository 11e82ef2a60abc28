#include "model/grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

namespace hydrant::grammar {

TokenTrie::TokenTrie(std::span<const std::string> tokens) : vocabulary_(tokens.size()) {
  std::vector<int32_t> order;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const size_t bytes = tokens[id].size();
    if (bytes > 0 && bytes <= std::numeric_limits<uint16_t>::max()) order.push_back(static_cast<int32_t>(id));
  }
  const auto bytes_of = [&](int32_t id) -> std::string_view { return tokens[static_cast<size_t>(id)]; };
  std::ranges::stable_sort(order, {}, bytes_of);
  // Nodes from the root to the last one of the token before, whose subtrees are not complete.
  std::vector<uint32_t> open;
  std::string_view before;
  for (const int32_t id : order) {
    const std::string_view bytes = bytes_of(id);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(before, bytes).in1 - before.begin());
    for (; open.size() > shared; open.pop_back()) nodes_[open.back()].below_end = static_cast<uint32_t>(nodes_.size());
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      const uint32_t parent = open.empty() ? kNoParent : open.back();
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      const auto begin = static_cast<uint32_t>(tokens_.size());
      nodes_.push_back({parent, 0, begin, begin, static_cast<uint16_t>(depth), static_cast<uint8_t>(bytes[depth])});
    }
    // Sorted, so that those with the same bytes follow each other, and no other node has got a token since.
    tokens_.push_back(id);
    nodes_[open.back()].tokens_end = static_cast<uint32_t>(tokens_.size());
    depth_max_ = std::max(depth_max_, bytes.size());
    before = bytes;
  }
  for (const uint32_t node : open) nodes_[node].below_end = static_cast<uint32_t>(nodes_.size());
}

}  // namespace hydrant::grammar
