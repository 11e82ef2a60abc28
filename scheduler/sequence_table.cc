#include "scheduler/sequence_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {

SequenceTable::SequenceTable(int32_t sequences_max, int32_t waiting_max)
    : sequences_max_(sequences_max), sequences_(static_cast<size_t>(sequences_max + waiting_max)) {
  free_.reserve(sequences_.size());
  for (int32_t index = size() - 1; index >= 0; --index) free_.push_back(index);
  free_rows_.reserve(static_cast<size_t>(sequences_max));
  for (int32_t row = sequences_max - 1; row >= 0; --row) free_rows_.push_back(row);
  running_.reserve(sequences_.size());
  // It never grows: a flat_hash_map whose growth fails for want of memory is broken. Hence the room for its tombstones.
  index_of_.reserve(sequences_.size() + sequences_.size() / 4 + 64);
}

int32_t SequenceTable::Find(uint64_t id) const {
  const auto found = index_of_.find(id);
  return found == index_of_.end() ? -1 : found->second;
}

int32_t SequenceTable::Take(uint64_t id) {
  assert(!full());
  const int32_t index = free_.back();
  const bool inserted = index_of_.emplace(id, index).second;
  assert(inserted && at(index).waiting() && at(index).blocks.idle());
  (void)inserted;
  free_.pop_back();
  return index;
}

void SequenceTable::Admit(int32_t index) {
  assert(at(index).waiting());
  at(index).admitted = true;
  TakeRow(index);
  running_.push_back(index);
}

void SequenceTable::GiveRow(int32_t index) {
  assert(at(index).state_row >= 0);
  free_rows_.push_back(std::exchange(at(index).state_row, -1));
}

void SequenceTable::TakeRow(int32_t index) {
  assert(at(index).admitted && at(index).state_row < 0 && !free_rows_.empty());
  at(index).state_row = free_rows_.back();
  free_rows_.pop_back();
}

int32_t SequenceTable::RowsForDrafts() const {
  int32_t rows = 0;
  for (const int32_t index : running_) {
    if (at(index).prefills()) return 0;
    rows += at(index).continues() ? 1 : 0;
  }
  return rows;
}

void SequenceTable::Release(int32_t index) {
  Sequence& sequence = at(index);
  assert(sequence.blocks.idle());
  if (sequence.state_row >= 0) GiveRow(index);
  index_of_.erase(sequence.request.id);
  sequence = Sequence();
  free_.push_back(index);
}

void SequenceTable::Sweep() {
  std::erase_if(running_, [this](int32_t index) { return at(index).waiting(); });
}

absl::Status SequenceTable::CheckSequence(int32_t index) const {
  const Sequence& sequence = at(index);
  int64_t ahead = sequence.retired() ? 1 : std::max(0, sequence.in_flight - 1);
  if (sequence.in_flight > 0) ahead += std::max<int64_t>(0, std::ssize(sequence.next_tokens) - 1);
  if (sequence.computed > sequence.scheduled || sequence.scheduled > sequence.known + ahead ||
      (sequence.in_flight == 0) != (sequence.computed == sequence.scheduled)) {
    return absl::InternalError(absl::StrCat("sequence ", index, ": known ", sequence.known, ", scheduled ",
                                            sequence.scheduled, ", computed ", sequence.computed, ", in flight ",
                                            sequence.in_flight));
  }
  const int64_t blocks = sequence.place == KvPlace::kOutside ? 0 : BlocksForSlots(sequence.live);
  if (sequence.in_flight == 0 && sequence.blocks.size() != blocks) {
    return absl::InternalError(
        absl::StrCat("sequence ", index, " holds ", sequence.blocks.size(), " blocks for ", sequence.live, " slots"));
  }
  return absl::OkStatus();
}

absl::Status SequenceTable::CheckIntegrity(int32_t waiting) const {
  std::vector<bool> row_taken(static_cast<size_t>(sequences_max_), false);
  size_t rows_taken = 0;
  for (int32_t index : running_) {
    const int32_t row = at(index).state_row;
    if ((at(index).place == KvPlace::kOutside) != (row < 0)) {
      return absl::InternalError(absl::StrCat("sequence ", index, " is outside or not, and has state row ", row));
    }
    if (absl::Status status = CheckSequence(index); !status.ok()) return status;
    if (row < 0) continue;
    if (row >= sequences_max_ || row_taken[static_cast<size_t>(row)]) {
      return absl::InternalError(absl::StrCat("sequence ", index, " has state row ", row));
    }
    row_taken[static_cast<size_t>(row)] = true;
    ++rows_taken;
  }
  if (free_rows_.size() + rows_taken != static_cast<size_t>(sequences_max_) ||
      index_of_.size() != running_.size() + static_cast<size_t>(waiting) ||
      free_.size() + index_of_.size() != sequences_.size()) {
    return absl::InternalError(absl::StrCat("counts disagree: ", waiting, " waiting, ", running_.size(), " running"));
  }
  return absl::OkStatus();
}

}  // namespace hydrant
