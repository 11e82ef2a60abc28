#include "model/run/kv_memory.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace hydrant {

std::shared_ptr<std::byte[]> KvMemory::Allocate(size_t bytes) {
  Piece piece = bytes < kSpareLeast ? Piece() : Nearest(*spares_, bytes);
  // A turn's piece is a little longer than that of the turn before it; what the system has found for it stays.
  auto* const resized = static_cast<std::byte*>(std::realloc(piece.memory.get(), std::max<size_t>(1, bytes)));
  if (resized == nullptr) throw std::bad_alloc();
  static_cast<void>(piece.memory.release());
  // Where there is no memory for the count of owners, the piece comes back at once.
  return {resized, [spares = spares_, bytes](std::byte* memory) {
            Return(*spares, {std::unique_ptr<std::byte, Free>(memory), bytes});
          }};
}

// Takes the piece whose size is the nearest; an empty one: there is none.
KvMemory::Piece KvMemory::Nearest(Spares& spares, size_t bytes) {
  const std::lock_guard<std::mutex> lock(spares.mutex);
  const auto distance = [bytes](const Piece& piece) {
    return piece.memory == nullptr ? SIZE_MAX : std::max(piece.bytes, bytes) - std::min(piece.bytes, bytes);
  };
  Piece& nearest = *std::min_element(spares.pieces.begin(), spares.pieces.end(),
                                     [&](const Piece& a, const Piece& b) { return distance(a) < distance(b); });
  spares.bytes -= nearest.bytes;
  return std::exchange(nearest, Piece());
}

// What stays is where it was, and the rest is the system's again. A piece that cannot be made shorter goes.
void KvMemory::Shorten(Piece* piece, size_t bytes) {
  if (bytes >= piece->bytes) return;
  void* const shorter = std::realloc(piece->memory.get(), bytes);
  if (shorter == nullptr) {
    *piece = Piece();
    return;
  }
  static_cast<void>(piece->memory.release());
  piece->memory.reset(static_cast<std::byte*>(shorter));
  piece->bytes = bytes;
}

// Keeps of it what it may; the rest is freed, all of it without the lock.
void KvMemory::Return(Spares& spares, Piece piece) {
  if (piece.bytes < kSpareLeast) return;
  const std::lock_guard<std::mutex> lock(spares.mutex);
  if (spares.bytes_max - spares.bytes < kSpareLeast) return;
  Shorten(&piece, spares.bytes_max - spares.bytes);
  for (Piece& place : spares.pieces) {
    if (place.memory != nullptr) continue;
    spares.bytes += piece.bytes;
    place = std::move(piece);
    return;
  }
}

void KvMemory::SetSpareMost(size_t bytes) {
  std::array<Piece, kSparesMax> gone;  // freed without the lock
  const std::lock_guard<std::mutex> lock(spares_->mutex);
  spares_->bytes_max = bytes;
  for (size_t i = 0; i < kSparesMax; ++i) {
    Piece& piece = spares_->pieces[i];
    const size_t above = spares_->bytes - std::min(spares_->bytes, bytes);
    spares_->bytes -= piece.bytes;
    const size_t stays = piece.bytes - std::min(piece.bytes, above);
    if (stays < kSpareLeast) {
      gone[i] = std::exchange(piece, Piece());
    } else {
      Shorten(&piece, stays);
    }
    spares_->bytes += piece.bytes;
  }
}

size_t KvMemory::spare_bytes() const {
  const std::lock_guard<std::mutex> lock(spares_->mutex);
  return spares_->bytes;
}

}  // namespace hydrant
