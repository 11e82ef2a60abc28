// More sequences than fit: the scheduler has them step aside and come back, and each says what it says alone, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/support/forwarding_executor.h"

namespace hydrant {
namespace {

constexpr int32_t kOvercommitContext = 256;  // that a chat may fill

// Sees how many sequences decode in one step.
class RowCounter : public ForwardingExecutor {
 public:
  RowCounter(Executor& inner, size_t* rows_max) : ForwardingExecutor(inner), rows_max_(rows_max) {}
  Ticket Launch(const StepInput& input) override {
    *rows_max_ = std::max(*rows_max_, input.rows.size());
    return inner().Launch(input);
  }

 private:
  size_t* const rows_max_;
};

// Chats that may go on to the end of the context, and end before.
std::vector<SequenceRequest> Chats(int32_t count, const std::vector<EvictionPolicy>& policies) {
  std::mt19937 random(29);
  std::vector<SequenceRequest> requests;
  for (int32_t i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(static_cast<size_t>(4 + 3 * i));
    for (int32_t& id : prompt) id = std::uniform_int_distribution<int32_t>(2, 255)(random);
    const int32_t max_tokens = kOvercommitContext - static_cast<int32_t>(prompt.size());
    SequenceRequest request = With(Greedy(static_cast<uint64_t>(i) + 1, std::move(prompt), max_tokens),
                                   policies[static_cast<size_t>(i) % policies.size()], i % 4 == 3 ? 9 : 0);
    request.logprobs = 2;
    if (i % 2 == 0) request.sampling.temperature = 0.9f;
    request.sampling.key = request.request.id;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Text ends are the request's own, so each run gets new ones.
std::vector<SequenceRequest> WithEnds(std::vector<SequenceRequest> requests) {
  for (SequenceRequest& request : requests) {
    const auto tokens = static_cast<int32_t>(24 + 97 * request.request.id % 71);
    request.end_finder = std::make_shared<TextEndsAfter>(tokens);
  }
  return requests;
}

struct Overcommitted {
  std::vector<Generation> generations;
  size_t rows_max = 0;
  SchedulerCounters counters;
};

Overcommitted RunOvercommitted(const std::vector<SequenceRequest>& requests, HarnessOptions options) {
  Overcommitted run;
  options.around = [&](Executor& inner) { return std::make_unique<RowCounter>(inner, &run.rows_max); };
  EngineHarness harness(GoldenPath("gqa_untied"), options);
  run.generations = harness.Run(WithEnds(requests));
  run.counters = harness.engine().counters().scheduler;
  EXPECT_TRUE(harness.engine().idle());
  return run;
}

void ExpectEachAsAlone(const std::vector<SequenceRequest>& requests, const Overcommitted& run) {
  EngineHarness alone(GoldenPath("gqa_untied"), {.blocks = kOvercommitContext / kBlockSlots});
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generation solo = alone.Run(WithEnds({requests[i]})).front();
    const Generation& swapped = run.generations[i];
    ASSERT_EQ(swapped.tokens(), solo.tokens()) << "request " << i + 1;
    EXPECT_EQ(swapped.finish, solo.finish);
    EXPECT_EQ(swapped.evicted, solo.evicted);
    for (size_t t = 0; t < solo.sampled.size(); ++t) {
      ASSERT_EQ(swapped.sampled[t].logprob, solo.sampled[t].logprob) << "request " << i + 1 << ", token " << t;
    }
  }
}

constexpr int32_t kTwoContexts = 2 * kOvercommitContext / kBlockSlots;

TEST(Overcommit, SixteenChatsWithoutMaxTokensRunOverAPoolOfTwoContexts) {
  const std::vector<SequenceRequest> requests = Chats(16, {EvictionPolicy()});
  const Overcommitted reserved = RunOvercommitted(requests, {.blocks = kTwoContexts});
  EXPECT_LE(reserved.rows_max, 2u);
  const Overcommitted run =
      RunOvercommitted(requests, {.blocks = kTwoContexts, .swap_blocks = 8 * kTwoContexts, .scheduler_swaps = true});
  EXPECT_GE(run.rows_max, 8u);
  EXPECT_GT(run.counters.swaps_out, 0u);
  EXPECT_EQ(run.counters.swaps_in, run.counters.swaps_out);
  EXPECT_EQ(run.counters.prompt_tokens, reserved.counters.prompt_tokens) << "nothing is computed twice";
  EXPECT_EQ(run.counters.generated_tokens, reserved.counters.generated_tokens);
  ExpectEachAsAlone(requests, run);
}

TEST(Overcommit, EveryPolicyComesBackAsItWas) {
  EvictionPolicy h2o{.evicts = true, .heavy = 30, .recent = 30};
  EvictionPolicy rolling = h2o;
  rolling.rolling = true;
  const std::vector<SequenceRequest> requests = Chats(12, {h2o, EvictionPolicy(), rolling});
  const Overcommitted run =
      RunOvercommitted(requests, {.blocks = 20, .swap_blocks = 300, .overlap = true, .scheduler_swaps = true});
  EXPECT_GT(run.counters.swaps_out, 2u);
  ExpectEachAsAlone(requests, run);
}

}  // namespace
}  // namespace hydrant
