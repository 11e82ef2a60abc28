#include "api/response/answer.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(AnswerTest, PartialCharactersStayDistinct) {
  EXPECT_EQ(LogprobTokenText("é"), "é");
  EXPECT_EQ(LogprobTokenText("\xc3"), "bytes:\\xc3");
  EXPECT_EQ(LogprobTokenText("a\xe2\x80"), "bytes:\\x61\\xe2\\x80");
}

TEST(AnswerTest, FinishReasonsHaveTheirNames) {
  EXPECT_EQ(AnswerFinishName(FinishReason::kStop), "stop");
  EXPECT_EQ(AnswerFinishName(FinishReason::kLength), "length");
  EXPECT_EQ(AnswerFinishName(FinishReason::kAbort), "abort");
}

TEST(AnswerTest, HeadsNameTheObjectAndEscapeTheRest) {
  std::string out;
  AppendAnswerHead(&out, {"chatcmpl-1", 7, "a\"b", ""}, "chat.completion");
  EXPECT_EQ(out, R"({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"a\"b")");
  out.clear();
  AppendFingerprintMember(&out, {"chatcmpl-1", 7, "m", ""});
  EXPECT_EQ(out, R"(,"system_fingerprint":null)");
}

}  // namespace
}  // namespace hydrant
