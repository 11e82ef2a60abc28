// Adapters in the whole engine: the answers of PEFT, and many adapters in one batch. tests/golden/README.md says what the files hold.
#include "model/weights/adapter_slots.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/checkpoint/adapter.h"
#include "tests/engine/engine_harness.h"
#include "tests/support/golden_file.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

constexpr const char* kBase = "gqa_tied";
constexpr const char* kNames[] = {"all", "qv_root", "patterns", "mlp_of_one"};
constexpr int32_t kSlots = 8, kRankMax = 16;

std::string AdapterPath(const std::string& name) { return GoldenPath("adapters/" + name); }

Adapter Read(const Checkpoint& checkpoint, const std::string& name) {
  const AdapterTargets targets = AdapterTargets::Of(checkpoint);
  auto files = ReadAdapterFiles(AdapterPath(name), targets, kRankMax);
  EXPECT_THAT(files, IsOk());
  auto adapter = ParseAdapter(*std::move(files), targets, kRankMax);
  EXPECT_THAT(adapter, IsOk());
  return *std::move(adapter);
}

SequenceRequest Adapted(SequenceRequest request, int32_t slot) {
  request.adapter = slot;
  return request;
}

TEST(Adapters, AnswerAsPeftDoes) {
  EngineHarness harness(GoldenPath(kBase), {.adapters = {.slots = kSlots, .rank_max = kRankMax}});
  uint64_t id = 0;
  int32_t slot = 0;
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const nlohmann::json file = ReadJson(AdapterPath(name) + "/greedy.json");
    // Four times the spread between two correct implementations; these have the same rotary angles, so no less than others have.
    const float tolerance = 4 * std::max(file.at("logprob_error").get<float>(), 1e-5f);
    harness.executor().PutAdapter(slot, Read(harness.checkpoint(), name));
    for (const nlohmann::json& golden : file.at("prompts")) {
      const std::vector<int32_t> tokens = Ids(golden.at("tokens"));
      SequenceRequest request = Greedy(++id, Ids(golden.at("prompt_ids")), static_cast<int32_t>(tokens.size()));
      request.logprobs = 1;
      const Generation generation = harness.RunOne(Adapted(request, slot));
      EXPECT_EQ(generation.tokens(), tokens);
      ASSERT_EQ(generation.sampled.size(), tokens.size());
      for (size_t i = 0; i < tokens.size(); ++i) {
        EXPECT_NEAR(generation.sampled[i].top[0].logprob, golden.at("logprobs")[i].get<float>(), tolerance) << i;
      }
    }
    ++slot;
  }
}

// Bits of everything that was sampled.
void ExpectSame(const Generation& a, const Generation& b) {
  ASSERT_EQ(a.tokens(), b.tokens());
  for (size_t i = 0; i < a.sampled.size(); ++i) ASSERT_EQ(a.sampled[i].logprob, b.sampled[i].logprob) << "token " << i;
}

// Whatever a file says, and whoever read it.
TEST(Adapters, AreNotPutWhereTheyDoNotFit) {
  EngineHarness harness(GoldenPath(kBase), {.adapters = {.slots = 1, .rank_max = kRankMax}});
  uint64_t id = 0;
  const auto answer = [&](int32_t slot) {
    SequenceRequest request = Greedy(++id, {5, 6, 7, 8}, 4);
    request.logprobs = 0;
    return harness.RunOne(Adapted(request, slot));
  };
  const Generation without = answer(-1);
  for (const auto& spoil : std::vector<void (*)(AdapterChange&)>{
           [](AdapterChange& change) { --change.b.count; }, [](AdapterChange& change) { --change.a.count; },
           [](AdapterChange& change) { change.rank = kRankMax + 1; }, [](AdapterChange& change) { change.rank = -1; },
           [](AdapterChange& change) { change.a = change.b; }}) {
    Adapter adapter = Read(harness.checkpoint(), "all");
    spoil(adapter.changes.rbegin()->second);
    EXPECT_THROW(harness.executor().PutAdapter(0, adapter), std::runtime_error);
    EXPECT_EQ(answer(0).tokens(), without.tokens());
    EXPECT_EQ(answer(0).sampled[0].logprob, without.sampled[0].logprob) << "nothing of it is left";
  }
}

class ManyAdapters : public testing::TestWithParam<DType> {
 protected:
  HarnessOptions Options(int32_t slots) const {
    return {.dtype = GetParam(), .sequences_max = 40, .adapters = {.slots = slots, .rank_max = kRankMax}};
  }
  // Eight that all differ, from four folders.
  static void PutAll(EngineHarness& harness) {
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      Adapter adapter = Read(harness.checkpoint(), kNames[slot % 4]);
      for (auto& [place, change] : adapter.changes) change.scale *= slot < 4 ? 1.0f : -0.75f;
      harness.executor().PutAdapter(slot, adapter);
    }
  }
};

TEST_P(ManyAdapters, InOneBatchAnswerAsEachAlone) {
  EngineHarness harness(GoldenPath(kBase), Options(kSlots)), plain(GoldenPath(kBase), Options(0));
  PutAll(harness);
  std::mt19937 random(5);
  std::vector<SequenceRequest> requests;
  // Where a row's bits are its own, and once: a run of each alone takes as long as the batch. Elsewhere fewer will do.
  const bool all = HarnessIsBatchInvariant() && GetParam() == DType::kBF16 && !kSanitized;
  const int count = all ? 32 : 9;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(static_cast<size_t>(1 + i % 23));
    for (int32_t& token : prompt) token = std::uniform_int_distribution<int32_t>(2, 287)(random);
    SequenceRequest request = Greedy(static_cast<uint64_t>(i + 1), prompt, 6);
    request.logprobs = 0;
    requests.push_back(Adapted(request, i % 9 == 8 ? -1 : (i * 3) % kSlots));
  }
  const std::vector<Generation> mixed = harness.Run(requests);
  int differ = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    SequenceRequest alone = requests[i];
    alone.request.id += 100;
    const Generation own = harness.RunOne(alone);
    alone.request.id += 100;
    alone.adapter = -1;
    const Generation without = plain.RunOne(alone);
    if (!HarnessIsBatchInvariant()) {
      EXPECT_EQ(mixed[i].tokens().size(), own.tokens().size());
      continue;
    }
    ExpectSame(mixed[i], own);
    if (requests[i].adapter < 0) {
      ExpectSame(mixed[i], without);
    } else {
      differ += mixed[i].sampled[0].logprob != without.sampled[0].logprob ? 1 : 0;
    }
  }
  EXPECT_EQ(differ, !HarnessIsBatchInvariant() ? 0 : all ? 29 : 8);
}

TEST_P(ManyAdapters, ASlotIsFreeForTheNextOne) {
  EngineHarness harness(GoldenPath(kBase), Options(1));
  uint64_t id = 0;
  const auto answer = [&] {
    SequenceRequest request = Greedy(++id, {5, 6, 7, 8}, 4);
    request.logprobs = 0;
    return harness.RunOne(Adapted(request, 0));
  };
  harness.executor().PutAdapter(0, Read(harness.checkpoint(), "qv_root"));
  const Generation fresh = answer();
  harness.executor().PutAdapter(0, Read(harness.checkpoint(), "all"));
  EXPECT_NE(answer().sampled[0].logprob, fresh.sampled[0].logprob);
  harness.executor().PutAdapter(0, Read(harness.checkpoint(), "qv_root"));
  ExpectSame(answer(), fresh);
}

INSTANTIATE_TEST_SUITE_P(Types, ManyAdapters, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return DTypeName(type.param); });

}  // namespace
}  // namespace hydrant
