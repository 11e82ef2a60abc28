// Answers with a shape in EngineCore: when masks are asked for, what becomes of those that cannot be had, and that nobody
// else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/engine/engine_core_fixture.h"
#include "tests/engine/scripted_shape.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

constexpr int32_t kEos = 2;

// The lowest token that is allowed; of who asks nothing, 7.
void ChooseTheLowestAllowed(ScriptedExecutor& executor) {
  executor.spoil = [&executor](const StepRow& row, RowOutput& answer) {
    if (row.forced_id >= 0) answer.sampled.id = row.forced_id;
    if (row.forced_id >= 0 || executor.asked == nullptr || executor.asked->allowed_bits.empty()) return;
    const std::span<const uint32_t> bits = executor.asked->allowed_bits;
    int32_t id = 0;
    while (id < kVocab && (bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1) == 0) ++id;
    answer.sampled.id = id;
    answer.sampled.finite = id < kVocab;
    answer.sampled.no_token = id == kVocab;
  };
}

// Computes when it is told to, or at once.
class ManualRunner : public MaskRunner {
 public:
  void Run(std::span<const std::shared_ptr<AnswerMask>> masks) noexcept override {
    waiting.insert(waiting.end(), masks.begin(), masks.end());
    most = std::max(most, masks.size());
    if (at_once) ComputeAll();
  }
  void ComputeAll() {
    for (const auto& mask : waiting) mask->Compute();
    waiting.clear();
  }

  bool at_once = true;
  std::vector<std::shared_ptr<AnswerMask>> waiting;
  size_t most = 0;
};

// The argument: overlap of steps.
class ShapeTest : public testing::TestWithParam<bool> {
 protected:
  ShapeTest() {
    EngineCoreOptions options = Options();
    options.overlap = GetParam();
    options.masks = &runner;
    core = *EngineCore::Create(options, executor, [this] { return now_us += 10; });
    ChooseTheLowestAllowed(executor);
  }

  // Its shape lives as long as the test.
  std::shared_ptr<ScriptedShape> Add(SequenceRequest request, ScriptedShape::Script script) {
    script.vocab = kVocab;
    script.key = request.request.id;
    auto shape = std::make_shared<ScriptedShape>(std::move(script));
    request.shape = shape;
    EXPECT_TRUE(core->Add(std::move(request)).ok());
    return shape;
  }
  void Step() {
    for (const EngineEvent& event : core->Step()) {
      if (event.token >= 0) tokens[event.id].push_back(event.token);
      if (event.finish != FinishReason::kNone) ends[event.id].push_back(event.finish);
    }
  }
  void RunToTheEnd() {
    for (int step = 0; !core->idle(); ++step) {
      Step();
      ASSERT_LT(step, 200);
    }
    EXPECT_EQ(core->counters().blocks_used, 0);
  }

  ManualRunner runner;
  ScriptedExecutor executor;
  int64_t now_us = 0;
  std::unique_ptr<EngineCore> core;
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, std::vector<FinishReason>> ends;
};

TEST_P(ShapeTest, EveryTokenIsChosenByTheMaskOfThoseBeforeIt) {
  const auto one = Add(MakeRequest(1, 10, 20), {});
  const auto two = Add(MakeRequest(2, 40, 12), {});  // a prompt of two chunks beside decodes
  ASSERT_TRUE(core->Add(MakeRequest(3, 10, 20)).ok());
  RunToTheEnd();
  EXPECT_EQ(tokens[1].size(), 20u);
  EXPECT_TRUE(one->Allows(tokens[1]));
  EXPECT_EQ(one->pushed, tokens[1]);
  EXPECT_EQ(one->masks, 20) << "one for each token, and none for a row behind the end";
  EXPECT_EQ(tokens[2].size(), 12u);
  EXPECT_TRUE(two->Allows(tokens[2]));
  EXPECT_EQ(tokens[3], std::vector<int32_t>(20, 7));
  EXPECT_EQ(runner.most, 2u) << "those of a step together";
}

TEST_P(ShapeTest, WhereAnyTokenMayComeNoMaskIsAskedFor) {
  const auto shape = Add(MakeRequest(1, 10, 20), {.unmasked_of = 5});
  const auto always = Add(MakeRequest(2, 10, 20), {});
  RunToTheEnd();
  EXPECT_EQ(shape->masks, 4);
  ASSERT_EQ(tokens[1].size(), 20u);
  EXPECT_EQ(shape->pushed, tokens[1]);
  for (size_t i = 0; i < 20; ++i) {
    const std::vector<int32_t> allowed = shape->AllowedAfter(std::span(tokens[1]).first(i));
    EXPECT_EQ(tokens[1][i], i % 5 == 0 ? allowed[0] : 7) << i;
  }
  EXPECT_TRUE(always->Allows(tokens[2]));
}

TEST_P(ShapeTest, ABatchWithShapesIsPlannedAhead) {
  Add(MakeRequest(1, 10, 20), {});
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 20)).ok());
  Step();  // prompts
  for (int step = 0; step < 6; ++step) {
    Step();
    EXPECT_EQ(core->in_flight(), GetParam());
  }
}

// While the layers run masks can be computed: they are asked for before that, or, where the tokens are not known yet, as soon as
// these are.
TEST_P(ShapeTest, MasksAreAskedForBeforeAnybodyWaitsForThem) {
  runner.at_once = false;
  const auto shape = Add(MakeRequest(1, 10, 5), {});
  executor.starve = [&](const StepInput& input) {
    EXPECT_EQ(runner.waiting.size(), input.rows[0].tokens[0] == kSampledId ? 0u : 1u);
    runner.ComputeAll();
    return false;
  };
  for (int step = 0; !core->idle(); ++step) {
    Step();
    EXPECT_EQ(runner.waiting.size(), core->in_flight() && tokens[1].size() < 5 ? 1u : 0u);
    runner.ComputeAll();
    ASSERT_LT(step, 20);
  }
  EXPECT_EQ(tokens[1].size(), 5u);
  EXPECT_TRUE(shape->Allows(tokens[1]));
}

TEST_P(ShapeTest, ACompleteAnswerEndsWithItsLastToken) {
  const auto shape = Add(MakeRequest(1, 10, 20), {.complete_after = 4});
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 20)).ok());
  RunToTheEnd();
  EXPECT_EQ(tokens[1].size(), 4u);
  EXPECT_EQ(shape->pushed.size(), 4u);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kComplete));
  EXPECT_THAT(ends[2], ElementsAre(FinishReason::kLength));
}

TEST_P(ShapeTest, ACompleteAnswerThatIsAlsoTheLongestIsComplete) {
  Add(MakeRequest(1, 10, 4), {.complete_after = 4});
  RunToTheEnd();
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kComplete));
}

TEST_P(ShapeTest, AnEndOfTextIsNoTokenOfTheAnswer) {
  const auto shape = Add(MakeRequest(1, 10, 20), {.first = kVocab - 1, .end_id = kEos, .complete_after = 0});
  RunToTheEnd();
  EXPECT_THAT(tokens[1], ElementsAre(kEos));
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kStop));
  EXPECT_TRUE(shape->pushed.empty());
}

// Whoever asks for more tokens than the shape has room for does not break it.
TEST_P(ShapeTest, MinTokensDoNotOutliveTheShape) {
  SequenceRequest request = MakeRequest(1, 10, 20);
  request.request.min_tokens = 10;
  Add(request, {.complete_after = 3});
  RunToTheEnd();
  EXPECT_EQ(tokens[1].size(), 3u);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kComplete));
}

TEST_P(ShapeTest, WhoeverCannotGoOnFailsAlone) {
  Add(MakeRequest(1, 10, 20), {.lost_after = 3});
  Add(MakeRequest(2, 10, 20), {.limit_after = 2});
  Add(MakeRequest(3, 10, 20), {.no_memory_after = 4});
  const auto shape = Add(MakeRequest(4, 10, 20), {});
  RunToTheEnd();
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kShapeLimit));
  EXPECT_THAT(ends[2], ElementsAre(FinishReason::kShapeLimit));
  EXPECT_THAT(ends[3], ElementsAre(FinishReason::kNoMemory));
  EXPECT_THAT(ends[4], ElementsAre(FinishReason::kLength));
  EXPECT_EQ(tokens[4].size(), 20u);
  EXPECT_TRUE(shape->Allows(tokens[4]));
  EXPECT_EQ(tokens[2].size(), 2u);
  EXPECT_EQ(tokens[3].size(), 4u);
}

TEST_P(ShapeTest, AMaskThatAllowsNothingIsNotTheModelsFault) {
  Add(MakeRequest(1, 10, 20), {.nothing_after = 2});
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 6)).ok());
  RunToTheEnd();
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kNoToken));
  EXPECT_THAT(ends[2], ElementsAre(FinishReason::kLength));
}

TEST_P(ShapeTest, WhatNobodyAskedForEndsNobody) {
  const auto limit = Add(MakeRequest(1, 10, 20), {.limit_after = 2, .is_promised = false});
  const auto no_memory = Add(MakeRequest(2, 10, 20), {.no_memory_after = 4, .is_promised = false});
  RunToTheEnd();
  for (const auto& [id, masked] : {std::pair(1, 2), std::pair(2, 4)}) {
    const std::vector<int32_t>& said = tokens[static_cast<uint64_t>(id)];
    ASSERT_EQ(said.size(), 20u);
    EXPECT_TRUE((id == 1 ? limit : no_memory)->Allows({said.begin(), said.begin() + masked}));
    EXPECT_EQ(std::vector<int32_t>(said.begin() + masked, said.end()),
              std::vector<int32_t>(static_cast<size_t>(20 - masked), 7));
    EXPECT_THAT(ends[static_cast<uint64_t>(id)], ElementsAre(FinishReason::kLength));
  }
}

TEST_P(ShapeTest, GivenTokensAreFollowedWithoutAMask) {
  SequenceRequest request = MakeRequest(1, 10, 8);
  request.forced_ids = {50, 51, 52};
  const auto shape = Add(request, {});
  RunToTheEnd();
  EXPECT_EQ(shape->pushed, tokens[1]);
  EXPECT_THAT(std::vector<int32_t>(tokens[1].begin(), tokens[1].begin() + 3), ElementsAre(50, 51, 52));
  EXPECT_EQ(shape->masks, 5);
  EXPECT_EQ(tokens[1][3], shape->AllowedAfter(std::vector<int32_t>{50, 51, 52})[0]);
}

TEST_P(ShapeTest, WhatElseIsAskedOfTheTokenIsAskedWithTheMask) {
  SequenceRequest request = MakeRequest(1, 10, 8);
  LogitRules rules;
  rules.options.frequency_penalty = 0.5f;
  rules.bad_words = {{4}};
  request.shaper =
      std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request.request.prompt);
  const auto shape = Add(request, {});
  const auto choose = executor.spoil;
  size_t rows = 0;
  executor.spoil = [&](const StepRow& row, RowOutput& answer) {
    choose(row, answer);
    if (executor.asked == nullptr) return;  // a row behind the end
    EXPECT_FALSE(executor.asked->allowed_bits.empty());
    EXPECT_THAT(executor.asked->banned, ElementsAre(4));
    EXPECT_FALSE(executor.asked->counts_last) << "every token before it is known";
    ++rows;
  };
  RunToTheEnd();
  EXPECT_EQ(rows, 8u);
  EXPECT_TRUE(shape->Allows(tokens[1]));
}

// Nobody waits for a mask that nobody wants, and who computes it may take its time.
TEST_P(ShapeTest, WhoeverLeavesIsNotWaitedFor) {
  runner.at_once = false;
  std::weak_ptr<ScriptedShape> shape = Add(MakeRequest(1, 10, 20), {});
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 6)).ok());
  executor.starve = [&](const StepInput& input) {
    if (input.rows.size() == 2 && executor.launches == 0) core->Cancel(1);  // while its layers run
    return false;
  };
  RunToTheEnd();
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kAbort));
  EXPECT_THAT(ends[2], ElementsAre(FinishReason::kLength));
  ASSERT_EQ(runner.waiting.size(), 1u);
  EXPECT_FALSE(shape.expired()) << "it is still to be computed";
  runner.ComputeAll();
  EXPECT_TRUE(shape.expired());
}

TEST_P(ShapeTest, ASampleWithoutMemoryIsALostStep) {
  Add(MakeRequest(1, 10, 20), {});
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 20)).ok());
  int32_t samples = 0;
  executor.starve_sample = [&](const StepInput&) { return ++samples == 4; };
  RunToTheEnd();
  EXPECT_EQ(core->steps_lost(), 1u);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kNoMemory));
  EXPECT_THAT(ends[2], ElementsAre(FinishReason::kNoMemory));
  const auto shape = Add(MakeRequest(3, 10, 5), {});
  RunToTheEnd();
  EXPECT_TRUE(shape->Allows(tokens[3]));
  EXPECT_THAT(ends[3], ElementsAre(FinishReason::kLength));
}

// The device cannot know that a shape is complete, but it knows ends of text.
TEST_P(ShapeTest, ABudgetedSessionsAnswerEndsWithATokenThatSaysSo) {
  const auto shape = Add(SessionTurnOf(7, MakeRequest(1, 10, 20, 16)), {.end_id = kEos, .complete_after = 4});
  int32_t ahead = 0;
  for (int step = 0; !core->all_ended(); ++step) {
    Step();
    ahead += core->in_flight() ? 1 : 0;
    ASSERT_LT(step, 50);
  }
  EXPECT_EQ(tokens[1].size(), 5u);
  EXPECT_EQ(tokens[1].back(), kEos);
  EXPECT_EQ(shape->pushed.size(), 4u);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kStop));
  EXPECT_EQ(ahead > 0, GetParam());
}

TEST_P(ShapeTest, ThatTokenNeedNotBeOneThatTheClientAllows) {
  SequenceRequest request = SessionTurnOf(7, MakeRequest(1, 10, 20, 16));
  LogitRules rules;
  for (int32_t id = kEos + 1; id < kVocab; ++id) rules.options.allowed_token_ids.push_back(id);
  const size_t allowed = rules.options.allowed_token_ids.size();
  request.shaper =
      std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request.request.prompt);
  Add(std::move(request), {.end_id = kEos, .complete_after = 4});
  const auto choose = executor.spoil;
  int32_t ends_asked = 0;
  executor.spoil = [&](const StepRow& row, RowOutput& answer) {
    choose(row, answer);
    if (executor.asked == nullptr) return;  // a row behind the end
    const bool is_end = (executor.asked->allowed_bits[0] >> kEos & 1) != 0;
    ends_asked += is_end ? 1 : 0;
    EXPECT_EQ(executor.asked->allowed.size(), is_end ? 0 : allowed);
  };
  while (!core->all_ended()) Step();
  EXPECT_EQ(ends_asked, 1);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kStop));
}

TEST_P(ShapeTest, WithoutSuchATokenABudgetedSessionWaitsForItsTokens) {
  SequenceRequest request = SessionTurnOf(7, MakeRequest(1, 10, 20, 16));
  request.request.min_tokens = 15;
  Add(request, {.end_id = kEos, .complete_after = 4});
  while (!core->all_ended()) {
    Step();
    EXPECT_FALSE(core->in_flight());
  }
  EXPECT_EQ(tokens[1].size(), 4u);
  EXPECT_THAT(ends[1], ElementsAre(FinishReason::kComplete));
}

TEST_P(ShapeTest, NobodyWaitsForAnEndThatNobodyAskedFor) {
  SequenceRequest request = SessionTurnOf(7, MakeRequest(1, 10, 20, 16));
  request.request.min_tokens = 15;
  Add(request, {.is_promised = false});
  int32_t ahead = 0;
  while (!core->all_ended()) {
    Step();
    ahead += core->in_flight() ? 1 : 0;
  }
  EXPECT_EQ(tokens[1].size(), 20u);
  EXPECT_EQ(ahead > 0, GetParam());
}

// What a sequence says and how it ends.
struct Course {
  std::vector<int32_t> tokens;
  std::vector<FinishReason> ends;
};

// One alone, step by step, with masks at once: what there is to compare with.
Course AloneOf(SequenceRequest request, const ScriptedShape::Script* script) {
  ScriptedExecutor executor;
  ChooseTheLowestAllowed(executor);
  int64_t now_us = 0;
  const std::unique_ptr<EngineCore> core = *EngineCore::Create(Options(), executor, [&now_us] { return now_us += 10; });
  if (script != nullptr) request.shape = std::make_shared<ScriptedShape>(*script);
  EXPECT_TRUE(core->Add(std::move(request)).ok());
  Course course;
  while (!core->idle()) {
    for (const EngineEvent& event : core->Step()) {
      if (event.token >= 0) course.tokens.push_back(event.token);
      if (event.finish != FinishReason::kNone) course.ends.push_back(event.finish);
    }
  }
  return course;
}

// Any lengths, budgets and sessions; a shape that goes on, ends, is lost, meets a limit, finds no memory or allows nothing.
SequenceRequest AnyRequest(uint64_t id, std::mt19937& random, ScriptedShape::Script* script, bool* has_shape) {
  const auto below = [&random](int32_t count) { return static_cast<int32_t>(random() % static_cast<uint32_t>(count)); };
  SequenceRequest request = MakeRequest(id, 1 + below(50), 1 + below(24), below(3) == 0 ? 8 + below(12) : 0);
  if (below(2) == 0) request = SessionTurnOf(id, std::move(request));
  if (below(5) == 0) request.forced_ids = {50, 51};
  *has_shape = below(5) > 0;
  *script = {.vocab = kVocab, .key = id, .choices = 1 + below(3)};
  if (below(2) == 0) script->end_id = kEos;
  int32_t* const limits[] = {&script->complete_after, &script->lost_after, &script->limit_after,
                             &script->no_memory_after, &script->nothing_after};
  if (below(3) > 0) *limits[below(5)] = 1 + below(12);
  return request;
}

TEST_P(ShapeTest, NobodyNoticesTheOthersOrWhenMasksCome) {
  std::mt19937 random(5);
  // Masks come at once, while layers are computed, or between two steps.
  executor.starve = [this](const StepInput&) {
    runner.ComputeAll();
    return false;
  };
  uint64_t id = 0;
  std::map<FinishReason, int> ways;
  for (int episode = 0; episode < 250; ++episode) {
    std::map<uint64_t, Course> alone;
    std::set<uint64_t> left;
    const uint64_t last = id + 1 + random() % 6;
    for (int step = 0; id < last || !core->all_ended(); ++step) {
      ASSERT_LT(step, 300);
      runner.at_once = random() % 2 == 0;
      while (id < last && random() % 2 == 0) {
        ScriptedShape::Script script;
        bool has_shape;
        SequenceRequest request = AnyRequest(++id, random, &script, &has_shape);
        alone[id] = AloneOf(request, has_shape ? &script : nullptr);
        if (has_shape) request.shape = std::make_shared<ScriptedShape>(script);
        if (!core->Add(std::move(request)).ok()) alone.erase(id);  // the queue is full
      }
      if (id > 0 && random() % 40 == 0 && core->Cancel(id)) left.insert(id);
      Step();
      runner.ComputeAll();
    }
    for (const auto& [who, course] : alone) {
      SCOPED_TRACE(testing::Message() << "request " << who << " of episode " << episode);
      if (left.contains(who)) {
        ASSERT_LE(tokens[who].size(), course.tokens.size() + 1);
        continue;
      }
      ASSERT_EQ(tokens[who], course.tokens);
      ASSERT_EQ(ends[who], course.ends);
      ++ways[ends[who].front()];
    }
  }
  for (const FinishReason way : {FinishReason::kLength, FinishReason::kComplete, FinishReason::kStop,
                                 FinishReason::kShapeLimit, FinishReason::kNoMemory, FinishReason::kNoToken}) {
    EXPECT_GT(ways[way], 3) << static_cast<int>(way);
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, ShapeTest, testing::Bool(),
                         [](const auto& overlap) { return overlap.param ? "Ahead" : "OneByOne"; });

}  // namespace
}  // namespace hydrant
