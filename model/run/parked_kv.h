// ParkedKv keeps the KV of sessions between their turns, as Device::ExportBlocks wrote it, in host memory. The scheduler decides
// what is parked and what goes (scheduler/parking.h); this holds the bytes, whatever they mean.
//
// A tier below host memory belongs here: callers name a turn and get bytes, and do not know where these were kept.
//
// Thread: engine.
//
// Invariants
//  1. A turn has the bytes of its last Put, or nothing; other turns of its session have their own. They are written and
//     read piece by piece.
//  2. bytes() is the sum of what turns have, and no more memory is held than that: it is what the scheduler's count of parked
//     blocks stands for.
#ifndef HYDRANT_MODEL_RUN_PARKED_KV_H_
#define HYDRANT_MODEL_RUN_PARKED_KV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "kernels/step/session_ops.h"

namespace hydrant {

class ParkedKv {
 public:
  // Memory for `bytes` bytes of the turn's, in the place of what it had; the caller fills it before it reads it. Throws
  // std::bad_alloc, and then the turn has nothing.
  void Put(const TurnId& turn, size_t bytes);

  // The turn's bytes, to be written and to be read. Valid until the next Put or Drop. REQUIRES: has(turn).
  std::span<std::byte> Write(const TurnId& turn);
  std::span<const std::byte> Read(const TurnId& turn) const;

  // Frees the turn's bytes, if it has any.
  void Drop(const TurnId& turn);

  bool has(const TurnId& turn) const { return turns_.contains(turn); }
  int32_t size() const { return static_cast<int32_t>(turns_.size()); }
  size_t bytes() const { return bytes_; }

 private:
  struct Held {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };

  absl::flat_hash_map<TurnId, Held> turns_;
  size_t bytes_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_PARKED_KV_H_
