#include "api/wire/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace hydrant {
namespace {

using Json = nlohmann::json;

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(&out, text);
  return out;
}

std::string FloatText(float value) {
  std::string out;
  AppendJsonFloat(&out, value);
  return out;
}

TEST(JsonStringTest, EscapesWhatJsonAndLineReadersNeed) {
  struct Case {
    const char* name;
    std::string_view text;
    std::string_view expected;
  };
  const Case cases[] = {
      {"empty", "", R"("")"},
      {"plain", "abc", R"("abc")"},
      {"quote and backslash", R"("\)", R"("\"\\")"},
      {"an event in the text", "\n\ndata: [DONE]", R"("\n\ndata: [DONE]")"},
      {"tab and return", "\t\r", R"("\t\r")"},
      {"NUL", std::string_view("a\0b", 3), R"("a\u0000b")"},
      {"C0 and DEL", "\x1f\x7f", R"("\u001f\u007f")"},
      {"two, three and four bytes", "é€😀", "\"é€😀\""},
      {"line ends of str.splitlines", "\xc2\x85|\xe2\x80\xa8|\xe2\x80\xa9", R"("\u0085|\u2028|\u2029")"},
      {"neighbours of line ends stay", "\xc2\x86\xe2\x80\xa7\xe2\x80\xaa", "\"\xc2\x86\xe2\x80\xa7\xe2\x80\xaa\""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Quoted(c.text), c.expected);
  }
}

// Expected values are CPython's bytes.decode("utf-8", "replace").
TEST(JsonStringTest, InvalidBytesBecomeReplacementsAsPythonDoes) {
  struct Case {
    const char* name;
    std::string_view text;
    int replacements;
    std::string_view rest;
  };
  const Case cases[] = {
      {"lone ff", "\xff", 1, ""},
      {"lone continuation", "\x80", 1, ""},
      {"overlong C0 80", "\xc0\x80", 2, ""},
      {"overlong E0 80 80", "\xe0\x80\x80", 3, ""},
      {"surrogate ED A0 80", "\xed\xa0\x80", 3, ""},
      {"above U+10FFFF", "\xf4\x90\x80\x80", 4, ""},
      {"F5", "\xf5\x80\x80\x80", 4, ""},
      {"truncated three bytes", "\xe2\x82", 1, ""},
      {"truncated four bytes", "\xf0\x9f\x98", 1, ""},
      {"truncated, then a letter", "\xf0\x9f\x98z", 1, "z"},
      {"lead, then a letter", "\xc3z", 1, "z"},
      {"lead, then a lead", "\xe2\x82\xc3\xa9", 1, "é"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::string expected = "\"";
    for (int i = 0; i < c.replacements; ++i) expected += "\xef\xbf\xbd";
    expected += std::string(c.rest) + "\"";
    EXPECT_EQ(Quoted(c.text), expected);
    EXPECT_FALSE(IsValidUtf8(c.text));
  }
}

TEST(JsonStringTest, EveryCodePointRoundTrips) {
  std::string all;
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    if (c < 0x80) {
      all.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      all.push_back(static_cast<char>(0xc0 | (c >> 6)));
      all.push_back(static_cast<char>(0x80 | (c & 63)));
    } else if (c < 0x10000) {
      all.push_back(static_cast<char>(0xe0 | (c >> 12)));
      all.push_back(static_cast<char>(0x80 | ((c >> 6) & 63)));
      all.push_back(static_cast<char>(0x80 | (c & 63)));
    } else {
      all.push_back(static_cast<char>(0xf0 | (c >> 18)));
      all.push_back(static_cast<char>(0x80 | ((c >> 12) & 63)));
      all.push_back(static_cast<char>(0x80 | ((c >> 6) & 63)));
      all.push_back(static_cast<char>(0x80 | (c & 63)));
    }
  }
  EXPECT_TRUE(IsValidUtf8(all));
  const std::string quoted = Quoted(all);
  EXPECT_EQ(Json::parse(quoted), Json(all));
}

TEST(JsonStringTest, RandomBytesAlwaysGiveOneLineOfValidJson) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() % 128 : 0x80 + random() % 128);
    const std::string quoted = Quoted(bytes);
    ASSERT_TRUE(IsValidUtf8(quoted));
    ASSERT_EQ(quoted.find_first_of(std::string_view("\n\r\0", 3)), std::string::npos);
    const Json parsed = Json::parse(quoted, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_string());
    if (IsValidUtf8(bytes)) {
      ASSERT_EQ(parsed, Json(bytes));
    }
  }
}

TEST(ToValidUtf8, ReplacesWhatIsInvalidAndCutsAfterACharacter) {
  struct Case {
    std::string_view text;
    size_t bytes_max;
    std::string_view expected;
  };
  const Case cases[] = {
      {"caf\xc3\xa9", 9, "caf\xc3\xa9"},
      {"caf\xc3\xa9", 5, "caf\xc3\xa9"},
      {"caf\xc3\xa9", 4, "caf"},
      {"caf\xe9!", 9, "caf\xef\xbf\xbd!"},
      {"caf\xe9!", 6, "caf\xef\xbf\xbd"},
      {"caf\xe9!", 5, "caf"},
      {"\xf0\x9f\x98", 9, "\xef\xbf\xbd"},
      {"", 9, ""},
      {"abc", 0, ""},
  };
  for (const Case& c : cases) EXPECT_EQ(ToValidUtf8(c.text, c.bytes_max), c.expected);
}

TEST(JsonFloatTest, IsShortestAndAlwaysAFloat) {
  struct Case {
    float value;
    std::string_view expected;
  };
  const Case cases[] = {
      {0.0f, "0.0"},
      {-0.0f, "-0.0"},
      {-1.0f, "-1.0"},
      {-0.1f, "-0.1"},
      {-12.345678f, "-12.345678"},
      {1e-10f, "1e-10"},
      {16777216.0f, "16777216.0"},
      {-std::numeric_limits<float>::infinity(), "-9999.0"},
      {std::numeric_limits<float>::infinity(), "-9999.0"},
      {std::numeric_limits<float>::quiet_NaN(), "-9999.0"},
  };
  for (const Case& c : cases) EXPECT_EQ(FloatText(c.value), c.expected);
}

TEST(JsonFloatTest, RandomFloatsReadBackExactly) {
  std::mt19937 random(7);
  for (int round = 0; round < 100000; ++round) {
    const uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = FloatText(value);
    ASSERT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
    ASSERT_TRUE(Json::parse(text).is_number_float()) << text;
  }
}

TEST(JsonIntegersTest, WritesExtremesAndLists) {
  std::string out;
  AppendJsonInteger(&out, std::numeric_limits<int64_t>::min());
  out.push_back(' ');
  AppendJsonIntegers(&out, {});
  const int32_t values[] = {0, -1, 2147483647};
  AppendJsonIntegers(&out, values);
  EXPECT_EQ(out, "-9223372036854775808 [][0,-1,2147483647]");
}

}  // namespace
}  // namespace hydrant
