// The engine on a device whose calls fail.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "server/engine/engine.h"
#include "server/process/clock.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/shortages.h"

namespace hydrant::simt {
namespace {

// Some hundred calls, each of which may be the one without memory; a prime stride meets all kinds of them.
TEST(SimtRuntime, MemoryOfTheDeviceThatRunsOutCostsAStepAtMost) {
  HarnessOptions options;
  options.parked_blocks_max = 64;
  EngineHarness harness(GoldenPath("gqa_untied"), options);
  ExpectShortagesCostAStepAtMost(harness, {.begin = [](int calls) { FailAfter(calls, cudaErrorMemoryAllocation); },
                                           .end = [] { return EndFailures(); },
                                           .stride = 29});
}

// An error that stays: whoever waits is told within a step, the process is told to end, and nothing more is asked of the device.
TEST(SimtRuntime, AnErrorOfTheDeviceEndsTheEngineAndTellsEverybody) {
  const auto checkpoint = Checkpoint::Open(GoldenPath("gqa_untied")).value();
  for (const int calls : {0, 1, 40, 200}) {
    SCOPED_TRACE("after " + std::to_string(calls) + " calls");
    const auto device = CudaDevice::Create({}).value();
    const auto executor =
        ModelExecutor::Create(
            *checkpoint, *device,
            {.blocks = 64, .sequences_max = 4, .batch_tokens_max = 64, .context_max = checkpoint->config.context})
            .value();
    Limits limits;
    limits.sequences_max = limits.waiting_sequences_max = 4;
    limits.context_max = checkpoint->config.context;
    limits.batch_tokens_max = 64;
    EngineCoreOptions options;
    options.scheduler.blocks = 64;
    options.scheduler.sequences_max = options.scheduler.waiting_max = 4;
    options.scheduler.tokens_max = options.scheduler.prefill_tokens_max = 64;
    options.vocab = checkpoint->config.vocab;
    options.context = limits.context_max;
    options.overlap = true;
    std::promise<std::string> death;
    EngineHooks hooks;
    hooks.fan_out = [](const EventRouter::MailboxList& list) {
      for (const auto& mailbox : list) mailbox->Wake();
    };
    hooks.on_death = [&death](const std::string& reason) { death.set_value(reason); };
    Engine engine(EngineCore::Create(options, *executor, MonotonicUs).value(), limits, std::move(hooks));
    std::vector<std::shared_ptr<StreamMailbox>> mailboxes;
    const auto submit = [&] {
      GenerationJob job;
      job.mailbox = mailboxes.emplace_back(std::make_shared<StreamMailbox>(1, 1 << 20, [] {}));
      SequenceRequest& sequence = job.sequences.emplace_back();
      sequence.request.prompt = std::vector<int32_t>(20, 5);
      sequence.request.max_tokens = 400;
      sequence.request.ignore_eos = true;
      return engine.TrySubmit(std::move(job)).has_value();
    };
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(submit()) << "four run, two wait";
    FailAfter(calls, cudaErrorIllegalAddress);
    engine.Start();
    std::future<std::string> reason = death.get_future();
    ASSERT_EQ(reason.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    for (const auto& mailbox : mailboxes) {
      StreamBatch batch;
      (void)mailbox->Take(&batch);
      EXPECT_TRUE(batch.failed);
    }
    EXPECT_TRUE(engine.dead());
    EXPECT_FALSE(submit());
    engine.Stop();
    EXPECT_TRUE(EndFailures());
  }
}

}  // namespace
}  // namespace hydrant::simt
