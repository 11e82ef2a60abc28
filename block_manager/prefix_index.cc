#include "block_manager/prefix_index.h"

#include <algorithm>
#include <cassert>

#include "absl/hash/hash.h"

namespace hydrant {

PrefixIndex::PrefixIndex(int32_t blocks, uint64_t hash_mask)
    : nodes_(static_cast<size_t>(blocks)), by_identity_(0, Hash{&nodes_, hash_mask}, Equal{&nodes_}) {
  // With a quarter to spare its tombstones never make it grow.
  by_identity_.reserve(nodes_.size() + nodes_.size() / 4 + 64);
}

size_t PrefixIndex::Hash::operator()(const Key& key) const {
  return static_cast<size_t>(absl::HashOf(key.salt.high, key.salt.low, key.parent, key.tokens, key.generated) & mask);
}

PrefixIndex::Key PrefixIndex::MakeKey(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, bool generated) {
  Key key{salt, parent, {}, generated};
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return key;
}

int32_t PrefixIndex::Find(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, bool generated) const {
  const auto found = by_identity_.find(MakeKey(salt, parent, tokens, generated));
  return found == by_identity_.end() ? -1 : *found;
}

void PrefixIndex::Insert(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, int32_t block, bool generated) {
  assert(!has(block) && Find(salt, parent, tokens, generated) < 0);
  Node& node = nodes_[static_cast<size_t>(block)];
  node.serial = ++last_serial_;
  node.key = MakeKey(salt, parent, tokens, generated);
  by_identity_.insert(block);
}

void PrefixIndex::Forget(int32_t block) {
  assert(has(block));
  by_identity_.erase(block);
  nodes_[static_cast<size_t>(block)].serial = 0;
}

}  // namespace hydrant
