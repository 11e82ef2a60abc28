#include "api/request/past_arguments.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

std::string ShownArguments(std::string_view written, RequestLimits limits = RequestLimits()) {
  JsonBudget budget(limits);
  const auto read = ReadPastArguments(written, &budget);
  return read.ok() ? read.value().dump() : read.error().code;
}

TEST(PastArguments, AreWhatAModelWroteAsFarAsATemplateHoldsIt) {
  const auto nested = [](size_t levels, const std::string& inside) {
    return std::string(levels, '[') + inside + std::string(levels, ']');
  };
  // The object is a level, and 64 are allowed.
  const std::string deep = "{\"x\":" + nested(63, "") + "}";
  const struct {
    std::string written, shown;
  } cases[] = {
      {"", "{}"},
      {" {", "{}"},
      {R"({"y": [1], "x": "}"} )", R"({"y":[1],"x":"}"})"},
      {R"({"x": 1, "y": [2)", R"({"x":1})"},
      {R"({"x": "a", "y")", R"({"x":"a"})"},
      {R"({"x": tru, "y")", "{}"},
      {R"({"x": 18446744073709551616, "y": [18446744073709551615, -1e2]})",
       R"({"x":"18446744073709551616","y":[18446744073709551615,-100.0]})"},
      {R"({"x": -9223372036854775809, "y": "18446744073709551616)", R"({"x":"-9223372036854775809"})"},
      {deep, deep},
      {"{\"x\":" + nested(63, R"([1, "]\""])") + ",\"y\":2}",
       "{\"x\":" + nested(63, R"("[1, \"]\\\"\"]")") + ",\"y\":2}"},
      {"[1]", "invalid_type"},
      {"none", "invalid_type"},
  };
  for (const auto& [written, shown] : cases) EXPECT_EQ(ShownArguments(written), shown) << written;
  RequestLimits few;
  few.json_nodes_max = 3;
  EXPECT_EQ(ShownArguments(R"({"x": [1, 2, 3]})", few), "json_too_many_nodes");
}

}  // namespace
}  // namespace hydrant
