#include "server/process/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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

// Hostile strings: a line of a log stays a line, and one object.
TEST(Log, AJsonLineIsOneObjectWhateverItSays) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kInfo, LogFormat::kJson);
  const std::string path = "/a\n{\"level\":\"error\"}\xff " + std::string(300, 'x');
  const LogField fields[] = {{"path", path}, {"status", int64_t{404}}};
  Log(LogLevel::kWarning, "odd \"one\"", fields);
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["message"], "odd \"one\"");
  EXPECT_EQ(line["status"], 404);
  const std::string written = line["path"];
  EXPECT_EQ(written.substr(0, 20), path.substr(0, 20));
  EXPECT_LE(written.size(), 200u);
  EXPECT_THAT(std::string(line["time"]), testing::MatchesRegex("....-..-..T..:..:..\\.[0-9]+[+-]..:..")) << text;
}

TEST(Log, FieldsOfATextLineAreWordsOrQuoted) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kInfo);
  const LogField fields[] = {{"id", "a-1"}, {"path", "/x y\nz"}, {"ms", int64_t{5}}};
  Log(LogLevel::kInfo, "request", fields);
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" info request id a-1 path \"/x y\\nz\" ms 5\n"), std::string::npos) << text;
}

TEST(Log, TheLevelChangesWhileItRuns) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kWarning);
  Log(LogLevel::kInfo, "before");
  SetLogLevel(LogLevel::kDebug);
  Log(LogLevel::kDebug, "after");
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("before"), std::string::npos) << text;
  EXPECT_NE(text.find(" debug after\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace hydrant
