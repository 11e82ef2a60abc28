// TokenTrie has the bytes of all tokens of a vocabulary as a tree, so that tokens that begin alike are looked at once.
//
// Plain text is what stands in a JSON string as it is: UTF-8 without quotes, backslashes and control characters. It may end inside a
// character. Nine tokens of ten are nothing else.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_GRAMMAR_TOKEN_TRIE_H_
#define HYDRANT_MODEL_GRAMMAR_TOKEN_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/grammar/regex/lexeme_facts.h"

namespace hydrant::grammar {

// A mask of tokens: bit id % 32 of word id / 32 is set if the token is allowed.
inline void AllowToken(std::span<uint32_t> bits, int32_t token) {
  const auto id = static_cast<uint32_t>(token);
  bits[id / 32] |= uint32_t{1} << (id % 32);
}

inline void ForbidToken(std::span<uint32_t> bits, int32_t token) {
  const auto id = static_cast<uint32_t>(token);
  bits[id / 32] &= ~(uint32_t{1} << (id % 32));
}

class TokenTrie {
 public:
  static constexpr uint32_t kNoParent = std::numeric_limits<uint32_t>::max();

  // A place in the tree, in the order in which one goes through it depth first. What is below a node comes right behind it.
  struct Node {
    uint32_t parent = kNoParent;
    uint32_t below_end = 0;     // the first node that is not below this one
    uint32_t tokens_begin = 0;  // tokens that end here, in tokens()
    uint32_t tokens_end = 0;
    uint32_t tokens_below_end = 0;  // the same of this node and all below it
    uint16_t depth = 0;             // bytes before this one's
    uint16_t bytes_below = 0;       // of the longest token that goes through here, from this byte on
    uint8_t byte = 0;
    bool plain_way = false;    // plain text from the root to here
    bool plain_below = false;  // a character begins here, and all that is here and below is plain text
  };

  // `tokens`: the bytes of each id; an id with none is in no mask. Tokens above 65,535 bytes are left out, too.
  explicit TokenTrie(std::span<const std::string> tokens);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  // Tokens of the nodes from `node` to its below_end.
  std::span<const int32_t> TokensBelow(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].tokens_begin,
                                      nodes_[node].tokens_below_end - nodes_[node].tokens_begin);
  }
  // The kinds of all characters that are here and below, a bit for each; bit 63 where it is not all whole characters, but for their ends.
  uint64_t KindsBelow(size_t node) const { return kinds_below_[node]; }
  // The mask of all tokens that are plain text.
  std::span<const uint32_t> plain_tokens() const { return plain_tokens_; }
  size_t vocabulary() const { return vocabulary_; }
  size_t words() const { return (vocabulary_ + 31) / 32; }  // of a mask
  size_t depth_max() const { return depth_max_; }           // bytes of the longest token

 private:
  void FindPlainText();

  std::vector<Node> nodes_;
  std::vector<uint64_t> kinds_below_;  // by node
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> plain_tokens_;
  size_t vocabulary_;
  size_t depth_max_ = 0;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_TOKEN_TRIE_H_
