#include "api/response/sse.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(SseTest, AnEventIsOneDataLineAndABlankLine) {
  std::string out;
  AppendSseEvent(&out, "{}");
  AppendSseEvent(&out, "[1]");
  EXPECT_EQ(out, "data: {}\n\ndata: [1]\n\n");
}

TEST(SseTest, AnErrorIsAnEventWithTheErrorBody) {
  std::string out;
  AppendSseError(&out, ServerError("line\nbreak", "numerical_error"));
  EXPECT_EQ(out,
            "data: {\"error\":{\"message\":\"line\\nbreak\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":\"numerical_error\"}}\n\n");
}

TEST(SseTest, DoneIsExactlyWhatClientsCompareWith) { EXPECT_EQ(kSseDone, "data: [DONE]\n\n"); }

TEST(SseDeathTest, ALineBreakInAnEventIsABug) {
  std::string out;
  EXPECT_DEATH(AppendSseEvent(&out, "a\nb"), "");
}

}  // namespace
}  // namespace hydrant
