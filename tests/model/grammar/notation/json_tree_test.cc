#include "model/grammar/notation/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace hydrant::grammar {
namespace {

using testing::HasSubstr;

TEST(JsonTree, KeepsOrderAndDigits) {
  const std::string text = R"({"b":[1.50,-1,1e3,12345678901234567890123],"a":{"x\"y":null,"":[]},"c":"é\n"})";
  const auto parsed = JsonTree::Parse(text);
  const JsonTree& tree = std::get<JsonTree>(parsed);
  EXPECT_EQ(tree.Dump(0), text);
}

TEST(JsonTree, PointersLeadThereAndBack) {
  const auto parsed = JsonTree::Parse(R"({"a/b":[{"~":1},2],"":{"x":true}})");
  const JsonTree& tree = std::get<JsonTree>(parsed);
  for (const char* pointer : {"", "/a~1b", "/a~1b/0/~0", "/a~1b/1", "/", "//x"}) {
    const JsonId id = tree.Resolve(pointer);
    ASSERT_NE(id, kNoJson) << pointer;
    EXPECT_EQ(tree.PointerOf(id), pointer);
  }
  for (const char* pointer : {"/c", "/a~1b/2", "/a~1b/x", "/a~1b/-1", "a", "/a~1b/1/0"})
    EXPECT_EQ(tree.Resolve(pointer), kNoJson) << pointer;
}

TEST(JsonTree, EqualIsByValue) {
  const auto parsed =
      JsonTree::Parse(R"([{"a":1,"b":[2.0]},{"b":[2],"a":1e0},{"b":[2],"a":1,"c":0},{"b":[3],"a":1},"1",1])");
  const JsonTree& tree = std::get<JsonTree>(parsed);
  const std::vector<JsonId> items = tree.at(0).items;
  EXPECT_TRUE(tree.Equal(items[0], items[1]));
  EXPECT_FALSE(tree.Equal(items[0], items[2]));
  EXPECT_FALSE(tree.Equal(items[0], items[3]));
  EXPECT_FALSE(tree.Equal(items[4], items[5]));
}

TEST(JsonTree, RefusesByName) {
  const std::string deep(65, '['), ok(64, '[');
  const std::vector<std::pair<std::string, std::string>> cases = {{"{\"a\":1,\"a\":2}", "twice"},
                                                                  {"{", "not JSON"},
                                                                  {"\"\xff\"", "not JSON"},
                                                                  {"1 2", "not JSON"},
                                                                  {"", "not JSON"},
                                                                  {deep + std::string(65, ']'), "deeper"}};
  for (const auto& [text, why] : cases) {
    const auto parsed = JsonTree::Parse(text);
    ASSERT_EQ(parsed.index(), 1u) << text;
    EXPECT_THAT(std::get<std::string>(parsed), HasSubstr(why));
  }
  EXPECT_EQ(JsonTree::Parse(ok + std::string(64, ']')).index(), 0u);
  EXPECT_THAT(std::get<std::string>(JsonTree::Parse("[1,2,3]", {100, 3, 64})), HasSubstr("more than 3 values"));
  EXPECT_THAT(std::get<std::string>(JsonTree::Parse("[1,2,3]", {6, 100, 64})), HasSubstr("more than 6 bytes"));
}

}  // namespace
}  // namespace hydrant::grammar
