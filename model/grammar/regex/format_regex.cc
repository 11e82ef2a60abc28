#include "model/grammar/regex/format_regex.h"

#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

// RFC 3339. February has a 29th day in years that 4 divides, but of those that 100 divides only where 400 does.
// There is no year 0 in many a library of dates.
std::string Date() {
  const std::string year = "(?:\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})";
  const std::string fourth = "(?:0[48]|[2468][048]|[13579][26])",
                    leap = StrCat("(?:\\d\\d", fourth, "|", fourth, "00)");
  return StrCat("(?:", year, "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|",
                "02-(?:0[1-9]|1\\d|2[0-8]))|", leap, "-02-29)");
}
std::string Time() { return "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"; }

// RFC 3339, appendix A: units without gaps.
std::string Duration() {
  const std::string time = "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
  return StrCat("P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:", time, ")?|", time, ")");
}

std::string Hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return StrCat(label, "(?:\\.", label, ")*");
}
std::string Email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return StrCat(atom, "(?:\\.", atom, ")*@", Hostname());
}

std::string Ipv4() {
  const std::string part = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return StrCat(part, "(?:\\.", part, "){3}");
}
// RFC 4291: eight groups, or fewer with one "::", the last two as IPv4 if one likes.
std::string Ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}", low = StrCat("(?:", group, ":", group, "|", Ipv4(), ")");
  std::string pattern = StrCat("(?:(?:", group, ":){6}", low);
  for (int before = 0; before <= 7; ++before) {
    // `before` groups at most stand left of "::"; what is right of it is counted exactly.
    const std::string left = before == 0 ? "" : StrCat("(?:(?:", group, ":){0,", before - 1, "}", group, ")?");
    const int right = 7 - before;
    const std::string behind = right >= 2   ? StrCat("(?:", group, ":){", right - 2, "}", low)
                               : right == 1 ? group
                                            : std::string();
    pattern += StrCat("|", left, "::", behind);
  }
  return pattern + ")";
}

// RFC 3986.
std::string UriTail() {
  const std::string pct = "%[0-9A-Fa-f]{2}", pchar = StrCat("(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|", pct, ")");
  return StrCat("(?:\\?(?:", pchar, "|[/?])*)?(?:#(?:", pchar, "|[/?])*)?");
}
std::string UriAuthority() {
  const std::string name = "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})",
                    pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string user = "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})";
  return StrCat("//(?:", user, "*@)?(?:\\[", Ipv6(), "\\]|", name, "*)(?::\\d*)?(?:/", pchar, "*)*");
}
std::string Uri() {
  const std::string pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  return StrCat("[A-Za-z][A-Za-z0-9+.-]*:(?:", UriAuthority(), "|/(?:", pchar, "+(?:/", pchar, "*)*)?|", pchar, "+(?:/",
                pchar, "*)*)?", UriTail());
}
std::string UriReference() {
  const std::string pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string no_colon = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})";
  return StrCat("(?:", Uri(), "|(?:", UriAuthority(), "|/(?:", pchar, "+(?:/", pchar, "*)*)?|", no_colon, "+(?:/",
                pchar, "*)*)?", UriTail(), ")");
}

}  // namespace

std::optional<Format> FormatOf(std::string_view name) {
  if (name == "date") return Format{Date()};
  if (name == "time") return Format{Time()};
  if (name == "date-time") return Format{StrCat(Date(), "T", Time())};
  if (name == "duration") return Format{Duration()};
  if (name == "email") return Format{Email(), 254, "[^@]{1,64}@.*"};  // RFC 5321, 4.5.3.1.1
  if (name == "hostname") return Format{Hostname(), 253};
  if (name == "ipv4") return Format{Ipv4()};
  if (name == "ipv6") return Format{Ipv6()};
  if (name == "uuid") return Format{"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"};
  if (name == "uri") return Format{Uri()};
  if (name == "uri-reference") return Format{UriReference()};
  return std::nullopt;
}

std::optional<IntegerFormat> NumberFormatOf(std::string_view name) {
  if (name == "int32") return IntegerFormat{"-2147483648", "2147483647"};
  if (name == "int64") return IntegerFormat{"-9223372036854775808", "9223372036854775807"};
  if (name == "float" || name == "double") return IntegerFormat{};
  return std::nullopt;
}

}  // namespace hydrant::grammar
