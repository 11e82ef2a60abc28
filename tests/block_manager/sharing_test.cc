// Prefixes in the block manager: what is published is found, what is shared is copied before it changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "block_manager/block_manager.h"

namespace hydrant {
namespace {

std::vector<int32_t> Prompt(int32_t length, int32_t first = 0) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

PrefixUse Dense() {
  PrefixUse use;
  use.publishes = use.looks_up = true;
  return use;
}

PrefixUse Scored() {
  PrefixUse use = Dense();
  use.scores = ScoreNeed::kSnapshot;
  return use;
}

void Publish(BlockManager& manager, BlockTable& table, const std::vector<int32_t>& prompt,
             const PrefixSalt& salt = PrefixSalt()) {
  const auto tokens = static_cast<int32_t>(prompt.size());
  manager.Publish(table, salt, tokens, tokens, [&](int32_t block) {
    return BlockTokens(std::span(prompt).subspan(static_cast<size_t>(block) * kBlockSlots, kBlockSlots));
  });
}

// A table with a computed and published prompt.
BlockTable Computed(BlockManager& manager, const std::vector<int32_t>& prompt, int32_t extra_blocks = 0) {
  BlockTable table;
  const int32_t blocks = static_cast<int32_t>(BlocksForSlots(std::ssize(prompt)));
  manager.Admit(table, blocks + extra_blocks);
  manager.Extend(table, static_cast<int32_t>(prompt.size()));
  Publish(manager, table, prompt);
  return table;
}

void ExpectIntegrity(const BlockManager& manager, std::vector<const BlockTable*> tables) {
  EXPECT_TRUE(manager.CheckIntegrity(tables).ok()) << manager.CheckIntegrity(tables);
}

// 40 of the text's tokens are a prompt, of which two blocks are full; the third has decoded ones, too.
TEST(Sharing, WhatWasDecodedIsFoundByWhoTakesItAlone) {
  BlockManager manager(40);
  const std::vector<int32_t> text = Prompt(80);
  const auto publish = [&](BlockTable& table, int32_t prompt, int32_t tokens = 80) {
    manager.Publish(table, PrefixSalt(), prompt, tokens, [&](int32_t block) {
      return BlockTokens(std::span(text).subspan(static_cast<size_t>(block) * kBlockSlots, kBlockSlots));
    });
  };
  const auto found = [&](bool takes_generated, PrefixMatch* match) {
    PrefixUse use = Dense();
    use.takes_generated = takes_generated;
    manager.Match(use, text, match);
    return match->blocks.size();
  };
  PrefixMatch match;
  BlockTable decoded;
  manager.Admit(decoded, 5);
  manager.Extend(decoded, 80);
  publish(decoded, 40);
  EXPECT_TRUE(decoded.generated());
  EXPECT_EQ(found(false, &match), 2u);
  EXPECT_EQ(found(true, &match), 4u) << "the last row is computed";

  // What a prompt computes behind them is no more what a prompt alone gives.
  BlockTable behind;
  manager.Admit(behind, 5, match, nullptr);
  EXPECT_TRUE(behind.generated());
  manager.Extend(behind, 80);
  publish(behind, 80);
  EXPECT_EQ(found(false, &match), 2u);

  // And who computes all of them is found beside them. As long as that is less, there is a longer way.
  BlockTable prompt;
  manager.Admit(prompt, 5, match, nullptr);
  EXPECT_FALSE(prompt.generated());
  manager.Extend(prompt, 80);
  publish(prompt, 48, 48);
  EXPECT_EQ(found(false, &match), 3u);
  EXPECT_EQ(found(true, &match), 4u);
  publish(prompt, 80);
  EXPECT_EQ(found(false, &match), 4u);
  ExpectIntegrity(manager, {&decoded, &behind, &prompt});
  for (BlockTable* table : {&decoded, &behind, &prompt}) manager.Release(*table);
  EXPECT_FALSE(decoded.generated());
}

TEST(Sharing, AMatchIsTheLongestPublishedPrefixThatLeavesRowsToCompute) {
  BlockManager manager(20);
  const std::vector<int32_t> prompt = Prompt(50);
  BlockTable table = Computed(manager, prompt);
  const struct {
    const char* name;
    int32_t length;
    int32_t rows_min;
    size_t blocks;
  } cases[] = {
      {"longer", 60, 1, 3}, {"a block and one", 17, 1, 1}, {"a block", 16, 1, 0},  {"less", 15, 1, 0}, {"48", 48, 1, 2},
      {"49", 49, 1, 3},     {"32 rows", 60, 32, 1},        {"all rows", 60, 64, 0}};
  for (const auto& c : cases) {
    PrefixUse use = Dense();
    use.rows_computed_min = c.rows_min;
    PrefixMatch match;
    manager.Match(use, Prompt(c.length), &match);
    EXPECT_EQ(match.blocks.size(), c.blocks) << c.name;
    EXPECT_EQ(match.revived, 0) << c.name;
  }
  PrefixMatch match;
  std::vector<int32_t> edited = prompt;
  edited[20] = 999;
  manager.Match(Dense(), edited, &match);
  EXPECT_EQ(match.blocks.size(), 1u);
  PrefixUse foreign = Dense();
  foreign.salt = {0, 1};
  manager.Match(foreign, prompt, &match);
  EXPECT_TRUE(match.blocks.empty());
  manager.Release(table);
}

TEST(Sharing, AReleasedPrefixIsFoundUntilItsBlocksAreNeeded) {
  BlockManager manager(4);
  const std::vector<int32_t> prompt = Prompt(64);
  BlockTable first = Computed(manager, prompt);
  EXPECT_EQ(manager.Release(first), 4);
  EXPECT_EQ(manager.pool().cached(), 4);

  BlockTable other;
  manager.Admit(other, 1);
  manager.Extend(other, 16);
  PrefixMatch match;
  manager.Match(Dense(), Prompt(100), &match);
  EXPECT_EQ(match.blocks.size(), 3u) << "the last block goes first";
  EXPECT_EQ(match.revived, 3);
  EXPECT_TRUE(manager.CanAdmit(3, match));
  EXPECT_FALSE(manager.CanAdmit(4, match)) << "what is revived is no longer there to be taken";
  manager.Release(other);
}

TEST(Sharing, TheSameTextComputedTwiceIsPublishedOnce) {
  BlockManager manager(10);
  const std::vector<int32_t> prompt = Prompt(32);
  BlockTable first = Computed(manager, prompt), second = Computed(manager, prompt);
  EXPECT_EQ(manager.index().size(), 2);
  EXPECT_FALSE(manager.pool().published(second.blocks()[0]));
  ExpectIntegrity(manager, {&first, &second});
  manager.Release(second);
  EXPECT_EQ(manager.pool().free(), 8);
  manager.Release(first);
}

TEST(Sharing, CopiesTakeThePlaceOfWhatOthersMayRead) {
  BlockManager manager(12);
  const std::vector<int32_t> prompt = Prompt(70);
  BlockTable table = Computed(manager, prompt, 2);  // 5 blocks, 4 of them full; a cut to 20 slots copies 2
  const std::vector<int32_t> before(table.blocks().begin(), table.blocks().end());
  manager.PlanCopies(table, 20, 70);
  ASSERT_EQ(table.copies().size(), 2u);
  EXPECT_EQ(table.held(), 7);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), table.blocks().begin()))
      << "the step in flight reads the old ones";
  ExpectIntegrity(manager, {&table});
  EXPECT_EQ(manager.FinishCopies(table), 2);
  EXPECT_NE(table.blocks()[0], before[0]);
  EXPECT_NE(table.blocks()[1], before[1]);
  EXPECT_EQ(manager.Shrink(table, 20, 2), 3);
  EXPECT_EQ(manager.pool().cached(), 4) << "the whole prompt can still be found";
  ExpectIntegrity(manager, {&table});
  manager.Release(table);
  PrefixMatch match;
  manager.Match(Dense(), Prompt(80), &match);
  EXPECT_EQ(match.blocks.size(), 4u);
}

// What an owner has more than once, it has once less with every table that goes, whether others stay or a copy takes the place.
TEST(Sharing, ABlockOfSeveralTablesIsThereOnce) {
  BlockManager manager(24);
  const std::vector<int32_t> prompt = Prompt(70);
  BlockTable tables[3];
  tables[0] = Computed(manager, prompt, 2);
  EXPECT_EQ(manager.overlap(0), 0);
  for (int32_t i : {1, 2}) {
    PrefixMatch match;
    manager.Match(Dense(), prompt, &match);
    ASSERT_EQ(match.blocks.size(), 4u);
    manager.Admit(tables[i], 7, match, nullptr);
    EXPECT_EQ(manager.overlap(0), 4 * i);
    EXPECT_EQ(manager.BlocksOthersUse(tables[i]), 4);
  }
  ExpectIntegrity(manager, {&tables[0], &tables[1], &tables[2]});
  manager.PlanCopies(tables[0], 20, 70);
  EXPECT_EQ(manager.overlap(0), 8);
  manager.FinishCopies(tables[0]);
  EXPECT_EQ(manager.overlap(0), 6) << "two are copies now";
  manager.Shrink(tables[0], 20, 2);
  EXPECT_EQ(manager.overlap(0), 4) << "and two are left";
  ExpectIntegrity(manager, {&tables[0], &tables[1], &tables[2]});
  manager.Release(tables[1]);
  EXPECT_EQ(manager.overlap(0), 0) << "the third has them alone";
  manager.Release(tables[0]);
  manager.Release(tables[2]);
  PrefixMatch revived;
  manager.Match(Dense(), prompt, &revived);
  BlockTable again;
  manager.Admit(again, 5, revived, nullptr, /*owner=*/3);
  EXPECT_EQ(manager.overlap(3), 0) << "nobody else has them";
  EXPECT_EQ(manager.overlap(4), 0);
  ExpectIntegrity(manager, {&again});
  manager.Release(again);
}

TEST(Sharing, ABlockOfTwoOwnersIsSeen) {
  BlockManager manager(8);
  const std::vector<int32_t> prompt = Prompt(33);
  BlockTable first = Computed(manager, prompt), second;
  PrefixMatch match;
  manager.Match(Dense(), prompt, &match);
  manager.Admit(second, 3, match, nullptr, /*owner=*/1);
  EXPECT_FALSE(manager.CheckIntegrity(std::vector<const BlockTable*>{&first, &second}).ok());
  manager.Release(second);
  manager.Release(first);
}

TEST(Sharing, ACancelledStepGivesItsCopiesBack) {
  BlockManager manager(8);
  BlockTable table = Computed(manager, Prompt(32), 2);
  manager.PlanCopies(table, 32, 32);
  EXPECT_EQ(manager.Release(table), 4);
  EXPECT_EQ(manager.pool().used(), 0);
  EXPECT_EQ(manager.promised(), 0);
  ExpectIntegrity(manager, {});
}

TEST(Sharing, ScoredRequestsMatchWhereASnapshotIs) {
  BlockManager manager(20, 30);
  const std::vector<int32_t> prompt = Prompt(64);
  BlockTable table;
  manager.Admit(table, 4);
  manager.Extend(table, 64);
  std::vector<int32_t> score_blocks;
  ASSERT_TRUE(manager.BeginSnapshot(table, 32, 0, &score_blocks));
  ASSERT_EQ(score_blocks.size(), 2u);
  Publish(manager, table, prompt);
  manager.FinishSnapshot(table, 32, 0, score_blocks);
  EXPECT_EQ(manager.score_blocks().in_snapshots(), 2);
  std::vector<int32_t> again;
  EXPECT_FALSE(manager.BeginSnapshot(table, 32, 0, &again)) << "there is one";

  PrefixMatch match;
  manager.Match(Scored(), Prompt(65), &match);
  EXPECT_EQ(match.blocks.size(), 2u);
  PrefixUse other_kind = Scored();
  other_kind.score_kind = 1;
  manager.Match(other_kind, Prompt(65), &match);
  EXPECT_TRUE(match.blocks.empty());

  manager.Match(Scored(), Prompt(65), &match);
  BlockTable second;
  std::vector<ScoreInit> starts;
  manager.Admit(second, 5, match, &starts);
  ASSERT_EQ(starts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(starts[i].from, score_blocks[i]);
    EXPECT_EQ(starts[i].to, second.score_blocks()[i]);
    EXPECT_EQ(starts[i].position, static_cast<int32_t>(i) * 16);
    EXPECT_EQ(second.blocks()[i], table.blocks()[i]);
    EXPECT_NE(second.score_blocks()[i], table.score_blocks()[i]);
  }
  ExpectIntegrity(manager, {&table, &second});
  manager.Release(table);
  manager.Release(second);
  EXPECT_EQ(manager.score_blocks().handed_out(), 0);
}

TEST(Sharing, ASnapshotDiesWithItsBlock) {
  BlockManager manager(2, 10);
  BlockTable table = Computed(manager, Prompt(32));
  std::vector<int32_t> score_blocks;
  manager.BeginSnapshot(table, 32, 0, &score_blocks);
  manager.FinishSnapshot(table, 32, 0, score_blocks);
  manager.Release(table);
  manager.Admit(table, 1);
  manager.Extend(table, 16);
  EXPECT_EQ(manager.score_blocks().snapshots(), 0);
  EXPECT_EQ(manager.score_blocks().free(), 10);
  manager.Release(table);
}

TEST(Sharing, WithoutSideBlocksAScoredRequestSharesNothing) {
  BlockManager manager(20, 1);
  const std::vector<int32_t> prompt = Prompt(64);
  BlockTable table = Computed(manager, prompt);
  PrefixUse zeros = Dense();
  zeros.scores = ScoreNeed::kZeros;
  PrefixMatch match;
  manager.Match(zeros, Prompt(65), &match);
  EXPECT_EQ(match.blocks.size(), 1u) << "as much as there are score blocks for";
  std::vector<int32_t> score_blocks;
  EXPECT_FALSE(manager.BeginSnapshot(table, 32, 0, &score_blocks));
  EXPECT_TRUE(score_blocks.empty());
  manager.Release(table);
}

TEST(Sharing, AResetForgetsEverythingAndLetsTablesGoOn) {
  BlockManager manager(10, 10);
  const std::vector<int32_t> prompt = Prompt(64);
  BlockTable gone = Computed(manager, prompt);
  manager.Release(gone);
  PrefixMatch match;
  manager.Match(Dense(), Prompt(33), &match);
  BlockTable table;
  manager.Admit(table, 3, match, nullptr);
  manager.ResetPrefixes();
  EXPECT_EQ(manager.index().size(), 0);
  EXPECT_EQ(manager.pool().cached(), 0);
  ExpectIntegrity(manager, {&table});
  manager.Extend(table, 48);
  Publish(manager, table, Prompt(48));
  EXPECT_EQ(manager.index().size(), 0) << "its prefix is nobody's any more";
  manager.Release(table);
  EXPECT_EQ(manager.pool().free(), 10);
}

// A long period after a cut: what the first sequence leaves behind is the second one's, so its later growth needs blocks of
// its own. The simulator found this.
TEST(Sharing, WhatASequenceLeavesBehindDoesNotPayForItsGrowth) {
  BlockManager manager(17);
  const KvBudget budget = KvBudget::Periodic(32, 34);
  const std::vector<int32_t> prompt = Prompt(100);
  BlockTable first, second;
  const int32_t reserved = static_cast<int32_t>(PeakBlocksShared(100, 60, budget));
  manager.Admit(first, reserved);
  manager.Extend(first, 100);
  Publish(manager, first, prompt);
  PrefixMatch match;
  manager.Match(Dense(), prompt, &match);
  ASSERT_EQ(match.blocks.size(), 6u);
  ASSERT_TRUE(manager.CanAdmit(11, match));
  ASSERT_FALSE(manager.CanAdmit(12, match));
  manager.Admit(second, 11, match, nullptr);
  manager.PlanCopies(first, 32, 100);
  manager.FinishCopies(first);
  manager.Shrink(first, 32, 5);
  ExpectIntegrity(manager, {&first, &second});
  manager.Extend(first, 66);
  manager.Extend(second, 11 * 16);
  ExpectIntegrity(manager, {&first, &second});
  manager.Release(first);
  manager.Release(second);
}

TEST(KvBudgetShared, CountsWhatIsLeftBehindAtTheFirstEviction) {
  KvBudget budgeted = KvBudget::Exact(32);
  budgeted.prompt_stride = 64;
  const struct {
    const char* name;
    int32_t prompt;
    int64_t max_tokens;
    KvBudget budget;
    int64_t blocks;
  } cases[] = {{"dense", 100, 50, KvBudget::Unlimited(), 10},
               {"a prompt that is cut", 100, 50, KvBudget::Exact(32), 7 + 3},
               {"a cut and no decode", 100, 1, KvBudget::Exact(32), 7 + 2},
               {"a cut into the middle of a block", 100, 50, KvBudget::Exact(40), 7 + 3},
               {"a prompt that just fits", 32, 2, KvBudget::Exact(32), 3 + 3},
               {"it never evicts", 30, 3, KvBudget::Exact(32), 2},
               {"one token, no decode", 32, 1, KvBudget::Exact(32), 2},
               {"periodic", 20, 100, KvBudget::Periodic(32, 16), 3 + 3},
               {"a prompt below a block", 5, 100, KvBudget::Exact(4), 1 + 1},
               {"budgeted: until its first cut, and what comes after it", 200, 50, budgeted, 4 + 6}};
  for (const auto& c : cases) EXPECT_EQ(PeakBlocksShared(c.prompt, c.max_tokens, c.budget), c.blocks) << c.name;
}

// What is in use is found whatever becomes of the rest, but a match ends only where there are scores to start from.
TEST(Sharing, WhatIsInUseOfAMatchEndsWhereOneMayEnd) {
  BlockManager manager(20, 20);
  const std::vector<int32_t> prompt = Prompt(80);
  const PrefixUse use = Scored();
  BlockTable whole = Computed(manager, prompt);
  for (const int32_t slots : {32, 64}) {
    std::vector<int32_t> scores;
    ASSERT_TRUE(manager.BeginSnapshot(whole, slots, use.score_kind, &scores));
    manager.FinishSnapshot(whole, slots, use.score_kind, std::move(scores));
  }
  PrefixMatch match;
  manager.Match(use, prompt, &match);
  ASSERT_EQ(match.blocks.size(), 4u);
  EXPECT_EQ(manager.InUseOf(use, match), 4u);
  manager.Shrink(whole, 48, 3);
  manager.Match(use, prompt, &match);
  ASSERT_EQ(match.blocks.size(), 4u);
  EXPECT_EQ(manager.InUseOf(use, match), 2u) << "the third has no scores behind it";
  EXPECT_EQ(manager.InUseOf(Dense(), match), 3u);
  manager.Release(whole);
  ExpectIntegrity(manager, {});
}

}  // namespace
}  // namespace hydrant
