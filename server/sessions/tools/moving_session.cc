#include "server/sessions/tools/moving_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr uint64_t kPastBytesMax = uint64_t{1} << 30;

absl::Status SpoolError(int error) {
  return absl::UnavailableError(absl::StrCat("a temporary file for KV ($TMPDIR): ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<KvSpool>> KvSpool::Create() {
  const char* directory = std::getenv("TMPDIR");
  std::string path = absl::StrCat(directory == nullptr || *directory == '\0' ? "/tmp" : directory, "/hydrant.XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);  // 0600
  if (fd < 0) return SpoolError(errno);
  unlink(path.c_str());
  return std::make_shared<KvSpool>(fd, 0, 0);
}

KvSpool::~KvSpool() { close(fd_); }

absl::Status KvSpool::Append(std::string_view piece) {
  while (!piece.empty()) {
    const ssize_t written = pwrite(fd_, piece.data(), piece.size(), offset_ + bytes_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SpoolError(written < 0 ? errno : EIO);
    piece.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
  }
  return absl::OkStatus();
}

absl::Status KvSpool::Read(absl::FunctionRef<absl::Status(std::string_view)> take) const {
  std::string piece(static_cast<size_t>(std::min(kPieceBytes, bytes_)), '\0');
  for (int64_t at = 0; at < bytes_;) {
    const auto wanted = static_cast<size_t>(std::min(kPieceBytes, bytes_ - at));
    const ssize_t got = pread(fd_, piece.data(), wanted, offset_ + at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return SpoolError(got < 0 ? errno : EIO);
    at += got;
    if (absl::Status status = take(std::string_view(piece.data(), static_cast<size_t>(got))); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

MovingSessionReader::MovingSessionReader(uint64_t bytes)
    : reader_(bytes, kPastBytesMax,
              {[this](const SessionFile&, uint64_t) {
                 absl::StatusOr<std::shared_ptr<KvSpool>> spool = KvSpool::Create();
                 if (!spool.ok()) return spool.status();
                 spool_ = *std::move(spool);
                 return absl::OkStatus();
               },
               [this](std::string_view piece) {
                 crc_ = Crc32cOfBoth(crc_, Crc32c(piece), piece.size());
                 return spool_->Append(piece);
               }}) {}

absl::StatusOr<MovingSession> MovingSessionReader::Finish() {
  if (absl::Status status = reader_.Finish(); !status.ok()) return status;
  return MovingSession{std::move(reader_.file()), std::move(spool_), crc_};
}

}  // namespace hydrant
