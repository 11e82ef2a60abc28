// Requests of every policy, for tests that run the whole engine.
#ifndef HYDRANT_TESTS_ENGINE_EVERY_POLICY_H_
#define HYDRANT_TESTS_ENGINE_EVERY_POLICY_H_

#include <random>
#include <utility>
#include <vector>

#include "tests/engine/engine_harness.h"

namespace hydrant {

inline constexpr EvictionPolicy kSwapH2o{.evicts = true, .heavy = 12, .recent = 12};

inline EvictionPolicy Rolling(EvictionPolicy policy) {
  policy.rolling = true;
  return policy;
}

// Requests of every policy and cadence, with prompts of several chunks and of one, cut on the way or at the end or not at all.
inline std::vector<SequenceRequest> EveryPolicy() {
  EvictionPolicy window = kSwapH2o, sinks = kSwapH2o, last_rows = kSwapH2o, first = kSwapH2o;
  window.heavy = 0;
  sinks.score_source = ScoreSource::kNone;
  last_rows.score_rows = 20;
  last_rows.decay = 15.0f / 16;
  last_rows.square = true;
  last_rows.pool_width = 5;
  first.gqa_reduce = GqaReduce::kFirst;
  first.decay = 127.0f / 128;
  std::mt19937 random(53);
  std::vector<SequenceRequest> requests;
  const auto add = [&](const EvictionPolicy& policy, int32_t prompt, int32_t beta = 0, int32_t stride = 0) {
    std::vector<int32_t> ids(static_cast<size_t>(prompt));
    for (int32_t& id : ids) id = std::uniform_int_distribution<int32_t>(2, 255)(random);
    SequenceRequest request = With(Greedy(requests.size() + 1, std::move(ids), 28), policy, beta);
    request.request.budget.prompt_stride = stride;
    request.logprobs = 2;
    if (requests.size() % 2 == 0) request.sampling.temperature = 0.9f;
    request.sampling.key = request.request.id;
    requests.push_back(std::move(request));
  };
  add(EvictionPolicy(), 41);
  add(kSwapH2o, 70);
  add(kSwapH2o, 17);  // full while it decodes
  add(kSwapH2o, 70, /*beta=*/10);
  add(kSwapH2o, 90, 0, /*stride=*/48);
  add(window, 33);
  add(sinks, 50);
  add(last_rows, 66);
  add(first, 66, /*beta=*/16);
  add(Rolling(kSwapH2o), 70);
  add(Rolling(kSwapH2o), 19, /*beta=*/10);
  add(Rolling(sinks), 60);
  add(EvictionPolicy(), 1);
  if (!HarnessDeviceQueues()) add(Pinning(kSwapH2o), 75);  // a CUDA device chooses no pins
  return requests;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_EVERY_POLICY_H_
