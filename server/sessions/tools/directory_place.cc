#include "server/sessions/tools/directory_place.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "api/kv/kv_spec.h"
#include "api/session/session.h"
#include "server/process/clock.h"
#include "server/sessions/kv/kv_file.h"
#include "server/sessions/past_codec.h"

namespace hydrant {
namespace {

absl::Status NoSession(const std::string& tenant, const std::string& id) {
  return absl::NotFoundError(absl::StrCat("tenant ", tenant, " has no session ", id));
}

int64_t NowS() { return static_cast<int64_t>(std::time(nullptr)); }

PlacedSession PlacedOf(const LoggedSession& logged) {
  PlacedSession session;
  session.tenant = logged.facts.tenant;
  session.id = logged.facts.id;
  session.turn = logged.turn;
  session.tokens = logged.facts.tokens;
  session.bytes = static_cast<int64_t>(logged.bytes);
  session.budget = logged.facts.budget;
  // A later version may have more of them.
  const bool known = logged.facts.policy <= static_cast<uint8_t>(kKvPresetLast);
  session.policy = known ? std::string(KvPresetName(static_cast<KvPreset>(logged.facts.policy))) : "?";
  session.created_s = logged.facts.created_s;
  session.used_s = logged.used_s;
  return session;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryPlace>> DirectoryPlace::Open(const std::string& path,
                                                                     std::shared_ptr<const SessionKeys> keys) {
  // Wherever it is: what is there is to be had. A tool that made one would hide a path that was mistyped.
  if (access(absl::StrCat(path, "/FORMAT").c_str(), F_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("--session-dir: ", path, ": is no directory of sessions"));
  }
  absl::StatusOr<std::unique_ptr<SessionDirectory>> directory =
      SessionDirectory::Open(path, /*any_file_system=*/true, keys.get());
  if (!directory.ok()) return directory.status();
  std::unique_ptr<LogDirectory> files = (*directory)->TakeLog();
  std::unique_ptr<DirectoryPlace> place(new DirectoryPlace(path, *std::move(directory), std::move(keys)));
  place->kv_ = place->directory_->TakeKv();
  SessionLogOptions options;
  options.directory = place->directory_->id();
  options.keys = place->keys_;
  options.name_of = [&named = *place->directory_](std::string_view tenant, std::string_view id) {
    return named.NameOf(tenant, id);
  };
  absl::StatusOr<std::unique_ptr<SessionLog>> log = SessionLog::Open(std::move(files), std::move(options));
  if (!log.ok()) {
    return absl::Status(log.status().code(),
                        absl::StrCat("--session-dir: ", path, ": ", std::string(log.status().message())));
  }
  place->log_ = *std::move(log);
  return place;
}

absl::StatusOr<std::vector<PlacedSession>> DirectoryPlace::List(const std::string& tenant) {
  std::vector<PlacedSession> sessions;
  log_->ForEach([&](const SessionName&, const LoggedSession& logged) {
    if (tenant.empty() || logged.facts.tenant == tenant) sessions.push_back(PlacedOf(logged));
  });
  std::sort(sessions.begin(), sessions.end(), [](const PlacedSession& a, const PlacedSession& b) {
    return std::tie(a.tenant, a.id) < std::tie(b.tenant, b.id);
  });
  return sessions;
}

absl::StatusOr<SessionFile> DirectoryPlace::Read(const SessionName& name) {
  absl::StatusOr<LoggedPast> logged = log_->Read(name);
  if (!logged.ok()) return logged.status();
  const std::optional<ModelId> model = ModelOfPast(logged->bodies.back());
  std::optional<SessionPast> past;
  if (model.has_value()) past = DecodePast(logged->bodies, *model);
  if (!past.has_value()) return absl::DataLossError("what its records say does not fit together");
  SessionFile file;
  file.facts = std::move(logged->session.facts);
  file.model = *model;
  file.turn = logged->session.turn;
  file.used_s = logged->session.used_s;
  file.past = EncodePast(*past, nullptr, *model);
  return file;
}

absl::StatusOr<ExportedSession> DirectoryPlace::Export(const std::string& tenant, const std::string& id) {
  const absl::StatusOr<SessionFile> file = Read(directory_->NameOf(tenant, id));
  if (absl::IsNotFound(file.status())) return NoSession(tenant, id);
  if (!file.ok()) return file.status();
  return ExportedSession{WriteSessionFile(*file), path_};
}

bool DirectoryPlace::Write(LogRecord record) { return log_->Write({&record, 1}, MonotonicUs()).front(); }

absl::StatusOr<bool> DirectoryPlace::Import(const std::string& tenant, const std::string& bytes) {
  absl::StatusOr<SessionFile> file = ReadSessionFile(bytes);
  if (!file.ok()) return file.status();
  if (!IsSessionId(file->facts.id)) return absl::InvalidArgumentError("header: the session's id is none");
  const std::optional<SessionPast> past = DecodePast({&file->past, 1}, file->model);
  if (!past.has_value() || (past->tokens.empty() && past->notes.empty())) {
    return absl::InvalidArgumentError("past: what it says does not fit together");
  }
  LogRecord record;
  record.name = directory_->NameOf(tenant, file->facts.id);
  if (log_->Read(record.name).status().code() != absl::StatusCode::kNotFound) {
    return absl::AlreadyExistsError(absl::StrCat("tenant ", tenant, " has a session ", file->facts.id, " already"));
  }
  record.turn = file->turn;
  record.wall_s = std::min(file->used_s, NowS());
  record.facts = std::move(file->facts);
  record.facts.tenant = tenant;
  record.facts.tokens = static_cast<int32_t>(past->tokens.size());
  record.facts.budget = past->kv.budget.keep;
  record.facts.policy = static_cast<uint8_t>(past->spec.preset);
  record.body = std::move(file->past);
  if (!Write(std::move(record))) return absl::UnavailableError(absl::StrCat(path_, ": the disk does not take it"));
  return true;
}

absl::StatusOr<bool> DirectoryPlace::Forget(const std::string& tenant, const std::string& id, uint64_t turn) {
  std::optional<uint64_t> last;
  log_->ForEach([&](const SessionName&, const LoggedSession& logged) {
    if (logged.facts.tenant == tenant && logged.facts.id == id) last = logged.turn;
  });
  if (!last.has_value()) return NoSession(tenant, id);
  if (turn != 0 && turn != *last) return absl::OutOfRangeError(absl::StrCat("its last turn is ", *last));
  LogRecord record;
  record.type = RecordType::kForget;
  record.name = directory_->NameOf(tenant, id);
  record.turn = *last;
  record.wall_s = NowS();
  if (!Write(std::move(record))) return absl::UnavailableError(absl::StrCat(path_, ": the disk does not take it"));
  if (absl::Status status = RemoveKv(directory_->NameOf(tenant, id)); !status.ok()) return status;
  return true;
}

absl::Status DirectoryPlace::RemoveKv(const SessionName& name) {
  int error = 0;
  if (!kv_files_.has_value()) {
    std::vector<std::string> files;
    error = kv_->List(&files);
    kv_files_.emplace();
    for (const std::string& file : files) {
      if (!file.ends_with(".kv") && !file.ends_with(".kv.tmp")) continue;  // none of a server's
      // What was not finished begins with the name that it would have had.
      if (const std::optional<KvFileNameParts> parts = ParseKvFileName(file.substr(0, file.find(".kv") + 3))) {
        (*kv_files_)[parts->session].push_back(file);
      }
    }
  }
  const auto found = kv_files_->find(name);
  if (error == 0 && found == kv_files_->end()) return absl::OkStatus();
  for (size_t i = 0; error == 0 && i < found->second.size(); ++i) {
    error = kv_->Remove(found->second[i]);
    if (error == -ENOENT) error = 0;
  }
  if (error == 0) error = kv_->SyncNames();
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path_, ": the session is gone, and its KV may be left: ", std::strerror(-error)));
}

absl::Status DirectoryPlace::Purge(const std::string& tenant, const std::string& id) {
  while (log_->Clean(NowS(), /*purge=*/true)) {
  }
  if (!log_->HasForgotten(directory_->NameOf(tenant, id))) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      path_, ": the session is gone, and what it said is in the files still: they cannot be written anew"));
}

absl::Status DirectoryPlace::Close() {
  log_->Checkpoint();
  return absl::OkStatus();
}

}  // namespace hydrant
