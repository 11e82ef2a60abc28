// A sequence out of the pool and back, through the executor, beside copying the same bytes there and back on as many threads.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "tests/bench/goal_table.h"
#include "tests/bench/kv_types.h"
#include "tests/bench/reads_name.h"
#include "tests/bench/timing.h"

namespace hydrant {
namespace {

constexpr double kGoal = 1.3;
constexpr int kRounds = 31;
constexpr uint64_t kSequence = 1;

// Two places in the pool between which a sequence goes to and fro.
class Traveller {
 public:
  Traveller(const Checkpoint& checkpoint, Device& device, DType dtype, KvType kv_type, int32_t tokens)
      : blocks_(static_cast<int32_t>(BlocksForSlots(tokens))), live_(tokens) {
    auto executor = ModelExecutor::Create(checkpoint, device,
                                          {.weights = {dtype, /*keep_quantised=*/true},
                                           .kv_type = kv_type,
                                           .blocks = 2 * blocks_,
                                           .sequences_max = 2,
                                           .batch_tokens_max = tokens,
                                           .context_max = tokens,
                                           .swap_blocks = blocks_});
    if (!executor.ok()) {
      std::fprintf(stderr, "%s\n", std::string(executor.status().message()).c_str());
      std::exit(78);
    }
    executor_ = std::move(*executor);
    for (std::vector<int32_t>& table : tables_) table.resize(static_cast<size_t>(blocks_));
    std::iota(tables_[0].begin(), tables_[0].end(), 0);
    std::iota(tables_[1].begin(), tables_[1].end(), blocks_);
    std::vector<int32_t> prompt(static_cast<size_t>(tokens));
    for (int32_t i = 0; i < tokens; ++i) {
      prompt[static_cast<size_t>(i)] = (i * 7919 + 13) % checkpoint.config.vocab;
    }
    const EvictionPolicy full;
    const SamplingParams greedy{.temperature = 0.0f};
    StepInput input;
    StepRow& row = input.rows.emplace_back();
    row.tokens = prompt;
    row.prompt_length = tokens;
    row.block_table = tables_[0];
    row.prefill = row.sample = true;
    row.policy = &full;
    row.sampling = &greedy;
    Run(input);
  }

  // Seconds, `slice` blocks in a launch.
  double Out(int32_t slice) {
    StepInput input;
    input.swap_outs.push_back({{.id = kSequence, .begins = true, .live = live_, .state_row = at_, .slice = {}},
                               tables_[static_cast<size_t>(at_)],
                               {}});
    return Move(input, input.swap_outs.front(), slice);
  }
  double In(int32_t slice) {
    at_ = 1 - at_;
    StepInput input;
    input.swap_ins.push_back(
        {{.id = kSequence, .live = live_, .state_row = at_, .slice = {}}, tables_[static_cast<size_t>(at_)]});
    return Move(input, input.swap_ins.front(), slice);
  }

  size_t bytes() const { return static_cast<size_t>(blocks_) * executor_->kv().layout.block_bytes(); }
  int32_t blocks() const { return blocks_; }

 private:
  void Run(const StepInput& input) { executor_->Run(input); }

  template <typename Op>
  double Move(StepInput& input, Op& op, int32_t slice) {
    const double begin = Now();
    for (int32_t next = 0; next < blocks_; next += slice) {
      op.slice = {next, std::min(blocks_, next + slice)};
      Run(input);
      if constexpr (std::is_same_v<Op, SwapOutOp>) op.begins = false;
    }
    return Now() - begin;
  }

  const int32_t blocks_, live_;
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<int32_t> tables_[2];
  int32_t at_ = 0;
};

struct Arguments {
  std::string model;
  KvType kv_type = KvType::kBF16;
  int threads = 2;
  int tokens = 2048;
};

int Run(const Arguments& arguments) {
  auto checkpoint = Checkpoint::Open(arguments.model);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  const auto device = CpuDevice::Create(CpuDeviceOptions{.threads = arguments.threads}).value();
  Traveller traveller(**checkpoint, *device, (*checkpoint)->config.stored_dtype, arguments.kv_type, arguments.tokens);
  const size_t bytes = traveller.bytes();
  std::printf("%s; KV %s, %d tokens in %d blocks, %.1f MB\n", device->name().c_str(), KvTypeName(arguments.kv_type),
              arguments.tokens, traveller.blocks(), static_cast<double>(bytes) * 1e-6);

  ThreadPool pool(arguments.threads);
  CpuBuffer here(bytes), there(bytes);
  std::memset(here.data(), 1, bytes);
  const auto copy = [&](const CpuBuffer& from, CpuBuffer& to) {
    const double begin = Now();
    pool.ParallelFor(static_cast<int64_t>(bytes), 1 << 16, [&](int64_t first, int64_t end, int) {
      std::memcpy(static_cast<std::byte*>(to.data()) + first, static_cast<const std::byte*>(from.data()) + first,
                  static_cast<size_t>(end - first));
    });
    return Now() - begin;
  };
  copy(here, there);
  const int32_t whole = traveller.blocks(), slice = 8;
  const double first_out = traveller.Out(whole), first_in = traveller.In(whole);
  std::vector<double> outs, ins, copies, ratios, sliced;
  for (int i = 0; i < kRounds; ++i) {
    copies.push_back(copy(here, there) + copy(there, here));
    outs.push_back(traveller.Out(whole));
    ins.push_back(traveller.In(whole));
    ratios.push_back((outs.back() + ins.back()) / copies.back());
    sliced.push_back((traveller.Out(slice) + traveller.In(slice)) / copies.back());
  }
  const double ratio = Median(ratios);
  const GoalTable table(/*digits=*/2);
  table.Line("out, the first time (new pages)", 1e3 * first_out, "ms");
  table.Line("in, the first time", 1e3 * first_in, "ms");
  table.Line("out", 1e3 * Median(outs), "ms");
  table.Line("in", 1e3 * Median(ins), "ms");
  table.Line("the same bytes copied there and back", 1e3 * Median(copies), "ms");
  table.Line("out and in / copied, 8 blocks at once", Median(sliced), "ratio");
  table.Line("out and in / copied", ratio, "ratio", ratio <= kGoal ? "<= 1.3" : "MISSED");
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  hydrant::Arguments arguments;
  CLI::App app{"A sequence swapped out and in again, against copying its bytes."};
  app.add_option("MODEL", arguments.model)->required();
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--tokens", arguments.tokens, "of the sequence")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--kv-dtype", arguments.kv_type, "of the cache")
      ->transform(hydrant::ReadsName(hydrant::KvTypesByName()));
  CLI11_PARSE(app, argc, argv);
  return hydrant::Run(arguments);
}
