// What adapters (LoRA) cost: steps whose rows have one adapter, or eight, beside the same steps without, in one executor and in turn.
// With one thread times are its processor time, so that a machine which others use as well says something, too.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "tests/bench/goal_table.h"
#include "tests/bench/timing.h"

namespace hydrant {
namespace {

constexpr double kGoal = 1.10;
constexpr int32_t kSlots = 8, kContext = 512;
constexpr int kRounds = 41;

constexpr TensorRole kRoles[] = {TensorRole::kQ,    TensorRole::kK,  TensorRole::kV,   TensorRole::kO,
                                 TensorRole::kGate, TensorRole::kUp, TensorRole::kDown};

// For every matrix of the layers.
Adapter RandomAdapter(const Checkpoint& checkpoint, int32_t rank, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.01f);
  Adapter adapter;
  adapter.rank = rank;
  // All matrices have the same numbers, as many as the largest takes.
  const ModelConfig& config = checkpoint.config;
  std::string numbers(
      sizeof(float) * static_cast<size_t>(rank * std::max({config.hidden, config.q_cols(), config.ffn})), 0);
  for (size_t i = 0; i < numbers.size(); i += sizeof(float)) {
    const float value = normal(random);
    std::memcpy(numbers.data() + i, &value, sizeof(value));
  }
  adapter.weights = std::make_shared<const std::string>(std::move(numbers));
  const auto take = [&adapter](int64_t count) {
    return std::string_view(*adapter.weights).substr(0, static_cast<size_t>(count) * sizeof(float));
  };
  for (int32_t layer = 0; layer < checkpoint.config.layers; ++layer) {
    for (const TensorRole role : kRoles) {
      const TensorSource* source = checkpoint.tensors.Find(role, layer);
      if (source == nullptr) continue;
      AdapterChange change = {.rank = rank,
                              .scale = 1,
                              .a = {.count = rank, .cols = source->cols()},
                              .b = {.count = source->rows(), .cols = rank}};
      change.a.data = take(rank * source->cols());
      change.b.data = take(source->rows() * rank);
      adapter.changes.emplace(Adapter::Place(layer, role), std::move(change));
    }
  }
  return adapter;
}

// Seconds; of the calling thread alone if it works alone.
double Clock(int threads) {
  if (threads > 1) return Now();
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

struct Arguments {
  std::string model;
  int threads = 2;
  int batch = 16;
  int rank = 16;
  int tokens = 128;
};

// Sequences side by side, each of `tokens` tokens in blocks of its own. A step leaves them as they were.
class Batch {
 public:
  Batch(const Checkpoint& checkpoint, Device& device, const Arguments& arguments)
      : threads_(arguments.threads), tokens_(arguments.tokens), vocab_(checkpoint.config.vocab) {
    const auto blocks = static_cast<int32_t>(BlocksForSlots(tokens_ + 1));
    const DType dtype = checkpoint.config.stored_dtype;
    auto executor = ModelExecutor::Create(checkpoint, device,
                                          {.weights = {dtype, /*keep_quantised=*/true},
                                           .kv_type = KvTypeOf(dtype),
                                           .blocks = arguments.batch * blocks,
                                           .sequences_max = arguments.batch,
                                           .batch_tokens_max = std::max(arguments.batch, tokens_),
                                           .context_max = kContext,
                                           .adapters = {.slots = kSlots, .rank_max = arguments.rank}});
    if (!executor.ok()) {
      std::fprintf(stderr, "%s\n", std::string(executor.status().message()).c_str());
      std::exit(78);
    }
    executor_ = std::move(*executor);
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      const Adapter adapter = RandomAdapter(checkpoint, arguments.rank, static_cast<uint32_t>(slot));
      const double begin = Clock(threads_);
      executor_->PutAdapter(slot, adapter);
      put_s_ = Clock(threads_) - begin;
    }
    for (int32_t i = 0; i < arguments.batch; ++i) {
      std::vector<int32_t>& table = tables_.emplace_back();
      for (int32_t block = 0; block < blocks; ++block) table.push_back(i * blocks + block);
      std::vector<int32_t>& prompt = prompts_.emplace_back();
      for (int32_t token = 0; token < tokens_; ++token) prompt.push_back((token * 7919 + i * 31 + 13) % vocab_);
      Prompt(i, -1);
    }
  }

  // Seconds of a step that computes the prompt of sequence `i`.
  double Prompt(int32_t i, int32_t slot) {
    StepInput input;
    StepRow& row = input.rows.emplace_back();
    row.tokens = prompts_[static_cast<size_t>(i)];
    row.prefill = true;
    Fill(i, slot, &row);
    return Time(input);
  }
  // Seconds of one that computes the token after each prompt; sequence i has adapter i % adapters, 0: none has one.
  double Decode(int32_t adapters) {
    StepInput input;
    for (int32_t i = 0; i < static_cast<int32_t>(tables_.size()); ++i) {
      StepRow& row = input.rows.emplace_back();
      row.tokens = std::span(prompts_[static_cast<size_t>(i)]).first(1);
      row.position = row.live = tokens_;
      Fill(i, adapters == 0 ? -1 : i % adapters, &row);
    }
    return Time(input);
  }
  double put_s() const { return put_s_; }

 private:
  void Fill(int32_t i, int32_t slot, StepRow* row) const {
    row->state_row = i;
    row->prompt_length = tokens_;
    row->block_table = tables_[static_cast<size_t>(i)];
    row->adapter = slot;
    row->sample = true;
    row->policy = &full_;
    row->sampling = &greedy_;
  }
  double Time(const StepInput& input) {
    const double begin = Clock(threads_);
    executor_->Run(input);
    return Clock(threads_) - begin;
  }

  const int threads_;
  const int32_t tokens_, vocab_;
  const EvictionPolicy full_;
  const SamplingParams greedy_{.temperature = 0.0f};
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<std::vector<int32_t>> tables_, prompts_;
  double put_s_ = 0;
};

int Run(const Arguments& arguments) {
  auto checkpoint = Checkpoint::Open(arguments.model);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  const auto device = CpuDevice::Create(CpuDeviceOptions{.threads = arguments.threads}).value();
  Batch batch(**checkpoint, *device, arguments);
  std::printf("%s; rank %d on all matrices, batch %d, %d tokens each\n", device->name().c_str(), arguments.rank,
              arguments.batch, arguments.tokens);
  std::vector<double> plain, one, eight, prompt, adapted;
  std::vector<double> one_ratios, eight_ratios, prompt_ratios;
  for (int round = 0; round < kRounds; ++round) {
    plain.push_back(batch.Decode(0));
    one.push_back(batch.Decode(1));
    eight.push_back(batch.Decode(kSlots));
    one_ratios.push_back(one.back() / plain.back());
    eight_ratios.push_back(eight.back() / plain.back());
    prompt.push_back(batch.Prompt(0, -1));
    adapted.push_back(batch.Prompt(0, 0));
    prompt_ratios.push_back(adapted.back() / prompt.back());
  }
  const GoalTable table(/*digits=*/3);
  table.Line("a step without adapters", 1e3 * Median(plain), "ms");
  table.Line("with one", 1e3 * Median(one), "ms");
  table.Line("with eight", 1e3 * Median(eight), "ms");
  table.Line("a prompt without", 1e3 * Median(prompt), "ms");
  table.Line("with one", 1e3 * Median(adapted), "ms");
  table.Line("an adapter put into its slot", 1e3 * batch.put_s(), "ms");
  table.Line("prompt with one / without", Median(prompt_ratios), "ratio");
  table.Line("step with eight / without", Median(eight_ratios), "ratio");
  const double ratio = Median(one_ratios);
  table.Line("step with one / without", ratio, "ratio", ratio <= kGoal ? "<= 1.10" : "MISSED");
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  hydrant::Arguments arguments;
  CLI::App app{"Steps with adapters, against the same steps without."};
  app.add_option("MODEL", arguments.model)->required();
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", arguments.batch, "sequences")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--rank", arguments.rank)->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--tokens", arguments.tokens, "of each")->check(CLI::Range(16, 500))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return hydrant::Run(arguments);
}
