// Steps on a host without memory: each allocation in planning and committing fails once, and nobody notices but by a budget that
// falls later or a snapshot that is not there.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/scheduler.h"
#include "server/engine/session_mover.h"
#include "tests/engine/failing_new.h"

namespace hydrant {
namespace {

constexpr int kStepMemoryCallsMax = 200;  // more than the steps allocate

Request MakeRequest(uint64_t id, int32_t tenant, int32_t prompt_length, int32_t max_tokens, KvBudget budget) {
  Request request;
  request.id = id;
  request.tenant = tenant;
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < prompt_length; ++i) prompt.push_back(1000 + i);
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.budget = budget;
  request.prefix.publishes = request.prefix.looks_up = true;
  request.prefix.scores = budget.limited() ? ScoreNeed::kSnapshot : ScoreNeed::kNothing;
  request.prefix.rows_computed_min = 1;
  request.prefix.salt = {1, static_cast<uint64_t>(tenant)};
  return request;
}

// Elastic chats, prompts that begin alike and leave snapshots, and one for which budgets fall.
std::vector<Request> Crowd() {
  KvBudget elastic = KvBudget::Exact(127);
  elastic.floor = 31;
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 3; ++id) requests.push_back(MakeRequest(id, 0, 100, 90, elastic));
  for (uint64_t id = 4; id <= 6; ++id) requests.push_back(MakeRequest(id, 1, 150, 20, KvBudget::Exact(63)));
  requests.push_back(MakeRequest(7, 1, 300, 5, KvBudget::Unlimited()));
  // Turns of sessions, of which not all find room when they are parked.
  for (uint64_t id = 8; id <= 11; ++id) {
    requests.push_back(MakeRequest(id, 0, 30, 4, KvBudget::Unlimited()));
    requests.back().session = requests.back().turn = id;
  }
  return requests;
}

// A step's planning, and its end, with the memory that FailNewAfter says.
const StepPlan& PlanHere(Scheduler& scheduler, int64_t now_us) {
  const MemoryRunsOut here;
  return scheduler.Plan(now_us);
}
std::span<const SequenceEvent> CommitHere(Scheduler& scheduler, const StepPlan& plan,
                                          std::span<const RowResult> results, int64_t now_us) {
  const MemoryRunsOut here;
  return scheduler.Commit(plan, results, now_us);
}

// Parks what is to be parked; says in `wrong` if the scheduler has lost count, or goes on for longer than `steps_max`.
void EndStep(Scheduler& scheduler, int32_t step, int32_t steps_max, std::string* wrong) {
  scheduler.FinishParks({});
  if (const absl::Status status = scheduler.CheckIntegrity(); !status.ok()) *wrong = status.ToString();
  if (step > steps_max) *wrong = "it never ends";
}

void ExpectNothingHeld(const Scheduler& scheduler, std::string* wrong) {
  if (scheduler.block_manager().pool().used() != 0) *wrong = "blocks are in use when idle";
  if (scheduler.block_manager().score_blocks().handed_out() != 0) *wrong = "score blocks are handed out when idle";
}

// How each request ends, with the memory of the steps that FailNewAfter says.
std::map<uint64_t, FinishReason> RunCrowd(std::string* wrong, SchedulerCounters* counters) {
  SchedulerOptions options;
  options.blocks = 40;
  options.spare_score_blocks = 40;
  options.sequences_max = 8;
  options.waiting_max = 8;
  options.parked_blocks_max = 7;
  options.tokens_max = 64;
  options.prefill_tokens_max = 64;
  options.tenants = {{"a"}, {"b"}};
  Scheduler scheduler(options);
  scheduler.LimitSteps({.blocks_moved_max = 2});
  for (Request& request : Crowd()) EXPECT_TRUE(scheduler.Add(std::move(request)).ok());
  std::map<uint64_t, FinishReason> ends;
  size_t snapshots = 0;
  for (int32_t step = 0; !scheduler.idle() && wrong->empty(); ++step) {
    const StepPlan& plan = PlanHere(scheduler, step);
    snapshots += plan.snapshots.size();
    std::vector<RowResult> results(plan.rows.size(), {.token = 7});
    const std::vector<float> losses(16, 0.01f);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].losses = std::span(losses).first(static_cast<size_t>(plan.rows[i].loss_cuts));
    }
    for (const SequenceEvent& event : CommitHere(scheduler, plan, results, step)) {
      if (event.finish != FinishReason::kNone && !ends.emplace(event.id, event.finish).second) *wrong = "ends twice";
    }
    EndStep(scheduler, step, 5000, wrong);
  }
  ExpectNothingHeld(scheduler, wrong);
  EXPECT_GT(snapshots, 2u);
  EXPECT_GE(scheduler.counters().parks, 3u) << "one may be lost";
  EXPECT_GT(scheduler.parked().size(), 0);
  *counters = scheduler.counters();
  return ends;
}

TEST(StepMemory, PlanningAndCommittingGoOnWithoutMemory) {
  bool failed = true;
  int calls = 0;
  for (; failed && calls < kStepMemoryCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    std::string wrong;
    SchedulerCounters counters;
    FailNewAfter(calls);
    const std::map<uint64_t, FinishReason> ends = RunCrowd(&wrong, &counters);
    failed = NewFailed();
    EXPECT_EQ(wrong, "");
    EXPECT_EQ(ends.size(), Crowd().size());
    for (const auto& [id, finish] : ends) EXPECT_EQ(finish, FinishReason::kLength) << id;
    EXPECT_GT(counters.shrinks, 0u);
    EXPECT_GT(counters.prefix_hits, 0u);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_FALSE(failed) << "it never had enough";
  EXPECT_GT(calls, 5) << "nothing was allocated";
  RecordProperty("allocations", calls);
}

// A chat whose turns leave what their prompts computed. Returns how many tokens came back.
int32_t RunRecall(std::string* wrong) {
  constexpr int32_t kTurns = 3, kSaid = 70;
  SchedulerOptions options;
  options.blocks = 60;
  options.sequences_max = options.waiting_max = 4;
  options.spare_score_blocks = 40;
  options.parked_blocks_max = 60;
  options.tokens_max = 64;
  options.prefill_tokens_max = 64;
  options.tenants = {{"a"}};
  Scheduler scheduler(options);
  int32_t restored = 0;
  for (int32_t turn = 1; turn <= kTurns && wrong->empty(); ++turn) {
    const auto number = static_cast<uint64_t>(turn);
    Request request = MakeRequest(number, 0, turn * kSaid, 20, KvBudget::Exact(63));
    request.session = 5;
    request.turn = number;
    request.resumes = number - 1;
    request.history = (turn * kSaid - 1) / kBlockSlots * kBlockSlots;
    request.prefix.salt.low = number;  // nothing is found but what is parked
    EXPECT_TRUE(scheduler.Add(std::move(request)).ok());
    for (int32_t step = 0; !scheduler.idle() && wrong->empty(); ++step) {
      const StepPlan& plan = PlanHere(scheduler, step);
      const std::vector<RowResult> results(plan.rows.size(), {.token = 7});
      for (const SequenceEvent& event : CommitHere(scheduler, plan, results, step)) {
        if (event.finish == FinishReason::kNone) continue;
        if (event.finish != FinishReason::kLength) *wrong = "a turn fails";
        restored += event.restored;
      }
      EndStep(scheduler, step, 1000, wrong);
    }
    scheduler.SettleTurn({5, number}, /*keep=*/true);
  }
  ExpectNothingHeld(scheduler, wrong);
  return restored;
}

// A turn that finds no memory to leave anything goes on, and the next one computes its history.
TEST(StepMemory, RecallGoesOnWithoutMemory) {
  bool failed = true;
  int calls = 0, left_nothing = 0;
  for (; failed && calls < kStepMemoryCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    std::string wrong;
    FailNewAfter(calls);
    const int32_t restored = RunRecall(&wrong);
    failed = NewFailed();
    EXPECT_EQ(wrong, "");
    EXPECT_TRUE(restored == 64 + 128 || (failed && (restored == 64 || restored == 128))) << restored;
    left_nothing += restored < 64 + 128 ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_FALSE(failed) << "it never had enough";
  EXPECT_GT(left_nothing, 5);
}

// Parks and forgets what it is told to, and asks the host for nothing that may fail.
class ParkingExecutor : public Executor {
 public:
  Ticket Launch(const StepInput& input) override {
    for (const TurnId& turn : input.drops) parked.erase(turn);
    for (const ParkOp& park : input.parks) due.push_back(park.id);
    return {++launches};
  }
  void Sample(Ticket, std::span<const LogitAdjustments* const>) override {}
  StepOutput Await(Ticket) override { return {}; }

  std::set<TurnId> parked;
  std::vector<TurnId> due;  // of the launches since it was cleared
  uint64_t launches = 0;
};

// Ends one turn of each session from `first` to before `end` and leaves them in the pool.
void EndTurns(Scheduler& scheduler, uint64_t first, uint64_t end) {
  for (uint64_t session = first; session < end; ++session) {
    Request request = MakeRequest(session, 0, 16, 1, KvBudget::Unlimited());
    request.session = request.turn = session;
    ASSERT_TRUE(scheduler.Add(std::move(request)).ok());
  }
  while (scheduler.parks().size() < end - first) {
    const StepPlan& plan = scheduler.Plan(0);
    ASSERT_FALSE(plan.rows.empty());
    scheduler.Commit(plan, std::vector<RowResult>(plan.rows.size(), {.token = 7}), 0);
  }
}

// More turns are forgotten at once than there is room for in a list.
TEST(StepMemory, SessionsAreMovedWithoutMemory) {
  constexpr uint64_t kDropped = 200;
  for (int calls = 0; calls < 4; ++calls) {
    SCOPED_TRACE(calls);
    SchedulerOptions options;
    options.blocks = 64;
    options.sequences_max = 4;
    options.waiting_max = 4;
    options.parked_blocks_max = 2 * kDropped;
    options.tokens_max = 64;
    options.prefill_tokens_max = 64;
    Scheduler scheduler(options);
    ParkingExecutor executor;
    const EvictionPolicy policy;
    SessionMover mover(
        scheduler, executor, /*layer_heads=*/1, [&policy](int32_t) { return SessionMover::PolicyInForce{&policy}; },
        [] {});
    for (uint64_t session = 1; session <= kDropped; session += 4) {
      EndTurns(scheduler, session, session + 4);
      mover.Move(/*step_in_flight=*/false);
    }
    executor.parked.insert(executor.due.begin(), executor.due.end());
    ASSERT_EQ(executor.parked.size(), kDropped);
    executor.due.clear();
    executor.due.reserve(4);
    for (uint64_t session = 1; session <= kDropped; ++session) scheduler.DropSession(session);
    EndTurns(scheduler, 1001, 1005);
    FailNewAfter(calls);
    {
      const MemoryRunsOut here;
      mover.Move(/*step_in_flight=*/false);
    }
    NewFailed();
    EXPECT_TRUE(executor.parked.empty()) << "the executor keeps what nobody can ask for";
    EXPECT_EQ(executor.due.size(), 4u);
    EXPECT_EQ(mover.parked().size(), 4u);
    EXPECT_LE(mover.dropped().size(), kDropped);
    EXPECT_EQ(scheduler.parked().size(), 4);
    EXPECT_EQ(scheduler.block_manager().pool().used(), 0);
    EXPECT_TRUE(scheduler.idle());
  }
}

// What is parked is forgotten by destructors, too, and they have nobody to tell of a failure.
TEST(StepMemory, ParkedTurnsAreForgottenWithoutMemory) {
  const auto weight_of = [](int32_t) { return 1.0; };
  ParkedSessions sessions(/*blocks_max=*/100);
  for (uint64_t session = 1; session <= 40; ++session) {
    ASSERT_TRUE(sessions.Put({.id = {session, 1}, .computed = 16, .live = 16}, weight_of));
    ASSERT_TRUE(sessions.Put({.id = {session, 2}, .computed = 32, .live = 16}, weight_of));
  }
  FailNewAfter(0);
  {
    const MemoryRunsOut here;
    for (uint64_t session = 1; session <= 10; ++session) sessions.Pin({session, 2});
    for (uint64_t session = 1; session <= 20; ++session) sessions.Settle({session, 2}, /*keep=*/session % 2 == 0);
    for (uint64_t session = 1; session <= 40; ++session) sessions.DropSession(session);
    for (uint64_t session = 1; session <= 10; ++session) {
      sessions.Use({session, 2});
      sessions.Unpin({session, 2});
    }
  }
  EXPECT_FALSE(NewFailed());
  EXPECT_EQ(sessions.size(), 0);
  EXPECT_EQ(sessions.blocks(), 0);
  EXPECT_EQ(sessions.dropped().size(), 80u);
}

}  // namespace
}  // namespace hydrant
