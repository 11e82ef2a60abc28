// FormatPattern has the patterns of JSON Schema's formats, as regex_parser.h reads them, for the text as a whole.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_FORMAT_REGEX_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_FORMAT_REGEX_H_

#include <optional>
#include <string>
#include <string_view>

namespace hydrant::grammar {

struct Format {
  std::string pattern;
  int characters_max = 0;  // 0: no limit
  std::string also = "";   // what it has to fit, too; empty: nothing
};

// Those of strings: date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid, uri, uri-reference. Nothing for other names.
std::optional<Format> FormatOf(std::string_view name);

// Formats of numbers, by OpenAPI: "int32" and "int64" have bounds, "float" and "double" say nothing.
struct IntegerFormat {
  std::string_view least, most;  // "" where there is none
};
std::optional<IntegerFormat> NumberFormatOf(std::string_view name);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_FORMAT_REGEX_H_
