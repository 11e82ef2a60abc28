#include "loadgen/client/json_scan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace hydrant {
namespace {

TEST(JsonScan, FindsMembers) {
  std::map<std::string, std::string> members;
  EXPECT_TRUE(ScanMembers(R"( { "a" : 1, "b\"" :"x\\", "c":{"d":[1,"]}"]} ,"e":null} )",
                          [&](std::string_view key, std::string_view value) { members[std::string(key)] = value; }));
  const std::map<std::string, std::string> expected = {
      {"a", "1"}, {R"(b\")", R"("x\\")"}, {"c", R"({"d":[1,"]}"]})"}, {"e", "null"}};
  EXPECT_EQ(members, expected);
}

TEST(JsonScan, FindsElements) {
  std::vector<std::string> elements;
  EXPECT_TRUE(ScanElements("[1, {\"a\":[]},\"x\" ]", [&](std::string_view value) { elements.emplace_back(value); }));
  EXPECT_EQ(elements, (std::vector<std::string>{"1", "{\"a\":[]}", "\"x\""}));
  EXPECT_TRUE(ScanElements("[]", [](std::string_view) { FAIL(); }));
}

TEST(JsonScan, RefusesWhatIsNotWhole) {
  for (const char* text : {"", "[]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1}x", "{\"a\":\"}",
                           "{a:1}", "{\"a\":,}", "{\"a\":[1}", "null"}) {
    EXPECT_FALSE(ScanMembers(text, [](std::string_view, std::string_view) {})) << text;
  }
  for (const char* text : {"", "{}", "[", "[1", "[1,", "[1]x", "[,]", "[\"]"}) {
    EXPECT_FALSE(ScanElements(text, [](std::string_view) {})) << text;
  }
}

TEST(JsonScan, DepthCostsNothing) {
  std::string deep(1'000'000, '[');
  EXPECT_FALSE(ScanElements(deep, [](std::string_view) { FAIL(); }));
  deep += std::string(deep.size(), ']');
  EXPECT_TRUE(ScanElements(deep, [](std::string_view) {}));
}

TEST(JsonScan, ReadsIntegersOnly) {
  EXPECT_EQ(ScanInteger("-12"), -12);
  for (const char* text : {"", "1.0", "1e3", "\"1\"", "null", "99999999999999999999"}) {
    EXPECT_EQ(ScanInteger(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace hydrant
