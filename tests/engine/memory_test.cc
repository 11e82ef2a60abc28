// The engine on a host without memory.
#include <gtest/gtest.h>

#include <memory>

#include "tests/engine/engine_harness.h"
#include "tests/engine/failing_new.h"
#include "tests/engine/shortages.h"

namespace hydrant {
namespace {

// Where the executor allocates, memory runs out; the engine's own is there.
class StarvingExecutor : public Executor {
 public:
  explicit StarvingExecutor(Executor& inner) : inner_(inner) {}
  Ticket Launch(const StepInput& input) override {
    const MemoryRunsOut here;
    return inner_.Launch(input);
  }
  StepOutput Await(Ticket ticket) override {
    const MemoryRunsOut here;  // it takes none
    return inner_.Await(ticket);
  }

 private:
  Executor& inner_;
};

TEST(Memory, OfTheHostThatRunsOutCostsAStepAtMost) {
  for (const bool overlap : {false, true}) {
    HarnessOptions options;
    options.parked_blocks_max = 64;
    options.overlap = overlap;
    options.around = [](Executor& inner) { return std::make_unique<StarvingExecutor>(inner); };
    EngineHarness harness(GoldenPath("gqa_untied"), options);
    ExpectShortagesCostAStepAtMost(harness, {.begin = FailNewAfter, .end = NewFailed});
  }
}

}  // namespace
}  // namespace hydrant
