// The part of DirectoryPlace that reads everything there is.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/journal/log_index.h"
#include "server/sessions/tools/directory_place.h"

namespace hydrant {
namespace {

std::string At(const std::string& file, size_t offset) { return absl::StrCat(file, " at byte ", offset); }

// All of a file; nullopt, with the reason in *why.
std::optional<std::string> ReadFile(LogDirectory& files, const std::string& name, std::string* why) {
  const int fd = files.Open(name);
  if (fd < 0) {
    *why = fd == -EPERM || fd == -ELOOP ? "is not a file that its owner alone may read, by this name alone"
                                        : std::strerror(-fd);
    return std::nullopt;
  }
  const int64_t size = files.Size(fd);
  std::string bytes(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
  const int64_t got = size < 0 ? size : ReadAll(files, fd, bytes.data(), bytes.size(), 0);
  files.Close(fd);
  if (got >= 0) {
    bytes.resize(static_cast<size_t>(got));
    return bytes;
  }
  *why = std::strerror(static_cast<int>(-got));
  return std::nullopt;
}

}  // namespace

// A process that is killed leaves less than a whole record at a segment's end, and a loss of power perhaps zeros. Either was never
// said to be durable, so it is no damage. A record that is all there and is not what was written is.
void DirectoryPlace::VerifyRecords(std::string_view bytes, uint32_t number, VerifyReport* report) {
  const std::string file = LogFileName(number, kSegmentSuffix);
  size_t next = std::min(kSegmentHeaderBytes, bytes.size());  // where a record has to begin
  bool in_damage = false;                                     // what follows up to the next record has been reported
  const auto lost_until = [&](size_t end) {
    if (end > next && !in_damage) report->Add(At(file, next), absl::StrCat(end - next, " bytes are no record"));
  };
  std::optional<std::pair<size_t, std::string>>
      last;  // a record that is not whole, and whether it is the end is not known yet
  ScanRecords(bytes, number, [&](const ScannedRecord& record) {
    if (last.has_value()) report->Add(At(file, last->first), last->second);
    last.reset();
    lost_until(record.place.offset);
    ++report->records;
    next = record.place.offset + kRecordHeaderBytes + record.header.payload_bytes;
    in_damage = !record.whole;
    if (!record.whole) {
      last.emplace(record.place.offset, "a record is not what was written");
      return;
    }
    const std::optional<std::string> opened = OpenPayload(keys_.get(), record.header, record.payload);
    if (!opened.has_value()) {
      report->Add(At(file, record.place.offset), "these keys do not open a record");
      return;
    }
    if (record.header.type == RecordType::kForget) return;
    std::string_view payload = *opened;
    const std::optional<SessionFacts> facts = TakeFacts(&payload);
    if (!facts.has_value() || directory_->NameOf(facts->tenant, facts->id) != record.header.name) {
      report->Add(At(file, record.place.offset), "a record is another session's");
    }
  });
  if (last.has_value() && next > bytes.size()) {
    report->unfinished_bytes += static_cast<int64_t>(bytes.size() - last->first);
    return;
  }
  if (last.has_value()) report->Add(At(file, last->first), last->second);
  next = std::min(next, bytes.size());
  const std::string_view rest = bytes.substr(next);
  const bool zeros = std::all_of(rest.begin(), rest.end(), [](char byte) { return byte == 0; });
  if (rest.size() < kRecordHeaderBytes || zeros) {
    report->unfinished_bytes += static_cast<int64_t>(rest.size());
  } else {
    in_damage = false;
    lost_until(bytes.size());
  }
}

void DirectoryPlace::VerifySegment(LogDirectory& files, uint32_t number, VerifyReport* report) {
  const std::string name = LogFileName(number, kSegmentSuffix);
  std::string why;
  const std::optional<std::string> bytes = ReadFile(files, name, &why);
  if (!bytes.has_value()) return report->Add(name, why);
  report->bytes += std::ssize(*bytes);
  const std::optional<SegmentHeader> header = ParseSegmentHeader(*bytes);
  if (!header.has_value() && bytes->size() >= kSegmentHeaderBytes) {
    report->Add(At(name, 0), "the segment's header is not what was written");
  } else if (header.has_value() && (header->number != number || header->directory != directory_->id())) {
    return report->Add(At(name, 0), "the segment is another directory's, or has another one's name");
  }
  VerifyRecords(*bytes, number, report);
}

absl::StatusOr<VerifyReport> DirectoryPlace::Verify(const std::string& tenant) {
  if (!tenant.empty()) return absl::InvalidArgumentError("--tenant: a directory is verified as a whole");
  const int fd = open(absl::StrCat(path_, "/log").c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path_, "/log: ", std::strerror(errno)));
  const std::unique_ptr<LogDirectory> files = DiskDirectory(fd);
  std::vector<std::string> names;
  if (const int error = files->List(&names); error < 0) {
    return absl::UnavailableError(absl::StrCat(path_, "/log: ", std::strerror(-error)));
  }
  std::sort(names.begin(), names.end());
  VerifyReport report;
  for (const std::string& name : names) {
    if (const auto number = LogFileNumber(name, kSegmentSuffix)) VerifySegment(*files, *number, &report);
    const auto number = LogFileNumber(name, kCheckpointSuffix);
    if (!number.has_value()) continue;
    std::string why = "the checkpoint is not what was written; a start reads the segments instead";
    std::optional<std::string> bytes = ReadFile(*files, name, &why);
    if (bytes.has_value()) bytes = OpenIndex(keys_.get(), *number, directory_->id(), *std::move(bytes));
    if (bytes.has_value() && LogIndex::FromCheckpoint(*bytes, *number, directory_->id()).has_value()) continue;
    report.Add(name, why);
  }
  const absl::StatusOr<std::vector<PlacedSession>> sessions = List("");
  if (!sessions.ok()) return sessions.status();
  for (const PlacedSession& session : *sessions) {
    ++report.sessions;
    const absl::StatusOr<SessionFile> file = Read(directory_->NameOf(session.tenant, session.id));
    if (file.ok()) continue;
    report.Add(absl::StrCat("session ", session.tenant, "/", session.id), std::string(file.status().message()));
  }
  return report;
}

}  // namespace hydrant
