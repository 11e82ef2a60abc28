// The engine on a host without memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kernels/parallel/cpu_ranks.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/failing_new.h"
#include "tests/engine/shortages.h"
#include "tests/support/forwarding_executor.h"

namespace hydrant {
namespace {

// Where the executor allocates, memory runs out; the engine's own is there.
class StarvingExecutor : public ForwardingExecutor {
 public:
  using ForwardingExecutor::ForwardingExecutor;
  Ticket Launch(const StepInput& input) override {
    const MemoryRunsOut here;
    return inner().Launch(input);
  }
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override {
    const MemoryRunsOut here;
    inner().Sample(ticket, adjustments);
  }
  StepOutput Await(Ticket ticket) override {
    const MemoryRunsOut here;  // it takes none
    return inner().Await(ticket);
  }
};

TEST(Memory, OfTheHostThatRunsOutCostsAStepAtMost) {
  struct Case {
    bool overlap;
    int ranks;
  };
  for (const Case& c : {Case{false, 1}, Case{true, 1}, Case{false, 2}}) {
    HarnessOptions options;
    options.parked_blocks_max = 64;
    options.overlap = c.overlap;
    if (c.ranks > 1) {
      options.device = [&c](int threads) -> std::unique_ptr<Device> {
        return MakeCpuRanks(c.ranks, {.threads = threads}).value();
      };
    }
    options.around = [](Executor& inner) { return std::make_unique<StarvingExecutor>(inner); };
    EngineHarness harness(GoldenPath("gqa_untied"), options);
    ExpectShortagesCostAStepAtMost(harness, {.begin = FailNewAfter, .end = NewFailed});
  }
}

// Whoever finds no memory stays in the pool as it was; whoever is out stays out, and is forgotten without memory.
TEST(Memory, ThatRunsOutWhileSequencesAreSwappedLosesNobody) {
  const auto checkpoint = Checkpoint::Open(GoldenPath("gqa_untied")).value();
  const auto device = MakeHarnessDevice(1);
  const auto executor = ModelExecutor::Create(*checkpoint, *device,
                                              {.weights = {DType::kF32},
                                               .blocks = 8,
                                               .sequences_max = 3,
                                               .batch_tokens_max = 32,
                                               .context_max = 64,
                                               .swap_blocks = 8})
                            .value();
  const std::vector<int32_t> tables[] = {{0, 1}, {2, 3}, {4, 5}};
  const auto run = [&](const StepInput& input) { return executor->Run(input); };
  const auto out = [&](uint64_t id, bool begins) {
    return SwapOutOp{{.id = id,
                      .begins = begins,
                      .live = 32,
                      .state_row = static_cast<int32_t>(id),
                      .slice = {!begins, 1 + !begins}},
                     tables[id],
                     {}};
  };
  StepInput first, drops;
  first.swap_outs = {out(0, true)};
  drops.swap_drops = {0, 1, 2};
  bool failed = true;
  int thrown = 0, left = 0;
  for (int calls = 0; failed; ++calls) {
    SCOPED_TRACE(calls);
    run(first);
    StepInput more;
    more.swap_outs = {out(0, false), out(1, true), out(2, true)};
    FailNewAfter(calls);
    std::vector<uint64_t> failures;
    bool all_failed = false;
    {
      const MemoryRunsOut here;
      try {
        failures = run(more).swap_failures;
      } catch (const std::bad_alloc&) {
        all_failed = true;
      }
    }
    failed = NewFailed();
    thrown += all_failed ? 1 : 0;
    left += static_cast<int>(failures.size());
    EXPECT_EQ(executor->swapped().size(), all_failed ? 1 : 3 - std::ssize(failures));
    EXPECT_TRUE(executor->swapped().has(0)) << "it had begun";
    for (const uint64_t id : failures) EXPECT_FALSE(executor->swapped().has(id));
    FailNewAfter(0);
    {
      const MemoryRunsOut here;
      run(drops);
    }
    EXPECT_FALSE(NewFailed());
    EXPECT_EQ(executor->swapped().bytes(), 0u);
    ASSERT_LT(calls, 100);
  }
  EXPECT_GT(thrown, 0);
  // How many allocations a sequence takes is the library's affair; each of the two takes one.
  EXPECT_GE(left, 2);
}

}  // namespace
}  // namespace hydrant
