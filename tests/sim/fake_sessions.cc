// The part of FakeExecutor that moves slots about: cuts, and what sessions park and get back.
#include <algorithm>

#include "block_manager/kv_budget.h"
#include "tests/sim/fake_executor.h"

namespace hydrant::sim {

// Cuts the slots in the blocks of table_ in every pair: the best ones and the newest stay.
bool FakeExecutor::Cut(SimRequest& request, const EvictionPolicy& policy, int32_t logical_length, int32_t live_from,
                       int32_t live_to) {
  const int32_t kept_end = static_cast<int32_t>(BlocksForSlots(live_to)) * kBlockSlots;
  for (int32_t layer_head = 0; live_to < live_from && layer_head < options_.layer_heads; ++layer_head) {
    if (!RankSlots(request, layer_head, policy, logical_length, live_from, live_to)) return false;
    worst_first_ = ranks_;
    const auto last = worst_first_.begin() + (live_from - live_to - 1);
    std::nth_element(worst_first_.begin(), last, worst_first_.end());
    if (!FillHoles(request, layer_head, live_to, *last)) return false;
    if (policy.rolling) Renumber(layer_head, live_to);
    // What is cut is gone, in the block that stays too.
    for (int32_t slot = live_to; slot < std::min(kept_end, live_from); ++slot) {
      memory_.Erase(layer_head, table_[static_cast<size_t>(slot / kBlockSlots)], slot % kBlockSlots);
    }
  }
  request.sums_known = false;
  request.unseen_slot.fill(-1);
  return true;
}

bool FakeExecutor::RankSlots(SimRequest& request, int32_t layer_head, const EvictionPolicy& policy,
                             int32_t logical_length, int32_t live_from, int32_t live_to) {
  ranks_.assign(static_cast<size_t>(live_from), ~uint64_t{0});
  const std::vector<uint64_t>& ranks = request.ranks.Before(layer_head, logical_length);
  const int32_t candidates_end = (policy.rolling ? live_from : logical_length) - policy.recent;
  int32_t candidates = 0;
  for (int32_t slot = 0; slot < live_from; ++slot) {
    const int32_t stands_at = PositionAt(score_table_, layer_head, slot);
    if (stands_at < 0 || stands_at >= candidates_end) continue;
    const int32_t position = policy.rolling ? CellAt(table_, layer_head, slot).position : stands_at;
    if (position < 0 || position >= logical_length) {
      return failure_.Set("step ", step_, ": request ", request.id(), " is cut with a token at ", position);
    }
    ranks_[static_cast<size_t>(slot)] = ranks[static_cast<size_t>(position)];
    ++candidates;
  }
  // A session whose last turn was shrunk goes on with fewer recent tokens than it asked for; heavy ones take their places.
  const bool exactly = request.before == nullptr;
  const int32_t recent = live_from - candidates, heavy = live_to - recent;
  if (heavy < policy.heavy || heavy > candidates || (exactly && heavy != policy.heavy)) {
    return failure_.Set("step ", step_, ": request ", request.id(), " is cut to ", live_to, " slots with ", recent,
                        " recent and ", heavy, " heavy ones");
  }
  return true;
}

// Survivors after the first `live_to` slots move into those that nobody keeps.
bool FakeExecutor::FillHoles(const SimRequest& request, int32_t layer_head, int32_t live_to, uint64_t best_dropped) {
  size_t hole = 0;
  for (size_t slot = static_cast<size_t>(live_to); slot < ranks_.size(); ++slot) {
    if (ranks_[slot] <= best_dropped) continue;
    while (ranks_[hole] > best_dropped) ++hole;
    const size_t place = hole / kBlockSlots;
    const int32_t offset = static_cast<int32_t>(hole % kBlockSlots), from = static_cast<int32_t>(slot);
    if (memory_.block(table_[place]).holders != 1) {
      return failure_.Set("step ", step_, ": request ", request.id(), " cuts in a block that others hold");
    }
    const FakeMemory::Cell cell = CellAt(table_, layer_head, from);
    memory_.Write(layer_head, table_[place], offset, cell, ShareOf(cell));
    memory_.WritePosition(layer_head, score_table_[place], offset, PositionAt(score_table_, layer_head, from));
    ++hole;
  }
  return true;
}

// The first `live` slots of a pair stand at their ranks.
void FakeExecutor::Renumber(int32_t layer_head, int32_t live) {
  by_position_.clear();
  for (int32_t slot = 0; slot < live; ++slot) {
    by_position_.emplace_back(PositionAt(score_table_, layer_head, slot), slot);
  }
  std::sort(by_position_.begin(), by_position_.end());
  for (size_t rank = 0; rank < by_position_.size(); ++rank) {
    const int32_t slot = by_position_[rank].second;
    memory_.WritePosition(layer_head, score_table_[static_cast<size_t>(slot / kBlockSlots)], slot % kBlockSlots,
                          static_cast<int32_t>(rank));
  }
}

SimRequest*& FakeExecutor::user(uint64_t session) {
  if (users_.size() <= session) users_.resize(session + 1);
  return users_[session];
}

int64_t FakeExecutor::parked_blocks() const {
  int64_t blocks = 0;
  for (const auto& [id, turn] : parked_) blocks += BlocksForSlots(turn.live);
  return blocks;
}

// A slice of the first `live` slots leaves with what stands beside them.
void FakeExecutor::Park(const ParkOp& park) {
  if (park.begins && !BeginPark(park)) return;
  const auto found = leaving_.find(park.id);
  const auto blocks = static_cast<int32_t>(BlocksForSlots(park.live));
  if (found == leaving_.end() || !std::ranges::equal(found->second, park.block_table) || park.slice.begin < 0 ||
      park.slice.end < park.slice.begin || park.slice.end > blocks) {
    failure_.Set("step ", step_, ": blocks ", park.slice.begin, " to ", park.slice.end, " of ", blocks,
                 " are parked for session ", park.id.session);
    return;
  }
  Parked& parked_kv = parked_[park.id];
  for (auto i = static_cast<size_t>(park.slice.begin); i < static_cast<size_t>(park.slice.end); ++i) {
    if (!CheckHistory(park, i)) return;
    parked_kv.blocks[i] = memory_.block(park.block_table[i]);
    parked_kv.score_blocks[i] = memory_.score_block(park.score_table[i]);
  }
  if (park.slice.end < blocks) return;
  EndPark(park.id);
  // What a row after the end wrote is no part of it.
  const size_t last = static_cast<size_t>(park.live / kBlockSlots);
  for (size_t layer_head = 0; last < parked_kv.blocks.size() && layer_head < static_cast<size_t>(options_.layer_heads);
       ++layer_head) {
    FakeMemory::Block& block = parked_kv.blocks[last];
    FakeMemory::Cell& cell = block.cells[layer_head][static_cast<size_t>(park.live % kBlockSlots)];
    block.sums[layer_head] -= ShareOf(cell);
    cell = FakeMemory::Cell();
  }
}

// What a turn leaves of its prompt is as it was when nothing had been evicted, and no later row has added to its scores.
bool FakeExecutor::CheckHistory(const ParkOp& park, size_t place) {
  const SimRequest& request = *requests_[park.id.turn - 1];
  const int32_t history = request.request.request.history;
  if (history <= 0 || request.keys.empty()) return true;
  const FakeMemory::Block& block = memory_.block(park.block_table[place]);
  const FakeMemory::ScoreBlock& scores = memory_.score_block(park.score_table[place]);
  bool right = scores.state == request.SumState(history - 1);
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(options_.layer_heads); ++layer_head) {
    for (size_t offset = 0; offset < kBlockSlots; ++offset) {
      const size_t position = place * kBlockSlots + offset;
      const FakeMemory::Cell& cell = block.cells[layer_head][offset];
      right &= cell.key == request.keys[position] && cell.position == static_cast<int32_t>(position) &&
               scores.positions[layer_head][offset] == cell.position;
    }
  }
  return right || failure_.Set("step ", step_, ": what turn ", park.id.turn, " leaves of its prompt in block ", place,
                               " is not what it computed");
}

// The blocks are the turn's until all of them are copied, though its request is over.
bool FakeExecutor::BeginPark(const ParkOp& park) {
  if (park.id.turn == 0 || park.id.turn > requests_.size()) {
    return failure_.Set("step ", step_, ": turn ", park.id.turn, " is parked");
  }
  SimRequest& request = *requests_[park.id.turn - 1];
  const int32_t history = request.request.request.history;
  const bool whole = history < 0 ? park.computed == request.computed
                                 : park.computed == history && park.live == history && park.cut_from == 0 &&
                                       request.computed >= history;
  if (request.request.request.session != park.id.session || !whole) {
    return failure_.Set("step ", step_, ": session ", park.id.session, " is parked with ", park.computed, " tokens");
  }
  // A row behind the end may have taken a block more.
  if (history < 0 && (park.block_table.size() > request.blocks.size() ||
                      !std::equal(park.block_table.begin(), park.block_table.end(), request.blocks.begin()))) {
    return failure_.Set("step ", step_, ": what is parked for session ", park.id.session, " is not of request ",
                        request.id());
  }
  table_.assign(park.block_table.begin(), park.block_table.end());
  score_table_.assign(park.score_table.begin(), park.score_table.end());
  if (park.cut_from > 0 && !Cut(request, *park.policy, park.computed, park.cut_from, park.live)) return false;
  const auto blocks = static_cast<size_t>(BlocksForSlots(park.live));
  Parked& parked_kv = parked_[park.id];
  parked_kv.live = park.live;
  parked_kv.blocks.assign(blocks, {});
  parked_kv.score_blocks.assign(blocks, {});
  for (int32_t block : park.block_table) memory_.Hold(block);
  leaving_[park.id].assign(park.block_table.begin(), park.block_table.end());
  return true;
}

void FakeExecutor::EndPark(const TurnId& id) {
  const auto found = leaving_.find(id);
  if (found == leaving_.end()) return;
  for (int32_t block : found->second) memory_.Drop(block);
  leaving_.erase(found);
}

void FakeExecutor::SeeDrops(const ParkedSessions& parked) {
  for (auto next = leaving_.begin(); next != leaving_.end();) {
    const TurnId id = (next++)->first;
    if (parked.Find(id) == nullptr) EndPark(id);
  }
}

// With its last slice room is made for the turn, and what lies behind is nobody's. Who is admitted with it never had
// that.
void FakeExecutor::SeeRestore(const RestoreOp& restore) {
  SimRequest* turn = user(restore.id.session);
  if (restore.cut_to == 0 || turn == nullptr || turn->gone || turn->before == nullptr ||
      turn->before->id() != restore.id.turn) {
    return;
  }
  const auto kept = static_cast<size_t>(BlocksForSlots(restore.cut_to));
  for (size_t i = kept; i < turn->blocks.size(); ++i) memory_.Drop(turn->blocks[i]);
  turn->blocks.resize(std::min(kept, turn->blocks.size()));
  turn->seen.resize(turn->blocks.size());
  SetLive(*turn, restore.cut_to);
}

void FakeExecutor::Restore(const RestoreOp& restore) {
  const auto found = parked_.find(restore.id);
  if (found == parked_.end() || found->second.live != restore.live || leaving_.contains(restore.id) ||
      std::ssize(restore.block_table) != BlocksForSlots(restore.live)) {
    failure_.Set("step ", step_, ": session ", restore.id.session, " has nothing parked in ", restore.live, " slots");
    return;
  }
  const size_t kept = static_cast<size_t>(BlocksForSlots(restore.cut_to > 0 ? restore.cut_to : restore.live));
  if (!PutSlice(restore, kept) || restore.cut_to == 0) return;
  table_.assign(restore.block_table.begin(), restore.block_table.end());
  score_table_ = table_;
  SimRequest& turn = *user(restore.id.session);
  if (turn.gone || turn.before == nullptr || turn.solo.cut_before != restore.cut_to || turn.begin != restore.computed ||
      turn.prompt_length() - turn.begin != restore.rows) {
    failure_.Set("step ", step_, ": session ", restore.id.session, " is cut to ", restore.cut_to, " slots for ",
                 restore.rows, " more tokens");
    return;
  }
  EvictionPolicy policy = *restore.policy;
  policy.recent = restore.cut_to - policy.heavy;
  if (!Cut(turn, policy, restore.computed, restore.live, restore.cut_to)) return;
  for (size_t i = kept; i < table_.size(); ++i) memory_.Clear(table_[i]);
  ++turn_cuts_;
}

// Nobody has the blocks behind the first `kept` ones yet: they are somebody else's from the next operation on.
bool FakeExecutor::PutSlice(const RestoreOp& restore, size_t kept) {
  const Parked& parked_kv = parked_.at(restore.id);
  if (restore.slice.begin < 0 || restore.slice.end > std::ssize(restore.block_table)) {
    return failure_.Set("step ", step_, ": session ", restore.id.session, " is restored to block ", restore.slice.end);
  }
  for (auto i = static_cast<size_t>(restore.slice.begin); i < static_cast<size_t>(restore.slice.end); ++i) {
    const int32_t block = restore.block_table[i];
    if (memory_.block(block).holders != (i < kept ? 1 : 0)) {
      return failure_.Set("step ", step_, ": session ", restore.id.session, " is restored into block ", block,
                          ", in which there is something");
    }
    memory_.PutBlock(parked_kv.blocks[i], block);
    memory_.PutScoreBlock(parked_kv.score_blocks[i], block);
  }
  return true;
}

void FakeExecutor::Resume(SimRequest& request, int32_t computed, std::span<const int32_t> blocks, bool all_comes) {
  user(request.request.request.session) = &request;
  request.computed = request.restored = computed;
  const bool recalls = request.before == nullptr;
  SetLive(request, recalls ? computed : all_comes ? request.solo.live_begin() : request.solo.live_before);
  restored_tokens_ += static_cast<uint64_t>(request.computed);
  for (int32_t block : blocks.first(static_cast<size_t>(BlocksForSlots(request.live)))) {
    if (!Append(block, request)) return;
  }
}

}  // namespace hydrant::sim
