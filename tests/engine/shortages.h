// What an engine has to come through, whichever memory runs out wherever in a step.
#ifndef HYDRANT_TESTS_ENGINE_SHORTAGES_H_
#define HYDRANT_TESTS_ENGINE_SHORTAGES_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"

namespace hydrant {

struct Shortages {
  std::function<void(int calls)> begin;  // there is memory `calls` times, then once there is none
  std::function<bool()> end;             // no more; true: there was none once
  int stride = 1;                        // of `calls`
};

// Chats with and without a budget, one of them a session's, while memory runs out at one place after the other: who is in the step
// ends with kNoMemory, nobody else notices, and afterwards everything is as before.
inline void ExpectShortagesCostAStepAtMost(EngineHarness& harness, const Shortages& shortages) {
  constexpr uint64_t kSession = 7;
  uint64_t id = 0;
  const auto prompt_of = [](int32_t length) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < length; ++i) ids.push_back(2 + (length * 7 + i * i) % 280);
    return ids;
  };
  const auto chats = [&] {
    const EvictionPolicy h2o{.evicts = true, .heavy = 8, .recent = 8};
    std::vector<SequenceRequest> requests = {Greedy(++id, prompt_of(21), 6), With(Greedy(++id, prompt_of(40), 8), h2o),
                                             Greedy(++id, prompt_of(17), 3)};
    requests[0].prompt_logprobs = 1;
    requests[1].logprobs = 2;
    requests[2].request.session = kSession;
    requests[2].request.turn = requests[2].request.id;
    return requests;
  };
  // The session's next turn, from wherever the engine has it.
  const auto next_turn = [&](uint64_t last) {
    SequenceRequest request = Greedy(++id, prompt_of(30), 3);
    request.request.session = kSession;
    request.request.resumes = last;
    request.request.turn = request.request.id;
    return request;
  };
  const std::vector<Generation> expected = harness.Run(chats());
  const auto expect_same = [&](const Generation& got, size_t i) {
    EXPECT_EQ(got.finish, FinishReason::kLength);
    EXPECT_EQ(got.tokens(), expected[i].tokens());
    ASSERT_EQ(got.sampled.size(), expected[i].sampled.size());
    for (size_t k = 0; HarnessIsBatchInvariant() && k < got.sampled.size(); ++k) {
      EXPECT_EQ(got.sampled[k].logprob, expected[i].sampled[k].logprob);
    }
  };
  int ended = 0, calls = 0;
  for (bool short_once = true; short_once; calls += shortages.stride) {
    SCOPED_TRACE("there is memory " + std::to_string(calls) + " times");
    const std::vector<SequenceRequest> requests = chats();
    shortages.begin(calls);
    const std::vector<Generation> got = harness.Run(requests);
    const Generation next = harness.RunOne(next_turn(requests[2].request.id));
    short_once = shortages.end();
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i].finish == FinishReason::kNoMemory) {
        ++ended;
        EXPECT_LT(got[i].sampled.size(), expected[i].sampled.size());
      } else {
        expect_same(got[i], i);
      }
    }
    EXPECT_TRUE(next.finish == FinishReason::kLength || next.finish == FinishReason::kNoMemory);
    EXPECT_TRUE(short_once || next.restored > 0);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(ended, 10);
  if (shortages.stride == 1) {
    EXPECT_GT(harness.engine().counters().parked_lost, 0u);
  }
  const std::vector<Generation> after = harness.Run(chats());
  for (size_t i = 0; i < after.size(); ++i) expect_same(after[i], i);
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_SHORTAGES_H_
