#include "model/files/json_document.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

constexpr JsonLimits kLimits{1000, 64};

struct Bad {
  const char* name;
  std::string text;
};
class JsonDocumentRefusal : public testing::TestWithParam<Bad> {};

TEST_P(JsonDocumentRefusal, IsOneLineThatNamesTheFileAndRepeatsNothing) {
  const auto document = JsonDocument::Parse(GetParam().text, kLimits, "x.json");
  EXPECT_THAT(document, RefusedWith("x.json: "));
  EXPECT_EQ(document.status().message().find("SECRET"), absl::string_view::npos);
}

INSTANTIATE_TEST_SUITE_P(
    , JsonDocumentRefusal,
    testing::Values(Bad{"Empty", ""}, Bad{"Truncated", R"({"a": "SECRET)"}, Bad{"Trailing", "{} SECRET"},
                    Bad{"TwoDocuments", "{}{}"}, Bad{"NulAfterTheEnd", std::string("{}\0", 3)},
                    Bad{"GarbageAfterANul", std::string("{}\0SECRET", 9)}, Bad{"ByteOrderMark", "\xEF\xBB\xBF{}"},
                    Bad{"Comment", "{} // x"}, Bad{"TrailingComma", "[1,]"}, Bad{"LeadingZero", "0123"},
                    Bad{"NaN", "NaN"}, Bad{"Infinity", "[Infinity]"}, Bad{"HugeNumber", "1e999"},
                    Bad{"InvalidUtf8", "\"\xff\""}, Bad{"InvalidUtf8Key", "{\"\xc0\x80\": 1}"},
                    Bad{"Surrogate", "\"\xed\xa0\x80\""}, Bad{"DuplicateKey", R"({"a": 1, "a": 2})"},
                    Bad{"Depth65", std::string(65, '[') + std::string(65, ']')},
                    Bad{"DepthMillion", std::string(1'000'000, '[')},
                    Bad{"DepthOfObjects",
                        [] {
                          std::string text;
                          for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
                          return text;
                        }()},
                    Bad{"TooManyValues", "[" +
                                             [] {
                                               std::string text;
                                               for (int i = 0; i < 2000; ++i) text += "1,";
                                               return text;
                                             }() +
                                             "1]"}),
    [](const auto& test) { return test.param.name; });

TEST(JsonDocument, AcceptsTheDepthOfItsLimit) {
  EXPECT_THAT(JsonDocument::Parse(std::string(64, '[') + std::string(64, ']'), kLimits, "x"), IsOk());
}

class JsonDocumentValue : public testing::Test {
 protected:
  JsonValue Parse(std::string_view text) {
    auto parsed = JsonDocument::Parse(text, kLimits, "x.json");
    EXPECT_THAT(parsed, IsOk());
    document_ = std::make_unique<JsonDocument>(*std::move(parsed));
    return document_->root();
  }
  std::unique_ptr<JsonDocument> document_;
};

TEST_F(JsonDocumentValue, ReadsIntegersExactlyOrNotAtAll) {
  const JsonValue root = Parse(R"([3, -1, 3.7, 1e3, true, "3", null, 9223372036854775807, 18446744073709551615])");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(*root[0].Int(0, 10), 3);
  EXPECT_EQ(*root[1].Int(-1, 10), -1);
  EXPECT_THAT(root[1].Int(0, 10), RefusedWith("x.json: '[1]': -1 is out of range [0, 10]"));
  for (size_t i = 2; i < 7; ++i) EXPECT_THAT(root[i].Int(0, kMax), RefusedWith("is not an integer")) << i;
  EXPECT_EQ(*root[7].Int(0, kMax), kMax);
  EXPECT_THAT(root[8].Int(0, kMax), RefusedWith("18446744073709551615 is out of range"));
}

TEST_F(JsonDocumentValue, ReadsNumbersBoolsAndStrings) {
  const JsonValue root = Parse(R"([1, -2, 0.5, true, "é"])");
  EXPECT_EQ(*root[0].Number(), 1);
  EXPECT_EQ(*root[1].Number(), -2);
  EXPECT_EQ(*root[2].Number(), 0.5);
  EXPECT_THAT(root[3].Number(), RefusedWith("'[3]': is not a number"));
  EXPECT_EQ(*root[3].Bool(), true);
  EXPECT_THAT(root[0].Bool(), RefusedWith("is not true or false"));
  EXPECT_EQ(*root[4].String(), "é");
  EXPECT_THAT(root[0].String(), RefusedWith("is not a string"));
}

TEST_F(JsonDocumentValue, TreatsNullAsAbsent) {
  const JsonValue root = Parse(R"({"a": null})");
  EXPECT_FALSE(root.Find("a"));
  EXPECT_FALSE(root.Find("b"));
  EXPECT_TRUE(root.Has("a"));
  EXPECT_FALSE(root.Has("b"));
  int32_t number = 5;
  EXPECT_THAT(root.Read("a", 0, 9, number), IsOk());
  EXPECT_EQ(number, 5);
  EXPECT_THAT(root.At("a"), RefusedWith("'a': is missing"));
}

TEST_F(JsonDocumentValue, NamesThePathOfAField) {
  const JsonValue root = Parse(R"({"a": [{"b": {}}, {"b": "x"}]})");
  EXPECT_THAT(root.Find("a").value()[1].Find("b")->Int(0, 1), RefusedWith("x.json: 'a[1].b': is not an integer"));
  EXPECT_THAT(root.Find("a").value()[0].Find("b")->At("c"), RefusedWith("'a[0].b.c': is missing"));
  EXPECT_THAT(root.At("z"), RefusedWith("x.json: 'z': is missing"));
}

TEST_F(JsonDocumentValue, ScalarsHaveNoMembersAndNoElements) {
  const JsonValue root = Parse("7");
  EXPECT_EQ(root.size(), 0u);
  EXPECT_FALSE(root.Find("a"));
  EXPECT_THAT(root.ForEachMember([](std::string_view, const JsonValue&) { return absl::OkStatus(); }),
              RefusedWith("x.json: is not an object"));
}

}  // namespace
}  // namespace hydrant
