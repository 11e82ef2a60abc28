#include "model/grammar/token_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace hydrant::grammar {
namespace {

TEST(TokenTrie, HasEveryTokenOnceUnderItsBytes) {
  const std::vector<std::string> tokens = {"b", "ab", "a", "", "abc", "ab", "\xff", std::string("a\0b", 3), "ba"};
  const TokenTrie trie(tokens);
  EXPECT_EQ(trie.vocabulary(), tokens.size());
  EXPECT_EQ(trie.words(), 1u);
  EXPECT_EQ(trie.depth_max(), 3u);
  std::map<int32_t, std::string> found;
  std::set<std::string> places;
  std::string bytes;
  for (size_t i = 0; i < trie.nodes().size(); ++i) {
    const TokenTrie::Node& node = trie.nodes()[i];
    bytes.resize(node.depth);
    bytes += static_cast<char>(node.byte);
    EXPECT_TRUE(places.insert(bytes).second) << "a place is there twice";
    if (node.depth > 0) {
      const TokenTrie::Node& parent = trie.nodes()[node.parent];
      EXPECT_EQ(parent.depth + 1, node.depth);
      EXPECT_TRUE(node.parent < i && i < parent.below_end);
    } else {
      EXPECT_EQ(node.parent, TokenTrie::kNoParent);
    }
    EXPECT_GT(node.below_end, i);
    for (uint32_t t = node.tokens_begin; t < node.tokens_end; ++t) {
      EXPECT_TRUE(found.emplace(trie.tokens()[t], bytes).second);
    }
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    EXPECT_EQ(found.contains(static_cast<int32_t>(id)), !tokens[id].empty());
    if (!tokens[id].empty()) {
      EXPECT_EQ(found[static_cast<int32_t>(id)], tokens[id]);
    }
  }
}

TEST(TokenTrie, MayBeEmpty) {
  EXPECT_TRUE(TokenTrie({}).nodes().empty());
  EXPECT_TRUE(TokenTrie(std::vector<std::string>(40)).nodes().empty());
}

}  // namespace
}  // namespace hydrant::grammar
