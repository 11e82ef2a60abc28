#include "loadgen/load/load_plan.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

// Conversations of one turn with `tokens` token ids, four bytes each.
Workload OfIds(int32_t tokens) {
  WorkloadSpec spec;
  spec.input_tokens = Distribution(tokens);
  spec.token_ids = {0, 9};
  return *Workload::Make(std::move(spec));
}

TEST(LoadPlan, AheadIsBoundedByNumberAndBytes) {
  const RequestStyle style;
  struct Case {
    int32_t tokens;
    size_t arrivals, may_run, ahead;
  };
  constexpr size_t kMillion = 1'000'000;
  for (const Case& c :
       {Case{8, kMillion, kMillion, LoadPlan::kAheadMax}, Case{8, kMillion, 3, 3}, Case{8, 2, kMillion, 2},
        Case{1 << 20, kMillion, kMillion, LoadPlan::kAheadBytesMax >> 22}, Case{1 << 24, kMillion, kMillion, 1}}) {
    const Workload workload = OfIds(c.tokens);
    LoadPlan plan(&workload, &style, {.count = c.arrivals}, 0);
    plan.MakeAhead(c.may_run);
    EXPECT_EQ(plan.ahead(), c.ahead) << c.tokens << " tokens, " << c.arrivals << " arrivals, " << c.may_run;
  }
}

TEST(LoadPlan, IsTheSameHoweverMuchWasMadeAhead) {
  const Workload workload = OfIds(8);
  const RequestStyle style;
  for (const size_t ahead : {0u, 2u, 9u}) {
    LoadPlan plan(&workload, &style, {.rate = 2, .burstiness = kInfinity, .count = 4}, 7);
    plan.MakeAhead(ahead);
    for (size_t i = 0; i < 4; ++i) {
      const std::optional<PlannedConversation> next = plan.Next();
      ASSERT_TRUE(next.has_value());
      EXPECT_EQ(next->conversation_idx, 7 + i);
      EXPECT_EQ(next->scheduled_s, 0.5 * static_cast<double>(i + 1));
      EXPECT_EQ(next->dialogue->conversation().turns[0].token_ids, workload.At(7 + i).turns[0].token_ids);
    }
    EXPECT_FALSE(plan.Next().has_value());
  }
}

}  // namespace
}  // namespace hydrant
