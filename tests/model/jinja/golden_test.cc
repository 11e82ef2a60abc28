// Everything a template can say, against Python's jinja2 (tests/golden/jinja).
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "model/jinja/template.h"
#include "nlohmann/json.hpp"

namespace hydrant::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string Kind(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "raised";
    case absl::StatusCode::kFailedPrecondition:
      return "data";
    default:
      return "limit";
  }
}

// What a template makes of the context, or "!" and how it fails.
std::string Outcome(const std::string& source, const std::vector<Variable>& variables) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return "!syntax";
  const auto rendering = parsed->Render(variables, 0);
  return rendering.ok() ? rendering->text : "!" + Kind(rendering.status());
}

TEST(JinjaGolden, EveryCaseIsAsPythonHasIt) {
  std::ifstream file(HYDRANT_SOURCE_DIR "/tests/golden/jinja/cases.json");
  const Json golden = Json::parse(file);
  std::vector<Variable> variables;
  for (const auto& [name, value] : golden.at("context").items()) variables.push_back({name, &value});
  size_t count = 0;
  for (const Json& record : golden.at("cases")) {
    const auto source = record.at("template").get<std::string>();
    const std::string expected =
        record.contains("error") ? "!" + record["error"].get<std::string>() : record["expected"].get<std::string>();
    EXPECT_EQ(Outcome(source, variables), expected) << record["name"] << ": " << source;
    ++count;
  }
  EXPECT_GT(count, 1000u);
}

}  // namespace
}  // namespace hydrant::jinja
