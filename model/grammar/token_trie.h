// TokenTrie has the bytes of all tokens of a vocabulary as a tree, so that tokens that begin alike are looked at once.
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

namespace hydrant::grammar {

class TokenTrie {
 public:
  static constexpr uint32_t kNoParent = std::numeric_limits<uint32_t>::max();

  // A place in the tree, in the order in which one goes through it depth first. What is below a node comes right behind it.
  struct Node {
    uint32_t parent = kNoParent;
    uint32_t below_end = 0;     // the first node that is not below this one
    uint32_t tokens_begin = 0;  // tokens that end here, in tokens()
    uint32_t tokens_end = 0;
    uint16_t depth = 0;  // bytes before this one's
    uint8_t byte = 0;
  };

  // `tokens`: the bytes of each id; an id with none is in no mask. Tokens above 65,535 bytes are left out, too.
  explicit TokenTrie(std::span<const std::string> tokens);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  size_t vocabulary() const { return vocabulary_; }
  size_t words() const { return (vocabulary_ + 31) / 32; }  // of a mask
  size_t depth_max() const { return depth_max_; }           // bytes of the longest token

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t vocabulary_;
  size_t depth_max_ = 0;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_TOKEN_TRIE_H_
