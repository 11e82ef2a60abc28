// StoreModel is the oracle of SessionStore: what its header promises, with lists that are searched from end to end and
// nothing that has to be kept in step with anything else.
#ifndef HYDRANT_TESTS_SIM_SESSIONS_STORE_MODEL_H_
#define HYDRANT_TESTS_SIM_SESSIONS_STORE_MODEL_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/sessions/session_store.h"

namespace hydrant::sim {

class StoreModel {
 public:
  struct Past {
    int64_t tokens = 0;
    int64_t bytes = 0;  // of what was said
    uint64_t turn = 0;
    int32_t budget = 0;
  };
  struct Session {
    int32_t tenant = 0;
    std::string id;
    uint64_t number = 0;  // the store's name for it; set by who began it
    std::optional<Past> past;
    std::map<uint64_t, ParkedTurn> parked;  // by turn
    bool busy = true;
    uint64_t turns = 0;  // begun
    uint64_t use = 0;    // higher: its last turn ended later
    int64_t used_us = 0;
    int64_t created_s = 0;
    int64_t used_s = 0;
  };

  // `ttl_us` 0: sessions do not expire.
  StoreModel(int64_t ttl_us, int32_t sessions_max, int64_t bytes_max)
      : ttl_us_(ttl_us), sessions_max_(sessions_max), bytes_max_(bytes_max) {}

  void SetTime(int64_t now_us, int64_t now_s) {
    now_us_ = now_us;
    now_s_ = now_s;
  }

  // Each returns the code of the error that is due; empty: it succeeds. Begin: then `*begun` is the session.
  std::string Begin(const SessionOwner& owner, const std::string& id, bool must_exist, Session** begun);
  std::string Get(int32_t tenant, const std::string& id, const Session** found);
  std::string Delete(int32_t tenant, const std::string& id);

  // The turn in progress ends; without a past the session is as it was.
  void End(Session& session, const std::optional<Past>& past);
  void OnParked(const ParkedTurn& turn);
  void OnDropped(const TurnId& turn);
  SessionStore::Page List(int32_t tenant, const std::string& after, size_t count_max);
  SessionCounts Counts();
  SessionCard CardOf(const Session& session) const;

  // The numbers of sessions that were forgotten since the last call, ascending.
  std::vector<uint64_t> TakeForgotten();
  const std::list<Session>& sessions() const { return sessions_; }
  uint64_t gave_way() const { return gave_way_; }  // sessions forgotten to make room
  uint64_t expired() const { return expired_; }

 private:
  struct Tenant {
    double weight = 1;
    int32_t sessions_max = 0;
    std::vector<std::string> gone;  // ids, the latest at the end
  };
  enum class By { kSessions, kBytes };

  static const ParkedTurn* ParkedPast(const Session& session);
  bool IsExpired(const Session& session) const;
  Session* Find(int32_t tenant, const std::string& id);
  void ExpireSome();
  void MakeRoom(const Session& newest);
  bool GivesOne(int32_t tenant, const Session& newest);
  bool GivesMostOverShare(By by, const Session& newest);
  Session* LeastRecent(int32_t tenant, const Session* newest);
  int64_t Held(int32_t tenant, By by) const;
  int64_t HeldByAll(By by) const;
  void Forget(Session* session, bool remember);

  const int64_t ttl_us_;
  const int32_t sessions_max_;
  const int64_t bytes_max_;
  int64_t now_us_ = 0;
  int64_t now_s_ = 0;
  std::list<Session> sessions_;
  std::map<int32_t, Tenant> tenants_;
  std::vector<uint64_t> forgotten_;
  uint64_t uses_ = 0;
  uint64_t gave_way_ = 0;
  uint64_t expired_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SESSIONS_STORE_MODEL_H_
