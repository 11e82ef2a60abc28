#include "block_manager/kv_budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

// The counts of a whole life, played with sets of positions: append, attend, evict. It knows
// nothing of slots that are reused or of reservations.
struct Life {
  std::vector<int64_t> slots_during;  // memory touched in the step of the prompt's end, then in each decode step
  std::vector<int64_t> kept_after;
};

Life PlayLife(int32_t prompt_length, int32_t max_tokens, int32_t keep, int32_t beta, bool periodic) {
  Life life;
  std::set<int32_t> kept;
  for (int32_t position = 0; position < prompt_length; ++position) kept.insert(position);
  life.slots_during.push_back(static_cast<int64_t>(kept.size()));
  while (keep > 0 && static_cast<int32_t>(kept.size()) > keep) kept.erase(kept.begin());
  life.kept_after.push_back(static_cast<int64_t>(kept.size()));
  for (int32_t i = 0; i + 1 < max_tokens; ++i) {
    kept.insert(prompt_length + i);
    life.slots_during.push_back(static_cast<int64_t>(kept.size()));
    const int32_t limit = periodic ? keep + beta - 1 : keep;
    if (keep > 0 && static_cast<int32_t>(kept.size()) > limit) {
      while (static_cast<int32_t>(kept.size()) > keep) kept.erase(kept.begin());
    }
    life.kept_after.push_back(static_cast<int64_t>(kept.size()));
  }
  return life;
}

// Blocks needed once the prompt is computed and cut.
int64_t PeakBlocksAfterPrompt(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  const int32_t cut = budget.PromptCut(prompt_length);
  return PeakBlocksFrom(cut > 0 ? cut : prompt_length, prompt_length, prompt_length, max_tokens, budget);
}

TEST(KvBudget, CountsEqualThoseOfASetThatEvicts) {
  for (int32_t keep : {0, 1, 2, 15, 16, 17, 31, 32, 33}) {
    for (int32_t beta : {0, 1, 2, 15, 16, 17}) {  // 0: exact
      const KvBudget budget = keep == 0   ? KvBudget::Unlimited()
                              : beta == 0 ? KvBudget::Exact(keep)
                                          : KvBudget::Periodic(keep, beta);
      ASSERT_TRUE(budget.valid());
      for (int32_t prompt_length : {1, 2, 15, 16, 17, 31, 32, 33, 34, 64}) {
        for (int32_t max_tokens : {0, 1, 2, 3, 16, 17, 40}) {
          SCOPED_TRACE(testing::Message() << "keep " << keep << " beta " << beta << " prompt " << prompt_length
                                          << " max_tokens " << max_tokens);
          const Life life = PlayLife(prompt_length, max_tokens, keep, beta, budget.periodic);
          const int32_t cut = budget.PromptCut(prompt_length);
          int32_t live = cut > 0 ? cut : prompt_length;
          EXPECT_EQ(live, life.kept_after[0]);
          int64_t peak_after_prompt = live;
          for (size_t step = 1; step < life.kept_after.size(); ++step) {
            // The promise made at any moment covers the rest of the life.
            const int64_t steps_left = static_cast<int64_t>(life.kept_after.size() - step);
            const int64_t promised = budget.PeakSlots(live, steps_left);
            const DecodeCounts counts = budget.Decode(live);
            EXPECT_EQ(counts.live_after, life.slots_during[step]) << "step " << step;
            EXPECT_LE(counts.live_after, promised);
            const bool evicts = counts.reuse_victim || counts.choose_victim || counts.shrink_to > 0;
            EXPECT_EQ(budget.StepsBeforeEviction(live) == 0, evicts);
            if (!evicts && keep > 0) {
              EXPECT_EQ(budget.StepsBeforeEviction(counts.live_after), budget.StepsBeforeEviction(live) - 1);
            }
            // A victim is physically there until it is overwritten: exact owns one slot more than it keeps.
            const bool one_more = counts.choose_victim;
            live = counts.shrink_to > 0 ? counts.shrink_to : counts.live_after;
            EXPECT_EQ(live - (one_more ? 1 : 0), life.kept_after[step]) << "step " << step;
            EXPECT_LE(budget.PeakSlots(live, steps_left - 1), promised) << "a promise grew at step " << step;
            peak_after_prompt = std::max<int64_t>(peak_after_prompt, counts.live_after);
          }
          EXPECT_EQ(PeakBlocksAfterPrompt(prompt_length, max_tokens, budget), BlocksForSlots(peak_after_prompt));
          EXPECT_EQ(PeakBlocks(prompt_length, max_tokens, budget),
                    BlocksForSlots(std::max<int64_t>(prompt_length, peak_after_prompt)));
        }
      }
    }
  }
}

KvBudget Budgeted(int32_t keep, int32_t stride) {
  KvBudget budget = KvBudget::Exact(keep);
  budget.prompt_stride = stride;
  return budget;
}

// A prompt played token by token: cut after every `stride`-th one and after the last.
TEST(KvBudget, ABudgetedPromptIsCutAtMultiplesOfItsStride) {
  for (int32_t keep : {1, 15, 16, 17, 40, 64, 100}) {
    for (int32_t stride : {1, 16, 17, 32, 64}) {
      for (int32_t prompt_length : {1, 15, 16, 17, 63, 64, 65, 128, 200}) {
        for (const auto& [live_before, computed] : {std::pair(0, 0), std::pair(1, 5), std::pair(17, 17)}) {
          if (live_before > keep || computed >= prompt_length) continue;
          SCOPED_TRACE(testing::Message() << "keep " << keep << " stride " << stride << " prompt " << prompt_length
                                          << " from " << computed);
          const KvBudget budget = Budgeted(keep, stride);
          int32_t live = live_before, first_cut = 0;
          int64_t peak = live;
          for (int32_t tokens = computed + 1; tokens <= prompt_length; ++tokens) {
            peak = std::max<int64_t>(peak, ++live);
            if ((tokens % stride != 0 && tokens != prompt_length) || live <= keep) continue;
            if (first_cut == 0) first_cut = tokens;
            live = keep;
          }
          const KvBudget::PromptSlots slots = budget.PlayPrompt(live_before, computed, prompt_length);
          EXPECT_EQ(slots.peak, peak);
          EXPECT_EQ(slots.after, live);
          EXPECT_LE(peak, std::max(keep, live_before) + stride);
          if (computed == 0) {
            EXPECT_EQ(budget.FirstCut(prompt_length), first_cut);
          }
        }
      }
    }
  }
}

TEST(KvBudget, ReusesAVictimExactlyWhenTheStepBeforeChoseOne) {
  const KvBudget budget = KvBudget::Exact(17);
  int32_t live = budget.PromptCut(40);
  bool chosen = false;
  for (int32_t step = 0; step < 50; ++step) {
    const DecodeCounts counts = budget.Decode(live);
    EXPECT_EQ(counts.reuse_victim, chosen) << "step " << step;
    chosen = counts.choose_victim;
    live = counts.live_after;
  }
  EXPECT_EQ(live, 18);
}

TEST(KvBudget, PeriodicNeverTouchesVictims) {
  const KvBudget budget = KvBudget::Periodic(16, 1);
  for (int32_t live = 1; live <= 16; ++live) {
    EXPECT_FALSE(budget.Decode(live).reuse_victim);
    EXPECT_FALSE(budget.Decode(live).choose_victim);
  }
  EXPECT_EQ(budget.Decode(16).live_after, 17);
  EXPECT_EQ(budget.Decode(16).shrink_to, 16);
}

struct BlocksCase {
  const char* name;
  int32_t prompt_length;
  int64_t max_tokens;
  KvBudget budget;
  int64_t after_prompt;
  int64_t peak;
};

TEST(KvBudget, PeakBlocksOfNamedCases) {
  const BlocksCase cases[] = {
      {"a budget of 256 owns 257 slots", 2000, 500, KvBudget::Exact(256), 17, 125},
      {"no decode step, no slot beyond the cut", 2000, 1, KvBudget::Exact(256), 16, 125},
      {"dense: the last token is never fed back", 2000, 500, KvBudget::Unlimited(), 157, 157},
      {"dense at a block edge", 15, 2, KvBudget::Unlimited(), 1, 1},
      {"dense past a block edge", 15, 3, KvBudget::Unlimited(), 2, 2},
      {"a short prompt grows to its budget", 10, 1000, KvBudget::Exact(63), 4, 4},
      {"a short generation never reaches it", 10, 7, KvBudget::Exact(63), 1, 1},
      {"periodic reaches keep + beta", 100, 1000, KvBudget::Periodic(64, 16), 5, 7},
      {"a budgeted prompt of any length", 1'000'000, 500, Budgeted(256, 256), 17, 32},
      {"one that fits its first stride", 200, 500, Budgeted(256, 256), 17, 17},
      {"one token", 1, 1, KvBudget::Unlimited(), 1, 1},
      {"nothing to generate", 17, 0, KvBudget::Unlimited(), 2, 2},
      {"no overflow", std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max(), KvBudget::Unlimited(),
       268435456, 268435456},
      {"no overflow of keep + slack", 1, std::numeric_limits<int32_t>::max(),
       KvBudget::Periodic(std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max()), 134217728,
       134217728},
  };
  for (const BlocksCase& c : cases) {
    EXPECT_EQ(PeakBlocksAfterPrompt(c.prompt_length, c.max_tokens, c.budget), c.after_prompt) << c.name;
    EXPECT_EQ(PeakBlocks(c.prompt_length, c.max_tokens, c.budget), c.peak) << c.name;
  }
}

// As far as so many decode steps go, it is the same life.
TEST(KvBudget, SlotsWithinAreThoseOfTheSameLifeCutShort) {
  const KvBudget budgets[] = {KvBudget::Unlimited(), KvBudget::Exact(40), KvBudget::Periodic(40, 24)};
  for (const KvBudget& budget : budgets) {
    for (const int32_t prompt : {1, 30, 41, 100}) {
      for (const int32_t max_tokens : {0, 1, 5, 200}) {
        int32_t live = budget.PlayPrompt(0, 0, prompt).after;
        int64_t peak = budget.PlayPrompt(0, 0, prompt).peak;
        for (int32_t steps = 0; steps <= 80; ++steps) {
          EXPECT_EQ(SlotsWithin(0, 0, prompt, max_tokens, steps, budget), peak) << prompt << " " << steps;
          if (steps >= DecodeSteps(max_tokens)) continue;
          const DecodeCounts counts = budget.Decode(live);
          peak = std::max<int64_t>(peak, counts.live_after);
          live = counts.shrink_to > 0 ? counts.shrink_to : counts.live_after;
        }
      }
    }
  }
}

TEST(KvBudget, MalformedBudgetsAreToldApart) {
  EXPECT_TRUE(KvBudget::Unlimited().valid());
  EXPECT_TRUE(KvBudget::Exact(1).valid());
  EXPECT_TRUE(KvBudget::Periodic(1, 64).valid());
  EXPECT_FALSE(KvBudget::Exact(-1).valid());
  EXPECT_FALSE(KvBudget::Periodic(16, 0).valid());
  EXPECT_FALSE((KvBudget{16, 2, false}).valid());
  EXPECT_TRUE(Budgeted(16, 1).valid());
  EXPECT_FALSE(Budgeted(16, -1).valid());
  EXPECT_FALSE(Budgeted(0, 16).valid()) << "a dense prompt is never cut";
}

TEST(KvBudget, ASessionMakesRoomForATurn) {
  KvBudget budget = KvBudget::Exact(40);
  EXPECT_EQ(budget.TurnCut(40, 10), 0) << "only where it is asked to";
  budget.turn_heavy = 20;
  const struct {
    const char* name;
    int32_t live, tokens, cut;
  } cases[] = {
      {"fits", 30, 10, 0},
      {"one too many", 30, 11, 29},
      {"full", 40, 1, 39},
      {"all of the recent ones", 40, 20, 20},
      {"more than these", 40, 300, 20},
      {"nothing but heavy ones", 20, 300, 0},
      {"fewer than heavy ones", 8, 300, 0},
  };
  for (const auto& test : cases) EXPECT_EQ(budget.TurnCut(test.live, test.tokens), test.cut) << test.name;
}

}  // namespace
}  // namespace hydrant
