// The whole engine on a small model: checkpoint, CPU device, ModelExecutor, EngineCore, driven to the end.
#ifndef HYDRANT_TESTS_ENGINE_ENGINE_HARNESS_H_
#define HYDRANT_TESTS_ENGINE_ENGINE_HARNESS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "server/engine/engine_core.h"
#include "server/engine/prefix_sharing.h"
#include "tests/engine/harness_device.h"
#include "tests/support/source_dir.h"

namespace hydrant {

// Where the committed goldens are: one Hugging Face directory per small checkpoint.
inline std::string GoldenPath(const std::string& name) { return SourceDir() + "/tests/golden/" + name; }

struct HarnessOptions {
  DType dtype = DType::kF32;
  bool keep_quantised = false;
  std::optional<KvType> kv_type = {};  // else as `dtype`
  int threads = 2;
  int32_t blocks = 256;
  int32_t spare_score_blocks = 0;
  int32_t replay_blocks = 0;  // behind them
  int32_t sequences_max = 16;
  int32_t tokens_max = 256;         // in one step
  int32_t prefill_tokens_max = 64;  // beside decodes
  int64_t parked_blocks_max = 0;
  int64_t swap_blocks = 0;
  AdapterLimits adapters = {};
  StreamOptions stream = {};  // of the weights
  int32_t drafts_max = 0;     // in one step
  KvDumpSink* dump = nullptr;
  bool overlap = HarnessDeviceQueues();  // of steps; not with a dump
  std::function<std::unique_ptr<Executor>(Executor&)>
      around;                    // what the engine has instead of the executor; null: that
  MaskRunner* masks = nullptr;   // outlives the harness
  bool scheduler_swaps = false;  // the scheduler knows of swap_blocks; else only who is `around`
  std::function<std::unique_ptr<Device>(int threads)> device = MakeHarnessDevice;
};

struct Generation {
  std::vector<SampleResult> sampled;
  std::vector<SampleResult> prompt;  // of prompt tokens 1, 2, …
  FinishReason finish = FinishReason::kNone;
  int32_t live = 0, budget = 0, evicted = 0, cached = 0, restored = 0, blocks_max = 0;

  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    for (const SampleResult& result : sampled) ids.push_back(result.id);
    return ids;
  }
};

// A text that is complete after so many tokens.
class TextEndsAfter : public EndFinder {
 public:
  explicit TextEndsAfter(int32_t tokens) : left_(tokens) {}
  bool Push(int32_t) override { return --left_ == 0; }

 private:
  int32_t left_;
};

class EngineHarness {
 public:
  EngineHarness(const std::string& model, const HarnessOptions& options) {
    auto checkpoint = Checkpoint::Open(model);
    if (!checkpoint.ok()) ADD_FAILURE() << checkpoint.status();
    checkpoint_ = std::move(*checkpoint);
    device_ = options.device(options.threads);
    const ModelConfig& config = checkpoint_->config;
    auto executor =
        ModelExecutor::Create(*checkpoint_, *device_,
                              ModelExecutorOptions{.weights = {options.dtype, options.keep_quantised},
                                                   .stream = options.stream,
                                                   .kv_type = options.kv_type.value_or(KvTypeOf(options.dtype)),
                                                   .blocks = options.blocks + options.replay_blocks,
                                                   .spare_score_blocks = options.spare_score_blocks,
                                                   .sequences_max = options.sequences_max,
                                                   .batch_tokens_max = options.tokens_max,
                                                   .drafts_max = options.drafts_max,
                                                   .context_max = config.context,
                                                   .swap_blocks = options.swap_blocks,
                                                   .adapters = options.adapters,
                                                   .dump = options.dump});
    if (!executor.ok()) ADD_FAILURE() << executor.status();
    executor_ = std::move(*executor);
    EngineCoreOptions core;
    core.scheduler.blocks = options.blocks;
    core.scheduler.spare_score_blocks = options.spare_score_blocks;
    core.scheduler.parked_blocks_max = options.parked_blocks_max;
    core.scheduler.swap_blocks_max = options.scheduler_swaps ? options.swap_blocks : 0;
    core.scheduler.sequences_max = options.sequences_max;
    core.scheduler.tokens_max = options.tokens_max;
    core.scheduler.prefill_tokens_max = options.prefill_tokens_max;
    core.scheduler.drafts_max = options.drafts_max;
    core.vocab = config.vocab;
    core.context = config.context;
    core.replay_blocks = options.replay_blocks;
    core.overlap = options.overlap && options.dump == nullptr;
    core.masks = options.masks;
    if (options.around) around_ = options.around(*executor_);
    Executor& outermost = around_ != nullptr ? *around_ : *executor_;
    auto engine = EngineCore::Create(core, outermost, [this] { return ++now_us_; });
    if (!engine.ok()) ADD_FAILURE() << engine.status();
    engine_ = std::move(*engine);
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  EngineCore& engine() { return *engine_; }
  ModelExecutor& executor() { return *executor_; }
  Device& device() { return *device_; }

  // Adds requests[i] before step arrivals[i] (all at once when empty) and runs until every one has ended.
  std::vector<Generation> Run(const std::vector<SequenceRequest>& requests, const std::vector<int>& arrivals = {}) {
    std::vector<Generation> generations(requests.size());
    std::map<uint64_t, size_t> index_of;
    size_t ended = 0;
    for (int step = 0; ended < requests.size(); ++step) {
      if (step > 100000) {
        ADD_FAILURE() << "no end in sight";
        break;
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        if ((arrivals.empty() ? 0 : arrivals[i]) != step) continue;
        SequenceRequest request = requests[i];
        // The request may be run again: its own shaper stays where it is.
        if (request.shaper != nullptr) request.shaper = std::make_shared<LogitShaper>(*request.shaper);
        const absl::Status added = engine_->Add(std::move(request));
        if (!added.ok()) ADD_FAILURE() << added;
        index_of[requests[i].request.id] = i;
      }
      const std::span<const EngineEvent> events = engine_->Step();
      steps_ahead_ += engine_->in_flight() ? 1 : 0;
      step_tokens_ += engine_->report().tokens();
      for (const EngineEvent& event : events) {
        Generation& generation = generations[index_of.at(event.id)];
        if (event.token >= 0) generation.sampled.push_back(*event.sampled);
        generation.prompt.insert(generation.prompt.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
        generation.live = event.live;
        generation.budget = event.budget;
        generation.evicted = event.evicted;
        generation.cached = event.cached;
        generation.restored = event.restored;
        generation.blocks_max = std::max(generation.blocks_max, event.blocks);
        generation.finish = event.finish;
        if (event.finish != FinishReason::kNone) ++ended;
      }
    }
    EXPECT_EQ(engine_->counters().blocks_used, 0);
    return generations;
  }

  Generation RunOne(const SequenceRequest& request) { return Run({request}).front(); }

  // The parked KV of a turn; empty: there is none.
  KvBytes Parked(const TurnId& turn) {
    bool is_coming = false;
    return engine_->ReadParked(turn, &is_coming);
  }

  // Steps that were launched while another was in flight.
  int64_t steps_ahead() const { return steps_ahead_; }
  // Tokens of all steps, as they are reported.
  int64_t step_tokens() const { return step_tokens_; }

 private:
  int64_t now_us_ = 0;
  int64_t steps_ahead_ = 0;
  int64_t step_tokens_ = 0;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<Executor> around_;
  std::unique_ptr<EngineCore> engine_;
};

// Tokens of any of the committed checkpoints.
inline std::vector<int32_t> RandomIds(std::mt19937& random, int32_t length) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = std::uniform_int_distribution<int32_t>(2, 287)(random);
  return ids;
}

// A greedy request.
inline SequenceRequest Greedy(uint64_t id, std::vector<int32_t> prompt, int32_t max_tokens) {
  SequenceRequest request;
  request.request.id = id;
  request.request.prompt = std::move(prompt);
  request.request.max_tokens = max_tokens;
  request.request.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  return request;
}

// A policy that pins what the last rows of a prompt point at, of `h2o`.
inline EvictionPolicy Pinning(EvictionPolicy h2o) {
  h2o.decay = 15.0f / 16;
  h2o.decays_prompt = false;
  h2o.pin_rows = 10;
  h2o.pin_decay = 15.0f / 16;
  h2o.pin_tokens = 9;
  return h2o;
}

// Gives `request` a policy and what goes with it.
inline SequenceRequest With(SequenceRequest request, const EvictionPolicy& policy, int32_t beta = 0) {
  request.policy = policy;
  request.request.budget = !policy.evicts ? KvBudget::Unlimited()
                           : beta > 0     ? KvBudget::Periodic(policy.keep(), beta)
                                          : KvBudget::Exact(policy.keep());
  request.request.tail_tokens = policy.pin_rows;
  if (policy.pin_rows == 0) return request;
  const TokenIds& prompt = request.request.prompt;
  request.segment_starts.assign(prompt.size() / 64 + 1, 1);
  for (size_t i = 1; i < prompt.size(); ++i) {
    if (prompt[i - 1] % 8 == 0) request.segment_starts[i / 64] |= uint64_t{1} << (i % 64);
  }
  return request;
}

// Lets `request` use the prefix cache, after its policy is set.
inline SequenceRequest Sharing(SequenceRequest request, const PrefixSalt& salt = PrefixSalt()) {
  request.request.prefix = SharePrefixes(request.policy, salt, request.prompt_logprobs >= 0);
  return request;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_ENGINE_HARNESS_H_
