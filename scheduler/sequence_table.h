// SequenceTable holds every unfinished request as a Sequence at an index that stays from its arrival to its end, and says which
// of them are admitted. The parts of the scheduler share it: each changes the fields that it is about.
//
// Life of an index: Take -> Admit -> Release, Sweep; of a request that is cancelled while it waits: Take -> Release.
//
// Thread: engine. Nothing allocates after construction. A sequence takes its memory when its request is added (admission.h) and
// gives back all of it when it is over, so idle indices hold none, whatever they have seen.
//
// Invariants
//  1. Of the indices [0, size()), each is free or has one request's id; no two have the same.
//  2. An admitted sequence has one of the state rows [0, sequences_max), alone, unless all of it is outside the pool
//     (swapping.h); one that waits has none.
//  3. running() has the admitted ones, each once, the one admitted longest ago first. From Release to Sweep it may also have free
//     indices.
#ifndef HYDRANT_SCHEDULER_SEQUENCE_TABLE_H_
#define HYDRANT_SCHEDULER_SEQUENCE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "scheduler/sequence.h"

namespace hydrant {

class SequenceTable {
 public:
  // For `sequences_max` that have a state row and `waiting_max` beyond those.
  SequenceTable(int32_t sequences_max, int32_t waiting_max);
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;

  Sequence& at(int32_t index) { return sequences_[static_cast<size_t>(index)]; }
  const Sequence& at(int32_t index) const { return sequences_[static_cast<size_t>(index)]; }
  int32_t size() const { return static_cast<int32_t>(sequences_.size()); }
  int32_t IndexOf(const Sequence& sequence) const { return static_cast<int32_t>(&sequence - sequences_.data()); }
  // -1 without one.
  int32_t Find(uint64_t id) const;

  bool full() const { return free_.empty(); }
  // A fresh sequence for the request `id`. REQUIRES: !full(), Find(id) < 0.
  int32_t Take(uint64_t id);

  int32_t free_rows() const { return static_cast<int32_t>(free_rows_.size()); }
  int32_t rows() const { return sequences_max_; }
  // Gives it a state row. REQUIRES: it waits, free_rows() > 0.
  void Admit(int32_t index);
  // An admitted sequence gives its row up, and takes one again. REQUIRES: it has one; it has none and free_rows() > 0.
  void GiveRow(int32_t index);
  void TakeRow(int32_t index);
  std::span<const int32_t> running() const { return running_; }
  // Those of running() that go on with a token each; 0 beside a prompt, which would wait for drafts.
  int32_t RowsForDrafts() const;

  // The sequence is over; its index and its row are free. REQUIRES: its blocks are given back.
  void Release(int32_t index);
  // Takes what was released out of running().
  void Sweep();

  // Recounts the invariants, and those of the admitted sequences. `waiting`: how many requests wait.
  absl::Status CheckIntegrity(int32_t waiting) const;

 private:
  absl::Status CheckSequence(int32_t index) const;

  const int32_t sequences_max_;
  std::vector<Sequence> sequences_;                  // [size()], reused
  std::vector<int32_t> free_;                        // stack of indices
  std::vector<int32_t> free_rows_;                   // stack
  std::vector<int32_t> running_;                     // [size()] at most
  absl::flat_hash_map<uint64_t, int32_t> index_of_;  // by request id; touched when one comes, is cancelled or ends
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SEQUENCE_TABLE_H_
