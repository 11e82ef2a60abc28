#include "model/jinja/core/text.h"

#include <gtest/gtest.h>

namespace hydrant::jinja {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(Text, KeepsTheOriginOfEveryByteWhenPutTogether) {
  Text text("ab", Origin::kTemplate);
  text.Append("cd", Origin::kClient);
  text.Append(Text("ef", Origin::kClient));
  text.Append("g", Origin::kTemplate);
  EXPECT_EQ(text.bytes(), "abcdefg");
  EXPECT_EQ(text.client(), Ranges({{2, 6}}));
  EXPECT_EQ(text.OriginAt(1), Origin::kTemplate);
  EXPECT_EQ(text.OriginAt(2), Origin::kClient);
  EXPECT_EQ(text.OriginAt(5), Origin::kClient);
  EXPECT_EQ(text.OriginAt(6), Origin::kTemplate);
}

TEST(Text, SlicesItsRangesWithItsBytes) {
  Text text;
  for (const auto origin : {Origin::kClient, Origin::kTemplate, Origin::kClient}) text.Append("xyz", origin);
  EXPECT_EQ(text.Slice(0, 9).client(), Ranges({{0, 3}, {6, 9}}));
  EXPECT_EQ(text.Slice(1, 8).client(), Ranges({{0, 2}, {5, 7}}));
  EXPECT_EQ(text.Slice(3, 6).client(), Ranges());
  EXPECT_EQ(text.Slice(4, 7).client(), Ranges({{2, 3}}));
  EXPECT_EQ(text.Slice(2, 2).client(), Ranges());
}

TEST(Text, TrimsWhatPythonCallsSpace) {
  const ByteRange kept = TrimSpace("\xC2\xA0\t x \xE3\x80\x80\n", true, true);
  EXPECT_EQ(kept, (ByteRange{4, 5}));
}

TEST(Text, TrimsNothingBesideBytesThatAreNoCharacter) {
  EXPECT_EQ(TrimSpace(" \x8D ", true, true), (ByteRange{1, 2}));
  EXPECT_EQ(TrimSpace("x\x85", false, true), (ByteRange{0, 2}));
  EXPECT_EQ(TrimSpace("\xE3\x80\x80\x80\x80 ", true, true), (ByteRange{3, 5}));
}

}  // namespace
}  // namespace hydrant::jinja
