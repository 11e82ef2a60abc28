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

}  // namespace
}  // namespace hydrant::grammar
