// ParkedKv keeps the KV of sessions between their turns, as Device::ExportBlocks wrote it, in host memory. The scheduler decides
// what is parked and what goes (scheduler/parking.h); this holds the bytes, whatever they mean.
//
// A tier behind host memory belongs here: callers name a session and get bytes, and do not know where these were kept.
//
// Thread: engine.
//
// Invariants
//  1. A session has the bytes of its last Put, or nothing.
//  2. bytes() is the sum of what sessions have, and no more memory is held than that: it is what the scheduler's count of parked
//     blocks stands for.
#ifndef HYDRANT_MODEL_RUN_PARKED_KV_H_
#define HYDRANT_MODEL_RUN_PARKED_KV_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace hydrant {

class ParkedKv {
 public:
  // Memory for `bytes` bytes of the session's, in the place of what it had; the caller fills it before the next call. Throws
  // std::bad_alloc, and then the session has nothing.
  std::span<std::byte> Put(uint64_t session, size_t bytes);

  // What the session has. Valid until the next Put or Drop of the session. REQUIRES: has(session).
  std::span<const std::byte> Read(uint64_t session) const;

  // Frees the session's bytes, if it has any.
  void Drop(uint64_t session);

  bool has(uint64_t session) const { return sessions_.contains(session); }
  int32_t size() const { return static_cast<int32_t>(sessions_.size()); }
  size_t bytes() const { return bytes_; }

 private:
  absl::flat_hash_map<uint64_t, std::vector<std::byte>> sessions_;
  size_t bytes_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_PARKED_KV_H_
