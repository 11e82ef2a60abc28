#include "kernels/parallel/shared_memory_collective.h"

#include <cassert>
#include <cstring>

namespace hydrant {

SharedMemoryCollective::SharedMemoryCollective(int ranks) : ranks_(static_cast<size_t>(ranks)) { assert(ranks >= 1); }

void SharedMemoryCollective::Reserve(size_t part_bytes) {
  for (Rank& rank : ranks_) {
    for (std::unique_ptr<CpuBuffer>& part : rank.parts) part = std::make_unique<CpuBuffer>(part_bytes);
  }
}

int64_t SharedMemoryCollective::ScratchBytes(size_t part_bytes) const {
  return static_cast<int64_t>(2 * ranks_.size() * part_bytes);
}

void SharedMemoryCollective::Begin() {
  // Relaxed: who starts the ranks makes it visible to them.
  arrived_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  for (Rank& rank : ranks_) rank.turn = 0;
}

void SharedMemoryCollective::Fail() {
  // Relaxed: Advance releases it to those who wait, and to those whose count is taken after it.
  failed_.store(true, std::memory_order_relaxed);
  passed_.Advance();
}

void* SharedMemoryCollective::Part(int rank, [[maybe_unused]] const Columns& columns) {
  const Rank& own = ranks_[static_cast<size_t>(rank)];
  assert(columns.rows * columns.bytes() <= own.parts[own.turn]->bytes());
  return own.parts[own.turn]->data();
}

void SharedMemoryCollective::TakePart(int rank, const Columns& columns, const void* whole) {
  auto* to = static_cast<std::byte*>(Part(rank, columns));
  const auto* from = static_cast<const std::byte*>(whole) + columns.begin;
  for (size_t row = 0; row < columns.rows; ++row) {
    std::memcpy(to + row * columns.bytes(), from + row * columns.row_bytes, columns.bytes());
  }
}

void SharedMemoryCollective::Arrive() {
  // The count first: whoever fails after this wakes us, and of whoever failed before it we know.
  const uint32_t before = passed_.value();
  if (failed_.load(std::memory_order_relaxed)) throw RankLost();
  // Acquire-release: the last to arrive hands over what all of them wrote.
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<int>(ranks_.size())) {
    // Relaxed: nobody arrives again before the counter advances.
    arrived_.store(0, std::memory_order_relaxed);
    passed_.Advance();
    return;
  }
  passed_.WaitWhile(before);
  if (failed_.load(std::memory_order_relaxed)) throw RankLost();
}

void SharedMemoryCollective::AllGather(int rank, const Columns& columns, void* whole) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  const size_t turn = own.turn;
  own.columns[turn] = columns;
  own.turn = 1 - turn;
  Arrive();
  for (const Rank& other : ranks_) {
    const Columns& theirs = other.columns[turn];
    assert(theirs.rows == columns.rows && theirs.row_bytes == columns.row_bytes);
    const auto* from = static_cast<const std::byte*>(other.parts[turn]->data());
    std::byte* to = static_cast<std::byte*>(whole) + theirs.begin;
    for (size_t row = 0; row < theirs.rows; ++row) {
      std::memcpy(to + row * theirs.row_bytes, from + row * theirs.bytes(), theirs.bytes());
    }
  }
}

}  // namespace hydrant
