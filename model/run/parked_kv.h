// ParkedKv keeps the KV of sessions between their turns, as Device::ExportBlocks wrote it, in host memory. The scheduler decides
// what is parked and what goes (scheduler/parking.h); this holds the bytes, whatever they mean.
//
// A tier below host memory is written from what Share gives out, and what was read back from it comes in by Adopt: whoever has a turn's
// bytes in hand keeps them, whatever is dropped here meanwhile.
//
// Thread: engine.
//
// Invariants
//  1. A turn has the bytes of its last Put, or nothing; other turns of its session have their own. They are written and
//     read piece by piece.
//  2. bytes() is the sum of what turns have: it is what the scheduler's count of parked blocks stands for. With what is kept for the
//     next turns (KvMemory) it never exceeds the most that it has been, so no more memory is held than the scheduler allows,
//     but for what others share in. Without a turn nothing is kept.
//  3. Nobody writes a turn's bytes once they are whole; only then are they shared.
#ifndef HYDRANT_MODEL_RUN_PARKED_KV_H_
#define HYDRANT_MODEL_RUN_PARKED_KV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "kernels/step/kv_bytes.h"
#include "kernels/step/session_ops.h"
#include "model/run/kv_memory.h"

namespace hydrant {

class ParkedKv {
 public:
  // Memory for `bytes` bytes of the turn's, in the place of what it had; the caller fills it before it reads it. `computed` and `live`
  // are what KvBytes says of it. Throws std::bad_alloc, and then the turn has nothing.
  void Put(const TurnId& turn, size_t bytes, int32_t computed, int32_t live);
  // All of it is written.
  void SetWhole(const TurnId& turn);
  // The turn has these bytes, which are whole, in the place of what it had. Throws as Put does.
  void Adopt(const TurnId& turn, const KvBytes& kv);
  // Empty: the turn has none, or they are not whole yet.
  KvBytes Share(const TurnId& turn) const;

  // The turn's bytes, to be written and to be read. Valid until its next Put, Adopt or Drop. REQUIRES: has(turn); to be written, not
  // whole.
  std::span<std::byte> Write(const TurnId& turn);
  std::span<const std::byte> Read(const TurnId& turn) const;

  // Frees the turn's bytes, if it has any.
  void Drop(const TurnId& turn);

  bool has(const TurnId& turn) const { return turns_.contains(turn); }
  int32_t size() const { return static_cast<int32_t>(turns_.size()); }
  size_t bytes() const { return bytes_; }
  // Kept for the next turns.
  size_t spare_bytes() const { return memory_.spare_bytes(); }

 private:
  struct Held {
    KvBytes kv;
    std::byte* to = nullptr;  // the same bytes; null once they are whole
  };

  void SetBytes(size_t bytes);

  KvMemory memory_;
  absl::flat_hash_map<TurnId, Held> turns_;
  size_t bytes_ = 0;
  size_t bytes_most_ = 0;  // that bytes_ has been
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_PARKED_KV_H_
