// StoreEpisode is the simulator's part for SessionStore: clients of several tenants begin and end turns, several of one
// session at once, leave, delete and list sessions while turns are in progress; limits and weights change; time goes
// by; and an engine in one line (what is parked, by session and turn) parks, drops and is told. An episode is a pure
// function of its seed.
//
// Checked at every call: the answer, and whatever a turn or a card shows, are StoreModel's; exactly the sessions that
// it forgets are forgotten, once each; every turn is settled once, while its session is busy; what the engine has
// parked belongs to a session that is still there. At the end, with every session deleted, the engine has nothing
// parked.
#ifndef HYDRANT_TESTS_SIM_SESSIONS_STORE_EPISODE_H_
#define HYDRANT_TESTS_SIM_SESSIONS_STORE_EPISODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/failure.h"
#include "tests/sim/random.h"
#include "tests/sim/sessions/buggy_store.h"
#include "tests/sim/sessions/store_model.h"

namespace hydrant::sim {

struct StoreResult {
  std::string failure;  // empty: everything held
  uint64_t calls = 0;
  uint64_t turns = 0;
  uint64_t busy = 0;      // turns and deletions that found one in progress
  uint64_t refused = 0;   // turns, for want of room
  uint64_t expired = 0;   // sessions
  uint64_t gave_way = 0;  // likewise
  uint64_t deleted = 0;
  uint64_t went_back = 0;  // turns after which a session went on from the one before
  uint64_t resumed = 0;    // turns that found their past parked
  uint64_t unsettled = 0;  // turns whose settlement found no memory
};

class StoreEpisode {
 public:
  explicit StoreEpisode(uint64_t seed, StoreBug bug = StoreBug::kNone);
  StoreEpisode(const StoreEpisode&) = delete;
  StoreEpisode& operator=(const StoreEpisode&) = delete;

  StoreResult Run();

 private:
  struct Profile {
    explicit Profile(Random& random);

    int64_t ttl_us = 0;  // 0: sessions do not expire
    int32_t sessions_max = 0;
    int64_t bytes_max = 0;
    int32_t tenants = 1;
    int32_t ids = 1;  // of a tenant's sessions
    int32_t turns_at_once = 1;
    int32_t no_memory_percent = 0;
    int32_t calls = 0;
  };
  struct Turn {
    std::unique_ptr<SessionTurn> turn;
    StoreModel::Session* session = nullptr;  // busy, so it stays
  };
  // What the engine says after a step.
  struct Step {
    std::vector<TurnId> dropped;
    std::vector<ParkedTurn> parked;
  };

  SessionStore::Options Options();
  SessionOwner DrawOwner(int32_t tenant);
  void Act();
  void PassTime();
  void Begin();
  void SeeBegun(SessionTurn turn, StoreModel::Session* begun);
  void EndOne(bool well);
  void EndTurn(Turn turn, bool well);
  std::optional<SessionPast> MakePast(const StoreModel::Session& session);
  void Look();
  void Delete();
  void List();
  void Count();
  void OnSettle(const TurnId& turn, bool keep);
  void OnForget(uint64_t number);
  void Park(const TurnId& turn, Step* step);
  void LosesSome();
  void Tell();
  void CheckForgotten();
  void CheckCard(const SessionCard& card, const SessionCard& due);
  void CheckParked();
  void CheckEnd();
  void Expect(const char* call, const std::string& code, const std::string& due);

  int32_t AnyTenant() { return random_.Below(static_cast<int32_t>(owners_.size())); }
  std::string AnyId() { return "s" + std::to_string(random_.Below(profile_.ids)); }

  const StoreBug bug_;
  Random random_;
  Failure failure_;
  const Profile profile_;
  std::vector<SessionOwner> owners_;  // by tenant

  int64_t now_us_ = 0;
  int64_t now_s_ = 0;
  StoreModel model_;
  std::unique_ptr<BuggyStore> store_;
  std::vector<Turn> turns_;  // in progress
  std::set<uint64_t> numbers_;
  std::vector<uint64_t> forgotten_;                   // since the last look
  std::optional<std::pair<TurnId, bool>> to_settle_;  // by the call in progress
  bool settling_fails_ = false;
  // What the engine has parked: by session, by turn.
  std::map<uint64_t, std::map<uint64_t, ParkedTurn>> engine_;
  std::vector<Step> steps_;  // of which the store is yet to be told
  StoreResult result_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SESSIONS_STORE_EPISODE_H_
