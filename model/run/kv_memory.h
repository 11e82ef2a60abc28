// KvMemory is where ParkedKv has its memory from. Large pieces that were given back are handed out again: the system has to find
// and clear the memory of a new one, which takes three times as long as what is then copied into it.
//
// Thread: any. A piece comes back on the thread of whoever had it last.
//
// Invariants
//  1. What is kept for the next one is at most what SetSpareMost allowed last, in kSparesMax pieces.
//  2. A piece has one owner, or is kept here. It may be in use for longer than this exists, and is freed then.
#ifndef HYDRANT_MODEL_RUN_KV_MEMORY_H_
#define HYDRANT_MODEL_RUN_KV_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace hydrant {

class KvMemory {
 public:
  // Smaller pieces are freed at once: glibc's allocator keeps those by itself (DEFAULT_MMAP_THRESHOLD_MAX), and asks the system
  // for larger ones, which it can lengthen and shorten without a copy.
  static constexpr size_t kSpareLeast = size_t{32} << 20;
  // One for each of the turns that end at about the same time.
  static constexpr size_t kSparesMax = 4;

  KvMemory() : spares_(std::make_shared<Spares>()) {}
  // What is in use until later is freed then.
  ~KvMemory() { SetSpareMost(0); }
  KvMemory(const KvMemory&) = delete;
  KvMemory& operator=(const KvMemory&) = delete;

  // Memory with anything in it. Throws std::bad_alloc.
  std::shared_ptr<std::byte[]> Allocate(size_t bytes);
  // From now on so many bytes may be kept; what is above is freed, of a piece its end.
  void SetSpareMost(size_t bytes);

  size_t spare_bytes() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Piece {
    std::unique_ptr<std::byte, Free> memory;
    size_t bytes = 0;
  };
  // All of it is guarded by `mutex`.
  struct Spares {
    mutable std::mutex mutex;
    std::array<Piece, kSparesMax> pieces;  // those without memory are free places
    size_t bytes = 0;                      // of all pieces
    size_t bytes_max = 0;
  };

  static Piece Nearest(Spares& spares, size_t bytes);
  static void Shorten(Piece* piece, size_t bytes);  // REQUIRES: bytes >= kSpareLeast
  static void Return(Spares& spares, Piece piece);

  const std::shared_ptr<Spares> spares_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_KV_MEMORY_H_
