// Options of a session store whose clock stands still and whose engine takes all that it is told.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_IDLE_STORE_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_IDLE_STORE_H_

#include <cstdint>

#include "server/sessions/session_store.h"

namespace hydrant {

inline SessionStore::Options IdleStore() {
  SessionStore::Options options;
  options.clock = [] { return int64_t{0}; };
  options.on_forget = [](uint64_t) {};
  options.on_settle = [](const TurnId&, bool) {};
  return options;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_IDLE_STORE_H_
