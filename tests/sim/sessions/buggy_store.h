// BuggyStore is a SessionStore with a bug planted around it, to show that StoreEpisode sees it: each stands for a
// mistake that the store could make. Without one it passes everything on.
#ifndef HYDRANT_TESTS_SIM_SESSIONS_BUGGY_STORE_H_
#define HYDRANT_TESTS_SIM_SESSIONS_BUGGY_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/sessions/session_store.h"

namespace hydrant::sim {

enum class StoreBug : uint8_t {
  kNone,
  kTwoTurnsAtOnce,       // a busy session is begun all the same
  kFoundByAll,           // a session is found by tenants that it is not of
  kDeletedWhileBusy,     // … and can be deleted during a turn, as far as its client is told
  kExpiryIgnored,        // no session expires
  kExpiresEarly,         // … or long before its time
  kTenantLimitIgnored,   // a tenant has more sessions than it may
  kSessionLimitIgnored,  // all of them have
  kBytesIgnored,         // what they said is not bounded
  kWeightIgnored,        // room is made as if all tenants weighed the same
  kSettleLost,           // the engine is not told how a turn ended
  kSettleTwice,          // … is told twice
  kSettleInverted,       // … the opposite
  kForgetLost,           // it keeps the parked KV of a session that is gone
  kForgetTwice,          // it is told twice that one is
  kParkedLost,           // what the engine parked is not noted
  kDroppedLost,          // nor what it dropped
  kParkedOfAnother,      // it is noted for the session before
  kEndLost,              // a turn that ended well leaves the session as it was
  kPastCutOff,           // a turn leaves less than it said
  kCardOfBefore,         // a card shows the session as it was when somebody looked last
  kListSkipsOne,         // a page begins with the second session
  kCountsOfBefore,       // sessions are counted as they were
};
inline constexpr StoreBug kLastStoreBug = StoreBug::kCountsOfBefore;

const char* NameOf(StoreBug bug);

class BuggyStore {
 public:
  BuggyStore(StoreBug bug, SessionStore::Options options);

  ApiResult<SessionTurn> Begin(SessionOwner owner, const std::string& id, bool must_exist);
  // Ends the turn well, or, without a past, as if it had not been.
  void End(std::unique_ptr<SessionTurn> turn, std::optional<SessionPast> past);
  void OnParked(std::span<const TurnId> dropped, std::span<const ParkedTurn> parked);
  ApiResult<SessionStore::View> Inspect(int32_t tenant, const std::string& id);
  ApiResult<SessionCard> Get(int32_t tenant, const std::string& id);
  std::optional<ApiError> Delete(int32_t tenant, const std::string& id);
  SessionStore::Page List(int32_t tenant, const std::string& after, size_t count_max);
  SessionCounts counts();

 private:
  SessionStore::Options Spoilt(SessionStore::Options options) const;

  const StoreBug bug_;
  SessionStore store_;
  std::optional<SessionCard> card_before_;
  SessionCounts counts_before_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SESSIONS_BUGGY_STORE_H_
