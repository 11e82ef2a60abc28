#include "server/process/log.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(Log, NothingIsWrittenBeforeStartAndAfterStop) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kError, "too early");
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  StartLog(LogLevel::kInfo);
  StopLog();
  Log(LogLevel::kError, "too late");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Log, LevelsBelowTheChosenOneAreLeftOutAndStopWritesWhatIsQueued) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kWarning);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarning));
  Log(LogLevel::kInfo, "unimportant");
  Log(LogLevel::kWarning, "odd {} %s");
  Log(LogLevel::kError, "bad");
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("unimportant"), std::string::npos);
  EXPECT_NE(text.find(" warning odd {} %s\n"), std::string::npos) << "a line is text, not a format: " << text;
  EXPECT_NE(text.find(" error bad\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace hydrant
