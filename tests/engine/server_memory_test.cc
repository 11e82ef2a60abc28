// Memory that runs out off the engine's thread: whatever the call, the one that it was for fails, and what is left behind is as if it
// had never come. A destructor that throws would end the process.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/generation/generation_run.h"
#include "server/http/worker_pool.h"
#include "server/process/clock.h"
#include "server/sessions/session_store.h"
#include "server/tenants/tenant_account.h"
#include "tests/engine/engine_core_fixture.h"
#include "tests/engine/failing_new.h"
#include "tests/server/generation/byte_context.h"
#include "tests/support/stub_engine.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr int kServerMemoryCallsMax = 2000;  // far more than any of these takes
constexpr SessionOwner kOwner = {.tenant = 0};

// Makes `call` with memory for 0, 1, 2, … allocations until there is enough; `check` looks at what is left after each.
void ForEveryShortage(const std::function<void()>& call, const std::function<void(bool failed)>& check) {
  bool failed = true;
  int calls = 0;
  for (; failed && calls < kServerMemoryCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    FailNewAfter(calls);
    try {
      const MemoryRunsOut here;
      call();
    } catch (const std::bad_alloc&) {
    }
    failed = NewFailed();
    check(failed);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_FALSE(failed) << "it never had enough";
  EXPECT_GT(calls, 1) << "nothing was allocated";
}

SessionPast PastOf(size_t tokens) {
  SessionPast past;
  past.tokens.assign(tokens, 5);
  past.computed = static_cast<int32_t>(tokens) - 1;
  return past;
}

SessionStore::Options StoreOptions() {
  SessionStore::Options options;
  options.sessions_max = 2;
  options.clock = [] { return 1; };
  options.on_forget = [](uint64_t) {};
  options.on_settle = [](const TurnId&, bool) {};
  return options;
}

TEST(ServerMemory, ATurnLeavesTheSessionsInOrder) {
  std::optional<SessionStore> store;
  const auto turn = [&store](const std::string& id) {
    ApiResult<SessionTurn> begun = store->Begin(kOwner, id, false);
    ASSERT_TRUE(begun.ok());
    begun.value().End(PastOf(8));
  };
  const auto prepare = [&] {
    store.emplace(StoreOptions());
    turn("a");
    turn("b");
  };
  prepare();
  ForEveryShortage(
      [&store] {
        // A new session, which another has to make way for; a client that leaves one; and one that is deleted.
        ApiResult<SessionTurn> begun = store->Begin(kOwner, "c", false);
        if (begun.ok()) begun.value().End(PastOf(8));
        { const ApiResult<SessionTurn> left = store->Begin(kOwner, "b", false); }
        { const ApiResult<SessionTurn> left = store->Begin(kOwner, "d", false); }
        (void)store->Delete(0, "b");
      },
      [&](bool) {
        // Numbers of sessions that are gone, and of one that was never added.
        std::vector<ParkedTurn> parked;
        for (uint64_t number = 1; number < 8; ++number) parked.push_back({.id = {number, 1}, .computed = 8, .live = 8});
        store->OnParked({}, parked);
        const SessionCounts counts = store->counts();
        EXPECT_EQ(counts.busy, 0);
        EXPECT_EQ(counts.parked + counts.cold, std::ssize(store->List(0, "", 10).cards));
        for (const char* id : {"a", "b", "c", "d"}) turn(id);
        EXPECT_EQ(store->List(0, "", 10).cards.size(), 2u);
        prepare();
      });
}

// Counts what is cancelled; the test plays the engine through the mailbox.
class CountingQueue : public StubEngine {
 public:
  std::optional<uint64_t> TrySubmit(GenerationJob submitted) override {
    job = std::move(submitted);
    return 100;
  }
  void Cancel(std::list<IdRange> ids) noexcept override {
    for (const IdRange& range : ids) cancelled += static_cast<int>(range.count);
  }

  GenerationJob job;
  int cancelled = 0;
};

TEST(ServerMemory, AClientThatLeavesIsCancelledAndItsSessionIsFree) {
  ServingContext context = ByteContext(1000);
  SessionStore sessions(StoreOptions());
  context.sessions = &sessions;
  MetricsOptions options;
  options.model_name = "m";
  options.context = 1000;
  options.policy_names = KvPolicyLabels();
  Metrics metrics(options);
  CountingQueue queue;
  std::optional<GenerationRun> run;
  int ended = 0;
  const auto start = [&] {
    ApiResult<PreparedGeneration> prepared =
        PrepareCompletion(R"({"prompt":"ab","session_id":"s","max_tokens":2})", context);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    queue.cancelled = 0;
    run.emplace(std::move(prepared.value()), context, queue, metrics, 0, "1", 0);
    ASSERT_TRUE(run->Submit([] {}, nullptr));
    for (const FinishReason finish : {FinishReason::kNone, FinishReason::kLength}) {
      TokenEvent event;
      event.token = 'x';
      event.finish = finish;
      (void)queue.job.mailbox->PushToken(std::move(event), SequenceProgress());
    }
  };
  start();
  ForEveryShortage([&run] { run.reset(); },
                   [&](bool failed) {
                     // The engine has ended it: either the session goes on from that, or from what was before.
                     EXPECT_LE(queue.cancelled, failed ? 1 : 0);
                     EXPECT_EQ(sessions.counts().busy, 0);
                     ended += sessions.Get(0, "s").ok() ? 1 : 0;
                     EXPECT_TRUE(failed || sessions.Get(0, "s").ok());
                     (void)sessions.Delete(0, "s");
                     start();
                   });
  EXPECT_GE(ended, 1);
}

// An engine without a thread.
std::unique_ptr<Engine> MakeEngine(ScriptedExecutor& executor) {
  auto core = EngineCore::Create(Options(), executor, MonotonicUs);
  EXPECT_TRUE(core.ok()) << core.status();
  EngineHooks hooks;
  hooks.fan_out = [](const EventRouter::MailboxList&) {};
  Limits limits;
  limits.sequences_max = 4;
  limits.waiting_sequences_max = 4;
  limits.context_max = 512;
  return std::make_unique<Engine>(std::move(*core), limits, std::move(hooks));
}

GenerationJob Job() {
  GenerationJob job;
  job.mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
  job.sequences = {MakeRequest(0, 8, 100)};
  return job;
}

TEST(ServerMemory, AJobThatIsNotTakenHoldsNoPlace) {
  ScriptedExecutor executor;
  std::unique_ptr<Engine> engine = MakeEngine(executor);
  GenerationJob job = Job();
  ForEveryShortage([&] { (void)engine->TrySubmit(std::move(job)); },
                   [&](bool failed) {
                     EXPECT_EQ(engine->backlog().sequences, failed ? 0 : 1);
                     EXPECT_EQ(engine->backlog().prompt_tokens, failed ? 0 : 8);
                     job = Job();
                   });
}

TEST(ServerMemory, ACancelTakesNone) {
  ScriptedExecutor executor;
  std::unique_ptr<Engine> engine = MakeEngine(executor);
  const std::optional<uint64_t> id = engine->TrySubmit(Job());
  ASSERT_TRUE(id.has_value());
  (void)engine->MakeRound(/*may_wait=*/false);
  std::list<IdRange> made_before = {{*id, 1}};
  FailNewAfter(0);
  {
    const MemoryRunsOut here;
    engine->Cancel(std::move(made_before));
  }
  EXPECT_FALSE(NewFailed());
  for (int i = 0; i < 3; ++i) (void)engine->MakeRound(/*may_wait=*/false);
  EXPECT_EQ(engine->backlog().sequences, 0);
}

TEST(ServerMemory, ARequestThatIsNotOpenedHoldsNothingOfItsTenant) {
  const auto account = std::make_shared<TenantAccount>(0, "a");
  account->SetLimits({.tpm = 1000}, 0);
  std::shared_ptr<RequestAccount> opened;
  std::vector<RequestAccount::Sequence> sequences(3, {.prompt_tokens = 5, .max_tokens = 5});
  const Backlog backlog = {.sequences_max = 100, .prompt_tokens_max = 1000};
  ForEveryShortage(
      [&] {
        std::optional<Refusal> refusal;
        opened = RequestAccount::TryOpen(account, std::move(sequences), backlog, /*queue_share=*/1, 0, &refusal);
      },
      [&](bool failed) {
        EXPECT_EQ(account->snapshot(0).queued, failed ? 0 : 3);
        EXPECT_EQ(account->snapshot(0).tokens_remaining, failed ? 1000 : 970);
        sequences.assign(3, {.prompt_tokens = 5, .max_tokens = 5});
      });
  EXPECT_NE(opened, nullptr);
}

// Runs what there is to do, as the server's io threads do.
void RunAll(asio::io_context& io) {
  io.restart();
  while (true) {
    try {
      io.run_for(std::chrono::seconds(10));
      return;
    } catch (const std::bad_alloc&) {
    }
  }
}

TEST(ServerMemory, WorkThatIsNotTakenInHoldsUpNoOther) {
  asio::io_context io;
  WorkerPool pool(1);
  int done = 0;
  const auto ask = [&](int32_t tenant, const char* address) {
    asio::co_spawn(
        io,
        [&pool, &done, tenant, address] {
          return pool.Run({tenant, address}, [&done] { ++done; });
        },
        asio::detached);
  };
  ForEveryShortage(
      [&] {
        try {
          ask(0, "10.0.0.1");
          ask(0, "10.0.0.1");
          ask(1, "10.0.0.1");
        } catch (const std::bad_alloc&) {
        }
        RunAll(io);
      },
      [&](bool failed) {
        EXPECT_TRUE(failed || done == 3);
        EXPECT_LE(done, 3);
        done = 0;
        ask(0, "10.0.0.1");
        ask(1, "10.0.0.1");
        RunAll(io);
        EXPECT_EQ(done, 2);
        done = 0;
      });
}

}  // namespace
}  // namespace hydrant
