// Elastic budgets with a real model: whose tokens may change when memory is short, and whose may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/scripted_drafter.h"

namespace hydrant {
namespace {

constexpr EvictionPolicy kH2o{.evicts = true, .heavy = 32, .recent = 31};

std::vector<int32_t> Ids(std::mt19937& random, int32_t length) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = std::uniform_int_distribution<int32_t>(2, 287)(random);
  return ids;
}

SequenceRequest Elastic(SequenceRequest request, int32_t floor) {
  request.request.budget.floor = floor;
  return request;
}

// Four in progress that fill a pool of 16 blocks, two of which agreed to give way, and two that come when they decode.
struct Company {
  std::vector<SequenceRequest> requests;
  std::vector<int> arrivals;
};

Company MakeCompany() {
  std::mt19937 random(41);
  EvictionPolicy sinks = kH2o;
  sinks.score_source = ScoreSource::kNone;
  sinks.rolling = true;
  Company company;
  const auto add = [&](const EvictionPolicy& policy, int32_t prompt, int32_t max_tokens,
                       int arrival) -> SequenceRequest& {
    const uint64_t id = company.requests.size() + 1;
    company.arrivals.push_back(arrival);
    return company.requests.emplace_back(With(Greedy(id, Ids(random, prompt), max_tokens), policy));
  };
  add(kH2o, 60, 120, 0);
  add(kH2o, 61, 120, 0).request.budget.floor = 20;
  add(sinks, 62, 120, 0).request.budget.floor = 20;
  add(kH2o, 63, 120, 0);
  add(kH2o, 30, 40, 40);
  add(EvictionPolicy(), 17, 20, 45);
  for (SequenceRequest& request : company.requests) request.logprobs = 0;
  return company;
}

class ElasticTest : public testing::TestWithParam<const char*> {};

TEST_P(ElasticTest, OnlyTheTokensOfThoseWhoAgreedDependOnTheLoad) {
  const Company company = MakeCompany();
  std::vector<Generation> alone;
  EngineHarness wide(GoldenPath(GetParam()), {.blocks = 64});
  for (const SequenceRequest& request : company.requests) alone.push_back(wide.RunOne(request));

  std::vector<std::vector<int32_t>> changed;
  for (const int32_t chunk : {64, 16}) {
    EngineHarness narrow(GoldenPath(GetParam()), {.blocks = 16, .prefill_tokens_max = chunk});
    const std::vector<Generation> crowded = narrow.Run(company.requests, company.arrivals);
    EXPECT_GT(narrow.engine().counters().scheduler.shrinks, 0u);
    for (size_t i = 0; i < crowded.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i + 1));
      EXPECT_EQ(crowded[i].finish, FinishReason::kLength);
      if (company.requests[i].request.budget.elastic()) {
        EXPECT_LT(crowded[i].budget, 63);
        EXPECT_GE(crowded[i].budget, 20);
        EXPECT_EQ(crowded[i].live, crowded[i].budget + 1);
        continue;
      }
      EXPECT_EQ(crowded[i].budget, alone[i].budget);
      EXPECT_EQ(crowded[i].live, alone[i].live);
      EXPECT_EQ(crowded[i].tokens(), alone[i].tokens());
      for (size_t t = 0; t < alone[i].sampled.size(); ++t) {
        ASSERT_EQ(crowded[i].sampled[t].logprob, alone[i].sampled[t].logprob) << "token " << t;
      }
    }
    EXPECT_NE(crowded[1].tokens(), alone[1].tokens()) << "what it lost shows: else nothing was tested";
  }
}

// Guesses of which none is right take no step away, so that budgets fall when they would without: what they had overwritten is
// back before somebody asks what a cut would cost, and before it is made.
TEST_P(ElasticTest, WrongDraftsChangeNothing) {
  if (!MakeHarnessDevice(1)->TakesDrafts()) GTEST_SKIP() << "no row has any";
  Company company = MakeCompany();
  const auto run = [&](int32_t drafts_max) {
    EngineHarness narrow(GoldenPath(GetParam()), {.blocks = 16, .drafts_max = drafts_max});
    const std::vector<Generation> generations = narrow.Run(company.requests, company.arrivals);
    EXPECT_GT(narrow.engine().counters().scheduler.shrinks, 0u);
    return generations;
  };
  const std::vector<Generation> without = run(0);
  Drafted drafted;
  for (size_t i = 0; i < without.size(); ++i) {
    company.requests[i].drafter = std::make_shared<ScriptedDrafter>(Guesses::kWrong, without[i].tokens(), &drafted);
  }
  const std::vector<Generation> with = run(20);
  EXPECT_GT(drafted.computed, 200);
  EXPECT_EQ(drafted.right, 0);
  for (size_t i = 0; i < without.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i + 1));
    EXPECT_EQ(with[i].budget, without[i].budget);
    EXPECT_EQ(with[i].live, without[i].live);
    EXPECT_EQ(with[i].tokens(), without[i].tokens());
    for (size_t t = 0; t < without[i].sampled.size(); ++t) {
      ASSERT_EQ(with[i].sampled[t].logprob, without[i].sampled[t].logprob) << "token " << t;
    }
  }
}

// Keeps what is left of every prompt; and what every decode step's victims are.
class Victims : public KvDumpSink {
 public:
  void OnPromptDone(int32_t, Positions) override {}
  void OnDecode(int32_t, std::optional<std::vector<std::vector<int32_t>>> victims) override {
    steps.push_back(std::move(victims));
  }
  std::vector<std::optional<std::vector<std::vector<int32_t>>>> steps;
};

// After a shrink the sequence goes on as one that always had the lower budget would from these very slots: one victim per
// step, never one of its recent tokens.
TEST_P(ElasticTest, TheLowerBudgetsPolicyChoosesFromThenOn) {
  Victims victims;
  EngineHarness harness(GoldenPath(GetParam()), {.blocks = 5, .dump = &victims});
  std::mt19937 random(43);
  const std::vector<SequenceRequest> requests = {Elastic(With(Greedy(1, Ids(random, 60), 80), kH2o), 31),
                                                 With(Greedy(2, Ids(random, 20), 1), EvictionPolicy())};
  const std::vector<Generation> generations = harness.Run(requests, {0, 20});
  EXPECT_EQ(generations[0].budget, 47);
  ASSERT_EQ(victims.steps.size(), 79u);
  // Until 64 slots are full nobody goes; then one each step, but for the shrink's, which leaves 47.
  const auto first =
      std::find_if(victims.steps.begin(), victims.steps.end(), [](const auto& step) { return step.has_value(); });
  const auto shrink = std::find(first, victims.steps.end(), std::nullopt);
  ASSERT_NE(shrink, victims.steps.end());
  EXPECT_EQ(std::count(shrink, victims.steps.end(), std::nullopt), 1);
  const int32_t recent = kH2o.Lowered(47).recent;
  EXPECT_EQ(recent, 23);
  std::set<int32_t> at_the_edge;
  for (auto step = shrink + 1; step != victims.steps.end(); ++step) {
    const int32_t position = 60 + static_cast<int32_t>(step - victims.steps.begin());
    for (const std::vector<int32_t>& layer : **step) {
      for (int32_t victim : layer) {
        EXPECT_LE(victim, position - recent);
        if (victim == position - recent) at_the_edge.insert(position);
      }
    }
  }
  EXPECT_FALSE(at_the_edge.empty()) << "the window is as short as it should be";
}

INSTANTIATE_TEST_SUITE_P(Models, ElasticTest, testing::Values("mha_tied", "gqa_tied"),
                         [](const auto& model) { return std::string(model.param); });

// A session whose turn was cut keeps what is left of it, and its next turn has its whole budget again.
TEST(ElasticSession, GoesOnFromALowerBudget) {
  EngineHarness harness(GoldenPath("gqa_tied"), {.blocks = 12, .parked_blocks_max = 8});
  std::mt19937 random(47);
  SequenceRequest first = Elastic(With(Greedy(1, Ids(random, 60), 80), kH2o), 31);
  first.request.session = 7;
  first.request.turn = 1;
  const std::vector<Generation> turn =
      harness.Run({first, With(Greedy(2, Ids(random, 140), 1), EvictionPolicy())}, {0, 20});
  ASSERT_EQ(turn[0].budget, 47);
  SequenceRequest second = first;
  second.request.id = 3;
  const std::vector<int32_t> said = turn[0].tokens();
  std::vector<int32_t> history = first.request.prompt;
  history.insert(history.end(), said.begin(), said.end());
  history.resize(history.size() + 5, 9);
  second.request.prompt = std::move(history);
  second.request.turn = 2;
  second.request.resumes = 1;
  const Generation next = harness.RunOne(second);
  EXPECT_EQ(next.restored, 139);
  EXPECT_EQ(next.budget, 63);
  EXPECT_EQ(next.live, 64);
}

}  // namespace
}  // namespace hydrant
