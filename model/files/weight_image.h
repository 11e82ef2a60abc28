// A weight image is a file of a model's weights as a device packs them, cut into pieces, for memory that does not hold them all: it is
// written once and read again and again, past the system's cache of files.
//
// Layout, whole numbers little-endian: "HYDRIMG\n", version, bytes of a chunk (4 each), bytes of the header, pieces, bytes of the
// identity (8 each), the identity, the bytes of every piece (8 each), a checksum of every chunk of every piece (8 each), a checksum of
// all that (8); zeros up to a multiple of kImageAlignment; the pieces, each filled up with zeros to such a multiple.
//
// Thread: any; a WeightImage is read by several threads at once.
//
// Invariants
//  1. A file has the image's name only once it is whole and on the disk.
//  2. What Read gives was written as it is: every chunk is held to its checksum, at every reading.
#ifndef HYDRANT_MODEL_FILES_WEIGHT_IMAGE_H_
#define HYDRANT_MODEL_FILES_WEIGHT_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant {

// Offsets, lengths and addresses of what bypasses the cache of files are multiples of it, for every disk we know.
inline constexpr int64_t kImageAlignment = 4096;
// What has a checksum of its own: as little as a row of an embedding table is worth reading.
inline constexpr int64_t kImageChunkBytes = 16 << 10;

constexpr int64_t ImageAligned(int64_t bytes) {
  return (bytes + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
}

// The checksum of a chunk, or of what is left of one: a multiple of 32 bytes. A change within one word of eight bytes always changes it.
uint64_t ImageChecksum(std::span<const std::byte> bytes);

struct ImageLayout {
  std::string identity;              // of what the pieces are made, and for whom; at most 1 MiB
  std::vector<int64_t> piece_bytes;  // [pieces], above 0

  int64_t pieces() const { return static_cast<int64_t>(piece_bytes.size()); }
  int64_t chunks() const;  // of all pieces
  int64_t header_bytes() const;
  int64_t file_bytes() const;
};

// Writes beside the image and gives it its name at the end. Without Finish nothing is left.
class WeightImageWriter {
 public:
  // Waits while another process writes the same image; whoever waited looks for the image again before it writes. Errors name the
  // file: no such directory, no permission, no room on the disk.
  static absl::StatusOr<std::unique_ptr<WeightImageWriter>> Create(const std::string& path, ImageLayout layout);
  ~WeightImageWriter();

  // The pieces in their order, each with ImageAligned bytes, zeros behind its own.
  absl::Status Write(std::span<const std::byte> piece);
  // REQUIRES: all pieces were written.
  absl::Status Finish();

 private:
  WeightImageWriter(std::string path, int fd, ImageLayout layout);
  absl::Status Put(std::span<const std::byte> bytes, int64_t offset);

  const std::string path_;
  const ImageLayout layout_;
  int fd_;
  int64_t piece_ = 0;
  int64_t offset_;       // of the next piece
  int64_t flushed_ = 0;  // up to there it is on the disk and out of the cache of files
  std::vector<uint64_t> checksums_;
};

class WeightImage {
 public:
  // NOT_FOUND: there is no such file. FAILED_PRECONDITION: it is not the whole image of this layout, but torn, another version's or
  // another model's: to be written anew. Other errors: it cannot be read.
  static absl::StatusOr<std::unique_ptr<WeightImage>> Open(const std::string& path, ImageLayout layout);
  ~WeightImage();
  WeightImage(const WeightImage&) = delete;
  WeightImage& operator=(const WeightImage&) = delete;

  // The whole piece -> out [ImageAligned(bytes)]. DATA_LOSS: it is not what was written, or the file has no such bytes any more;
  // UNAVAILABLE: it cannot be read now. REQUIRES: `out` is aligned to kImageAlignment.
  absl::Status Read(int64_t piece, std::span<std::byte> out) const;

  // The chunks that bytes [begin, end) of a piece lie in -> out, from chunk begin / kImageChunkBytes on. `out` has room for them, is
  // aligned, and may be a multiple of kImageAlignment that the piece ends in. Errors as Read.
  absl::Status ReadChunks(int64_t piece, int64_t begin, int64_t end, std::span<std::byte> out) const;

  const ImageLayout& layout() const { return layout_; }
  // False where the file system knows no direct reading: then what was read is dropped from the cache of files.
  bool direct() const { return direct_; }
  // Bytes that the object itself takes: checksums.
  int64_t bytes() const { return static_cast<int64_t>(checksums_.size() * sizeof(uint64_t)); }

 private:
  WeightImage(std::string path, int fd, bool direct, ImageLayout layout, std::vector<uint64_t> checksums);
  absl::Status ReadAt(int64_t offset, std::span<std::byte> out) const;

  const std::string path_;
  const int fd_;
  const bool direct_;
  const ImageLayout layout_;
  std::vector<int64_t> offsets_;       // [pieces]
  std::vector<int64_t> first_chunks_;  // [pieces]
  std::vector<uint64_t> checksums_;    // [chunks]
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_WEIGHT_IMAGE_H_
