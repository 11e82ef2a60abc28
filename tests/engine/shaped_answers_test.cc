// Answers with a shape on a real model: alone, in a batch, and with steps planned ahead they say the same.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/scripted_shape.h"

namespace hydrant {
namespace {

constexpr int32_t kShapedVocab = 256;  // ids that shapes allow; the model may have more

// A thread for each call, which takes its time: more than the small model's layers.
class ThreadRunner : public MaskRunner {
 public:
  explicit ThreadRunner(std::chrono::microseconds time) : time_(time) {}
  ~ThreadRunner() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Run(std::span<const std::shared_ptr<AnswerMask>> masks) noexcept override {
    threads_.emplace_back([time = time_, mine = std::vector(masks.begin(), masks.end())] {
      for (const auto began = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - began < time;) {
        std::this_thread::yield();
      }
      for (const auto& mask : mine) mask->Compute();
    });
  }

 private:
  const std::chrono::microseconds time_;
  std::vector<std::thread> threads_;
};

// With shapes of their own, as tokens are followed one by one. Two are choices of one prompt, two have no shape.
std::vector<SequenceRequest> ShapedRequests(std::vector<std::shared_ptr<ScriptedShape>>* shapes) {
  EvictionPolicy h2o;
  h2o.evicts = true;
  h2o.heavy = h2o.recent = 6;
  std::vector<SequenceRequest> requests;
  for (uint64_t id = 1; id <= 7; ++id) {
    std::vector<int32_t> prompt;
    for (uint64_t i = 0; i < (id == 2 ? 1 : id) * 5; ++i)
      prompt.push_back(static_cast<int32_t>(3 + (i * 37 + id % 6) % 250));
    SequenceRequest request = With(Greedy(id, std::move(prompt), 12 + static_cast<int32_t>(id)),
                                   id % 3 == 0 ? h2o : EvictionPolicy(), id == 6 ? 3 : 0);
    request.logprobs = 2;
    request.sampling.key = id;
    request.sampling.temperature = id % 2 == 0 ? 1.0f : 0.0f;
    shapes->push_back(nullptr);
    if (id != 4 && id != 5) {
      ScriptedShape::Script script{.vocab = kShapedVocab, .key = id == 2 ? 1 : id, .choices = 9};
      if (id == 3) script.complete_after = 7;
      if (id == 7) script.limit_after = 9;
      request.shape = shapes->back() = std::make_shared<ScriptedShape>(script);
    }
    if (id == 6) {
      LogitRules rules;
      rules.options.frequency_penalty = 0.7f;
      rules.bad_words = {{9}};
      request.shaper =
          std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request.request.prompt);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(ShapedAnswers, AloneInABatchAndAheadAreTheSame) {
  std::vector<std::vector<Generation>> runs;
  // A GPU adds a product up in another order for another number of rows; on the CPU no bit differs.
  const double tolerance = HarnessDeviceQueues() ? 1e-4 : 0.0;
  for (const bool alone : {true, false, false, false}) {
    const size_t run = runs.size();
    ThreadRunner slow(std::chrono::microseconds(3000));
    HarnessOptions options;
    options.overlap = run >= 2;
    options.masks = run == 3 ? &slow : nullptr;
    EngineHarness harness(GoldenPath("gqa_untied"), options);
    std::vector<std::shared_ptr<ScriptedShape>> shapes;
    const std::vector<SequenceRequest> requests = ShapedRequests(&shapes);
    std::vector<Generation>& generations = runs.emplace_back();
    if (alone) {
      for (const SequenceRequest& request : requests) generations.push_back(harness.RunOne(request));
    } else {
      generations = harness.Run(requests, {0, 0, 3, 0, 5, 1, 2});
    }
    if (options.overlap) {
      EXPECT_GT(harness.steps_ahead(), 4);
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "request " << i + 1 << ", run " << run);
      const std::vector<int32_t> tokens = generations[i].tokens();
      const Generation &here = generations[i], &first = runs[0][i];
      EXPECT_EQ(here.finish, i == 2   ? FinishReason::kComplete
                             : i == 6 ? FinishReason::kShapeLimit
                                      : FinishReason::kLength);
      EXPECT_EQ(std::ssize(tokens), i == 2 ? 7 : i == 6 ? 9 : 13 + static_cast<int32_t>(i));
      if (shapes[i] != nullptr) {
        EXPECT_TRUE(shapes[i]->Allows(tokens));
      }
      ASSERT_EQ(tokens, first.tokens());
      for (size_t t = 0; t < tokens.size(); ++t) {
        EXPECT_NEAR(here.sampled[t].logprob, first.sampled[t].logprob, tolerance) << t;
        EXPECT_NEAR(here.sampled[t].top[1].logprob, first.sampled[t].top[1].logprob, tolerance) << t;
      }
    }
    EXPECT_NE(generations[0].tokens(), generations[1].tokens()) << "two choices of one prompt";
  }
}

}  // namespace
}  // namespace hydrant
