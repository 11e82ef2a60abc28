// What a device does with a whole model: prompts, decode steps at several batches and contexts, and how many chats of 32k
// tokens its memory holds with full KV and with a budget. Weights are random; a decode step's cached keys and values are
// what the memory held, because only their number matters to its time. Prints a table; --json writes the same figures.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_manager/kv_budget.h"
#include "model/checkpoint/quantization.h"
#include "model/run/kv_cache.h"
#include "model/run/model_executor.h"
#include "model/weights/weights.h"
#include "server/device_choice.h"
#include "tests/bench/timing.h"
#include "tests/gpu/random_checkpoint.h"

namespace hydrant {
namespace {

struct Arguments {
  std::string device = "cuda", shape = "1b", quantization, json;
  int32_t threads = 1, budget = 2048, context = 32768, steps = 20, sessions_max = 512;
  double memory_share = 0.85, bandwidth_gb_s = 0.0;
  std::vector<int32_t> batches = {1, 32, 128, 256};
  std::vector<int32_t> prompts = {2048, 8192, 32768};
};

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "engine_bench: %s\n", why.c_str());
  std::exit(1);
}

class Bench {
 public:
  Bench(const Arguments& arguments, const ModelConfig& config)
      : arguments_(arguments), checkpoint_(RandomCheckpoint(config)) {
    absl::StatusOr<OpenedDevice> opened = OpenDevice(arguments.device, arguments.threads, /*eager=*/false);
    if (!opened.ok()) Fail(std::string(opened.status().message()));
    device_ = std::move(opened->device);
    const int64_t free_bytes = opened->memory_bytes.value_or(int64_t{2} << 30);
    const WeightChoice choice = {DType::kBF16, /*keep_quantised=*/!arguments.quantization.empty()};
    if (choice.keep_quantised) {
      const auto quantization = QuantizationFromName(arguments.quantization);
      if (!quantization.has_value()) Fail(absl::StrCat("there is no --quantization ", arguments.quantization));
      const absl::Status rounded = QuantiseOnLoad(*quantization, Quantization::kNone, config, checkpoint_.tensors);
      if (!rounded.ok()) Fail(std::string(rounded.message()));
    }
    const WeightPlan plan = PlanWeights(checkpoint_, *device_, choice, arguments.context + 1024);
    const int64_t weights = plan.bytes();
    const auto block = static_cast<int64_t>(KvCache::BytesPerBlock(config, KvType::kBF16));
    constexpr int32_t kBlocksMax = 1 << 24;
    ModelExecutorOptions options{
        .weights = choice,
        .kv_type = KvType::kBF16,
        .blocks = kBlocksMax,
        .sequences_max = arguments.sessions_max,
        .batch_tokens_max = std::max(8192, arguments.sessions_max),
        .logits_rows_max = ModelExecutor::LogitsRows(config, opened->memory_bytes.value_or(0), arguments.sessions_max,
                                                     device_->copies()),
        .context_max = arguments.context + 1024};
    // As for any pool: a smaller one takes no more.
    const int64_t workspace = Transformer::WorkspaceBytes(
        config, plan, ModelExecutor::LimitsOf(options),
        [this](const StepBounds& bounds) { return device_->ScratchBytes(bounds); }, device_->copies());
    const int64_t left = free_bytes - weights - plan.position_bytes() - workspace;
    if (left < block) {
      Fail(absl::StrCat("of ", free_bytes, " free bytes the weights take ", weights, ", positions ",
                        plan.position_bytes(), " and a step ", workspace, ": no block of ", block, " is left"));
    }
    const auto pool = static_cast<int64_t>(static_cast<double>(left) * arguments.memory_share);
    options.blocks = blocks_ = static_cast<int32_t>(std::clamp<int64_t>(pool / block, 1, kBlocksMax));
    const double begin = Now();
    auto executor = ModelExecutor::Create(checkpoint_, *device_, options);
    if (!executor.ok()) Fail(std::string(executor.status().message()));
    executor_ = std::move(*executor);
    std::printf("%s, shape %s: %.2f GB of weights in %s packed in %.1f s; pool %d blocks of %ld bytes\n",
                device_->name().c_str(), arguments.shape.c_str(), static_cast<double>(weights) * 1e-9,
                arguments.quantization.empty() ? "bf16" : arguments.quantization.c_str(), Now() - begin, blocks_,
                static_cast<long>(block));
    figures_ = {{"device", device_->name()},
                {"shape", arguments.shape},
                {"quantization", arguments.quantization},
                {"blocks", blocks_}};
    weight_bytes_ = weights;
    kv_bytes_per_token_ = block / kBlockSlots;
  }

  void Prompts() {
    struct Kind {
      const char* name;
      EvictionPolicy policy;
      int32_t stride = 0;  // of the cuts
    };
    const Kind kinds[] = {
        {"full KV", {}}, {"H2O", H2o()}, {"H2O, budgeted", H2o(), kBudgetedPrefillStride}, {"auto", Auto()}};
    std::printf("\n%-38s %10s %12s %9s\n", "prompt, one sequence", "ms", "tok/s", "x full KV");
    for (const int32_t tokens : arguments_.prompts) {
      if (tokens > arguments_.context || tokens > blocks_ * kBlockSlots) continue;
      double full = 0.0;
      for (const Kind& kind : kinds) {
        if (kind.stride > 0 && tokens <= arguments_.budget) continue;
        std::vector<double> seconds;
        for (int repeat = 0; repeat < 3; ++repeat) seconds.push_back(Prompt(tokens, kind.policy, kind.stride));
        const double median = Median({seconds.begin() + 1, seconds.end()});
        if (!kind.policy.evicts) full = median;
        std::printf("%-38s %10.3f %12.1f %9.2f\n", absl::StrCat(tokens, " tokens, ", kind.name).c_str(), median * 1e3,
                    tokens / median, median / full);
        figures_["prompts"].push_back(
            {{"tokens", tokens}, {"kind", kind.name}, {"budgeted", kind.stride > 0}, {"seconds", median}});
      }
    }
  }

  void Decodes() {
    std::printf("\n%-38s %10s %12s %9s %9s\n", "decode", "ms/step", "tok/s", "longest", "of limit");
    for (const int32_t batch : arguments_.batches) {
      for (const int32_t live : {1024, arguments_.budget}) Decode(batch, live, EvictionPolicy());
      Decode(batch, 1024, EvictionPolicy(), /*ahead=*/true);
      Decode(batch, arguments_.budget, H2o());
      Decode(batch, arguments_.budget, H2o(), /*ahead=*/true);
      Decode(batch, arguments_.budget, Auto(), /*ahead=*/true);
    }
  }

  void LongChats() {
    const int32_t full = std::min(Fitting(arguments_.context), arguments_.sessions_max);
    const int32_t budgeted = std::min(Fitting(arguments_.budget + 1), arguments_.sessions_max);
    std::printf("\nchats of %d tokens: %d fit with full KV, %d%s with a budget of %d\n", arguments_.context, full,
                budgeted, budgeted == arguments_.sessions_max ? " (the most that was asked for)" : "",
                arguments_.budget);
    if (full == 0 || budgeted == 0) return;
    const double slow = Decode(full, arguments_.context, EvictionPolicy(), /*ahead=*/true);
    const double fast = Decode(budgeted, arguments_.budget, H2o(), /*ahead=*/true);
    // What one of them waits for a token where they are fewer; the longest step is its bound.
    if (budgeted > kPacedChats) Decode(kPacedChats, arguments_.budget, H2o(), /*ahead=*/true);
    std::printf("%.1f x the sessions, %.1f x the tokens per second\n", static_cast<double>(budgeted) / full,
                fast / slow);
    figures_["long_chats"] = {{"context", arguments_.context}, {"budget", arguments_.budget}, {"full_sessions", full},
                              {"budget_sessions", budgeted},   {"full_tok_s", slow},          {"budget_tok_s", fast}};
  }

  const nlohmann::json& figures() const { return figures_; }

 private:
  EvictionPolicy H2o() const {
    EvictionPolicy policy;
    policy.evicts = true;
    policy.recent = arguments_.budget / 2;
    policy.heavy = arguments_.budget - policy.recent;
    return policy;
  }
  // As the preset of the server (server/kv/kv_resolution.cc).
  EvictionPolicy Auto() const {
    EvictionPolicy policy = H2o();
    policy.decay = policy.pin_decay = 15.0f / 16.0f;
    policy.decays_prompt = false;
    policy.pin_rows = policy.pin_tokens = policy.pins_min = 64;
    return policy;
  }
  int32_t Fitting(int32_t slots) const { return blocks_ / ((slots + arguments_.steps + kBlockSlots) / kBlockSlots); }

  std::vector<int32_t> Table(int32_t sequence, int32_t slots) const {
    const auto each = static_cast<int32_t>(BlocksForSlots(slots));
    std::vector<int32_t> table(static_cast<size_t>(each));
    std::iota(table.begin(), table.end(), sequence * each);
    return table;
  }

  // Seconds. `stride`: of prompts that are cut on their way, 0 for one cut at the end.
  double Prompt(int32_t tokens, const EvictionPolicy& policy, int32_t stride) {
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    for (int32_t i = 0; i < tokens; ++i) ids[static_cast<size_t>(i)] = (i * 7919 + 13) % checkpoint_.config.vocab;
    const std::vector<int32_t> table = Table(0, tokens);
    std::vector<uint64_t> segments(static_cast<size_t>((tokens + 63) / 64));
    for (int32_t i = 0; i < tokens; i += kSegment) segments[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64);
    const double begin = Now();
    const int32_t chunk = stride > 0 ? stride : kChunk;
    int32_t live = 0;
    for (int32_t at = 0; at < tokens; at += chunk) {
      const int32_t count = std::min(chunk, tokens - at);
      const bool last = at + count == tokens;
      StepInput input;
      StepRow row;
      row.tokens = std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
      row.position = at;
      row.live = live;
      row.prompt_length = tokens;
      row.block_table = table;
      row.prefill = true;
      row.sample = last;
      row.policy = &policy;
      row.sampling = &greedy_;
      if (last && policy.pin_rows > 0) row.segment_starts = segments;
      live += count;
      if ((last || stride > 0) && policy.evicts && live > policy.keep()) row.shrink_to = live = policy.keep();
      input.rows.push_back(row);
      executor_->Run(input);
    }
    return Now() - begin;
  }

  // Tokens per second. `ahead`: the next step is launched before the last one is awaited.
  double Decode(int32_t batch, int32_t live, const EvictionPolicy& policy, bool ahead = false) {
    if (batch > arguments_.sessions_max || batch > Fitting(live)) return 0.0;
    std::vector<std::vector<int32_t>> tables;
    std::vector<int32_t> ids(static_cast<size_t>(batch), 17), fed(ids.size(), kSampledId);
    const int32_t slots = live + arguments_.steps + 1;
    for (int32_t i = 0; i < batch; ++i) tables.push_back(Table(i, slots));
    StepInput inputs[2];
    Executor::Ticket tickets[2];
    const auto launch = [&](int32_t step) {
      StepInput& input = inputs[step % 2];
      input.clear();
      const int32_t now = policy.evicts ? policy.keep() + 1 : live + step;
      for (int32_t i = 0; i < batch; ++i) {
        StepRow& row = input.rows.emplace_back();
        row.state_row = i;
        row.tokens = std::span(ahead && step > 0 ? fed : ids).subspan(static_cast<size_t>(i), 1);
        row.position = (policy.evicts ? arguments_.context : live) + step;  // old enough for anything to be a victim
        row.live = now;
        row.prompt_length = 1;
        row.block_table = tables[static_cast<size_t>(i)];
        row.reuse_victim = row.choose_victim = policy.evicts;
        row.sample = true;
        row.policy = &policy;
        row.sampling = &greedy_;
      }
      tickets[step % 2] = executor_->Launch(input);
      executor_->Sample(tickets[step % 2], {});
    };
    std::vector<double> seconds;
    double begin = Now();
    if (ahead) launch(0);
    for (int32_t step = 0; step < arguments_.steps; ++step) {
      if (!ahead) launch(step);
      if (ahead && step + 1 < arguments_.steps) launch(step + 1);
      const StepOutput output = executor_->Await(tickets[step % 2]);
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = std::max(output.rows[i].sampled.id, 0);
      seconds.push_back(Now() - begin);
      begin = Now();
    }
    const std::vector<double> warm(seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 4), seconds.end());
    const double median = Median(warm), longest = *std::max_element(warm.begin(), warm.end());
    const double bytes = static_cast<double>(weight_bytes_) +
                         static_cast<double>(batch) * live * static_cast<double>(kv_bytes_per_token_);
    const double share = arguments_.bandwidth_gb_s > 0 ? bytes / (arguments_.bandwidth_gb_s * 1e9) / median : 0.0;
    const char* kind = !policy.evicts ? "tokens, full KV" : policy.pin_rows > 0 ? "slots of auto" : "slots of H2O";
    const std::string name = absl::StrCat("batch ", batch, ", ", live, " ", kind, ahead ? ", ahead" : "");
    std::printf("%-38s %10.3f %12.1f %9.3f", name.c_str(), median * 1e3, batch / median, longest * 1e3);
    std::printf(share > 0 ? " %8.1f%%\n" : "\n", share * 100);
    figures_["decodes"].push_back({{"batch", batch},
                                   {"live", live},
                                   {"kind", kind},
                                   {"ahead", ahead},
                                   {"seconds", median},
                                   {"longest_seconds", longest},
                                   {"bytes", bytes},
                                   {"of_limit", share}});
    return batch / median;
  }

  static constexpr int32_t kChunk = 2048, kSegment = 20;
  // Where multiplying by 16-bit weights takes as long as reading them, on an H200.
  static constexpr int32_t kPacedChats = 184;

  const Arguments arguments_;
  Checkpoint checkpoint_;
  const SamplingParams greedy_{.temperature = 0.0f};
  std::unique_ptr<Device> device_;
  std::unique_ptr<ModelExecutor> executor_;
  int32_t blocks_ = 0;
  int64_t weight_bytes_ = 0, kv_bytes_per_token_ = 0;
  nlohmann::json figures_;
};

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  hydrant::Arguments arguments;
  CLI::App app("Speed of a whole model with random weights");
  app.add_option("--device", arguments.device, "cuda or cpu");
  app.add_option("--threads", arguments.threads, "of the CPU");
  app.add_option("--shape", arguments.shape, "8b, 1b or tiny");
  app.add_option("--quantization", arguments.quantization, "int8 or int4: weights as they would be stored; else bf16");
  app.add_option("--budget", arguments.budget, "slots of an H2O sequence");
  app.add_option("--context", arguments.context, "tokens of a long chat");
  app.add_option("--sessions-max", arguments.sessions_max, "most chats at once");
  app.add_option("--steps", arguments.steps, "decode steps that are timed");
  app.add_option("--batches", arguments.batches, "decode batches");
  app.add_option("--prompts", arguments.prompts, "prompt lengths");
  app.add_option("--bandwidth", arguments.bandwidth_gb_s, "measured GB/s of the memory: the limit of decode");
  app.add_option("--json", arguments.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  const auto shape = hydrant::LlamaShape(arguments.shape);
  if (!shape.has_value()) hydrant::Fail("there is no shape " + arguments.shape);
  if (arguments.context + 1024 > shape->context) hydrant::Fail("--context is beyond the model's");
  hydrant::Bench bench(arguments, *shape);
  // What was measured is kept even if the time is up before the end.
  const auto keep = [&] {
    std::fflush(stdout);
    if (!arguments.json.empty()) std::ofstream(arguments.json) << bench.figures().dump(1) << "\n";
  };
  bench.Decodes();
  keep();
  bench.LongChats();
  keep();
  bench.Prompts();
  keep();
  return 0;
}
