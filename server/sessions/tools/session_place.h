// SessionPlace is where an operator's tools find sessions: the directory of a server that is stopped, or a server that runs.
//
// Thread: one at a time. A call may wait for the disk or the network.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_PLACE_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_PLACE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/tools/moving_session.h"

namespace hydrant {

struct PlacedSession {
  std::string tenant;  // its name; empty: that of the key
  std::string id;
  uint64_t turn = 0;  // the last; 0: none has ended
  int64_t tokens = 0;
  int64_t bytes = 0;   // on disk; -1: not known
  int32_t budget = 0;  // 0: none
  std::string policy;
  int64_t created_s = 0;  // Unix time, as the next one
  int64_t used_s = 0;
};

// What is not what was written.
struct Damage {
  std::string where;  // a file and the byte in it, or a session
  std::string what;
};

struct VerifyReport {
  static constexpr size_t kDamagesMax = 1000;  // kept; `damaged` counts on

  int64_t sessions = 0;
  int64_t records = 0;
  int64_t bytes = 0;
  int64_t unfinished_bytes = 0;  // of writes that a process did not live to end: nobody was promised anything of them
  int64_t damaged = 0;
  std::vector<Damage> damages;

  void Add(std::string where, std::string what) {
    ++damaged;
    if (damages.size() < kDamagesMax) damages.push_back({std::move(where), std::move(what)});
  }
};

struct ExportedSession {
  std::string file;
  std::string holder;  // MovingSession's
};

class SessionPlace {
 public:
  virtual ~SessionPlace() = default;

  // Where this is, for messages.
  virtual const std::string& name() const = 0;
  // By tenant and id. `tenant` empty: all of them.
  virtual absl::StatusOr<std::vector<PlacedSession>> List(const std::string& tenant) = 0;
  // The session's file (session_file.h), and who has it. Errors: NOT_FOUND; DATA_LOSS; ABORTED for one with a turn in progress.
  virtual absl::StatusOr<ExportedSession> Export(const std::string& tenant, const std::string& id) = 0;
  // Puts in what Export gave, under that tenant. True: and no restart will lose it. Errors: ALREADY_EXISTS where there is a session of
  // this tenant and id; FAILED_PRECONDITION for one that this place cannot go on from; INVALID_ARGUMENT for what is no such file.
  virtual absl::StatusOr<bool> Import(const std::string& tenant, const std::string& file) = 0;
  // The same with its KV, where this place has it at hand. It is in memory nowhere as a whole.
  virtual absl::StatusOr<MovingSession> ExportState(const std::string& tenant, const std::string& id) {
    const absl::StatusOr<ExportedSession> exported = Export(tenant, id);
    if (!exported.ok()) return exported.status();
    absl::StatusOr<SessionFile> file = ReadSessionFile(exported->file);
    if (!file.ok()) return file.status();
    return MovingSession{*std::move(file), nullptr, 0, "", exported->holder};
  }
  // Import of that. `kv`: what became of its KV, "taken" or why not; empty: there was none, or nobody here knows of KV.
  virtual absl::StatusOr<bool> ImportState(const std::string& tenant, const MovingSession& state, std::string* kv) {
    kv->clear();
    return Import(tenant, state.Head(/*with_kv=*/false));
  }
  // Whether no restart will lose it. Errors: NOT_FOUND.
  virtual absl::StatusOr<bool> IsDurable(const std::string& tenant, const std::string& id) = 0;
  // True: and no restart brings it back. `turn`: its last, or else the session stays; 0: whichever. Errors: NOT_FOUND, ABORTED as above,
  // OUT_OF_RANGE where its last turn is another one.
  virtual absl::StatusOr<bool> Forget(const std::string& tenant, const std::string& id, uint64_t turn) = 0;
  // What a session that was forgotten has said leaves the files before this returns; of several, that of all of them with the first.
  // Nothing that is there goes. Errors: UNAVAILABLE where they cannot be written anew; OUT_OF_RANGE where a session of this id is there.
  virtual absl::Status Purge(const std::string& tenant, const std::string& id) = 0;
  virtual absl::StatusOr<VerifyReport> Verify(const std::string& tenant) = 0;
  // Ends well what was begun.
  virtual absl::Status Close() = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_PLACE_H_
