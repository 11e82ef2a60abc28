// WeightStream keeps weights of which only a part is in memory: some pieces always, the others one after the other, in a ring that a
// thread fills from a weight image ahead of who multiplies. All memory is taken at the start.
//
// Which pieces stay is spread over the whole pass, so that there is something to be read all the time that is computed.
//
// Thread: engine; counters() any. The thread that reads is its own.
//
// Invariants
//  1. What Want and Part give was held to its checksum.
//  2. The piece that was wanted last is not written over, nor are those that were read ahead of it.
#ifndef HYDRANT_MODEL_WEIGHTS_WEIGHT_STREAM_H_
#define HYDRANT_MODEL_WEIGHTS_WEIGHT_STREAM_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/weight_pieces.h"
#include "model/files/weight_image.h"

namespace hydrant {

// What is to be streamed.
struct StreamPieces {
  std::vector<int64_t> bytes;  // [pieces], in the order of a pass
  std::vector<bool> in_pass;   // [pieces]; of the others only parts are asked for, and they are never in memory
  int64_t part_bytes_max = 0;  // of WeightPieces::Part
};

// Where pieces lie in memory. Pure.
struct StreamPlan {
  // INVALID_ARGUMENT, with the least that would do: `memory_bytes` does not hold what streaming needs.
  static absl::StatusOr<StreamPlan> Make(const StreamPieces& pieces, int64_t memory_bytes);

  // A part of the memory that a piece should not be above.
  static int64_t PieceBytesMax(int64_t memory_bytes);

  std::vector<int64_t> sizes;   // [pieces], as they lie in memory and on the disk: aligned
  std::vector<int64_t> places;  // [pieces], in the memory; those never in memory: where they are packed
  std::vector<int32_t> cycle;   // the pieces that are read in every pass, in their order
  std::vector<bool> resident;   // [pieces]
  int64_t part_place = 0;       // of what Part reads
  int64_t part_room = 0;        // bytes for it
  int64_t memory_bytes = 0;     // that are allocated
  int64_t checksum_bytes = 0;   // beside them
  int64_t pass_bytes = 0;       // that a pass reads

  int64_t bytes() const { return memory_bytes + checksum_bytes; }
};

class WeightStream final : public WeightPieces {
 public:
  struct Counters {
    uint64_t bytes_read = 0;
    int64_t waited_us = 0;   // of Want and Part
    uint64_t failures = 0;   // pieces that could not be had at the second try either
    int64_t pass_bytes = 0;  // StreamPlan's
  };

  // `device` has its memory where the host writes it, and outlives it. Throws std::bad_alloc.
  WeightStream(StreamPlan plan, Device& device);
  ~WeightStream() override;

  // The memory of a piece, before Start: for packing it.
  std::span<std::byte> Room(int32_t piece);

  // Reads what stays in memory and begins to read ahead. Errors: those of WeightImage::Read.
  absl::Status Start(std::unique_ptr<WeightImage> image);

  std::byte* address(int32_t piece) const override;
  void Want(int32_t piece) override;
  const std::byte* Part(int32_t piece, int64_t begin, int64_t bytes) override;

  Counters counters() const;
  const StreamPlan& plan() const { return plan_; }

 private:
  void ReadAhead();
  bool CanRead() const;
  void Seek(int64_t at);
  void Fail(std::unique_lock<std::mutex>& lock, const absl::Status& status);
  size_t InCycle(int64_t turn) const { return static_cast<size_t>(turn) % plan_.cycle.size(); }

  const StreamPlan plan_;
  const std::unique_ptr<DeviceBuffer> memory_;
  std::vector<int64_t> at_;  // [pieces], in plan_.cycle; -1: not there
  std::unique_ptr<WeightImage> image_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_. Turns count the pieces of all passes: turn t is of plan_.cycle[t % its size]. In memory are the turns
  // [first_, read_), and while `held_` the first one is who multiplies'.
  int64_t first_ = 0, read_ = 0;
  bool held_ = false;
  uint64_t seeks_ = 0;    // what was begun to be read before the last one is of no use
  absl::Status failure_;  // of turn read_: nothing is read until somebody wants it
  bool stop_ = false;
  Counters counters_;

  std::thread reader_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_WEIGHTS_WEIGHT_STREAM_H_
