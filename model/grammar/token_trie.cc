#include "model/grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

namespace hydrant::grammar {
namespace {

constexpr uint64_t kBroken = uint64_t{1} << kNoKind;

// Where a byte leaves one who reads UTF-8: how many bytes of a character are missing, and between what the next one has to be.
struct Reading {
  int missing = 0;
  uint8_t low = 0x80, high = 0xbf;
  bool valid = true;
};
Reading ReadByte(const Reading& before, uint8_t byte) {
  if (byte < 0x80) return {0, 0x80, 0xbf, before.missing == 0 && before.valid};
  if (!before.valid) return before;
  if (before.missing > 0) return {before.missing - 1, 0x80, 0xbf, before.low <= byte && byte <= before.high};
  if (byte < 0xc2 || byte > 0xf4) return {0, 0x80, 0xbf, false};
  if (byte < 0xe0) return {1, 0x80, 0xbf, true};
  if (byte < 0xf0)
    return {2, static_cast<uint8_t>(byte == 0xe0 ? 0xa0 : 0x80), static_cast<uint8_t>(byte == 0xed ? 0x9f : 0xbf),
            true};
  return {3, static_cast<uint8_t>(byte == 0xf0 ? 0x90 : 0x80), static_cast<uint8_t>(byte == 0xf4 ? 0x8f : 0xbf), true};
}

}  // namespace

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
      nodes_.push_back(
          {parent, 0, begin, begin, 0, static_cast<uint16_t>(depth), 1, static_cast<uint8_t>(bytes[depth])});
    }
    // Sorted, so that those with the same bytes follow each other, and no other node has got a token since.
    tokens_.push_back(id);
    nodes_[open.back()].tokens_end = static_cast<uint32_t>(tokens_.size());
    depth_max_ = std::max(depth_max_, bytes.size());
    before = bytes;
  }
  for (const uint32_t node : open) nodes_[node].below_end = static_cast<uint32_t>(nodes_.size());
  FindPlainText();
}

void TokenTrie::FindPlainText() {
  std::vector<Reading> readings(nodes_.size());
  const Reading start;
  plain_tokens_.assign(words(), 0);
  kinds_below_.assign(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const bool is_root = node.parent == kNoParent;
    const Reading& before = is_root ? start : readings[node.parent];
    // An ASCII byte that cuts a character off is a border all the same.
    readings[i] = ReadByte(before, node.byte);
    const bool plain = readings[i].valid && node.byte >= 0x20 && node.byte != '"' && node.byte != '\\';
    const bool inside = node.byte >= 0x80 && node.byte < 0xc0;
    kinds_below_[i] = !readings[i].valid ? kBroken : inside ? 0 : uint64_t{1} << KindOfByte(node.byte);
    if (node.byte < 0x80) readings[i].valid = true;
    node.plain_way = plain && (is_root || nodes_[node.parent].plain_way);
    node.plain_below = plain;
    node.bytes_below = 1;
    for (uint32_t t = node.tokens_begin; t < node.tokens_end && node.plain_way; ++t) {
      AllowToken(plain_tokens_, tokens_[t]);
    }
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    if (node.parent != kNoParent) {
      Node& above = nodes_[node.parent];
      above.plain_below &= node.plain_below;
      kinds_below_[node.parent] |= kinds_below_[i];
      above.bytes_below = std::max<uint16_t>(above.bytes_below, static_cast<uint16_t>(node.bytes_below + 1));
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    node.tokens_below_end =
        node.below_end < nodes_.size() ? nodes_[node.below_end].tokens_begin : static_cast<uint32_t>(tokens_.size());
    const bool begins = node.parent == kNoParent || (readings[node.parent].valid && readings[node.parent].missing == 0);
    node.plain_below &= begins;
    if (!begins) kinds_below_[i] |= kBroken;
  }
}

}  // namespace hydrant::grammar
