#include "api/wire/trace_context.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace hydrant {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kRest = "-" + kTrace + "-00f067aa0ba902b7-01";

TEST(TraceContextTest, TakesTheTraceIdOfAValidField) {
  EXPECT_EQ(TraceIdOf("00" + kRest), kTrace);
  EXPECT_EQ(TraceIdOf("01" + kRest), kTrace);
  EXPECT_EQ(TraceIdOf("cc" + kRest + "-what-the-future-brings"), kTrace);
}

TEST(TraceContextTest, IgnoresWhatTheSpecificationCallsInvalid) {
  const std::string zeros(32, '0');
  for (const std::string& text : std::initializer_list<std::string>{
           std::string(), "00" + kRest + "-more", "00" + kRest + " ", "cc" + kRest + ".more", "ff" + kRest,
           "0G" + kRest, "00" + kRest.substr(0, kRest.size() - 1), "00-" + zeros + "-00f067aa0ba902b7-01",
           "00-" + kTrace + "-0000000000000000-01", "00_" + kTrace + "-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-" + kTrace.substr(1) + "\n-00f067aa0ba902b7-01", "00-" + kTrace + "-00f067aa0ba902b7-0x"}) {
    EXPECT_EQ(TraceIdOf(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace hydrant
