// Each call of the executor fails once for want of memory: of steps, of sessions' KV on its way out of the pool, and of copies for
// somebody who looks at it. The engine core goes on, and it costs those whose call it was and nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/engine_core_fixture.h"

namespace hydrant {
namespace {

enum class Bug : uint8_t {
  kNone,
  kStepHidden,  // a step that was not computed passes for one that was
  kParkHidden,  // KV that is parked nowhere passes for parked
  kEndLost,     // whoever loses a step is not told
};

// Knows of which turns it has parked KV.
class StarvingExecutor : public ScriptedExecutor {
 public:
  StarvingExecutor(int fails_at, Bug bug) : fails_at_(fails_at), bug_(bug) {}

  Ticket Launch(const StepInput& input) override {
    const bool fails = ++calls == fails_at_;
    for (const TurnId& turn : input.drops) parked.erase(turn);
    const bool is_step = !input.rows.empty() || !input.restores.empty();
    if (fails) {
      for (const StepRow& row : input.rows) lost.insert(row.sampling->key);
      if (is_step) LoseWhatWasToCome();
      const bool hides = is_step ? bug_ == Bug::kStepHidden : bug_ == Bug::kParkHidden;
      if (!hides) throw std::bad_alloc();
    }
    for (const ParkOp& park : input.parks) {
      if (!fails) Park(park);
    }
    for (const RestoreOp& restore : input.restores) {
      const auto found = parked.find(restore.id);
      restored_nothing |=
          found == parked.end() || found->second != restore.live || copied_[restore.id] != BlocksForSlots(restore.live);
    }
    return ScriptedExecutor::Launch(input);
  }

  const Scheduler* scheduler = nullptr;
  int calls = 0;
  std::set<uint64_t> lost;           // requests in the step that failed
  std::map<TurnId, int32_t> parked;  // slots
  bool restored_nothing = false;

 private:
  // Also those whose first row is still to come.
  void LoseWhatWasToCome() {
    lost.insert(scheduler->admitted().begin(), scheduler->admitted().end());
    for (const PlanRestore& restore : scheduler->plan().restores) {
      lost.insert(scheduler->sequence(restore.sequence).request.id);
    }
  }
  // Slices come in their order, and none is left out.
  void Park(const ParkOp& park) {
    if (park.begins) parked[park.id] = park.live;
    restored_nothing |= park.slice.begin != (park.begins ? 0 : copied_[park.id]);
    copied_[park.id] = park.slice.end;
  }

  const int fails_at_;
  const Bug bug_;
  std::map<TurnId, int32_t> copied_;  // blocks
};

// Two sessions of three turns each, elastic chats, prompts that share their beginning, and one that makes budgets fall.
class Crowd {
 public:
  Crowd(int fails_at, bool overlap, Bug bug) : executor_(fails_at, bug), bug_(bug) {
    EngineCoreOptions options = Options();
    options.overlap = overlap;
    options.scheduler.blocks = 18;
    options.scheduler.spare_score_blocks = 16;
    options.scheduler.sequences_max = 8;
    options.scheduler.waiting_max = 16;
    options.scheduler.tenants = {{"a"}, {"b"}};
    options.scheduler.parked_blocks_max = 16;
    core_ = *EngineCore::Create(options, executor_, [this] { return ++now_us_; });
    executor_.scheduler = &core_->scheduler();
    core_->LimitSteps({.blocks_moved_max = 2});
  }

  // What goes wrong; empty: nothing.
  std::string Run() {
    for (int i = 0; i < 2; ++i) Add(Chat(/*tenant=*/0, /*floor=*/15));
    for (int i = 0; i < 2; ++i) Add(Shared());
    for (uint64_t session : {1, 2}) Add(Turn(session));
    for (int step = 0; wrong_.empty() && (step < 12 || !core_->idle()); ++step) {
      if (step == 8) Add(MakeRequest(++last_id_, 200, 4));
      if (step % 5 == 0) {
        KvReading reading;
        core_->ReadKv(2, /*evicts=*/true, &reading);
      }
      Step();
      if (step > 2000) Wrong("it never ends");
    }
    calls_ = executor_.calls;
    Add(MakeRequest(++last_id_, 40, 3));
    while (wrong_.empty() && !core_->idle()) Step();
    if (wrong_.empty()) CheckEnds();
    return wrong_;
  }

  int calls() const { return calls_; }  // before the last request
  const EngineCore& core() const { return *core_; }

 private:
  template <typename... What>
  void Wrong(const What&... what) {
    if (wrong_.empty()) wrong_ = absl::StrCat(what...);
  }

  void Add(SequenceRequest request) {
    const uint64_t id = request.request.id;
    requests_[id] = request;
    if (const absl::Status status = core_->Add(std::move(request)); !status.ok())
      Wrong(id, " is refused: ", status.ToString());
  }
  SequenceRequest Chat(int32_t tenant, int32_t floor) {
    SequenceRequest request = MakeRequest(++last_id_, 60, 60, /*keep=*/63);
    request.request.budget.floor = floor;
    request.request.tenant = tenant;
    return request;
  }
  SequenceRequest Shared() {
    SequenceRequest request = MakeRequest(++last_id_, 70, 9);
    request.request.prefix.publishes = request.request.prefix.looks_up = true;
    request.request.tenant = 1;
    return request;
  }
  // The session's next turn, from the last one that ended by itself.
  SequenceRequest Turn(uint64_t session) {
    SequenceRequest request = MakeRequest(++last_id_, 30, 5, session == 2 ? 32 : 0);
    std::vector<int32_t> history;
    if (const auto last = last_turn_.find(session); last != last_turn_.end()) {
      const Request& before = requests_[last->second].request;
      history.assign(before.prompt.begin(), before.prompt.end());
      history.insert(history.end(), 5, 7);
      request.request.resumes = last->second;
    }
    history.insert(history.end(), request.request.prompt.begin(), request.request.prompt.end());
    request.request.prompt = std::move(history);
    request.request.session = session;
    request.request.turn = last_id_;
    request.request.tenant = 1;
    ++turns_[session];
    return request;
  }

  void Step() {
    std::vector<std::pair<TurnId, bool>> ended;
    std::vector<SequenceRequest> next;
    for (const EngineEvent& event : core_->Step()) {
      if (event.finish == FinishReason::kNone) continue;
      if (bug_ == Bug::kEndLost && event.finish == FinishReason::kNoMemory) continue;
      if (!ends_.emplace(event.id, event.finish).second) Wrong(event.id, " ends twice");
      const uint64_t session = requests_[event.id].request.session;
      if (session == 0) continue;
      const bool keep = EndsByItself(event.finish);
      if (keep) last_turn_[session] = event.id;
      ended.emplace_back(TurnId{session, event.id}, keep);
      if (turns_[session] < 3) next.push_back(Turn(session));
    }
    if (const absl::Status status = core_->scheduler().CheckIntegrity(); !status.ok()) Wrong(status.ToString());
    if (executor_.restored_nothing) Wrong("a session goes on from what is not there");
    if (!core_->in_flight()) CheckParked();
    for (const auto& [turn, keep] : ended) core_->SettleTurn(turn, keep);
    for (SequenceRequest& turn : next) Add(std::move(turn));
  }

  // What the scheduler takes for parked is there, and nothing else.
  void CheckParked() {
    const ParkedSessions& parked = core_->scheduler().parked();
    int64_t blocks = 0;
    for (const auto& [turn, live] : executor_.parked) {
      const ParkedCounts* counts = parked.Find(turn);
      if (counts == nullptr || counts->live != live) Wrong("turn ", turn.turn, " is parked with ", live, " slots");
      blocks += BlocksForSlots(live);
    }
    if (parked.blocks() != blocks) Wrong(parked.blocks(), " blocks are parked, not ", blocks);
  }

  void CheckEnds() {
    if (ends_.size() != requests_.size()) Wrong(requests_.size(), " requests, ", ends_.size(), " ends");
    size_t without_memory = 0;
    for (const auto& [id, finish] : ends_) {
      without_memory += finish == FinishReason::kNoMemory ? 1 : 0;
      if (finish != FinishReason::kLength && finish != FinishReason::kNoMemory) Wrong(id, " ends otherwise");
      if (finish == FinishReason::kNoMemory && !executor_.lost.contains(id)) Wrong(id, " was in no step that failed");
    }
    if (ends_.rbegin()->second != FinishReason::kLength) Wrong("the engine does not go on");
    // A row after the end of its request may be lost: with overlap, one for each.
    if (!executor_.lost.empty() && without_memory == 0) Wrong("a step was lost, and nobody was told");
    if (core_->counters().blocks_used != 0) Wrong(core_->counters().blocks_used, " blocks are in use when idle");
  }

  StarvingExecutor executor_;
  const Bug bug_;
  int calls_ = 0;
  int64_t now_us_ = 0;
  std::unique_ptr<EngineCore> core_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, SequenceRequest> requests_;
  std::map<uint64_t, FinishReason> ends_;
  std::map<uint64_t, uint64_t> last_turn_;  // by session: the request
  std::map<uint64_t, int> turns_;           // by session: begun
  std::string wrong_;
};

TEST(LostCalls, EachCostsTheRequestsThatItWasForAndNobodyElse) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap ? "overlap" : "no overlap");
    Crowd whole(0, overlap, Bug::kNone);
    ASSERT_EQ(whole.Run(), "");
    const EngineCounters counters = whole.core().counters();
    EXPECT_GT(counters.scheduler.shrinks, 0u);
    EXPECT_GT(counters.scheduler.parks, 3u);
    EXPECT_GT(counters.scheduler.restores, 1u);
    EXPECT_GT(counters.scheduler.prefix_hits, 0u);
    EXPECT_GT(whole.calls(), 50);
    uint64_t steps_lost = 0, parks_lost = 0;
    for (int call = 1; call <= whole.calls(); ++call) {
      SCOPED_TRACE(call);
      Crowd crowd(call, overlap, Bug::kNone);
      ASSERT_EQ(crowd.Run(), "");
      steps_lost += crowd.core().steps_lost();
      parks_lost += crowd.core().counters().parked_lost - counters.parked_lost;
    }
    EXPECT_GT(steps_lost, 50u);
    EXPECT_GT(parks_lost, 2u);
  }
}

TEST(LostCalls, PlantedBugsAreSeen) {
  for (const bool overlap : {false, true}) {
    for (const Bug bug : {Bug::kStepHidden, Bug::kParkHidden, Bug::kEndLost}) {
      SCOPED_TRACE(static_cast<int>(bug));
      const int calls = 150;
      int seen = 0;
      for (int call = 1; call <= calls; ++call) seen += Crowd(call, overlap, bug).Run().empty() ? 0 : 1;
      EXPECT_GT(seen, 2);
    }
  }
}

// A slice that was to come with a step without rows.
TEST(LostCalls, ALostSliceCostsTheTurnThatItWasForAlone) {
  ScriptedExecutor executor;
  EngineCoreOptions options = Options();
  options.scheduler.parked_blocks_max = 16;
  const auto core = *EngineCore::Create(options, executor, [] { return 1; });
  for (uint64_t session : {11, 12}) {
    ASSERT_TRUE(core->Add(SessionTurnOf(session, MakeRequest(session, 30, 1))).ok());
  }
  while (!core->idle()) core->Step();
  core->LimitSteps({.blocks_moved_max = 2});
  for (uint64_t session : {11, 12}) {
    SequenceRequest resumes = SessionTurnOf(session, MakeRequest(10 + session, 40, 2));
    resumes.request.resumes = std::exchange(resumes.request.turn, 4);
    ASSERT_TRUE(core->Add(resumes).ok());
  }
  executor.starve = [](const StepInput& input) {
    EXPECT_EQ(input.restores.size(), 1u);
    return true;
  };
  std::map<uint64_t, FinishReason> ends;
  while (!core->idle()) {
    for (const EngineEvent& event : core->Step()) {
      if (event.finish != FinishReason::kNone) ends[event.id] = event.finish;
    }
    executor.starve = nullptr;
  }
  EXPECT_EQ(ends[21], FinishReason::kNoMemory);
  EXPECT_EQ(ends[22], FinishReason::kLength);
  EXPECT_EQ(core->counters().scheduler.restores, 2u);
  EXPECT_EQ(core->counters().blocks_used, 0);
}

}  // namespace
}  // namespace hydrant
