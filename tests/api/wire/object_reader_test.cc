#include "api/wire/object_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace hydrant {
namespace {

// Parses `text` and hands a reader to `read`; returns the error it left.
std::optional<ApiError> Read(std::string_view text, const std::function<void(ObjectReader*)>& read) {
  const ApiResult<JsonBody> document = JsonBody::Parse(text, RequestLimits());
  EXPECT_TRUE(document.ok());
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  read(&reader);
  return error;
}

TEST(ObjectReaderTest, IntegersAreIntegerLiteralsInRange) {
  struct Case {
    const char* text;
    bool ok;
    const char* code;
  };
  const Case cases[] = {
      {R"({"x":1})", true, ""},
      {R"({"x":16})", true, ""},
      {R"({"x":null})", true, ""},
      {R"({})", true, ""},
      {R"({"x":0})", false, "invalid_value"},
      {R"({"x":17})", false, "invalid_value"},
      {R"({"x":-1})", false, "invalid_value"},
      {R"({"x":2147483648})", false, "invalid_value"},
      {R"({"x":4294967297})", false, "invalid_value"},
      {R"({"x":9223372036854775808})", false, "invalid_value"},
      {R"({"x":1e1000})", false, ""},
      {R"({"x":2.0})", false, "invalid_type"},
      {R"({"x":1.5})", false, "invalid_type"},
      {R"({"x":1e1})", false, "invalid_type"},
      {R"({"x":"5"})", false, "invalid_type"},
      {R"({"x":true})", false, "invalid_type"},
      {R"({"x":[1]})", false, "invalid_type"},
      {R"({"x":{}})", false, "invalid_type"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    if (std::string_view(c.text).find("e1000") != std::string_view::npos) {
      EXPECT_FALSE(JsonBody::Parse(c.text, RequestLimits()).ok());
      continue;
    }
    const std::optional<ApiError> error = Read(c.text, [](ObjectReader* reader) { reader->Integer("x", 2, 1, 16); });
    EXPECT_EQ(!error.has_value(), c.ok);
    if (!c.ok && error.has_value()) {
      EXPECT_EQ(error->param, "x");
      EXPECT_EQ(error->code, c.code);
      EXPECT_EQ(error->status, 400);
    }
  }
}

TEST(ObjectReaderTest, NumbersAreFiniteAndInRange) {
  struct Case {
    const char* text;
    bool closed_ok;
    bool open_ok;
  };
  const Case cases[] = {
      {R"({"x":0})", true, false},      {R"({"x":0.0})", true, false},     {R"({"x":1e-300})", true, true},
      {R"({"x":1})", true, true},       {R"({"x":1.0001})", false, false}, {R"({"x":-0.1})", false, false},
      {R"({"x":1e308})", false, false}, {R"({"x":"1"})", false, false},    {R"({"x":true})", false, false},
      {R"({"x":null})", true, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(!Read(c.text, [](ObjectReader* r) { r->Number("x", 1, 0, 1); }).has_value(), c.closed_ok);
    EXPECT_EQ(!Read(c.text, [](ObjectReader* r) { r->Number("x", 1, 0, 1, true); }).has_value(), c.open_ok);
  }
}

TEST(ObjectReaderTest, OnlyTrueAndFalseAreBooleans) {
  for (const char* text : {R"({"x":1})", R"({"x":0})", R"({"x":"true"})", R"({"x":[]})"}) {
    EXPECT_TRUE(Read(text, [](ObjectReader* r) { r->Bool("x", false); }).has_value()) << text;
  }
  Read(R"({"x":true,"y":false,"z":null})", [](ObjectReader* r) {
    EXPECT_TRUE(r->Bool("x", false));
    EXPECT_FALSE(r->Bool("y", true));
    EXPECT_TRUE(r->Bool("z", true));
    EXPECT_TRUE(r->Bool("none", true));
  });
}

TEST(ObjectReaderTest, IdentifiersHaveNoControlCharacters) {
  EXPECT_TRUE(Read(R"({"x":"a\u0000"})", [](ObjectReader* r) { r->String("x", "", 9, true); }).has_value());
  EXPECT_TRUE(Read(R"({"x":"a\u007f"})", [](ObjectReader* r) { r->String("x", "", 9, true); }).has_value());
  EXPECT_TRUE(Read(R"({"x":"a\r\n"})", [](ObjectReader* r) { r->String("x", "", 9, true); }).has_value());
  EXPECT_FALSE(Read(R"({"x":"aé"})", [](ObjectReader* r) { r->String("x", "", 9, true); }).has_value());
  EXPECT_FALSE(Read(R"({"x":"a\u0000"})", [](ObjectReader* r) { r->String("x", "", 9, false); }).has_value());
  EXPECT_TRUE(Read(R"({"x":"0123456789"})", [](ObjectReader* r) { r->String("x", "", 9, false); }).has_value());
}

TEST(ObjectReaderTest, TokenIdsAreInTheVocabulary) {
  struct Case {
    const char* text;
    const char* code;  // nullptr: fine
  };
  const Case cases[] = {
      {R"({"x":[0,99]})", nullptr},
      {R"({"x":[]})", nullptr},
      {R"({"x":null})", nullptr},
      {R"({"x":[100]})", "token_id_out_of_range"},
      {R"({"x":[-1]})", "token_id_out_of_range"},
      {R"({"x":[2147483648]})", "token_id_out_of_range"},
      {R"({"x":[4294967296]})", "token_id_out_of_range"},
      {R"({"x":[1.5]})", "token_id_out_of_range"},
      {R"({"x":["5"]})", "token_id_out_of_range"},
      {R"({"x":[null]})", "token_id_out_of_range"},
      {R"({"x":[true]})", "token_id_out_of_range"},
      {R"({"x":[1,2,3,4,5]})", "invalid_value"},
      {R"({"x":5})", "invalid_type"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const std::optional<ApiError> error = Read(c.text, [](ObjectReader* r) { r->TokenIds("x", 100, 4); });
    ASSERT_EQ(error.has_value(), c.code != nullptr);
    if (error.has_value()) {
      EXPECT_EQ(error->code, c.code);
    }
  }
}

TEST(ObjectReaderTest, StringsAreOneOrMany) {
  Read(R"({"one":"a","many":["a","b"],"none":null,"empty":[]})", [](ObjectReader* r) {
    EXPECT_EQ(r->Strings("one", 2, 4), std::vector<std::string>{"a"});
    EXPECT_EQ(r->Strings("many", 2, 4), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(r->Strings("none", 2, 4).empty());
    EXPECT_TRUE(r->Strings("empty", 2, 4).empty());
    EXPECT_FALSE(r->failed());
  });
  for (const char* text : {R"({"x":""})", R"({"x":["a",""]})", R"({"x":["a","b","c"]})", R"({"x":"12345"})",
                           R"({"x":[1]})", R"({"x":[null]})", R"({"x":{}})", R"({"x":true})"}) {
    EXPECT_TRUE(Read(text, [](ObjectReader* r) { r->Strings("x", 2, 4); }).has_value()) << text;
  }
}

TEST(ObjectReaderTest, LogsWhatIsAskedForUnlessItIsToBeRefused) {
  const ApiResult<JsonBody> document = JsonBody::Parse(R"({"o":{}})", RequestLimits());
  std::optional<ApiError> error;
  FieldLog log;
  ObjectReader reader(document.value().root(), "", &error, &log);
  EXPECT_FALSE(reader.Has("i"));
  reader.Integer("i", 0, -1, 9);
  reader.Raw("i");
  reader.Raw("any");
  reader.Object("o").Number("n", 0, 0, 1, /*min_open=*/true);
  {
    const ObjectReader::Unlogged unlogged(&reader);
    reader.Bool("refused", false);
  }
  reader.String("s", "", 12, false);
  std::string text;
  for (const auto& [path, note] : log.fields()) text += path + std::to_string(static_cast<int>(note.kind)) + " ";
  EXPECT_EQ(text, "any0 i2 o7 o.n3 s4 ");
  EXPECT_EQ(log.fields().at("i").min, -1);
  EXPECT_EQ(log.fields().at("i").max, 9);
  EXPECT_TRUE(log.fields().at("o.n").min_open);
  EXPECT_EQ(log.fields().at("s").most, 12);
}

TEST(ObjectReaderTest, TheFirstErrorStaysAndNestedPathsAreNamed) {
  const std::optional<ApiError> error = Read(R"({"kv":{"budget":{"r":7}},"n":"x"})", [](ObjectReader* r) {
    ObjectReader kv = r->Object("kv");
    ObjectReader budget = kv.Object("budget");
    budget.Number("r", 0, 0, 1);
    r->Integer("n", 1, 1, 2);
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "kv.budget.r");
}

TEST(ObjectReaderTest, ANestedMemberThatIsNoObjectIsNamed) {
  const std::optional<ApiError> error = Read(R"({"kv":[1]})", [](ObjectReader* r) { r->Object("kv"); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "kv");
  EXPECT_EQ(error->code, "invalid_type");
}

}  // namespace
}  // namespace hydrant
