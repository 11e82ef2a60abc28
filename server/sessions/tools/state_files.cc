#include "server/sessions/tools/state_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/sessions/journal/log_directory.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/transfer/session_file.h"

namespace hydrant {
namespace {

constexpr std::string_view kSuffix = ".session";

absl::Status FileError(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
}

// Names of tenants and ids of sessions have no other characters; nothing else becomes a part of a path.
bool IsFileName(std::string_view name) {
  return !name.starts_with('.') && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

// How two sessions of one id stand to each other.
enum class Kinship { kSame, kFirstGoesOn, kSecondGoesOn, kOthers };

Kinship KinshipOf(const SessionFile& first, const SessionFile& second) {
  if (first.turn == second.turn && first.past == second.past) return Kinship::kSame;
  if (first.model != second.model) return Kinship::kOthers;
  const std::optional<SessionPast> a = DecodePast({&first.past, 1}, first.model);
  const std::optional<SessionPast> b = DecodePast({&second.past, 1}, second.model);
  if (!a.has_value() || !b.has_value()) return Kinship::kOthers;
  // What a turn adds comes after the computed tokens of the one before; its last token may have been sent otherwise.
  const auto begins = [](const SessionPast& longer, const SessionPast& shorter) {
    const auto said = static_cast<std::ptrdiff_t>(shorter.said());
    return std::ssize(longer.tokens) >= said &&
           std::equal(shorter.tokens.begin(), shorter.tokens.begin() + said, longer.tokens.begin());
  };
  if (first.turn > second.turn && begins(*a, *b)) return Kinship::kFirstGoesOn;
  if (second.turn > first.turn && begins(*b, *a)) return Kinship::kSecondGoesOn;
  return Kinship::kOthers;
}

// A file that appears at once, or not at all.
int WriteWhole(LogDirectory& directory, const std::string& name, const MovingSession& state) {
  const std::string unfinished = name + ".tmp";
  directory.Remove(unfinished);  // of a process that did not come further
  const int fd = directory.Create(unfinished);
  if (fd < 0) return fd;
  int error = WriteAll(directory, fd, state.Head());
  const auto write = [&](std::string_view piece) {
    error = WriteAll(directory, fd, piece);
    return error == 0 ? absl::OkStatus() : absl::CancelledError();
  };
  if (error == 0 && state.kv != nullptr && !state.kv->Read(write).ok() && error == 0) error = -EIO;
  if (error == 0) error = directory.Sync(fd);
  directory.Close(fd);
  if (error == 0) error = directory.Rename(unfinished, name);
  if (error == 0) error = directory.SyncNames();
  if (error != 0) directory.Remove(unfinished);
  return error;
}

}  // namespace

absl::StatusOr<StateFiles> StateFiles::ToWrite(const std::string& path, bool several) {
  struct stat status {};
  const bool there = stat(path.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) return StateFiles(path, true);
  if (!several) return StateFiles(path, false);
  if (there) return absl::InvalidArgumentError(absl::StrCat("--output: ", path, " is not a directory"));
  if (mkdir(path.c_str(), 0700) != 0) return FileError(path, errno);
  return StateFiles(path, true);
}

absl::Status StateFiles::Write(const PlacedSession& session, const MovingSession& state) const {
  if (!IsFileName(session.tenant) || !IsFileName(session.id)) {
    return absl::InvalidArgumentError("a tenant or a session has a name that no file may have");
  }
  std::string directory = path_, name;
  if (is_directory_) {
    name = absl::StrCat(session.tenant, session.tenant.empty() ? "" : ".", session.id, std::string(kSuffix));
  } else {
    const size_t slash = path_.rfind('/');
    name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
    directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  }
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(directory, errno);
  const std::unique_ptr<LogDirectory> files = DiskDirectory(fd);
  const int error = WriteWhole(*files, name, state);
  return error < 0 ? FileError(absl::StrCat(directory, "/", name), -error) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> StateFiles::ToRead(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().string().ends_with(kSuffix)) files.push_back(entry.path().string());
    }
    if (error) return FileError(path, error.value());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

absl::StatusOr<MovingSession> StateFiles::Read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return FileError(path, errno);
  struct stat status {};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const KvSpool bytes(fd, 0, is_file ? status.st_size : 0);
  if (!is_file) return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  MovingSessionReader reader(static_cast<uint64_t>(status.st_size));
  absl::Status read = bytes.Read([&](std::string_view piece) { return reader.Take(piece); });
  if (!read.ok()) return read;
  return reader.Finish();
}

absl::StatusOr<ImportReport> ImportOnce(SessionPlace& place, const std::string& tenant_in, const MovingSession& state,
                                        bool replaces) {
  ImportReport report;
  const SessionFile& file = state.file;
  const std::string tenant = tenant_in.empty() ? file.facts.tenant : tenant_in;
  // A second time where the one that was there has given way, or has gone by itself.
  for (int attempt = 0;; ++attempt) {
    const absl::StatusOr<bool> durable = place.ImportState(tenant, state, &report.kv);
    if (durable.ok()) {
      report.outcome = *durable ? ImportOutcome::kImported : ImportOutcome::kNotDurable;
      return report;
    }
    if (!absl::IsAlreadyExists(durable.status()) || attempt == 2) return durable.status();
    const absl::StatusOr<ExportedSession> there = place.Export(tenant, file.facts.id);
    if (absl::IsNotFound(there.status())) continue;
    if (!there.ok()) return there.status();
    const absl::StatusOr<SessionFile> other = ReadSessionFile(there->file);
    if (!other.ok()) return other.status();
    const Kinship kinship = KinshipOf(file, *other);
    if (kinship == Kinship::kSame || kinship == Kinship::kSecondGoesOn) {
      const absl::StatusOr<bool> is_durable = place.IsDurable(tenant, file.facts.id);
      if (!is_durable.ok()) return is_durable.status();
      report.outcome = *is_durable ? ImportOutcome::kPresent : ImportOutcome::kPresentNotDurable;
      report.holder = there->holder;
      return report;
    }
    if (kinship == Kinship::kOthers || !replaces) return durable.status();
    const absl::StatusOr<bool> gone = place.Forget(tenant, file.facts.id, other->turn);
    if (!gone.ok() && !absl::IsNotFound(gone.status())) return gone.status();
  }
}

}  // namespace hydrant
