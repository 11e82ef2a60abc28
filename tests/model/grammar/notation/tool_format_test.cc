#include "model/grammar/notation/tool_format.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant::grammar {
namespace {

TEST(ToolFormat, IsFoundByNameAndInTemplates) {
  for (const ToolFormat& format : ToolFormats()) {
    EXPECT_EQ(FindToolFormat(format.name)->name, format.name);
    const std::string shows = std::string(format.in_template[0]) + " … " + std::string(format.in_template[1]);
    ASSERT_NE(DetectToolFormat(shows), nullptr);
    EXPECT_EQ(DetectToolFormat(shows)->name, format.name);
  }
  EXPECT_EQ(FindToolFormat("none"), nullptr);
  EXPECT_EQ(DetectToolFormat("{{ messages }}"), nullptr);
}

TEST(ToolFormat, MarkersAreWhatTheFormatIsWrittenWith) {
  for (const ToolFormat& format : ToolFormats()) {
    std::string written(format.trigger);
    const auto add = [&written](const ToolFormat& row) {
      for (const std::string_view part :
           {row.before_pattern, row.call_pattern, row.arguments_pattern, row.end_pattern, row.after_pattern}) {
        for (const char c : part) written += c == '\\' ? "" : std::string(1, c);
      }
    };
    add(format);
    for (const ToolFormat& row : FindReadFormats(format.name)) add(row);
    for (const std::string_view marker : format.markers) EXPECT_NE(written.find(marker), written.npos) << marker;
    if (format.trigger.empty() || format.markers[0].empty()) continue;
    EXPECT_TRUE(format.trigger.starts_with(format.markers[0])) << format.name;
  }
}

TEST(ToolFormat, CallsThatAreMessagesHaveTheSameMarkers) {
  size_t rows = 0;
  for (const ToolFormat& format : ToolFormats()) {
    for (const ToolFormat& row : FindMessageFormats(format.name)) {
      ++rows;
      EXPECT_EQ(row.name, format.name);
      EXPECT_FALSE(row.trigger.empty() || row.arguments_pattern.empty());
    }
  }
  EXPECT_EQ(rows, 2u);
  EXPECT_TRUE(FindMessageFormats("hermes").empty());
}

}  // namespace
}  // namespace hydrant::grammar
