// DirectoryPlace is the --session-dir of a server that is stopped.
//
// Thread: one at a time.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_DIRECTORY_PLACE_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_DIRECTORY_PLACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/journal/session_directory.h"
#include "server/sessions/journal/session_log.h"
#include "server/sessions/tools/session_place.h"
#include "server/sessions/transfer/session_file.h"

namespace hydrant {

class DirectoryPlace : public SessionPlace {
 public:
  // Takes the directory's lock. Errors: FAILED_PRECONDITION where there is no session directory, and SessionDirectory::Open's: a
  // process that uses it is named. `keys` null: it is not encrypted.
  static absl::StatusOr<std::unique_ptr<DirectoryPlace>> Open(const std::string& path,
                                                              std::shared_ptr<const SessionKeys> keys = nullptr);

  const std::string& name() const override { return path_; }
  absl::StatusOr<std::vector<PlacedSession>> List(const std::string& tenant) override;
  absl::StatusOr<ExportedSession> Export(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<bool> Import(const std::string& tenant, const std::string& file) override;
  absl::StatusOr<bool> IsDurable(const std::string&, const std::string&) override { return true; }
  absl::StatusOr<bool> Forget(const std::string& tenant, const std::string& id, uint64_t turn) override;
  absl::Status Purge(const std::string& tenant, const std::string& id) override;
  // Reads every record and every session's past. `tenant` has to be empty: a file is nobody's.
  absl::StatusOr<VerifyReport> Verify(const std::string& tenant) override;
  absl::Status Close() override;

 private:
  DirectoryPlace(std::string path, std::unique_ptr<SessionDirectory> directory, std::shared_ptr<const SessionKeys> keys)
      : path_(std::move(path)), directory_(std::move(directory)), keys_(std::move(keys)) {}
  absl::StatusOr<SessionFile> Read(const SessionName& name);
  bool Write(LogRecord record);
  // The session's KV files leave the disk.
  absl::Status RemoveKv(const SessionName& name);
  void VerifySegment(LogDirectory& files, uint32_t number, VerifyReport* report);
  void VerifyRecords(std::string_view bytes, uint32_t number, VerifyReport* report);

  const std::string path_;
  const std::unique_ptr<SessionDirectory> directory_;
  const std::shared_ptr<const SessionKeys> keys_;
  std::unique_ptr<SessionLog> log_;
  std::unique_ptr<LogDirectory> kv_;
  // Turns of the files that there were when somebody asked first.
  std::optional<absl::flat_hash_map<SessionName, std::vector<std::string>, SessionNameHash>> kv_files_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_DIRECTORY_PLACE_H_
