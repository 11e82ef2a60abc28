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
    for (const std::string_view part : {format.before_pattern, format.call_pattern, format.arguments_pattern,
                                        format.end_pattern, format.after_pattern}) {
      for (const char c : part) written += c == '\\' ? "" : std::string(1, c);
    }
    for (const std::string_view marker : format.markers) EXPECT_NE(written.find(marker), written.npos) << marker;
    if (format.trigger.empty()) continue;
    EXPECT_EQ(format.markers[0], format.trigger) << format.name;
  }
}

}  // namespace
}  // namespace hydrant::grammar
