#include "model/files/weight_image.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr char kMagic[8] = {'H', 'Y', 'D', 'R', 'I', 'M', 'G', '\n'};
// Goes up with every change of this layout or of what lies in a piece.
constexpr uint32_t kVersion = 1;
// One call of the system reads no more: the checksums of one part are computed while its bytes are in the processor's caches, or on
// their way there.
constexpr int64_t kReadBytes = 4 << 20;
// So much written data may wait for the disk.
constexpr int64_t kFlushBytes = 64 << 20;

int64_t ChunksOf(int64_t piece_bytes) { return (ImageAligned(piece_bytes) + kImageChunkBytes - 1) / kImageChunkBytes; }

std::string SystemError(const std::string& path, std::string_view what) {
  const int error = errno;
  return StrCat(path, ": ", what, ": ", std::strerror(error));
}

template <typename T>
void Append(T value, std::string* out) {
  static_assert(std::endian::native == std::endian::little);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// All of the header that the layout says: up to the checksums.
std::string HeaderOf(const ImageLayout& layout) {
  std::string header(kMagic, sizeof(kMagic));
  Append(kVersion, &header);
  Append(static_cast<uint32_t>(kImageChunkBytes), &header);
  Append(static_cast<uint64_t>(layout.header_bytes()), &header);
  Append(static_cast<uint64_t>(layout.pieces()), &header);
  Append(static_cast<uint64_t>(layout.identity.size()), &header);
  header += layout.identity;
  for (const int64_t bytes : layout.piece_bytes) Append(static_cast<uint64_t>(bytes), &header);
  return header;
}

// The checksum of any text: it is filled up with zeros. Its length is part of what is compared besides.
uint64_t HeaderChecksum(std::string text) {
  text.resize((text.size() + 31) / 32 * 32);
  return ImageChecksum(std::as_bytes(std::span(text)));
}

absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) {
    const std::string error = SystemError(directory, "cannot be written to the disk");
    if (fd >= 0) close(fd);
    return absl::UnavailableError(error);
  }
  close(fd);
  return absl::OkStatus();
}

// Whether `fd` is what `path` names: another process may have given the file another name.
bool IsNamed(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

uint64_t ImageChecksum(std::span<const std::byte> bytes) {
  assert(bytes.size() % 32 == 0);
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd: a product with it loses nothing
  // Nor does this, which lets the upper bits count among the lower.
  const auto mix = [](uint64_t sum) { return sum ^ (sum >> 32); };
  // Four sums at once, so that a product need not wait for the one before.
  uint64_t lanes[4] = {1, 2, 3, 4};
  for (size_t at = 0; at < bytes.size(); at += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + at, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = mix((lanes[i] ^ words[i]) * kFactor);
  }
  uint64_t sum = bytes.size();
  for (const uint64_t lane : lanes) sum = mix((sum ^ lane) * kFactor);
  return sum;
}

int64_t ImageLayout::chunks() const {
  int64_t chunks = 0;
  for (const int64_t bytes : piece_bytes) chunks += ChunksOf(bytes);
  return chunks;
}

int64_t ImageLayout::header_bytes() const {
  constexpr int64_t kFixedBytes = 8 + 2 * 4 + 3 * 8;
  return ImageAligned(kFixedBytes + static_cast<int64_t>(identity.size()) + 8 * (pieces() + chunks() + 1));
}

int64_t ImageLayout::file_bytes() const {
  int64_t bytes = header_bytes();
  for (const int64_t piece : piece_bytes) bytes += ImageAligned(piece);
  return bytes;
}

absl::StatusOr<std::unique_ptr<WeightImageWriter>> WeightImageWriter::Create(const std::string& path,
                                                                             ImageLayout layout) {
  assert(!layout.piece_bytes.empty());
  const std::string partial = path + ".partial";
  for (;;) {
    const int fd = open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return absl::UnavailableError(SystemError(partial, "cannot be written"));
    // The lock goes with the process, and what an earlier one left unfinished is written over.
    if (flock(fd, LOCK_EX) != 0) {
      const std::string error = SystemError(partial, "cannot be locked");
      close(fd);
      return absl::UnavailableError(error);
    }
    if (!IsNamed(fd, partial)) {
      close(fd);
      continue;
    }
    auto writer = std::unique_ptr<WeightImageWriter>(new WeightImageWriter(path, fd, std::move(layout)));
    if (ftruncate(fd, 0) != 0) return absl::UnavailableError(SystemError(partial, "cannot be written"));
    // To try it might fill the disk, if only for a moment.
    const int64_t bytes = writer->layout_.file_bytes();
    struct statvfs disk;
    const bool lacks = fstatvfs(fd, &disk) == 0 && static_cast<uint64_t>(bytes) / disk.f_frsize > disk.f_bavail;
    const int no_room = lacks ? ENOSPC : posix_fallocate(fd, 0, bytes);
    if (no_room != 0) {
      errno = no_room;
      return absl::ResourceExhaustedError(
          SystemError(partial, StrCat("an image of ", bytes, " bytes cannot be written")));
    }
    return writer;
  }
}

WeightImageWriter::WeightImageWriter(std::string path, int fd, ImageLayout layout)
    : path_(std::move(path)), layout_(std::move(layout)), fd_(fd), offset_(layout_.header_bytes()) {}

WeightImageWriter::~WeightImageWriter() {
  if (fd_ < 0) return;
  unlink((path_ + ".partial").c_str());
  close(fd_);
}

absl::Status WeightImageWriter::Put(std::span<const std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::UnavailableError(SystemError(path_ + ".partial", "cannot be written"));
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status WeightImageWriter::Write(std::span<const std::byte> piece) {
  assert(piece_ < layout_.pieces());
  assert(static_cast<int64_t>(piece.size()) == ImageAligned(layout_.piece_bytes[static_cast<size_t>(piece_)]));
  ++piece_;
  for (size_t at = 0; at < piece.size(); at += kImageChunkBytes) {
    checksums_.push_back(ImageChecksum(piece.subspan(at, std::min<size_t>(kImageChunkBytes, piece.size() - at))));
  }
  if (absl::Status status = Put(piece, offset_); !status.ok()) return status;
  offset_ += static_cast<int64_t>(piece.size());
  if (offset_ - flushed_ < kFlushBytes && piece_ < layout_.pieces()) return absl::OkStatus();
  if (fdatasync(fd_) != 0) return absl::UnavailableError(SystemError(path_ + ".partial", "cannot be written"));
  (void)posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  flushed_ = offset_;
  return absl::OkStatus();
}

absl::Status WeightImageWriter::Finish() {
  assert(piece_ == layout_.pieces() && offset_ == layout_.file_bytes());
  std::string header = HeaderOf(layout_);
  for (const uint64_t checksum : checksums_) Append(checksum, &header);
  Append(HeaderChecksum(header), &header);
  header.resize(static_cast<size_t>(layout_.header_bytes()));
  if (absl::Status status = Put(std::as_bytes(std::span(header)), 0); !status.ok()) return status;
  const std::string partial = path_ + ".partial";
  if (fsync(fd_) != 0) return absl::UnavailableError(SystemError(partial, "cannot be written"));
  if (rename(partial.c_str(), path_.c_str()) != 0) {
    return absl::UnavailableError(SystemError(path_, "cannot be written"));
  }
  close(std::exchange(fd_, -1));
  return SyncDirectoryOf(path_);
}

absl::StatusOr<std::unique_ptr<WeightImage>> WeightImage::Open(const std::string& path, ImageLayout layout) {
  const auto header_bytes = static_cast<size_t>(layout.header_bytes());
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kImageAlignment, header_bytes)), &std::free);
  if (memory == nullptr) throw std::bad_alloc();
  const std::span<std::byte> header(memory.get(), header_bytes);
  for (const bool direct : {true, false}) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
    if (fd < 0 && errno == ENOENT) return absl::NotFoundError(StrCat(path, ": there is no such file"));
    if (fd < 0 && direct && errno == EINVAL) continue;
    if (fd < 0) return absl::UnavailableError(SystemError(path, "cannot be read"));
    auto image = std::unique_ptr<WeightImage>(new WeightImage(path, fd, direct, layout, {}));
    struct stat facts;
    if (fstat(fd, &facts) != 0) return absl::UnavailableError(SystemError(path, "cannot be read"));
    if (facts.st_size != layout.file_bytes()) {
      return absl::FailedPreconditionError(
          StrCat(path, ": has ", facts.st_size, " bytes, the image of this model ", layout.file_bytes()));
    }
    // Some file systems refuse direct reading only when it is tried.
    if (absl::Status status = image->ReadAt(0, header); !status.ok()) {
      if (direct) continue;
      return status;
    }
    const std::string expected = HeaderOf(layout);
    if (std::memcmp(header.data(), expected.data(), expected.size()) != 0) {
      return absl::FailedPreconditionError(StrCat(path, ": is the image of another model, device or version"));
    }
    const auto chunks = static_cast<size_t>(layout.chunks());
    uint64_t checksum = 0;
    const size_t summed = expected.size() + 8 * chunks;
    std::memcpy(&checksum, header.data() + summed, 8);
    if (checksum != HeaderChecksum(std::string(reinterpret_cast<const char*>(header.data()), summed))) {
      return absl::FailedPreconditionError(StrCat(path, ": the checksum of its header does not match"));
    }
    image->checksums_.resize(chunks);
    std::memcpy(image->checksums_.data(), header.data() + expected.size(), 8 * chunks);
    return image;
  }
  return absl::UnavailableError(StrCat(path, ": cannot be read"));
}

WeightImage::WeightImage(std::string path, int fd, bool direct, ImageLayout layout, std::vector<uint64_t> checksums)
    : path_(std::move(path)), fd_(fd), direct_(direct), layout_(std::move(layout)), checksums_(std::move(checksums)) {
  int64_t offset = layout_.header_bytes(), chunk = 0;
  for (const int64_t bytes : layout_.piece_bytes) {
    offsets_.push_back(offset);
    first_chunks_.push_back(chunk);
    offset += ImageAligned(bytes);
    chunk += ChunksOf(bytes);
  }
}

WeightImage::~WeightImage() { close(fd_); }

absl::Status WeightImage::ReadAt(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(SystemError(path_, StrCat("cannot be read at byte ", offset)));
    if (got == 0) return absl::DataLossError(StrCat(path_, ": ends at byte ", offset, ", it was longer"));
    if (!direct_) (void)posix_fadvise(fd_, offset, got, POSIX_FADV_DONTNEED);
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

absl::Status WeightImage::Read(int64_t piece, std::span<std::byte> out) const {
  return ReadChunks(piece, 0, ImageAligned(layout_.piece_bytes[static_cast<size_t>(piece)]), out);
}

absl::Status WeightImage::ReadChunks(int64_t piece, int64_t begin, int64_t end, std::span<std::byte> out) const {
  const auto index = static_cast<size_t>(piece);
  const int64_t piece_end = ImageAligned(layout_.piece_bytes[index]);
  assert(begin >= 0 && begin < end && end <= piece_end);
  begin = begin / kImageChunkBytes * kImageChunkBytes;
  end = std::min((end + kImageChunkBytes - 1) / kImageChunkBytes * kImageChunkBytes, piece_end);
  assert(static_cast<int64_t>(out.size()) >= end - begin);
  for (int64_t at = begin; at < end; at += kReadBytes) {
    const std::span<std::byte> part =
        out.subspan(static_cast<size_t>(at - begin), static_cast<size_t>(std::min(kReadBytes, end - at)));
    if (absl::Status status = ReadAt(offsets_[index] + at, part); !status.ok()) return status;
    for (size_t in = 0; in < part.size(); in += kImageChunkBytes) {
      const int64_t chunk = (at + static_cast<int64_t>(in)) / kImageChunkBytes;
      const std::span<const std::byte> bytes = part.subspan(in, std::min<size_t>(kImageChunkBytes, part.size() - in));
      if (ImageChecksum(bytes) == checksums_[static_cast<size_t>(first_chunks_[index] + chunk)]) continue;
      return absl::DataLossError(StrCat(path_, ": the checksum of chunk ", chunk, " of piece ", piece,
                                        " does not match what was written; delete the file to have it written anew"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hydrant
