// A text that is computed between the steps of others, who may be paused for as long as their readers like, is one that they never hear
// of: answers, scores, positions and what is evicted are as they are without.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/every_policy.h"

namespace hydrant {
namespace {

struct Told {
  std::vector<std::vector<SampleResult>> sampled;
  std::vector<std::vector<std::byte>> parked;
  int replayed = 0;
};

Told RunBesideReplays(bool replays) {
  EngineHarness harness(GoldenPath("gqa_tied"),
                        {.blocks = 400, .replay_blocks = 8, .sequences_max = 32, .parked_blocks_max = 400});
  std::vector<SequenceRequest> requests = EveryPolicy();
  Told told;
  told.sampled.resize(requests.size());
  for (SequenceRequest& request : requests) {
    request.request.session = request.request.id;
    request.request.turn = 1;
    EXPECT_TRUE(harness.engine().Add(request).ok());
  }
  IdleReplay& replay = harness.engine().replay();
  std::vector<int32_t> text(8 * kBlockSlots);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * i % 200);
  while (!harness.engine().idle()) {
    for (const EngineEvent& event : harness.engine().Step()) {
      if (event.token >= 0) told.sampled[static_cast<size_t>(event.id) - 1].push_back(*event.sampled);
    }
    if (!replays || harness.engine().in_flight()) continue;
    const bool begun = replay.active() || replay.Begin({.tokens = text, .begin = 5});
    EXPECT_TRUE(begun);
    EXPECT_TRUE(replay.Step().has_value());
    told.replayed += replay.active() ? 0 : 1;
  }
  for (const SequenceRequest& request : requests) {
    const KvBytes kv = harness.Parked({request.request.session, 1});
    told.parked.emplace_back(kv.view().begin(), kv.view().end());
    EXPECT_FALSE(kv.empty()) << request.request.id;
  }
  return told;
}

// What a step has begun when somebody comes is left out between two layers, and made again: as if it had not been begun.
TEST(Replay, IsOvertakenBetweenTwoLayers) {
  std::vector<int32_t> text(7 * kBlockSlots);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * i % 200);
  // `overtaken`: whether somebody comes before the step of this number; `steps`: how many it took.
  const auto scores = [&](const std::function<bool(int)>& overtaken, int* steps) {
    EngineHarness harness(GoldenPath("gqa_tied"), {.replay_blocks = 8});
    IdleReplay& replay = harness.engine().replay();
    EXPECT_TRUE(replay.Begin({.tokens = text, .begin = 5}));
    std::vector<float> logprobs;
    for (*steps = 0; replay.active(); ++*steps) {
      const std::atomic<bool> news = overtaken(*steps);
      const auto found = replay.Step(&news);
      EXPECT_TRUE(found.has_value());
      EXPECT_TRUE(found->empty() || !news || HarnessDeviceQueues()) << "nobody waits for what is left of it";
      for (const SampleResult& score : *found) logprobs.push_back(score.logprob);
    }
    return logprobs;
  };
  int alone = 0, beside = 0;
  const std::vector<float> expected = scores([](int) { return false; }, &alone);
  EXPECT_EQ(expected.size(), text.size() - 5);
  EXPECT_EQ(scores([](int step) { return step % 3 != 0; }, &beside), expected);
  // In the middle of a step, wherever that is.
  std::mt19937 random(3);
  std::thread somebody;
  std::atomic<bool> news = false;
  EngineHarness harness(GoldenPath("gqa_tied"), {.replay_blocks = 8});
  IdleReplay& replay = harness.engine().replay();
  EXPECT_TRUE(replay.Begin({.tokens = text, .begin = 5}));
  std::vector<float> found;
  for (int step = 0; replay.active(); ++step) {
    if (step % 3 != 0) {
      somebody = std::thread([&news, turns = random() % 2000] {
        for (uint32_t i = 0; i < turns; ++i) std::this_thread::yield();
        news = true;
      });
    }
    const auto scores_of_step = replay.Step(&news);
    for (const SampleResult& score : *scores_of_step) found.push_back(score.logprob);
    if (somebody.joinable()) somebody.join();
    news = false;
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(alone, 7);
  EXPECT_EQ(beside, HarnessDeviceQueues() ? 7 : 19) << "every third one counts";
}

TEST(Replay, BetweenTwoStepsChangesNoBitOfTheirs) {
  const Told alone = RunBesideReplays(false), beside = RunBesideReplays(true);
  EXPECT_GE(beside.replayed, 2) << "it is computed more than once";
  for (size_t i = 0; i < alone.sampled.size(); ++i) {
    SCOPED_TRACE(i + 1);
    ASSERT_EQ(beside.sampled[i].size(), alone.sampled[i].size());
    for (size_t t = 0; t < alone.sampled[i].size(); ++t) {
      EXPECT_EQ(beside.sampled[i][t].id, alone.sampled[i][t].id) << t;
      EXPECT_EQ(beside.sampled[i][t].logprob, alone.sampled[i][t].logprob) << t;
    }
    EXPECT_TRUE(beside.parked[i] == alone.parked[i]);
  }
}

}  // namespace
}  // namespace hydrant
