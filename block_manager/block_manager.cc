#include "block_manager/block_manager.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {

void BlockManager::Match(const PrefixUse& use, std::span<const int32_t> prompt, PrefixMatch* match) {
  match->clear();
  if (!use.looks_up) return;
  const int32_t tokens_max = static_cast<int32_t>(prompt.size()) - use.rows_computed_min;
  const size_t end = static_cast<size_t>(std::max(0, tokens_max) / kBlockSlots);
  const auto find = [&](size_t at, uint64_t parent, bool generated) {
    return index_.Find(use.salt, parent, BlockTokens(prompt.subspan(at * kBlockSlots, kBlockSlots)), generated);
  };
  std::vector<int32_t>& blocks = match->blocks;
  const auto follow = [&](bool generated) {
    while (blocks.size() < end) {
      const uint64_t parent = blocks.empty() ? PrefixIndex::kRoot : index_.serial(blocks.back());
      const int32_t block = find(blocks.size(), parent, generated);
      if (block < 0) return;
      blocks.push_back(block);
    }
  };
  follow(/*generated=*/false);
  if (use.takes_generated) {
    // Generated blocks may stand behind any of these; the longest way is taken.
    size_t fork = blocks.size(), longest = blocks.size();
    for (size_t at = blocks.size() + 1; at-- > 0;) {
      uint64_t parent = at == 0 ? PrefixIndex::kRoot : index_.serial(blocks[at - 1]);
      size_t length = at;
      for (int32_t block; length < end && (block = find(length, parent, /*generated=*/true)) >= 0; ++length) {
        parent = index_.serial(block);
      }
      if (length > longest) std::tie(longest, fork) = std::pair(length, at);
    }
    blocks.resize(fork);
    follow(/*generated=*/true);
  }
  while (!blocks.empty() && !MayEndBehind(use, blocks.back(), blocks.size())) blocks.pop_back();
  for (int32_t block : match->blocks) match->revived += pool_.references(block) == 0 ? 1 : 0;
  match->score_blocks = use.scores == ScoreNeed::kNothing ? 0 : static_cast<int32_t>(blocks.size());
  match->score_kind = use.score_kind;
  match->from_snapshot = use.scores == ScoreNeed::kSnapshot && !blocks.empty();
}

// Whether a match of `count` blocks may end with this one: there are scores to start from, and room for them.
bool BlockManager::MayEndBehind(const PrefixUse& use, int32_t block, size_t count) const {
  const auto score_blocks = static_cast<int32_t>(count);
  if (use.scores == ScoreNeed::kNothing) return true;
  if (use.scores == ScoreNeed::kZeros) return score_blocks_.CanTake(score_blocks, -1, 0);
  return score_blocks_.HasSnapshot(block, use.score_kind) && score_blocks_.CanTake(score_blocks, block, use.score_kind);
}

size_t BlockManager::InUseOf(const PrefixUse& use, const PrefixMatch& match) const {
  size_t in_use = 0, end = 0;
  while (in_use < match.blocks.size() && pool_.references(match.blocks[in_use]) > 0) {
    ++in_use;
    if (MayEndBehind(use, match.blocks[in_use - 1], in_use)) end = in_use;
  }
  return end;
}

void BlockManager::Prepare(BlockTable& table, int32_t reserved_blocks, bool copies, int32_t owner) {
  assert(table.idle() && reserved_blocks >= 0 && owner >= 0);
  if (overlaps_.size() <= static_cast<size_t>(owner)) overlaps_.resize(static_cast<size_t>(owner) + 1, 0);
  const auto blocks = static_cast<size_t>(reserved_blocks);
  table.blocks_.reserve(blocks);
  table.score_blocks_.reserve(blocks);
  // Each copy stands beside the block that it is made from.
  if (copies) table.copies_.reserve(blocks / 2);
}

void BlockManager::Admit(BlockTable& table, int32_t reserved_blocks, int32_t owner) {
  Admit(table, reserved_blocks, PrefixMatch(), nullptr, owner);
}

void BlockManager::Admit(BlockTable& table, int32_t reserved_blocks, const PrefixMatch& match,
                         std::vector<ScoreInit>* starts, int32_t owner) {
  ++changes_;
  const int32_t matched = static_cast<int32_t>(match.blocks.size());
  assert(table.idle() && reserved_blocks >= std::max(1, matched) && CanAdmit(reserved_blocks, match));
  table.reserved_ = reserved_blocks;
  table.owner_ = owner;
  if (overlaps_.size() <= static_cast<size_t>(owner)) overlaps_.resize(static_cast<size_t>(owner) + 1, 0);
  overlaps_[static_cast<size_t>(owner)] += matched - match.revived;
  // Once and for all, so that growing never moves the ids a step in flight looks at.
  table.blocks_.reserve(static_cast<size_t>(reserved_blocks));
  table.score_blocks_.reserve(static_cast<size_t>(reserved_blocks));
  promised_ += reserved_blocks - matched;
  for (int32_t block : match.blocks) pool_.AddReference(block);
  table.blocks_.assign(match.blocks.begin(), match.blocks.end());
  table.score_blocks_.assign(match.blocks.begin(), match.blocks.end());
  table.published_ = matched;
  table.parent_ = matched > 0 ? index_.serial(match.blocks.back()) : PrefixIndex::kRoot;
  table.publisher_ = resets_;
  table.generated_ = matched > 0 && index_.generated(match.blocks.back());
  assert(promised_ <= pool_.available());
  if (match.score_blocks == 0) return;

  assert(match.score_blocks == matched);
  taken_score_blocks_.clear();
  const int32_t spared = match.from_snapshot ? match.blocks.back() : -1;
  score_blocks_.Take(matched, spared, match.score_kind, &taken_score_blocks_);
  std::span<const int32_t> snapshot;
  if (match.from_snapshot) snapshot = score_blocks_.FindSnapshot(spared, match.score_kind);
  for (int32_t i = 0; i < matched; ++i) {
    const size_t at = static_cast<size_t>(i);
    table.score_blocks_[at] = taken_score_blocks_[at];
    starts->push_back({snapshot.empty() ? -1 : snapshot[at], taken_score_blocks_[at], i * kBlockSlots});
  }
}

int32_t BlockManager::TakeBlock() {
  ++changes_;
  const BlockPool::Taken taken = pool_.Take();
  if (taken.was_cached) Forget(taken.block);
  return taken.block;
}

void BlockManager::Forget(int32_t block) {
  index_.Forget(block);
  score_blocks_.DropSnapshots(block);
}

bool BlockManager::Grow(BlockTable& table, int32_t reserved_blocks) {
  const int32_t more = reserved_blocks - table.reserved_;
  assert(table.reserved_ > 0 && more >= 0);
  assert(table.blocks_.capacity() >= static_cast<size_t>(reserved_blocks));
  if (!CanAdmit(more)) return false;
  table.reserved_ = reserved_blocks;
  promised_ += more;
  return true;
}

void BlockManager::Extend(BlockTable& table, int32_t slots) {
  const int64_t size = BlocksForSlots(slots);
  assert(size + std::ssize(table.copies_) <= table.reserved_);
  while (table.size() < size) {
    table.blocks_.push_back(TakeBlock());
    table.score_blocks_.push_back(table.blocks_.back());
    --promised_;
  }
  assert(promised_ >= 0 && promised_ <= pool_.available());
}

void BlockManager::PublishNext(BlockTable& table, const PrefixSalt& salt, BlockTokens tokens) {
  const int32_t block = table.blocks_[static_cast<size_t>(table.published_)];
  int32_t known = index_.Find(salt, table.parent_, tokens, table.generated_);
  if (known < 0) {
    ++changes_;
    index_.Insert(salt, table.parent_, tokens, block, table.generated_);
    pool_.Publish(block);
    known = block;
  }
  table.parent_ = index_.serial(known);
  ++table.published_;
}

bool BlockManager::BeginSnapshot(const BlockTable& table, int32_t slots, ScoreKind kind, std::vector<int32_t>* out) {
  const int32_t blocks = slots / kBlockSlots;
  assert(slots % kBlockSlots == 0 && blocks >= 1 && blocks <= table.size());
  // A block that a match or an earlier step made known may have one; one that this step computes cannot.
  const int32_t last = table.blocks_[static_cast<size_t>(blocks) - 1];
  if (!MayPublish(table) || score_blocks_.HasSnapshot(last, kind) || !score_blocks_.CanTake(blocks, -1, kind))
    return false;
  score_blocks_.Take(blocks, -1, kind, out);
  ++changes_;
  return true;
}

void BlockManager::FinishSnapshot(const BlockTable& table, int32_t slots, ScoreKind kind,
                                  std::vector<int32_t> score_blocks) {
  ++changes_;
  const int32_t blocks = slots / kBlockSlots;
  const int32_t last = blocks <= table.size() ? table.blocks_[static_cast<size_t>(blocks) - 1] : -1;
  if (last >= 0 && pool_.published(last) && blocks <= table.published_ && !score_blocks_.HasSnapshot(last, kind)) {
    try {
      score_blocks_.Keep(last, kind, std::move(score_blocks));
      return;
    } catch (const std::bad_alloc&) {
      // Later prompts start from an earlier snapshot.
    }
  }
  GiveBackScoreBlocks(score_blocks);
}

bool BlockManager::TakeScoreBlocks(int32_t count, std::vector<int32_t>* out) {
  if (!score_blocks_.CanTake(count, -1, 0)) return false;
  score_blocks_.Take(count, -1, 0, out);
  ++changes_;
  return true;
}

void BlockManager::GiveBackScoreBlocks(std::span<const int32_t> score_blocks) {
  ++changes_;
  for (int32_t score_block : score_blocks) score_blocks_.GiveBack(score_block);
}

void BlockManager::Hold(const BlockTable& table, std::span<const int32_t> score_blocks, BlockTable* holder) {
  ++changes_;
  assert(holder->idle() && std::ssize(score_blocks) <= table.size());
  assert(holder->blocks_.capacity() >= score_blocks.size() && holder->score_blocks_.capacity() >= score_blocks.size());
  const std::span<const int32_t> blocks = table.blocks().first(score_blocks.size());
  for (int32_t block : blocks) pool_.AddReference(block);
  holder->blocks_.assign(blocks.begin(), blocks.end());
  holder->score_blocks_.assign(score_blocks.begin(), score_blocks.end());
  holder->owner_ = table.owner_;
  holder->reserved_ = holder->size();
  overlaps_[static_cast<size_t>(table.owner_)] += holder->size();
}

void BlockManager::PlanCopies(BlockTable& table, int32_t slots, int32_t full_slots) {
  assert(table.copies_.empty());
  const int64_t end = std::min<int64_t>(BlocksForSlots(slots), full_slots / kBlockSlots);
  assert(end <= table.size() && table.size() + end <= table.reserved_);
  for (int32_t i = 0; i < end; ++i) {
    const size_t at = static_cast<size_t>(i);
    table.copies_.push_back({table.blocks_[at], table.score_blocks_[at], TakeBlock(), i});
    --promised_;
  }
  assert(promised_ >= 0 && promised_ <= pool_.available());
}

int32_t BlockManager::FinishCopies(BlockTable& table) {
  int32_t freed = 0;
  for (const BlockCopy& copy : table.copies_) {
    const size_t at = static_cast<size_t>(copy.index);
    DropScoreBlock(copy.from, copy.from_score_block);
    freed += DropBlock(table, copy.from) ? 1 : 0;
    table.blocks_[at] = table.score_blocks_[at] = copy.to;
    ++promised_;
  }
  table.copies_.clear();
  return freed;
}

void BlockManager::DropScoreBlock(int32_t block, int32_t score_block) {
  ++changes_;
  if (score_block != block) score_blocks_.GiveBack(score_block);
}

// True if no other table holds it.
bool BlockManager::DropBlock(const BlockTable& table, int32_t block) {
  ++changes_;
  const bool available = pool_.DropReference(block);
  if (!available) --overlaps_[static_cast<size_t>(table.owner_)];
  return available;
}

int32_t BlockManager::Truncate(BlockTable& table, int32_t size) {
  int32_t freed = 0;
  // From the end: of a prefix's cached-free blocks the last one is then taken first, and what is left can still be found.
  while (table.size() > size) {
    DropScoreBlock(table.blocks_.back(), table.score_blocks_.back());
    freed += DropBlock(table, table.blocks_.back()) ? 1 : 0;
    table.blocks_.pop_back();
    table.score_blocks_.pop_back();
    ++promised_;
  }
  return freed;
}

int32_t BlockManager::DropCopies(BlockTable& table) {
  ++changes_;
  int32_t freed = 0;
  for (const BlockCopy& copy : table.copies_) {
    freed += pool_.DropReference(copy.to) ? 1 : 0;
    ++promised_;
  }
  table.copies_.clear();
  return freed;
}

int32_t BlockManager::Shrink(BlockTable& table, int32_t slots, int32_t reserved_blocks) {
  const int64_t size = BlocksForSlots(slots);
  assert(table.copies_.empty());
  assert(size <= table.size() && size <= reserved_blocks && reserved_blocks <= table.reserved_);
  const int32_t freed = Truncate(table, static_cast<int32_t>(size));
  promised_ -= table.reserved_ - reserved_blocks;
  table.reserved_ = reserved_blocks;
  assert(promised_ >= 0 && promised_ <= pool_.available());
  return freed;
}

int32_t BlockManager::Release(BlockTable& table) {
  int32_t freed = DropCopies(table);
  freed += Truncate(table, 0);
  promised_ -= table.reserved_;
  table.reserved_ = 0;
  table.published_ = 0;
  table.parent_ = PrefixIndex::kRoot;
  table.generated_ = false;
  assert(promised_ >= 0 && promised_ <= pool_.available());
  return freed;
}

int32_t BlockManager::BlocksOthersUse(const BlockTable& table, std::span<const int32_t> prefix) const {
  int32_t count = 0;
  for (size_t i = 0; i < table.blocks_.size(); ++i) {
    const bool in_prefix = i < prefix.size() && prefix[i] == table.blocks_[i];
    count += in_prefix || pool_.references(table.blocks_[i]) > 1 ? 1 : 0;
  }
  return count;
}

void BlockManager::ResetPrefixes() {
  ++changes_;
  ++resets_;
  for (int32_t block = 0; block < pool_.total(); ++block) {
    if (!index_.has(block)) continue;
    Forget(block);
    pool_.Unpublish(block);
  }
}

absl::Status BlockManager::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  if (absl::Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  std::vector<int32_t> holders(static_cast<size_t>(pool_.total()), 0);
  std::vector<int32_t> owners(static_cast<size_t>(pool_.total()), -1);
  std::vector<int64_t> overlaps(overlaps_.size(), 0);
  std::vector<bool> score_block_held(static_cast<size_t>(score_blocks_.total()), false);
  int32_t score_blocks_held = 0;
  int64_t promised = 0;
  for (const BlockTable* table : tables) {
    if (table->held() > table->reserved()) {
      return absl::InternalError(
          absl::StrCat("a table holds ", table->held(), " blocks with ", table->reserved(), " reserved"));
    }
    promised += table->reserved() - table->held();
    for (const BlockCopy& copy : table->copies()) ++holders[static_cast<size_t>(copy.to)];
    for (size_t i = 0; i < table->blocks().size(); ++i) {
      const int32_t block = table->blocks()[i], score_block = table->score_blocks()[i] - score_blocks_.first();
      if (block < 0 || block >= pool_.total()) return absl::InternalError(absl::StrCat("a table lists block ", block));
      int32_t& owner = owners[static_cast<size_t>(block)];
      if (owner >= 0 && owner != table->owner_) {
        return absl::InternalError(
            absl::StrCat("block ", block, " is held for owners ", owner, " and ", table->owner_));
      }
      if (owner >= 0) ++overlaps[static_cast<size_t>(owner)];
      owner = table->owner_;
      ++holders[static_cast<size_t>(block)];
      if (table->score_blocks()[i] == block) continue;
      if (score_block < 0 || score_block >= score_blocks_.total() ||
          score_block_held[static_cast<size_t>(score_block)]) {
        return absl::InternalError(
            absl::StrCat("score block ", table->score_blocks()[i], " is held twice or not a spare one"));
      }
      score_block_held[static_cast<size_t>(score_block)] = true;
      ++score_blocks_held;
    }
  }
  for (int32_t block = 0; block < pool_.total(); ++block) {
    if (holders[static_cast<size_t>(block)] != pool_.references(block)) {
      return absl::InternalError(absl::StrCat("block ", block, " has ", pool_.references(block), " references and ",
                                              holders[static_cast<size_t>(block)], " holders"));
    }
    if (pool_.published(block) != index_.has(block)) {
      return absl::InternalError(absl::StrCat("block ", block, " is published in one place and not in the other"));
    }
  }
  if (overlaps != overlaps_) return absl::InternalError("what owners hold more than once is counted wrong");
  if (score_blocks_held > score_blocks_.handed_out()) {
    return absl::InternalError(absl::StrCat("the tables hold ", score_blocks_held, " spare score blocks, ",
                                            score_blocks_.handed_out(), " are handed out"));
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
