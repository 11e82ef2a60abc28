#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

TEST(ScriptSteps, BytesSayWhoseTheyAre) {
  // Tools make the other regions; here all is text, and what may begin a trigger is not decided.
  const auto grammar =
      MustCompileKind(GrammarKind::kStructuralTag,
                      R"({"triggers":["<a>"],"structures":[{"begin":"<a>","schema":{"type":"array"},"end":"<"}]})");
  GrammarState state = grammar->Begin();
  std::vector<ByteRegion> regions;
  ASSERT_EQ(grammar->Advance(state, "x<<a>[{}]<<b", &regions), Grammar::Verdict::kAllowed);
  std::vector<int32_t> undecided;
  for (const ByteRegion& each : regions) undecided.push_back(each.undecided);
  EXPECT_EQ(undecided, (std::vector<int32_t>{0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(regions[0].region, Region::kText);
  EXPECT_EQ(regions[4].region, Region::kMarkup);
}

}  // namespace
}  // namespace hydrant::grammar
