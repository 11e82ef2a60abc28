#include "block_manager/block_manager.h"

#include <cassert>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {

void BlockManager::Admit(BlockTable& table, int32_t reserved_blocks) {
  assert(table.idle() && reserved_blocks >= 1 && CanAdmit(reserved_blocks));
  table.reserved_ = reserved_blocks;
  // Once and for all, so that growing never moves the ids a step in flight looks at.
  table.blocks_.reserve(static_cast<size_t>(reserved_blocks));
  promised_ += reserved_blocks;
}

void BlockManager::Extend(BlockTable& table, int32_t slots) {
  const int64_t size = BlocksForSlots(slots);
  assert(size <= table.reserved_);
  while (table.size() < size) {
    table.blocks_.push_back(pool_.Take().block);
    --promised_;
  }
  assert(promised_ >= 0 && promised_ <= pool_.available());
}

int32_t BlockManager::Truncate(BlockTable& table, int32_t size) {
  int32_t freed = 0;
  while (table.size() > size) {
    freed += pool_.DropReference(table.blocks_.back()) ? 1 : 0;
    table.blocks_.pop_back();
    ++promised_;
  }
  return freed;
}

int32_t BlockManager::Shrink(BlockTable& table, int32_t slots, int32_t reserved_blocks) {
  const int64_t size = BlocksForSlots(slots);
  assert(size <= table.size() && size <= reserved_blocks && reserved_blocks <= table.reserved_);
  const int32_t freed = Truncate(table, static_cast<int32_t>(size));
  promised_ -= table.reserved_ - reserved_blocks;
  table.reserved_ = reserved_blocks;
  assert(promised_ >= 0 && promised_ <= pool_.available());
  return freed;
}

int32_t BlockManager::Release(BlockTable& table) {
  const int32_t freed = Truncate(table, 0);
  promised_ -= table.reserved_;
  table.reserved_ = 0;
  assert(promised_ >= 0 && promised_ <= pool_.available());
  return freed;
}

absl::Status BlockManager::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  if (absl::Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  std::vector<int32_t> holders(static_cast<size_t>(pool_.total()), 0);
  int64_t promised = 0;
  for (const BlockTable* table : tables) {
    if (table->size() > table->reserved()) {
      return absl::InternalError(
          absl::StrCat("a table holds ", table->size(), " blocks with ", table->reserved(), " reserved"));
    }
    promised += table->reserved() - table->size();
    for (int32_t block : table->blocks()) {
      if (block < 0 || block >= pool_.total()) return absl::InternalError(absl::StrCat("a table lists block ", block));
      ++holders[static_cast<size_t>(block)];
    }
  }
  for (int32_t block = 0; block < pool_.total(); ++block) {
    if (holders[static_cast<size_t>(block)] != pool_.references(block)) {
      return absl::InternalError(absl::StrCat("block ", block, " has ", pool_.references(block), " references and ",
                                              holders[static_cast<size_t>(block)], " holders"));
    }
  }
  if (promised != promised_) {
    return absl::InternalError(absl::StrCat("the tables are promised ", promised, " blocks, the sum says ", promised_));
  }
  if (promised > pool_.available()) {
    return absl::InternalError(
        absl::StrCat(promised, " blocks are promised, only ", pool_.available(), " are available"));
  }
  return absl::OkStatus();
}

}  // namespace hydrant
