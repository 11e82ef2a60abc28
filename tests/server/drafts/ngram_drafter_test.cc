#include "server/drafts/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr NgramOptions kOptions = {.tokens = 4, .lookup_max = 3, .lookup_min = 2};

// One that has found out that it is right.
NgramDrafter Sure(const std::vector<int32_t>& text, NgramOptions options = kOptions) {
  NgramDrafter drafter(options, text);
  for (int i = 0; i < 20; ++i) drafter.Learn(4, 4);
  return drafter;
}

TEST(NgramDrafter, ProposesWhatFollowedTheSameTokens) {
  EXPECT_THAT(Sure({1, 2, 3, 4, 5, 6, 9, 2, 3}).Propose(8, 1), ElementsAre(4, 5, 6, 9));
}

TEST(NgramDrafter, ProposesNoMoreThanThereIsRoomFor) {
  EXPECT_THAT(Sure({1, 2, 3, 4, 5, 6, 9, 2, 3}).Propose(2, 1), ElementsAre(4, 5));
  EXPECT_THAT(Sure({1, 2, 3, 4, 5, 6, 9, 2, 3}).Propose(0, 1), IsEmpty());
}

TEST(NgramDrafter, PrefersTheLongestMatchAndThenTheLast) {
  EXPECT_THAT(Sure({1, 2, 3, 7, 8, 2, 3, 4, 9, 1, 2, 3}).Propose(1, 1), ElementsAre(7)) << "three tokens, not two";
  EXPECT_THAT(Sure({2, 3, 7, 8, 2, 3, 4, 9, 2, 3}).Propose(1, 1), ElementsAre(4)) << "the later one";
  EXPECT_THAT(Sure({5, 1, 2, 3, 7, 6, 1, 2, 3, 4, 5, 1, 2, 3}).Propose(1, 1), ElementsAre(4))
      << "nothing longer than three is looked for";
}

TEST(NgramDrafter, ProposesNothingForFewerTokensThanAreAskedFor) {
  EXPECT_THAT(Sure({3, 4, 5, 3}).Propose(4, 1), IsEmpty()) << "one token";
  EXPECT_THAT(Sure({3, 4, 5, 3}, {.tokens = 4, .lookup_max = 3, .lookup_min = 1}).Propose(4, 1),
              ElementsAre(4, 5, 3, 4));
  EXPECT_THAT(Sure({3}).Propose(4, 1), IsEmpty());
  EXPECT_THAT(Sure({}).Propose(4, 1), IsEmpty());
  EXPECT_THAT(Sure({2, 3}).Propose(4, 1), IsEmpty());
  EXPECT_THAT(Sure({1, 2, 3, 4, 5}).Propose(4, 1), IsEmpty());
}

TEST(NgramDrafter, GoesOnWithATextThatRepeatsItselfAtOnce) {
  EXPECT_THAT(Sure({1, 2, 7, 7, 7}).Propose(4, 1), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(Sure({1, 5, 6, 5, 6}).Propose(4, 1), ElementsAre(5, 6, 5, 6));
}

TEST(NgramDrafter, FollowsTheAnswer) {
  NgramDrafter drafter = Sure({1, 2, 3, 4});
  drafter.Push(8);
  EXPECT_THAT(drafter.Propose(4, 1), IsEmpty());
  drafter.Push(2);
  drafter.Push(3);
  EXPECT_THAT(drafter.Propose(2, 1), ElementsAre(4, 8));
}

TEST(NgramDrafter, LeavesAloneWhatIsNeverRight) {
  const std::vector<int32_t> text = {1, 2, 3, 4, 5, 6, 9, 2, 3};
  NgramDrafter drafter(kOptions, text);
  int computed = 0;
  for (int step = 0; step < 1000; ++step) {
    const auto count = static_cast<int32_t>(drafter.Propose(4, 1).size());
    computed += count;
    if (count > 0) drafter.Learn(count, 0);
  }
  EXPECT_LT(computed, 50) << "a few at first, and one in 33 steps";
  EXPECT_GT(computed, 20) << "a text may change";
}

TEST(NgramDrafter, ComesBackWhereATextBeginsToRepeatItself) {
  const std::vector<int32_t> text = {1, 2, 3, 4, 5, 6, 9, 2, 3};
  NgramDrafter drafter(kOptions, text);
  for (int i = 0; i < 100; ++i) drafter.Learn(1, 0);
  int steps = 0;
  for (size_t count = 0; count < 4 && steps < 1000; ++steps) {
    count = drafter.Propose(4, 1).size();
    if (count > 0) drafter.Learn(static_cast<int32_t>(count), static_cast<int32_t>(count));
  }
  EXPECT_LT(steps, 150);
}

std::vector<int32_t> Counted(int32_t size) {
  std::vector<int32_t> text(static_cast<size_t>(size));
  for (int32_t i = 0; i < size; ++i) text[static_cast<size_t>(i)] = i;
  return text;
}

// Steps from one on which there is something to find, until something is proposed.
int StepsUntilProposed(NgramDrafter& drafter, int32_t token, int32_t next) {
  drafter.Push(token);
  drafter.Push(next);
  int steps = 1;
  while (drafter.Propose(4, 1).empty() && steps < 1000) ++steps;
  return steps;
}

// Somebody who sends a long text in which nothing is ever found, or only at its other end, would make each of his tokens dear.
TEST(NgramDrafter, ALongTextIsNotLookedThroughAtEveryToken) {
  for (const auto& [size, steps_min, steps_max] : {std::tuple(4000, 1, 1), std::tuple(100'000, 20, 30)}) {
    NgramDrafter drafter = Sure(Counted(size));
    EXPECT_THAT(drafter.Propose(4, 1), IsEmpty()) << "nothing is twice in it";
    const int steps = StepsUntilProposed(drafter, 1, 2);
    EXPECT_GE(steps, steps_min) << size;
    EXPECT_LE(steps, steps_max) << size;
  }
  // Equal beginnings at each place, and the next token another.
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 2000; ++i) {
    text.insert(text.end(), 15, 7);
    text.push_back(1000 + i);
  }
  text.insert(text.end(), 15, 7);
  NgramDrafter drafter = Sure(text, {.tokens = 4, .lookup_max = 16, .lookup_min = 1});
  EXPECT_THAT(drafter.Propose(4, 1), SizeIs(4));
  const int steps = StepsUntilProposed(drafter, 7, 7);
  EXPECT_GE(steps, 60) << "what is looked at more than once counts each time";
  EXPECT_LE(steps, 75);
}

TEST(NgramDrafter, GuessesThatAreRightPayForLongLooks) {
  NgramDrafter drafter = Sure(Counted(100'000));
  int proposed = 0;
  for (int step = 0, next = 1; step < 100; ++step) {
    const auto guessed = static_cast<int32_t>(drafter.Propose(4, 1).size());
    proposed += guessed > 0 ? 1 : 0;
    if (guessed > 0) drafter.Learn(guessed, guessed);
    for (int32_t i = 0; i <= guessed; ++i) drafter.Push(next++);
  }
  EXPECT_GT(proposed, 70);
}

TEST(NgramDrafter, LeavesFullStepsAlone) {
  NgramDrafter drafter = Sure({1, 2, 3, 4, 5, 6, 9, 2, 3});
  EXPECT_THAT(drafter.Propose(4, kDraftRowsMax), SizeIs(4));
  EXPECT_THAT(drafter.Propose(4, kDraftRowsMax + 1), IsEmpty());
}

}  // namespace
}  // namespace hydrant
