// Host time of a step: Plan and Commit of the scheduler, and the whole EngineCore around a device that takes no time, with
// as many sequences running as the argument says. The limit is 100 us per step at 256 sequences.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/engine/engine_core.h"
#include "server/engine/mask_pool.h"

namespace hydrant {
namespace {

constexpr double kLimitUs = 100;

enum Load : int64_t { kDecode, kDecodeAtBudget, kPeriodic, kChurn };

SchedulerOptions Options(int32_t sequences) {
  SchedulerOptions options;
  options.sequences_max = sequences;
  options.waiting_max = sequences;
  options.blocks = sequences * 64;
  options.tokens_max = sequences + 512;
  options.prefill_tokens_max = 256;
  options.eos_ids = {2};
  return options;
}

Request MakeRequest(uint64_t id, Load load) {
  Request request;
  request.id = id;
  request.prompt = std::vector<int32_t>(load == kChurn ? 16 : 40, 5);
  request.max_tokens = load == kChurn ? 16 : 900;
  request.stop_token_ids = {3, 4};
  if (load == kDecodeAtBudget) request.budget = KvBudget::Exact(32);
  if (load == kPeriodic) request.budget = KvBudget::Periodic(32, 16);
  return request;
}

void Report(benchmark::State& state) {
  state.counters["limit_us"] = kLimitUs;
  state.SetLabel(state.range(1) == kDecode           ? "dense decode"
                 : state.range(1) == kDecodeAtBudget ? "decode at the budget"
                 : state.range(1) == kPeriodic       ? "periodic(16)"
                                                     : "16 in, 16 out: a sixteenth comes and goes in every step");
}

void PlanAndCommit(benchmark::State& state) {
  const int32_t sequences = static_cast<int32_t>(state.range(0));
  const Load load = static_cast<Load>(state.range(1));
  Scheduler scheduler(Options(sequences));
  uint64_t id = 0;
  std::vector<RowResult> results;
  const auto step = [&] {
    const StepPlan& plan = scheduler.Plan(1);
    results.assign(plan.rows.size(), RowResult{7});
    benchmark::DoNotOptimize(scheduler.Commit(plan, results, 2).data());
  };
  const auto refill = [&] {
    while (scheduler.running() + scheduler.waiting() < sequences) {
      const bool added = scheduler.Add(MakeRequest(++id, load)).ok();
      assert(added);
      (void)added;
      // Ends spread over the steps instead of coming all at once.
      if (load == kChurn && id % 16 == 0) break;
    }
  };
  for (int32_t i = 0; i < sequences; ++i) {
    refill();
    step();
  }
  for (auto _ : state) {
    if (scheduler.running() + scheduler.waiting() < sequences) refill();
    step();
  }
  state.counters["running"] = scheduler.running();
  Report(state);
}

// A device that answers at once.
class InstantExecutor : public Executor {
 public:
  Ticket Launch(const StepInput& input) override {
    rows_ = input.rows.size();
    return {0};
  }
  void Sample(Ticket, std::span<const LogitAdjustments* const>) override {}
  StepOutput Await(Ticket) override {
    StepOutput output;
    output.rows.resize(rows_);
    for (RowOutput& row : output.rows) row.sampled.id = 7;
    return output;
  }

 private:
  size_t rows_ = 0;
};

void EngineCoreStep(benchmark::State& state) {
  const int32_t sequences = static_cast<int32_t>(state.range(0));
  const Load load = static_cast<Load>(state.range(1));
  InstantExecutor executor;
  EngineCoreOptions options;
  options.scheduler = Options(sequences);
  options.vocab = 100;
  options.context = 4096;
  std::unique_ptr<EngineCore> core = *EngineCore::Create(options, executor, [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  });
  uint64_t id = 0;
  const auto refill = [&] {
    while (core->scheduler().running() + core->scheduler().waiting() < sequences) {
      SequenceRequest request;
      request.request = MakeRequest(++id, load);
      request.policy.evicts = request.request.budget.limited();
      request.policy.heavy = 16;
      request.policy.recent = 16;
      const bool added = core->Add(std::move(request)).ok();
      assert(added);
      (void)added;
    }
  };
  refill();
  for (int32_t i = 0; i < sequences; ++i) core->Step();
  for (auto _ : state) {
    refill();
    benchmark::DoNotOptimize(core->Step().data());
  }
  state.counters["running"] = core->scheduler().running();
  Report(state);
}

// Any token, by a mask of its own for each.
class OpenShape : public AnswerShape {
 public:
  Verdict Push(int32_t) override { return Verdict::kGoesOn; }
  bool Mask(std::span<uint32_t> bits) override {
    std::fill(bits.begin(), bits.end(), ~0u);
    return true;
  }
};

// The engine thread's processor time for a step of 32 sequences, of which so many have a shape: what a mask costs it besides
// following the token. Masks of 151,665 tokens are computed by one worker.
void EngineCoreShapes(benchmark::State& state) {
  constexpr int32_t kSequences = 32;
  const auto shaped = static_cast<uint64_t>(state.range(0));
  InstantExecutor executor;
  MaskPool masks(1);
  EngineCoreOptions options;
  options.scheduler = Options(kSequences);
  options.scheduler.blocks = kSequences * 1024;
  options.vocab = 151665;
  options.context = 1 << 20;
  options.masks = &masks;
  std::unique_ptr<EngineCore> core = *EngineCore::Create(options, executor, [] { return int64_t{1}; });
  uint64_t id = 0;
  const auto refill = [&] {
    while (core->scheduler().running() + core->scheduler().waiting() < kSequences) {
      SequenceRequest request;
      request.request = MakeRequest(++id, kDecode);
      request.request.max_tokens = 16000;
      if (id % kSequences < shaped) request.shape = std::make_shared<OpenShape>();
      const bool added = core->Add(std::move(request)).ok();
      assert(added);
      (void)added;
    }
  };
  refill();
  for (int32_t i = 0; i < kSequences; ++i) core->Step();
  for (auto _ : state) {
    refill();
    benchmark::DoNotOptimize(core->Step().data());
  }
}

BENCHMARK(EngineCoreShapes)->ArgName("shaped")->Arg(0)->Arg(16)->Arg(32)->Unit(benchmark::kMicrosecond);
BENCHMARK(PlanAndCommit)
    ->ArgNames({"sequences", "load"})
    ->ArgsProduct({{16, 256}, {kDecode, kDecodeAtBudget, kPeriodic, kChurn}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(EngineCoreStep)
    ->ArgNames({"sequences", "load"})
    ->ArgsProduct({{256}, {kDecode, kDecodeAtBudget}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hydrant

BENCHMARK_MAIN();
