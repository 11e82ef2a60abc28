#include "server/foreign_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "server/config.h"

namespace hydrant {
namespace {

TEST(ForeignFlags, EachIsToldWhatToDoAndNoneIsOurs) {
  std::string_view last;
  for (const FlagAdvice& row : ForeignFlags()) {
    EXPECT_LT(last, row.flag);
    last = row.flag;
    for (const bool joined : {false, true}) {
      const std::string flag(row.flag);
      const ConfigResult result = joined ? ParseCommandLine({"serve", "model.gguf", flag + "=x"})
                                         : ParseCommandLine({"serve", "model.gguf", flag, "x"});
      EXPECT_FALSE(result.config.has_value());
      EXPECT_EQ(result.message, flag + ": there is no such flag; " + std::string(row.advice));
    }
  }
}

// The nearest of our names is another thing, and one of keys' files would have taken a key of TLS.
TEST(ForeignFlags, NoneIsGuessedAt) {
  for (const char* flag : {"--ssl-keyfile", "--ssl_keyfile", "--data-parallel-size", "--pipeline-parallel-size",
                           "--load-format", "--max-logprobs"}) {
    EXPECT_THAT(ParseCommandLine({"serve", "model.gguf", flag, "x"}).message,
                testing::Not(testing::HasSubstr("did you mean")));
  }
}

}  // namespace
}  // namespace hydrant
