#include "model/grammar/regex/format_regex.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/regex_parser.h"

namespace hydrant::grammar {
namespace {

TEST(FormatRegex, MatchesWhatTheStandardsSay) {
  struct Case {
    const char* name;
    std::vector<std::string> yes, no;
  };
  const std::vector<Case> cases = {
      {"date",
       {"2026-11-26", "2024-02-29", "2000-02-29", "1999-12-31"},
       {"0000-01-01", "0000-02-29", "2026-02-29", "1900-02-29", "2026-13-01", "2026-04-31", "2026-00-10", "26-11-26"}},
      {"time", {"23:59:59Z", "00:00:00.125+02:00"}, {"24:00:00Z", "12:60:00Z", "12:00:00", "12:00Z"}},
      {"date-time",
       {"2026-11-26T01:54:37Z", "2026-11-26T01:54:37.5-11:30"},
       {"2026-11-26 01:54:37Z", "2026-11-26T01:54:37", "2026-11-26"}},
      {"duration",
       {"P1D", "PT5M", "P1Y2M3DT4H5M6S", "P2W", "PT1H"},
       {"P", "PT", "1D", "P1D2H", "P1Y2W", "PT1D", "P1YT1H2S"}},
      {"email", {"a@b.org", "first.last+tag@sub.example"}, {"a@", "@b", "a..b@c.d", ".a@b", "a@-b.c", "a b@c.d"}},
      {"hostname", {"a", "example.org", "x-1.y"}, {"-a", "a-", "a..b", "", "a_b", std::string(64, 'a')}},
      {"ipv4", {"0.0.0.0", "255.249.199.9"}, {"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"}},
      {"ipv6",
       {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "2001:db8::ff00:42:8329", "1::8", "::ffff:1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7::"},
       {":::", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", ":1", "1:", "::256.1.1.1",
        "1:2:3:4:5:6:7:8::"}},
      {"uuid",
       {"123e4567-E89B-12d3-a456-426655440000"},
       {"123e4567e89b12d3a456426655440000", "123e4567-e89b-12d3-a456-42665544000g"}},
      {"uri",
       {"https://example.org/a?b=c#d", "mailto:a@b", "urn:x:y", "http://[::1]:80/", "a:"},
       {"//example.org", "a b:c", "/path", "http://a b", "1a:b", "http://[::1"}},
      {"uri-reference", {"/a/b?c", "", "#x", "https://e.org", "a/b:c"}, {"a b", "\\\\x", "1:2", "%zz"}},
  };
  for (const Case& each : cases) {
    const auto format = FormatOf(each.name);
    ASSERT_TRUE(format.has_value()) << each.name;
    LazyDfa dfa;
    Fuel fuel;
    const auto parsed = ParseRegex(format->pattern, dfa.arena(), TextEncoding::kUtf8, RegexExtent::kWhole, fuel);
    ASSERT_EQ(parsed.index(), 0u) << each.name << ": " << std::get<RegexRefusal>(parsed).text;
    for (const std::string& text : each.yes)
      EXPECT_TRUE(dfa.Matches(std::get<RegexId>(parsed), text, fuel)) << each.name << " " << text;
    for (const std::string& text : each.no)
      EXPECT_FALSE(dfa.Matches(std::get<RegexId>(parsed), text, fuel)) << each.name << " " << text;
    EXPECT_FALSE(fuel.empty());
  }
}

TEST(FormatRegex, KnowsNoOthers) {
  EXPECT_FALSE(FormatOf("regex").has_value());
  EXPECT_FALSE(FormatOf("").has_value());
  EXPECT_TRUE(NumberFormatOf("int32").has_value());
  EXPECT_FALSE(NumberFormatOf("decimal").has_value());
}

}  // namespace
}  // namespace hydrant::grammar
