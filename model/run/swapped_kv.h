// SwappedKv keeps sequences that were swapped out: what Device::ExportBlocks wrote of their blocks and Device::ExportState of
// their state rows, in host memory. What is in it is pinned: a sequence in progress exists nowhere else, so nothing goes but with
// its sequence. The scheduler decides who is swapped and counts the blocks; this holds the bytes, whatever they mean.
//
// The room is one piece of memory with places for blocks. The system gives it bit by bit, as it is written for the first time,
// and it stays: to copy into memory that has yet to be found takes three times as long, so the lowest places are taken first.
//
// A tier below host memory belongs here, as in ParkedKv: callers name a sequence and get bytes.
//
// Thread: engine.
//
// Invariants
//  1. A place belongs to one sequence or is free; blocks() is the number of those that are not free.
//  2. Drop takes no memory and does not fail.
#ifndef HYDRANT_MODEL_RUN_SWAPPED_KV_H_
#define HYDRANT_MODEL_RUN_SWAPPED_KV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kernels/step/session_ops.h"

namespace hydrant {

class SwappedKv {
 public:
  // Room for `blocks_max` blocks of `block_bytes` each, and for state rows of `state_bytes` beside them. Throws
  // std::bad_alloc if the system would never give so much.
  SwappedKv(int64_t blocks_max, size_t block_bytes, size_t state_bytes);

  // Room for a sequence's state row and `blocks` blocks; the caller fills it before it reads it. Throws std::bad_alloc if
  // there is not so much left, and then the sequence has nothing. REQUIRES: !has(id).
  void Put(uint64_t id, int32_t blocks);

  // The sequence's state row, to be written and to be read. REQUIRES: has(id).
  std::span<std::byte> State(uint64_t id);
  // Calls `each` for the sequence's blocks in `slice`, from the first to the last, as many at once as lie side by side at `bytes`.
  // REQUIRES: has(id); the slice is within its blocks.
  void ForBlocks(uint64_t id, BlockSlice slice, absl::FunctionRef<void(BlockSlice part, std::byte* bytes)> each);

  // Frees what the sequence has, if it has anything.
  void Drop(uint64_t id);

  bool has(uint64_t id) const { return sequences_.contains(id); }
  int32_t size() const { return static_cast<int32_t>(sequences_.size()); }
  int64_t blocks() const { return blocks_; }
  // What these blocks and the state rows take.
  size_t bytes() const { return static_cast<size_t>(blocks_) * block_bytes_ + sequences_.size() * state_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Held {
    std::unique_ptr<std::byte[]> state;
    std::vector<size_t> places;  // ascending
  };
  const Held& At(uint64_t id) const;

  const size_t block_bytes_;
  const size_t state_bytes_;
  std::unique_ptr<std::byte, Free> room_;  // [taken_.size()][block_bytes_]
  std::vector<bool> taken_;                // by place
  absl::flat_hash_map<uint64_t, Held> sequences_;
  int64_t blocks_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_SWAPPED_KV_H_
