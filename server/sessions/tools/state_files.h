// StateFiles are sessions' files (session_file.h) in an operator's directories; ImportOnce puts one of them where it is wanted.
//
// Thread: any; waits for the disk.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_STATE_FILES_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_STATE_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/tools/session_place.h"

namespace hydrant {

class StateFiles {
 public:
  // A file; or, of several sessions, a directory, which is made where there is none.
  static absl::StatusOr<StateFiles> ToWrite(const std::string& path, bool several);
  // Mode 0600, synced; in a directory TENANT.ID.session. It appears whole, and replaces what has its name.
  absl::Status Write(const PlacedSession& session, const MovingSession& state) const;

  // The files among `paths`, and those in the directories among them that end in .session.
  static absl::StatusOr<std::vector<std::string>> ToRead(const std::vector<std::string>& paths);
  // One of them. Errors: what the file is no file of sessions for, with the part; UNAVAILABLE where it cannot be read.
  static absl::StatusOr<MovingSession> Read(const std::string& path);

 private:
  StateFiles(std::string path, bool is_directory) : path_(std::move(path)), is_directory_(is_directory) {}

  std::string path_;
  bool is_directory_ = false;
};

enum class ImportOutcome {
  kImported,
  kNotDurable,         // imported, and a restart of the server will lose it
  kPresent,            // it was there already, the same or gone on from
  kPresentNotDurable,  // both
};

struct ImportReport {
  ImportOutcome outcome = ImportOutcome::kImported;
  std::string kv;      // as SessionPlace::ImportState's
  std::string holder;  // of one that was there already: MovingSession's
};

// Imports a session so that it does not matter whether that was done before. `tenant`: whose it becomes; empty: as the file says.
// `replaces`: one there that the session goes on from gives way. Errors: SessionPlace::Import's; ALREADY_EXISTS where the two differ.
absl::StatusOr<ImportReport> ImportOnce(SessionPlace& place, const std::string& tenant, const MovingSession& state,
                                        bool replaces);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_STATE_FILES_H_
