// An engine over an executor without a model, whose mailboxes the test reads.
#ifndef HYDRANT_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_
#define HYDRANT_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/process/clock.h"
#include "tests/server/test_server.h"
#include "tests/support/scripted_executor.h"

namespace hydrant {

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    limits_.sequences_max = 4;
    limits_.waiting_sequences_max = 4;
    limits_.context_max = 100;
    limits_.batch_tokens_max = 64;
    limits_.engine_stall_s = 0.1;
  }
  ~EngineTest() override {
    executor_.Release();
    if (engine_ != nullptr) engine_->Stop();
  }

  void Start() {
    Create();
    engine_->Start();
  }
  // Without a thread.
  void Create() {
    EngineCoreOptions options;
    options.scheduler.blocks = blocks_;
    options.scheduler.swap_blocks_max = swap_blocks_;
    options.scheduler.tenants.resize(static_cast<size_t>(tenant_) + 1);
    options.scheduler.sequences_max = limits_.sequences_max;
    options.scheduler.waiting_max = waiting_max_;
    options.scheduler.tokens_max = limits_.batch_tokens_max;
    options.scheduler.prefill_tokens_max = 16;
    options.scheduler.eos_ids = {256};
    options.scheduler.parked_blocks_max = 64;
    options.vocab = 258;
    options.context = limits_.context_max;
    options.replay_blocks = 4;
    auto core = EngineCore::Create(options, executor_, clock_);
    ASSERT_TRUE(core.ok()) << core.status();
    EngineHooks hooks;
    hooks.fan_out = [this](const EventRouter::MailboxList& list) {
      if (wakes_lost_ > 0 && wakes_lost_-- > 0) throw std::bad_alloc();
      for (const auto& mailbox : list) mailbox->Wake();
    };
    hooks.on_step = [this](const StepReport&) { ++steps_; };
    hooks.on_death = [this](const std::string&) { died_ = true; };
    hooks.replays = replays_;
    engine_ = std::make_unique<Engine>(std::move(*core), limits_, std::move(hooks));
  }

  struct Sent {
    std::shared_ptr<StreamMailbox> mailbox;
    std::optional<uint64_t> id;
  };
  Sent Submit(
      int32_t prompt, int32_t max_tokens, int32_t sequences = 1, int64_t bytes_max = 1 << 20,
      std::function<void()> wake = [] {}) {
    GenerationJob job;
    job.mailbox = std::make_shared<StreamMailbox>(sequences, bytes_max, std::move(wake));
    job.sequences.resize(static_cast<size_t>(sequences));
    for (SequenceRequest& sequence : job.sequences) {
      sequence.request.prompt = std::vector<int32_t>(static_cast<size_t>(prompt), 'x');
      sequence.request.max_tokens = max_tokens;
      sequence.request.tenant = tenant_;
    }
    Sent sent;
    sent.mailbox = job.mailbox;
    sent.id = engine_->TrySubmit(std::move(job));
    return sent;
  }
  // Reads until `ends` sequences have ended or the engine has failed.
  static std::vector<TokenEvent> ReadAll(StreamMailbox& mailbox, int ends, bool* failed = nullptr) {
    std::vector<TokenEvent> events;
    StreamBatch batch;
    EXPECT_TRUE(Eventually([&] {
      (void)mailbox.Take(&batch);
      for (TokenEvent& event : batch.tokens) {
        if (event.finish != FinishReason::kNone) --ends;
        events.push_back(std::move(event));
      }
      if (failed != nullptr) *failed = batch.failed;
      return ends <= 0 || batch.failed;
    }));
    return events;
  }

  Limits limits_;
  int32_t waiting_max_ = 8;
  int32_t blocks_ = 64;
  int64_t swap_blocks_ = 0;
  int32_t tenant_ = 0;  // of what is submitted
  EngineClock clock_ = MonotonicUs;
  ReplaySource* replays_ = nullptr;
  ScriptedExecutor executor_;
  std::atomic<int> steps_ = 0;
  std::atomic<bool> died_ = false;
  std::atomic<int32_t> wakes_lost_ = 0;  // that there will be no memory for
  std::unique_ptr<Engine> engine_;
};

// Its time is the test's, and its rounds are made by hand.
class SteppedEngineTest : public EngineTest {
 protected:
  SteppedEngineTest() {
    clock_ = [this] { return now_us_; };
  }
  // While what the engine was given is still there.
  void TearDown() override {
    if (engine_ == nullptr) return;
    engine_->Stop();
    while (engine_->MakeRound(false) != Engine::Round::kEnded) {
    }
  }
  // Until there is nothing to do any more.
  void Run() {
    while (engine_->MakeRound(false) != Engine::Round::kWaits) {
    }
  }

  int64_t now_us_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_
