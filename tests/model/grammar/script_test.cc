#include "model/grammar/script.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrant::grammar {
namespace {

TEST(Script, WaysThatNeverEndAreTakenOut) {
  LazyDfa dfa;
  Fuel fuel;
  Script script;
  const RegexId a = dfa.arena().Byte('a');
  const NodeId endless = script.Reserve(), ended = script.Text(a, kReturnNode);
  script.Fill(endless,
              {script.Text(a, endless), script.Value(kNoShape, kReturnNode), script.Call(endless, kReturnNode)});
  const NodeId free = script.Free({"x", "y"}, {endless, ended}, endless);
  script.root = script.Fork({endless, free});
  ASSERT_TRUE(script.Prune(dfa, fuel));
  EXPECT_EQ(script.node(script.root).ways, std::vector<NodeId>{free});
  EXPECT_EQ(script.node(free).ways, (std::vector<NodeId>{kNoNode, ended}));
  EXPECT_EQ(script.node(free).next, kNoNode);
  script.root = endless;
  EXPECT_FALSE(script.Prune(dfa, fuel));
}

TEST(Script, HasALimit) {
  Script script;
  for (size_t i = 0; i < kScriptNodesMax; ++i) script.Reserve();
  EXPECT_TRUE(script.too_large());
  script.Fill(script.Reserve(), {});
  EXPECT_EQ(script.size(), kScriptNodesMax + 1);
}

}  // namespace
}  // namespace hydrant::grammar
