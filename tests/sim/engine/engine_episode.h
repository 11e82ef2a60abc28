// EngineEpisode is the simulator's part for the engine's loop: the real Engine, inbox, router, mailboxes and session
// store over a scripted executor, on one thread. What other threads would do happens between two rounds of the loop,
// while a step is computed, and while clients are woken: they submit, cancel, leave, read late, begin turns of one
// session at once and delete it; the operator reloads tenants, pauses admission, forgets prefixes and looks at
// sessions; steps and parks find no memory, rows are not numbers; in the end everybody reads to the end, or the engine
// is stopped, or its device is gone. An episode is a pure function of its seed.
//
// Checked: each sequence says what it says alone and ends once, for a reason that there was; a client is woken, and its
// account told of the end before it can know of it; whoever is behind is paused and goes on; a request is refused when
// there is no room, and only then; the engine waits when there is nothing to do, and only then; a turn goes on from
// what is parked, and the store knows what that is. At the end nothing is held: no block, no place, no mailbox, no
// account, no parked KV.
#ifndef HYDRANT_TESTS_SIM_ENGINE_ENGINE_EPISODE_H_
#define HYDRANT_TESTS_SIM_ENGINE_ENGINE_EPISODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/sessions/session_store.h"
#include "tests/sim/engine/buggy_engine.h"
#include "tests/sim/engine/sim_device.h"
#include "tests/sim/engine/sim_job.h"
#include "tests/sim/failure.h"
#include "tests/sim/random.h"

namespace hydrant::sim {

struct EngineResult {
  std::string failure;  // empty: everything held
  uint64_t rounds = 0;
  uint64_t jobs = 0;
  uint64_t refused = 0;    // for want of room
  uint64_t busy = 0;       // turns of a session that had one in progress
  uint64_t in_flight = 0;  // things done while a step was computed
  uint64_t on_waking = 0;  // likewise while clients were woken
  uint64_t cancelled = 0;  // sequences
  uint64_t left = 0;       // clients
  uint64_t resumed = 0;    // that had been behind
  uint64_t turns = 0;      // that ended well
  uint64_t steps_lost = 0;
  uint64_t parks_lost = 0;
  uint64_t reads = 0;  // of sessions' KV
  uint64_t waits = 0;  // rounds in which there was nothing to do
  uint64_t stops = 0;  // with sequences in progress
  uint64_t deaths = 0;
};

class EngineEpisode {
 public:
  explicit EngineEpisode(uint64_t seed, EngineBug bug = EngineBug::kNone);
  EngineEpisode(const EngineEpisode&) = delete;
  EngineEpisode& operator=(const EngineEpisode&) = delete;

  EngineResult Run();

 private:
  enum class Ending : uint8_t { kDrains, kStops, kDies };
  struct Profile {
    explicit Profile(Random& random);

    EngineCoreOptions core;
    Limits limits;
    int32_t tenants = 1;
    int32_t sessions = 0;  // names of them, of all tenants
    int32_t jobs = 0;
    int32_t read_percent = 100;
    int32_t slow_percent = 0;
    int32_t no_memory_permille = 0;
    int32_t no_number_permille = 0;
    Ending ending = Ending::kDrains;
  };

  // engine_episode.cc: the loop and what it asks for.
  bool Start();
  EngineHooks Hooks();
  void Round();
  void FanOut(const EventRouter::MailboxList& list);
  bool LacksMemory(const StepInput& input);
  void SeeStep(const StepInput& input);
  bool Drains();
  void End();

  // engine_clients.cc: what its clients and its operator do.
  void Act();
  void Operate();
  void Submit();
  bool BeginTurn(SimJob& job, int32_t max_tokens);
  SequenceRequest MakeSequence(SimJob& job, size_t choice, int32_t max_tokens);
  KvResolution DrawPolicy();
  void Send(std::unique_ptr<SimJob> job, std::vector<SequenceRequest> sequences);
  SimJob* AnyJob();
  void Read(SimJob& job);
  void ReadSome();
  void Finish(SimJob& job);
  void Cancel(SimJob& job);
  void Leave(SimJob& job);
  void DeleteSession(int32_t name);
  void LookAtSession();
  static std::string NameOfSession(int32_t name) { return "s" + std::to_string(name); }
  int32_t TenantOfSession(int32_t name) const { return name % profile_.tenants; }

  // engine_checks.cc: what must hold.
  void CheckRound();
  void CheckWaits();
  void CheckSessions();
  void CheckEnd();
  void CheckDeath();

  const EngineBug bug_;
  Random random_;
  Failure failure_;
  const Profile profile_;
  int64_t now_us_ = 0;
  SimDevice device_;
  std::vector<std::unique_ptr<SimJob>> jobs_;
  std::vector<std::pair<SimJob*, size_t>> by_key_;  // whose sequence it is, by SamplingParams::key
  std::vector<TenantOptions> tenants_;              // as they were ordered last
  bool paused_ = false;                             // admission, as ordered last
  bool paused_in_force_ = false;                    // … as the engine has it
  bool over_ = false;                               // nobody asks for anything any more
  bool stopped_ = false;
  bool dying_ = false;        // the device is gone with the next step
  bool device_gone_ = false;  // … and the engine was told
  bool dead_ = false;
  bool ended_ = false;
  bool told_all_ = true;        // the store heard of whatever was parked and dropped
  bool waking_failed_ = false;  // the last time
  int64_t open_ = 0;            // sequences that were accepted and whose accounts are not closed
  int64_t in_inbox_ = 0;        // jobs
  uint64_t died_ = 0;           // times that somebody heard of it
  uint64_t reads_asked_ = 0;
  uint64_t reads_answered_ = 0;
  int32_t idle_rounds_ = 0;  // in a row, in which the engine worked and nothing came of it
  EngineResult result_;
  // Last: whoever waits at the engine is answered when it goes.
  std::unique_ptr<Engine> engine_;
  EngineCore* core_ = nullptr;  // the engine's
  std::unique_ptr<BuggyEngine> port_;
  std::unique_ptr<SessionStore> store_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_ENGINE_ENGINE_EPISODE_H_
