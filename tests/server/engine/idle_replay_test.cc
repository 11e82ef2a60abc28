#include "server/engine/idle_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "tests/engine/engine_core_fixture.h"

namespace hydrant {
namespace {

ReplayText TextOf(int32_t size, int32_t begin) {
  std::vector<int32_t> tokens(static_cast<size_t>(size));
  for (int32_t i = 0; i < size; ++i) tokens[static_cast<size_t>(i)] = i % kVocab;
  ReplayText text;
  text.tokens = std::move(tokens);
  text.begin = begin;
  return text;
}

class IdleReplayTest : public testing::Test {
 protected:
  IdleReplayTest() {
    EngineCoreOptions options = Options();
    options.scheduler.spare_score_blocks = 10;
    options.replay_blocks = 4;
    core_ = *EngineCore::Create(options, executor_, [] { return int64_t{1}; });
  }

  ScriptedExecutor executor_;
  std::unique_ptr<EngineCore> core_;
};

// Text lengths about those of steps, and everywhere that an answer may begin.
TEST_F(IdleReplayTest, EveryTokenOfTheAnswerIsScoredOnceAndInOrder) {
  IdleReplay& replay = core_->replay();
  for (const int32_t size : {2, 3, 16, 17, 18, 32, 33, 34, 50}) {
    for (int32_t begin = 1; begin < size; ++begin) {
      ASSERT_TRUE(replay.Begin(TextOf(size, begin)));
      std::vector<int32_t> scored;
      int32_t computed = 0;
      while (replay.active()) {
        const auto scores = replay.Step();
        for (const SampleResult& score : *scores) scored.push_back(score.id);
        const StepRow& row = executor_.rows.front();
        EXPECT_TRUE(row.prefill && !row.sample && row.in_order() && row.position == computed);
        EXPECT_FALSE(row.policy->evicts);
        EXPECT_EQ(row.block_table.front(), 64) << "behind the scheduler's";
        EXPECT_EQ(row.score_table.front(), 74) << "and behind its spare ones";
        EXPECT_EQ(row.block_table.back(), 67);
        EXPECT_EQ(row.score_table.back(), 77);
        EXPECT_EQ(row.target_logprobs, 0);
        const auto tokens = static_cast<int32_t>(row.tokens.size());
        computed += tokens;
        EXPECT_LE(tokens, kBlockSlots);
        EXPECT_EQ(row.targets.empty(), computed < begin) << "of a history nothing is scored";
      }
      EXPECT_EQ(computed, size - 1) << "nothing follows the last token";
      std::vector<int32_t> expected;
      for (int32_t i = begin; i < size; ++i) expected.push_back(i % kVocab);
      EXPECT_EQ(scored, expected) << size << " " << begin;
    }
  }
}

TEST_F(IdleReplayTest, RestsWhileOthersRunAndGoesOn) {
  IdleReplay& replay = core_->replay();
  ASSERT_TRUE(replay.Begin(TextOf(40, 30)));
  (void)replay.Step();
  EXPECT_TRUE(core_->idle());
  EXPECT_EQ(core_->counters().blocks_free, 64) << "it has blocks of its own";
  ASSERT_TRUE(core_->Add(MakeRequest(1, 500, 1)).ok());
  while (!core_->idle()) (void)core_->Step();
  std::vector<int32_t> scored;
  while (replay.active()) {
    const auto scores = replay.Step();
    for (const SampleResult& score : *scores) scored.push_back(score.id);
  }
  EXPECT_EQ(scored, (std::vector<int32_t>{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}));
  EXPECT_EQ(core_->counters().scheduler.prompt_tokens, 500u);
}

TEST_F(IdleReplayTest, KeepsNoAdapterThatIsTakenAway) {
  IdleReplay& replay = core_->replay();
  ReplayText text = TextOf(40, 30);
  auto adapter = std::make_shared<AdapterSlot>();
  adapter->number = 3;
  text.has_adapter = true;
  text.adapter = adapter;
  ASSERT_TRUE(replay.Begin(std::move(text)));
  EXPECT_TRUE(replay.Step().has_value());
  EXPECT_EQ(executor_.rows.front().adapter, 3);
  EXPECT_EQ(adapter.use_count(), 1);
  adapter.reset();
  EXPECT_FALSE(replay.Step().has_value());
  EXPECT_FALSE(replay.active());
}

TEST_F(IdleReplayTest, TakesTextsOfItsBlocksAndNoLonger) {
  IdleReplay& replay = core_->replay();
  EXPECT_FALSE(replay.Begin(TextOf(66, 1)));
  EXPECT_TRUE(replay.Begin(TextOf(65, 1))) << "the last token need not be computed";
  replay.Stop();
  EXPECT_FALSE(replay.active());
}

TEST_F(IdleReplayTest, IsOverWithoutMemoryForAStep) {
  IdleReplay& replay = core_->replay();
  ASSERT_TRUE(replay.Begin(TextOf(40, 30)));
  executor_.starve = [](const StepInput&) { return true; };
  EXPECT_THROW((void)replay.Step(), std::bad_alloc);
  EXPECT_FALSE(replay.active());
  EXPECT_EQ(core_->steps_lost(), 0u) << "it was nobody's step";
}

}  // namespace
}  // namespace hydrant
