// The forward pass against independent implementations: tests/golden/README.md says what the files hold.
#include "model/run/transformer.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/support/golden_file.h"

namespace hydrant {
namespace {

using nlohmann::json;

constexpr const char* kModels[] = {"mha_tied", "mha_untied", "gqa_tied", "gqa_untied", "gqa_llama3_rope"};

class Goldens : public testing::TestWithParam<const char*> {
 protected:
  json File(const std::string& name) { return ReadJson(GoldenPath(GetParam()) + "/" + name); }
};

TEST_P(Goldens, GreedyTokensAndLogProbabilitiesEqualTransformers) {
  const json file = File("greedy.json");
  // Four times the spread between three correct implementations.
  const float tolerance = 4 * file.at("logprob_error").get<float>();
  EngineHarness harness(GoldenPath(GetParam()), {});
  uint64_t id = 0;
  for (const json& golden : file.at("prompts")) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const std::vector<int32_t> tokens = Ids(golden.at("tokens"));
    SequenceRequest request = Greedy(++id, Ids(golden.at("prompt_ids")), static_cast<int32_t>(tokens.size()));
    request.logprobs = 5;
    request.prompt_logprobs = 0;
    const Generation generation = harness.RunOne(request);
    EXPECT_EQ(generation.tokens(), tokens);
    ASSERT_EQ(generation.sampled.size(), tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const json& top5 = golden.at("top5")[i];
      ASSERT_EQ(generation.sampled[i].top.size(), 5u);
      for (size_t k = 0; k < 5; ++k) {
        EXPECT_NEAR(generation.sampled[i].top[k].logprob, top5[k][1].get<float>(), tolerance) << "token " << i;
      }
    }
    const json& prompt = golden.at("prompt_logprobs");
    ASSERT_EQ(generation.prompt.size() + 1, prompt.size());
    for (size_t i = 1; i < prompt.size(); ++i) {
      EXPECT_NEAR(generation.prompt[i - 1].logprob, prompt[i].get<float>(), tolerance) << "prompt token " << i;
    }
  }
}

struct Tally {
  int64_t victims = 0, other_victims = 0;
};

// Runs the cases of a file; what was evicted, by preset.
std::map<std::string, Tally> ExpectCases(const char* model, const json& file) {
  Recorder recorder;
  EngineHarness harness(GoldenPath(model), {.dump = &recorder});
  uint64_t id = 0;
  std::map<std::string, Tally> tallies;
  for (const json& golden : file.at("cases")) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    recorder = Recorder();
    Tally& tally = tallies[golden.at("policy").at("preset").get<std::string>()];
    const std::vector<int32_t> tokens = Ids(golden.at("tokens"));
    const EvictionPolicy policy = PolicyOf(golden.at("policy"));
    const std::vector<int32_t> prompt = Ids(golden.at("prompt_ids"));
    const Generation generation =
        harness.RunOne(With(Greedy(++id, prompt, static_cast<int32_t>(tokens.size())), policy));
    EXPECT_EQ(generation.tokens(), tokens);
    EXPECT_EQ(json(recorder.kept), golden.at("kept_after_prefill"));
    EXPECT_EQ(recorder.victims.size(), golden.at("victims").size());
    if (testing::Test::HasFailure()) return tallies;
    for (size_t step = 0; step < recorder.victims.size(); ++step) {
      const json& expected = golden.at("victims")[step];
      EXPECT_EQ(recorder.victims[step].has_value(), !expected.is_null()) << "step " << step;
      if (!recorder.victims[step]) continue;
      EXPECT_EQ(json(*recorder.victims[step]), expected) << "step " << step;
      const int32_t leaves_window = static_cast<int32_t>(prompt.size() + step) - policy.recent;
      for (const auto& layer : *recorder.victims[step]) {
        for (int32_t position : layer) {
          ++tally.victims;
          if (position != leaves_window) ++tally.other_victims;
        }
      }
    }
  }
  return tallies;
}

// A program that always drops the token leaving the window must not pass.
void ExpectRealChoices(const std::map<std::string, Tally>& tallies) {
  for (const char* preset : {"h2o", "snapkv", "h2o-plus", "h2o-decay"}) {
    const Tally& tally = tallies.at(preset);
    EXPECT_GE(tally.victims, 40) << preset;
    EXPECT_GE(tally.other_victims, tally.victims / 10) << preset;
  }
}

TEST_P(Goldens, KeptSetsVictimsAndTokensEqualTheIndependentH2o) {
  ExpectRealChoices(ExpectCases(GetParam(), File("h2o.json")));
}

TEST_P(Goldens, RollingKeepsAndSaysWhatTheIndependentH2oDoes) {
  ExpectRealChoices(ExpectCases(GetParam(), File("h2o_rolling.json")));
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens, testing::ValuesIn(kModels),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace hydrant
