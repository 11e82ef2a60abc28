#include "scheduler/prefill_cost.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(PrefillCost, WithoutAttentionItIsTheNumberOfTokens) {
  const PrefillCost cost(0);
  EXPECT_EQ(cost.Of(8000, 17), 17.0);
  EXPECT_EQ(cost.TokensFor(8000, 17.0), 17);
  EXPECT_EQ(cost.TokensFor(0, 0.0), 0);
}

TEST(PrefillCost, ATokenCostsTwiceAsMuchWhereAttentionCostsAsMuchAsTheRest) {
  const PrefillCost cost(1000);
  EXPECT_NEAR(cost.Of(1000, 1), 2.0, 1e-3);
  EXPECT_NEAR(cost.Of(3000, 16), 16 * 4.0, 0.2);
  EXPECT_DOUBLE_EQ(cost.Of(0, 600) + cost.Of(600, 400), cost.Of(0, 1000)) << "chunks cost what the whole does";
}

TEST(PrefillCost, TokensForIsTheMostThatCostNoMore) {
  const PrefillCost cost(3072);
  for (const int32_t live : {0, 1, 15, 16, 17, 500, 8191, 1 << 20}) {
    for (const double most : {0.5, 1.0, 16.0, 300.0, 5000.0, 1e6}) {
      const int32_t tokens = cost.TokensFor(live, most);
      EXPECT_LE(cost.Of(live, tokens), most * (1 + 1e-9)) << live << " " << most;
      EXPECT_GT(cost.Of(live, tokens + 1), most) << live << " " << most;
    }
  }
}

}  // namespace
}  // namespace hydrant
