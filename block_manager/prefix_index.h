// PrefixIndex finds computed blocks by what was computed: the tokens of the block and of everything before it.
//
// A published block is a node of a forest: its parent is the node of the block before it. Identity is (salt, parent's
// serial, the block's 16 tokens, whether it is generated), compared in full; hashing only finds the place to compare.
// Serials are never reused, so a node whose parent was forgotten can never be found under another one.
//
// A block is *generated* if decoding computed a token of it or of what stands before it: the last bits of its keys and
// values are others than those that a prompt's rows compute of the same tokens (decision 113).
//
// Thread: engine. Nothing allocates after construction.
//
// Invariants
//  1. Every node belongs to one block, and every block has at most one node.
//  2. No two nodes have the same identity.
//  3. A path from the root never crosses salts, and nothing behind a generated node is not generated.
#ifndef HYDRANT_BLOCK_MANAGER_PREFIX_INDEX_H_
#define HYDRANT_BLOCK_MANAGER_PREFIX_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "block_manager/kv_budget.h"

namespace hydrant {

// Who may share: requests with equal salts see each other's blocks, others never do. Made by the server from the tenant's
// secret and the request's `cache_salt`.
struct PrefixSalt {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const PrefixSalt&, const PrefixSalt&) = default;
};

using BlockTokens = std::span<const int32_t, kBlockSlots>;

class PrefixIndex {
 public:
  static constexpr uint64_t kRoot = 0;  // the parent of a prompt's first block

  // For blocks [0, blocks). `hash_mask` throws bits of the hash away, so that tests meet collisions.
  explicit PrefixIndex(int32_t blocks, uint64_t hash_mask = ~uint64_t{0});
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The block of that identity, -1 without one.
  int32_t Find(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, bool generated = false) const;

  // REQUIRES: the identity is unknown and the block has no node.
  void Insert(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, int32_t block, bool generated = false);

  // The block loses its node. REQUIRES: has(block).
  void Forget(int32_t block);

  bool has(int32_t block) const { return nodes_[static_cast<size_t>(block)].serial != 0; }
  // REQUIRES: has(block).
  uint64_t serial(int32_t block) const { return nodes_[static_cast<size_t>(block)].serial; }
  bool generated(int32_t block) const { return nodes_[static_cast<size_t>(block)].key.generated; }
  int32_t size() const { return static_cast<int32_t>(by_identity_.size()); }

 private:
  struct Key {
    PrefixSalt salt;
    uint64_t parent = 0;
    std::array<int32_t, kBlockSlots> tokens = {};
    bool generated = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Node {
    uint64_t serial = 0;  // 0: the block has none
    Key key;
  };
  struct Hash {
    using is_transparent = void;
    const std::vector<Node>* nodes;
    uint64_t mask;
    size_t operator()(const Key& key) const;
    size_t operator()(int32_t block) const { return (*this)((*nodes)[static_cast<size_t>(block)].key); }
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<Node>* nodes;
    const Key& KeyOf(int32_t block) const { return (*nodes)[static_cast<size_t>(block)].key; }
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(const Key& a, int32_t b) const { return a == KeyOf(b); }
    bool operator()(int32_t a, const Key& b) const { return KeyOf(a) == b; }
  };

  static Key MakeKey(const PrefixSalt& salt, uint64_t parent, BlockTokens tokens, bool generated);

  std::vector<Node> nodes_;  // [block]
  absl::flat_hash_set<int32_t, Hash, Equal> by_identity_;
  uint64_t last_serial_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_PREFIX_INDEX_H_
