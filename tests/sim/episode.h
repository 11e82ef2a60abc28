// Episode is one run of the simulator (simulator.h) in progress: it drives the engine, plays its clients, and checks what
// comes back.
#ifndef HYDRANT_TESTS_SIM_EPISODE_H_
#define HYDRANT_TESTS_SIM_EPISODE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/engine/engine_core.h"
#include "tests/sim/failure.h"
#include "tests/sim/fake_executor.h"
#include "tests/sim/memory_checks.h"
#include "tests/sim/plan_digest.h"
#include "tests/sim/planted_bug.h"
#include "tests/sim/sim_request.h"
#include "tests/sim/simulator.h"
#include "tests/sim/solo_run.h"
#include "tests/sim/swap_checks.h"
#include "tests/sim/tenant_checks.h"
#include "tests/sim/turn_checks.h"
#include "tests/sim/workload.h"

namespace hydrant::sim {

class Episode {
 public:
  explicit Episode(const EpisodeOptions& options);
  Episode(const Episode&) = delete;
  Episode& operator=(const Episode&) = delete;

  EpisodeResult Run();

 private:
  struct Session {
    SimRequest* last = nullptr;  // the turn from which the session goes on
    SimRequest* turn = nullptr;  // in progress, or ended and not settled
  };
  // A turn that has ended for its client, of which the engine is yet to be told.
  struct Settling {
    SimRequest* request = nullptr;
    bool keep = false;
  };

  // episode.cc: what happens.
  bool Start();
  void Act();
  void ActInFlight();
  void SeeAdmissions(bool as_planned);
  void Begin(SimRequest& request, const Sequence& sequence);
  void SeeSwaps(bool as_planned);
  bool WaitsForBlocks(const SimRequest& request) const;
  void PlantSwapBug();
  void CheckTwins(const Sequence& admitted);
  void CheckReserved(const Sequence& admitted);
  void CancelSomebody(bool in_flight);
  void Cancel(uint64_t id, bool in_flight);
  void LeaveSessions();
  void SettleTurns();
  bool Ending(uint64_t id) const;
  void Reload();
  void ReadSlowly();
  void SetPaused(SimRequest& request, bool paused);
  void Step();
  int32_t paused() const;
  int32_t unfinished() const { return core_->scheduler().running() + core_->scheduler().waiting(); }

  // episode_requests.cc: who asks for what, and what the oracle says to it.
  void AddRequest();
  absl::StatusCode AnswerDue(const SimRequest& request) const;
  void ExpectEnd(SimRequest& request);
  void LetItRecall(const Request* before, SequenceRequest* made) const;
  void SeeHistories();
  void MakeTurn(uint64_t session, SequenceRequest& made);
  bool MustStartOver(uint64_t session, const SequenceRequest& made);
  void BeginTurn(SimRequest& request);
  void EndTurn(SimRequest& request);
  void RunOracle(SimRequest& request);
  void MakeKeys(SimRequest& request);
  void Release(SimRequest& request);

  // episode_checks.cc: what must hold.
  void CheckEvent(const EngineEvent& event, int32_t later);
  void CheckTokens(const EngineEvent& event, SimRequest& request);
  void CheckEnd(const EngineEvent& event, SimRequest& request);
  void CheckTimes(const RequestTimes& times, const SimRequest& request);
  void SeeReader(const EngineEvent& event, int32_t later, SimRequest& request);
  void CheckState();
  void CheckPromise(bool due, int64_t planned_us);
  bool IsCalm(std::span<const EngineEvent> events) const;
  void CheckAhead(bool calm);
  void CheckMoves();
  void CheckFinal();
  void CheckSums(const EngineCounters& counters);

  const EpisodeOptions options_;
  const bool overlap_;
  Workload workload_;
  Failure failure_;
  std::vector<std::unique_ptr<SimRequest>> requests_;
  FakeExecutor executor_;
  SoloRunner oracle_;
  std::vector<SoloRun> spare_runs_;                // memory of runs nobody needs any more
  std::vector<std::vector<uint64_t>> spare_keys_;  // likewise
  std::vector<Session> sessions_;                  // by session
  std::vector<Settling> settling_;                 // in the order of their ends
  std::vector<SimRequest*> left_;                  // whose clients are gone: to be cancelled
  std::vector<SimRequest*> slow_;                  // those in progress whose readers are slow
  BuggyExecutor buggy_;
  DigestingExecutor digesting_;
  TenantChecks tenants_;
  TurnChecks turns_;
  MemoryChecks memory_;
  SwapChecks swaps_;
  std::unique_ptr<EngineCore> core_;
  std::vector<EngineEvent> spoilt_events_;
  uint64_t promised_ = 0;   // for whom budgets fell, until it is let in
  bool disturbed_ = false;  // something happened since the last step
  bool saw_plan_ = false;   // whom the step's plan admits
  int64_t blocks_moved_max_ = StepLimits().blocks_moved_max;
  // Steps in a row in which nothing happened but one more token of everybody, while somebody waited; and of them, those at whose end
  // no plan was in flight.
  int32_t calm_steps_ = 0;
  int32_t alone_steps_ = 0;
  uint64_t ahead_waiting_ = 0;
  int32_t resets_ = 0;        // of the prefix cache
  uint64_t twin_checks_ = 0;  // somebody was let in while another one's prompt was computed, under the same salt
  bool admission_paused_ = false;
  int64_t now_us_ = 0;
  int64_t step_ = 0;
  int64_t free_steps_ = 0;  // of them, those in which neither slow readers nor a paused admission held anybody up
  int64_t outstanding_steps_ = 0;  // the most free steps all unfinished requests need, one after the other
  int64_t last_deadline_ = 0;      // in free steps
  uint64_t added_ = 0;
  uint64_t ends_ = 0;
  EpisodeResult result_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_EPISODE_H_
