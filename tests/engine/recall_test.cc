// Turns of a chat that recalls: each goes by all that was said, bit for bit as if all of it were a prompt from nothing,
// whatever of it was parked, and wherever that was put back.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/support/forwarding_executor.h"

namespace hydrant {
namespace {

constexpr int32_t kTurns = 4;
constexpr uint64_t kSession = 7;

struct RecallPolicy {
  const char* name;
  EvictionPolicy policy;
  int32_t beta = 0;
};

std::vector<RecallPolicy> RecallPolicies() {
  const EvictionPolicy h2o{.evicts = true, .heavy = 20, .recent = 20};
  EvictionPolicy roomy = h2o;
  roomy.heavy = 120;
  roomy.recent = 60;
  std::vector<RecallPolicy> policies = {{"h2o", h2o}, {"h2o_periodic", h2o, 24}, {"prompts_fit_at_first", roomy}};
  if (!HarnessDeviceQueues()) {  // a CUDA device, which chooses no pins
    EvictionPolicy pins = Pinning(h2o);
    policies.push_back({"pins", pins});
    pins.pin_rows = 40;  // more than some turns have
    policies.push_back({"pins_of_the_turn_alone", pins});
    policies.push_back({"pins_periodic", pins, 24});
  }
  return policies;
}

// What a turn leaves of its prompt.
int32_t HistoryOf(const std::vector<int32_t>& prompt) {
  return (static_cast<int32_t>(prompt.size()) - 1) / kBlockSlots * kBlockSlots;
}

// Its own rows choose, where there was one before it that left so much.
EvictionPolicy PolicyOf(const EvictionPolicy& policy, const std::vector<int32_t>& prompt, int32_t left) {
  EvictionPolicy own = policy;
  if (left > 0) own.pin_rows = std::min(own.pin_rows, static_cast<int32_t>(prompt.size()) - left);
  return own;
}

struct ChatOptions {
  bool company = false;  // others run beside it, take what it leaves, and KV moves in slices
  int32_t chunk = 256;
  int64_t parked_blocks = 256;  // 0: nothing of it is ever parked
  int32_t score_blocks = 100;   // what leaves needs as many as it has blocks
  std::optional<KvType> kv_type = std::nullopt;
  bool overlap = false;
  std::function<std::unique_ptr<Executor>(Executor&)> around = nullptr;
};

// Has no memory for a step that has rows, once.
class LosingExecutor : public ForwardingExecutor {
 public:
  // `number`: of the step that is lost, from 1 on; `counter` counts those that have rows.
  LosingExecutor(Executor& inner, int number, int* counter)
      : ForwardingExecutor(inner), number_(number), steps_(*counter) {}

  Ticket Launch(const StepInput& input) override {
    if (!input.rows.empty() && ++steps_ == number_) throw std::bad_alloc();
    return inner().Launch(input);
  }

 private:
  const int number_;
  int& steps_;
};

class Recall : public testing::TestWithParam<const char*> {
 protected:
  static DType Type() { return std::string(GetParam()) == "gqa_tied" ? DType::kBF16 : DType::kF32; }

  static SequenceRequest Turn(uint64_t id, const std::vector<int32_t>& history, const RecallPolicy& policy,
                              int32_t turn, int32_t left) {
    const EvictionPolicy own = PolicyOf(policy.policy, history, left);
    SequenceRequest request = Sharing(With(Greedy(id, history, 14), own, policy.beta));
    request.logprobs = 0;
    request.request.prefix.salt.low = id;  // nothing is found but what is parked
    request.request.session = kSession;
    request.request.turn = static_cast<uint64_t>(turn + 1);
    request.request.resumes = static_cast<uint64_t>(turn);
    request.request.history = HistoryOf(history);
    return request;
  }

  static HarnessOptions Options(const ChatOptions& how) {
    return {.dtype = Type(),
            .kv_type = how.kv_type,
            .threads = how.company ? 2 : 1,
            .blocks = how.company ? 60 : 100,
            .spare_score_blocks = how.score_blocks,
            .tokens_max = how.chunk + 15,
            .prefill_tokens_max = how.chunk,
            .parked_blocks_max = how.parked_blocks,
            .overlap = how.overlap,
            .around = how.around};
  }

  static std::vector<Generation> Chat(const RecallPolicy& policy, const ChatOptions& how) {
    EngineHarness harness(GoldenPath(GetParam()), Options(how));
    if (how.company) harness.engine().LimitSteps({.blocks_moved_max = 3});
    std::mt19937 random(29);
    std::vector<Generation> turns;
    std::vector<int32_t> history;
    uint64_t next_id = 1;
    int32_t left = 0;
    for (int32_t turn = 0; turn < kTurns; ++turn) {
      const std::vector<int32_t> said = RandomIds(random, turn == 0 ? 110 : 3 + 9 * turn);
      history.insert(history.end(), said.begin(), said.end());
      const SequenceRequest request = Turn(next_id++, history, policy, turn, left);
      std::vector<SequenceRequest> together = {request};
      std::mt19937 others(static_cast<uint32_t>(turn));
      for (int32_t i = 0; how.company && i < 5; ++i) {
        const std::vector<RecallPolicy> policies = RecallPolicies();
        const RecallPolicy& other = policies[static_cast<size_t>(i) % policies.size()];
        together.push_back(With(Greedy(next_id++, RandomIds(others, 20 + 11 * i), 20), other.policy));
      }
      turns.push_back(harness.Run(together).front());
      EXPECT_EQ(turns.back().restored, how.parked_blocks > 0 ? left : 0) << "what was parked is not computed again";
      left = request.request.history / kBlockSlots <= how.score_blocks ? request.request.history : 0;
      const std::vector<int32_t> answer = turns.back().tokens();
      history.insert(history.end(), answer.begin(), answer.end());
    }
    EndSession(harness);
    return turns;
  }

  static void EndSession(EngineHarness& harness) {
    harness.engine().DropSession(kSession);
    harness.engine().Step();
    EXPECT_EQ(harness.engine().counters().parked_blocks, 0);
    EXPECT_EQ(harness.engine().scheduler().block_manager().pool().used(), 0);
    EXPECT_EQ(harness.engine().scheduler().block_manager().score_blocks().handed_out(), 0);
  }

  // Each turn as a request of its own, by an engine that has seen nothing else.
  static std::vector<Generation> FromNothing(const RecallPolicy& policy, const std::vector<Generation>& turns,
                                             std::optional<KvType> kv_type) {
    std::vector<Generation> all;
    std::mt19937 random(29);
    std::vector<int32_t> history;
    int32_t left = 0;
    for (int32_t turn = 0; turn < kTurns; ++turn) {
      EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type(), .kv_type = kv_type, .overlap = false});
      const std::vector<int32_t> said = RandomIds(random, turn == 0 ? 110 : 3 + 9 * turn);
      history.insert(history.end(), said.begin(), said.end());
      SequenceRequest request = With(Greedy(1, history, 14), PolicyOf(policy.policy, history, left), policy.beta);
      left = HistoryOf(history);
      request.logprobs = 0;
      all.push_back(harness.RunOne(request));
      const std::vector<int32_t> answer = turns[static_cast<size_t>(turn)].tokens();
      history.insert(history.end(), answer.begin(), answer.end());
    }
    return all;
  }

  static void ExpectTheSame(const std::vector<Generation>& turns, const std::vector<Generation>& others) {
    ASSERT_EQ(turns.size(), others.size());
    for (size_t turn = 0; turn < turns.size(); ++turn) {
      SCOPED_TRACE("turn " + std::to_string(turn));
      EXPECT_EQ(turns[turn].tokens(), others[turn].tokens());
      EXPECT_EQ(turns[turn].live, others[turn].live);
      ASSERT_EQ(turns[turn].sampled.size(), others[turn].sampled.size());
      for (size_t i = 0; i < turns[turn].sampled.size(); ++i) {
        EXPECT_EQ(turns[turn].sampled[i].logprob, others[turn].sampled[i].logprob) << "token " << i;
      }
    }
  }
};

TEST_P(Recall, ATurnIsWhatTheWholeHistoryWouldBe) {
  if (HarnessDeviceQueues()) GTEST_SKIP() << "bits depend on the company there (CudaDevice, invariant 1)";
  for (const std::optional<KvType> kv_type : {std::optional<KvType>(), std::optional(KvType::kInt8)}) {
    for (const RecallPolicy& policy : RecallPolicies()) {
      SCOPED_TRACE(std::string(policy.name) + (kv_type.has_value() ? ", int8" : ""));
      const std::vector<Generation> turns = Chat(policy, {.kv_type = kv_type});
      ExpectTheSame(turns, FromNothing(policy, turns, kv_type));
      ExpectTheSame(turns, Chat(policy, {.company = true, .kv_type = kv_type}));
      ExpectTheSame(turns, Chat(policy, {.company = true, .chunk = 64, .kv_type = kv_type}));
      ExpectTheSame(turns, Chat(policy, {.parked_blocks = 0, .kv_type = kv_type}));
    }
  }
}

// The first turn's history has six blocks and the later ones' have more.
TEST_P(Recall, ATurnWithoutRoomForItsScoresLeavesNothing) {
  if (HarnessDeviceQueues()) GTEST_SKIP() << "bits depend on the company there (CudaDevice, invariant 1)";
  const RecallPolicy policy = RecallPolicies().front();
  const std::vector<Generation> turns = Chat(policy, {});
  for (const int32_t score_blocks : {0, 5, 6, 8}) {
    SCOPED_TRACE(score_blocks);
    const std::vector<Generation> others = Chat(policy, {.score_blocks = score_blocks});
    ExpectTheSame(turns, others);
    EXPECT_EQ(others[1].restored, score_blocks < 6 ? 0 : 96);
    EXPECT_EQ(others.back().restored, 0);
  }
}

// Whichever step is lost, the one in which the history's scores are copied or one behind it: the turn ends, is given up, and is
// asked again. What it had left by then is gone, and the turn before is gone on from.
TEST_P(Recall, ATurnThatLosesAStepIsAskedAgain) {
  if (HarnessDeviceQueues()) GTEST_SKIP() << "bits depend on the company there (CudaDevice, invariant 1)";
  const RecallPolicy policy = RecallPolicies().front();
  const std::vector<Generation> expected = Chat(policy, {.chunk = 64});
  bool lost = true;
  for (int number = 1; lost; ++number) {
    SCOPED_TRACE("step " + std::to_string(number));
    int steps = 0;
    ChatOptions how = {.chunk = 64};
    how.around = [&](Executor& inner) { return std::make_unique<LosingExecutor>(inner, number, &steps); };
    EngineHarness harness(GoldenPath(GetParam()), Options(how));
    std::mt19937 random(29);
    std::vector<int32_t> history;
    std::vector<Generation> turns;
    int32_t left = 0;
    uint64_t resumes = 0;
    lost = false;
    for (int32_t turn = 0; turn < kTurns; ++turn) {
      const std::vector<int32_t> said = RandomIds(random, turn == 0 ? 110 : 3 + 9 * turn);
      history.insert(history.end(), said.begin(), said.end());
      SequenceRequest request = Turn(static_cast<uint64_t>(turn) + 1, history, policy, turn, left);
      request.request.resumes = resumes;
      request.request.turn = resumes + 1;
      turns.push_back(harness.RunOne(request));
      if (turns.back().finish == FinishReason::kNoMemory) {
        EXPECT_FALSE(std::exchange(lost, true)) << "one step costs one turn";
        harness.engine().SettleTurn({kSession, request.request.turn}, /*keep=*/false);
        request.request.id += 100;
        ++request.request.turn;
        request.request.prefix.salt.low = request.request.id;
        turns.back() = harness.RunOne(request);
      }
      EXPECT_EQ(turns.back().restored, left);
      harness.engine().SettleTurn({kSession, request.request.turn}, /*keep=*/true);
      left = request.request.history;
      resumes = request.request.turn;
      EXPECT_EQ(harness.engine().counters().parked_blocks, left / kBlockSlots);
      const std::vector<int32_t> answer = turns.back().tokens();
      history.insert(history.end(), answer.begin(), answer.end());
    }
    ExpectTheSame(turns, expected);
    EndSession(harness);
    EXPECT_EQ(lost, steps >= number);
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recall, testing::Values("gqa_tied", "gqa_untied"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace hydrant
