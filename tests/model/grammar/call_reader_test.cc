#include "model/grammar/call_reader.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace hydrant::grammar {
namespace {

using Kind = CallEvent::Kind;

TEST(CallReader, TextWaitsUntilItIsKnownToBeSome) {
  CallReader reader;
  std::vector<CallEvent> events;
  reader.Push("a<t", std::vector<ByteRegion>{{Region::kText, 0}, {Region::kText, 1}, {Region::kText, 2}}, events);
  EXPECT_EQ(events, (std::vector<CallEvent>{{Kind::kText, "a"}}));
  reader.Push("b", std::vector<ByteRegion>{{Region::kText, 0}}, events);
  EXPECT_EQ(events, (std::vector<CallEvent>{{Kind::kText, "a<tb"}}));
  reader.Push("<", std::vector<ByteRegion>{{Region::kText, 1}}, events);
  reader.Finish(true, events);
  EXPECT_EQ(events, (std::vector<CallEvent>{{Kind::kText, "a<tb<"}}));
}

TEST(CallReader, ACallThatIsCutOffHasNoEnd) {
  CallReader reader;
  std::vector<CallEvent> events;
  const std::string_view bytes = "<f{\"a\"";
  std::vector<ByteRegion> regions = {{Region::kText, 1}, {Region::kName, 0}};
  for (size_t i = 2; i < bytes.size(); ++i) regions.push_back({Region::kArguments, 0});
  reader.Push(bytes, regions, events);
  EXPECT_TRUE(reader.in_call());
  reader.Finish(false, events);
  EXPECT_EQ(events, (std::vector<CallEvent>{{Kind::kCall, "f"}, {Kind::kArguments, "{\"a\""}}));
}

TEST(CallReader, WhatIsReadTwoWaysIsDecidedLater) {
  CallReader reader;
  std::vector<CallEvent> events;
  const std::vector<ByteRegion> unknown(2, {Region::kText, ByteRegion::kAsBefore});
  reader.Push("{x", unknown, events);
  EXPECT_TRUE(events.empty());
  reader.Push("f", std::vector<ByteRegion>{{Region::kName, 0}}, events);
  reader.Push(":", std::vector<ByteRegion>{{Region::kMarkup, 0}}, events);
  EXPECT_EQ(events, (std::vector<CallEvent>{{Kind::kCall, "f"}}));
}

}  // namespace
}  // namespace hydrant::grammar
