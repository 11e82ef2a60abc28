#include "api/wire/json_body.h"

#include <gtest/gtest.h>

#include <string>

#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

ApiResult<JsonBody> ParseBody(std::string_view text) { return JsonBody::Parse(text, RequestLimits()); }

// What was parsed, written again: compares trees without a second JSON library.
void Dump(JsonView value, std::string* out) {
  if (value.absent()) {
    out->append("null");
  } else if (value.is_bool()) {
    AppendJsonBool(out, value.boolean());
  } else if (value.is_integer()) {
    if (value.integer().has_value()) {
      AppendJsonInteger(out, *value.integer());
    } else {
      out->append("big");
    }
  } else if (value.is_number()) {
    AppendJsonFloat(out, static_cast<float>(value.number()));
  } else if (value.is_string()) {
    AppendJsonString(out, value.string());
  } else {
    const bool object = value.is_object();
    out->push_back(object ? '{' : '[');
    for (JsonView v = value.first(); v.valid(); v = v.next()) {
      if (out->back() != '{' && out->back() != '[') out->push_back(',');
      if (object) {
        AppendJsonString(out, v.key());
        out->push_back(':');
      }
      Dump(v, out);
    }
    out->push_back(object ? '}' : ']');
  }
}

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonBody, ValidTextsRoundTrip) {
  const char* const cases[] = {
      "null",
      "true",
      "false",
      "0",
      "-1",
      "9223372036854775807",
      "-9223372036854775808",
      "1.5",
      "-0.25",
      R"("")",
      R"("a\"b\\c\n")",
      "[]",
      "{}",
      "[[],{}]",
      R"({"a":1,"b":[true,null,"x",{"c":-2.5}],"d":{}})",
      R"([1,[2,[3,[4]]],5])",
  };
  for (const char* text : cases) {
    SCOPED_TRACE(text);
    const ApiResult<JsonBody> document = ParseBody(text);
    ASSERT_TRUE(document.ok());
    std::string out;
    Dump(document.value().root(), &out);
    EXPECT_EQ(out, text);
  }
}

TEST(JsonBody, InvalidTextsGiveAByteOffsetAndNothingElse) {
  struct Case {
    const char* name;
    std::string text;
  };
  const Case cases[] = {
      {"empty", ""},
      {"blank", " \n"},
      {"truncated object", R"({"secret":"val)"},
      {"truncated array", "[1,"},
      {"trailing garbage", "{} secret"},
      {"two documents", "{}{}"},
      {"line comment", "// secret\n{}"},
      {"block comment", "{/*secret*/}"},
      {"trailing comma in object", R"({"a":1,})"},
      {"trailing comma in array", "[1,]"},
      {"leading zeros", "0123"},
      {"dot without digits", "1."},
      {"dot first", ".5"},
      {"plus", "+1"},
      {"hex", "0x10"},
      {"NaN", "NaN"},
      {"Infinity", "[Infinity]"},
      {"minus Infinity", R"({"temperature":-Infinity})"},
      {"number above double", "1e400"},
      {"single quotes", "{'a':1}"},
      {"bare key", "{a:1}"},
      {"raw control character", "\"a\nb\""},
      {"raw NUL", std::string("\"a\0b\"", 5)},
      {"NUL, then garbage", std::string("{}\0secret", 9)},
      {"NUL at the end", std::string("{}\0", 3)},
      {"bad escape", R"("\x41")"},
      {"lone high surrogate", R"("\ud800")"},
      {"lone low surrogate", R"("\udc00")"},
      {"ff in a value", "{\"prompt\":\"\xff\"}"},
      {"ff in a key", "{\"\xff\":1}"},
      {"overlong C0 80", "\"\xc0\x80\""},
      {"CESU surrogate", "\"\xed\xa0\x80\""},
      {"truncated four bytes", "\"\xf0\x9f\x98\""},
      {"above U+10FFFF", "\"\xf4\x90\x80\x80\""},
      {"UTF-16 body", std::string("{\0}\0", 4)},
      {"half a byte-order mark", "\xef\xbb{}"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ApiResult<JsonBody> document = ParseBody(c.text);
    ASSERT_FALSE(document.ok());
    const ApiError& error = document.error();
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.code, "invalid_json");
    EXPECT_EQ(error.message.find("secret"), std::string::npos);
    EXPECT_NE(error.message.find("at byte "), std::string::npos);
    EXPECT_TRUE(IsValidUtf8(ErrorJson(error)));
    EXPECT_LT(error.message.size(), 80u);
  }
}

TEST(JsonBody, SkipsAByteOrderMark) {
  const ApiResult<JsonBody> document = ParseBody("\xef\xbb\xbf{\"a\":1}");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document.value().root()["a"].integer(), 1);
}

TEST(JsonBody, DepthEndsAt64) {
  EXPECT_TRUE(ParseBody(Nested(63)).ok());
  EXPECT_TRUE(ParseBody(Nested(64)).ok());
  for (const int depth : {65, 1000, 100'000}) {
    const ApiResult<JsonBody> document = ParseBody(Nested(depth));
    ASSERT_FALSE(document.ok()) << depth;
    EXPECT_EQ(document.error().code, "json_too_deep");
  }
  const ApiResult<JsonBody> open = ParseBody(std::string(4'000'000, '['));
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, "json_too_deep");
}

TEST(JsonBody, DepthCountsOpenLevelsNotBrackets) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += i == 0 ? "[]" : ",[]";
  EXPECT_TRUE(ParseBody(text + "]").ok());
}

TEST(JsonBody, NodesEndAtTheLimit) {
  RequestLimits limits;
  limits.json_nodes_max = 4;
  EXPECT_TRUE(JsonBody::Parse("[1,2,3]", limits).ok());
  const ApiResult<JsonBody> array = JsonBody::Parse("[1,2,3,4]", limits);
  ASSERT_FALSE(array.ok());
  EXPECT_EQ(array.error().code, "json_too_many_nodes");
  const ApiResult<JsonBody> object = JsonBody::Parse(R"({"a":1,"b":2,"c":[1]})", limits);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, "json_too_many_nodes");
}

TEST(JsonBody, MillionsOfElementsAreRefusedEarly) {
  std::string text = "[0";
  for (int i = 0; i < 2'000'000; ++i) text += ",0";
  const ApiResult<JsonBody> document = ParseBody(text + "]");
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().code, "json_too_many_nodes");
}

TEST(JsonBody, LastDuplicateMemberWins) {
  const ApiResult<JsonBody> document = ParseBody(R"({"a":1,"b":2,"a":3})");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document.value().root()["a"].integer(), 3);
  EXPECT_EQ(document.value().root()["b"].integer(), 2);
  EXPECT_FALSE(document.value().root()["c"].valid());
}

TEST(JsonBody, NumbersKeepTheirKindAndRange) {
  struct Case {
    const char* text;
    bool is_integer;
    std::optional<int64_t> integer;
    std::optional<uint64_t> unsigned_integer;
    double number;
  };
  const Case cases[] = {
      {"3", true, 3, 3, 3.0},
      {"3.0", false, {}, {}, 3.0},
      {"1e2", false, {}, {}, 100.0},
      {"-0", true, 0, 0, 0.0},
      {"-1", true, -1, {}, -1.0},
      {"9223372036854775807", true, INT64_MAX, INT64_MAX, 9223372036854775807.0},
      {"9223372036854775808", true, {}, 9223372036854775808u, 9223372036854775808.0},
      {"18446744073709551615", true, {}, UINT64_MAX, 18446744073709551615.0},
      {"18446744073709551616", true, {}, {}, 18446744073709551616.0},
      {"-9223372036854775808", true, INT64_MIN, {}, -9223372036854775808.0},
      {"-9223372036854775809", true, {}, {}, -9223372036854775809.0},
      {"18446744073709551616.0", false, {}, {}, 18446744073709551616.0},
      {"1E20", false, {}, {}, 1e20},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const ApiResult<JsonBody> document = ParseBody(c.text);
    ASSERT_TRUE(document.ok());
    const JsonView value = document.value().root();
    EXPECT_EQ(value.is_integer(), c.is_integer);
    EXPECT_TRUE(value.is_number());
    EXPECT_FALSE(value.is_bool());
    EXPECT_EQ(value.number(), c.number);
    if (c.is_integer) {
      EXPECT_EQ(value.integer(), c.integer);
      EXPECT_EQ(value.unsigned_integer(), c.unsigned_integer);
    }
  }
}

TEST(JsonBody, TextsOfOneBudgetShareIt) {
  RequestLimits limits;
  limits.json_nodes_max = 10;
  JsonBudget budget(limits);
  EXPECT_TRUE(JsonBody::Parse("[1,2,3]", &budget).ok());
  EXPECT_EQ(budget.values_left, 6);
  EXPECT_FALSE(JsonBody::Parse("[1,2", &budget).ok());
  EXPECT_EQ(budget.values_left, 3) << "what failed was made all the same";
  EXPECT_TRUE(JsonBody::Parse("[1,2]", &budget).ok());
  EXPECT_EQ(JsonBody::Parse("1", &budget).error().code, "json_too_many_nodes");
  EXPECT_TRUE(JsonBody::Parse("[1,2,3,4,5,6,7,8,9]", limits).ok()) << "one of its own";
}

TEST(JsonBody, EscapedNulIsAByteOfTheString) {
  const ApiResult<JsonBody> document = ParseBody(R"({"p\u0000":"a\u0000b\ud83d\ude00"})");
  ASSERT_TRUE(document.ok());
  const JsonView member = document.value().root()[std::string_view("p\0", 2)];
  ASSERT_TRUE(member.is_string());
  EXPECT_EQ(member.string(), std::string_view("a\0b😀", 7));
}

}  // namespace
}  // namespace hydrant
