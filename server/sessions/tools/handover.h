// Handover moves all sessions of a server that is to end, or of its directory, to another one.
//
// A session is at one of the two all along, or at both, and never at neither: it is copied, and leaves its old place only where it has
// not gone on there meanwhile, no restart of the new one will lose it, and the two are two. So a handover may be broken off and begun again.
//
// Thread: one at a time; waits.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_HANDOVER_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_HANDOVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/sessions/tools/session_place.h"

namespace hydrant {

struct HandoverOptions {
  std::string tenant;              // empty: all of them
  double wait_s = 30;              // for turns in progress to end
  std::function<int64_t()> clock;  // monotonic microseconds
  std::function<void(double seconds)> sleep;
  std::function<void(std::string_view line)> say;  // how far it is, every few seconds, and which sessions stay
};

struct HandoverReport {
  int64_t sessions = 0;  // that there were
  int64_t moved = 0;
  int64_t present = 0;      // had been copied before, and have left now
  int64_t gone = 0;         // ended by themselves meanwhile
  int64_t not_durable = 0;  // copied, and still where they were: a restart of the new place would lose them
  int64_t left = 0;         // not copied: busy to the end, refused, or on its way to where it is
  int64_t bytes = 0;        // of their files
  int64_t kv_sent = 0;      // of `moved`: with KV
  int64_t kv_lost = 0;      // sessions whose KV broke off on its way from the old place, and came without
  int64_t kv_taken = 0;     // of `kv_sent`: whose KV is there now; the others' next turn computes the history

  bool complete() const { return left == 0 && not_durable == 0; }
};

// Errors: what ends all of it: a place that does not answer, a key that does not open.
absl::StatusOr<HandoverReport> HandOver(SessionPlace& from, SessionPlace& to, const HandoverOptions& options);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_HANDOVER_H_
