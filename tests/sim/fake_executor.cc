#include "tests/sim/fake_executor.h"

#include <algorithm>
#include <limits>

#include "block_manager/kv_budget.h"

namespace hydrant::sim {

struct FakeExecutor::Slots {
  Cell* cells = nullptr;  // of the pair: [block][16]
  Side* sides = nullptr;  // of the pair: [side block][16]
  std::span<const int32_t> table;
  std::span<const int32_t> side_table;

  Cell& operator[](int32_t slot) const { return cells[Index(table, slot)]; }
  Side& side(int32_t slot) const { return sides[Index(side_table, slot)]; }
  static int64_t Index(std::span<const int32_t> table, int32_t slot) {
    return int64_t{table[static_cast<size_t>(slot / kSlotsPerBlock)]} * kSlotsPerBlock + slot % kSlotsPerBlock;
  }
};

FakeExecutor::FakeExecutor(const Options& options, std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure)
    : options_(options),
      requests_(requests),
      failure_(failure),
      cells_(static_cast<size_t>(CellIndex(options.pairs, 0))),
      sides_(static_cast<size_t>(SideIndex(options.pairs, 0))),
      victims_(static_cast<size_t>(options.state_rows) * static_cast<size_t>(options.pairs), -1),
      holders_(static_cast<size_t>(options.blocks), 0),
      row_user_(static_cast<size_t>(options.state_rows), 0) {}

int64_t FakeExecutor::CellIndex(int32_t pair, int32_t block) const {
  return (int64_t{pair} * options_.blocks + block) * kSlotsPerBlock;
}
int64_t FakeExecutor::SideIndex(int32_t pair, int32_t side) const {
  return (int64_t{pair} * (options_.blocks + options_.spare_sides) + side) * kSlotsPerBlock;
}

FakeExecutor::Slots FakeExecutor::SlotsOf(std::span<const int32_t> blocks, std::span<const int32_t> sides,
                                          int32_t pair) {
  return {cells_.data() + CellIndex(pair, 0), sides_.data() + SideIndex(pair, 0), blocks, sides};
}
FakeExecutor::Slots FakeExecutor::SlotsOf(const StepRow& row, int32_t pair) {
  return SlotsOf(row.block_table, row.side_table, pair);
}

Executor::Ticket FakeExecutor::Launch(const StepInput& input) {
  if (launched_ != nullptr) failure_.Set("a step was launched before the last one was awaited");
  launched_ = &input;
  ++step_;
  if (input.rows.empty()) {
    if (input.parks.empty() && input.drops.empty()) failure_.Set("a step with nothing to do was launched");
    return {step_};
  }
  // Admitted sequences advance, whoever else is there.
  const auto decodes = std::count_if(input.rows.begin(), input.rows.end(), [](const StepRow& r) { return !r.prefill; });
  if (options_.check_contract && decodes != decoding_) {
    failure_.Set("step ", step_, " decodes ", decodes, " of ", decoding_, " sequences");
  }
  return {step_};
}

StepOutput FakeExecutor::Await(Ticket ticket) {
  if (ticket.number != step_ || launched_ == nullptr)
    failure_.Set("ticket ", ticket.number, " awaited at step ", step_);
  if (in_flight && !launched_->rows.empty()) in_flight();
  for (uint64_t session : launched_->drops) parked_.erase(session);
  for (const ParkOp& park : launched_->parks) Park(park);
  for (const RestoreOp& restore : launched_->restores) Restore(restore);
  for (const SideInit& init : launched_->side_inits) {
    for (int32_t pair = 0; pair < options_.pairs; ++pair) {
      Side* to = &sides_[static_cast<size_t>(SideIndex(pair, init.to))];
      const Side* from = init.from < 0 ? nullptr : &sides_[static_cast<size_t>(SideIndex(pair, init.from))];
      for (int32_t i = 0; i < kSlotsPerBlock; ++i) to[i] = {from == nullptr ? 0 : from[i].state, init.position + i};
    }
  }
  StepOutput output;
  output.rows.resize(launched_->rows.size());
  for (size_t i = 0; i < launched_->rows.size(); ++i) {
    const StepRow& row = launched_->rows[i];
    output.rows[i].targets.resize(row.targets.size());
    output.rows[i].losses.resize(static_cast<size_t>(row.losses.cuts));
    if (!failure_.any()) RunRow(row, output.rows[i]);
  }
  launched_ = nullptr;
  return output;
}

SimRequest* FakeExecutor::RequestOf(const StepRow& row) {
  const uint64_t id = row.sampling->seed;
  if (id == 0 || id > requests_.size() || row.state_row < 0 || row.state_row >= options_.state_rows) {
    failure_.Set("a row of request ", id, " in state row ", row.state_row);
    return nullptr;
  }
  SimRequest& request = *requests_[id - 1];
  if (request.gone) {
    failure_.Set("request ", id, " was scheduled after its blocks were freed");
    return nullptr;
  }
  uint64_t& last_used = row_user_[static_cast<size_t>(row.state_row)];
  if (options_.check_contract) {
    if (last_used == step_) failure_.Set("two rows share state row ", row.state_row);
    if (request.state_row >= 0 && request.state_row != row.state_row) {
      failure_.Set("request ", id, " moved from state row ", request.state_row, " to ", row.state_row);
    }
  }
  last_used = step_;
  request.state_row = row.state_row;
  if (request.request.request.session != 0) session_user_[request.request.request.session] = &request;
  return failure_.any() ? nullptr : &request;
}

// A row whose policy keeps fewer tokens than the one before lowers the budget. Whatever it is told, the oracle follows where the
// request agreed.
bool FakeExecutor::SeeShrinking(const StepRow& row, SimRequest& request) {
  const int32_t keep = row.policy->keep(), before = request.policy.keep();
  if (row.prefill || !row.policy->evicts || keep == before) return true;
  const KvBudget& asked = request.request.request.budget;
  if (keep > before || keep < asked.floor) {
    return failure_.Set("step ", step_, ": the budget of request ", request.id(), " goes from ", before, " to ", keep,
                        ", its floor is ", asked.floor);
  }
  request.shrinkings.push_back({request.computed - request.prompt_length(), keep});
  request.policy = PolicyWith(keep, request.request.policy);
  ++shrinkings_;
  on_shrink(request);
  return true;
}

bool FakeExecutor::CheckContract(const StepRow& row, const SimRequest& request) {
  const auto fail = [&](const char* what, int64_t got, int64_t expected) {
    return failure_.Set("step ", step_, ", request ", request.id(), ", position ", row.position, ": ", what, " is ",
                        got, ", expected ", expected);
  };
  const auto expect = [&](const char* what, int64_t got, int64_t expected) {
    return got == expected || fail(what, got, expected);
  };
  const EngineRequest& asked = request.request;
  const int32_t tokens = static_cast<int32_t>(row.tokens.size());
  const bool prefill = request.computed < request.prompt_length();
  if (!expect("position", row.position, request.computed) || !expect("prefill", row.prefill, prefill) ||
      !expect("prompt_length", row.prompt_length, request.prompt_length()) ||
      !expect("logprobs", row.logprobs, asked.logprobs) || !expect("heavy", row.policy->heavy, request.policy.heavy) ||
      !expect("recent", row.policy->recent, request.policy.recent)) {
    return false;
  }
  const bool same_text = row.position + tokens <= static_cast<int32_t>(request.solo.text.size()) &&
                         std::equal(row.tokens.begin(), row.tokens.end(), request.solo.text.begin() + row.position);
  if (!expect("the text", same_text, true)) return false;

  int32_t live_in;
  if (prefill) {
    const int32_t end = row.position + tokens;
    const PromptStop& stop = request.solo.StopAfter(row.position + 1);
    const bool last = end == request.prompt_length();
    if (end > stop.end) return fail("the chunk's end", end, stop.end);
    live_in = request.live + tokens;
    if (end < stop.end && !expect("the chunk's end modulo 16", live_in % kSlotsPerBlock, 0)) return false;
    const int32_t cut = end == stop.end ? stop.cut_to : 0;
    if (!expect("live", row.live, request.live) || !expect("shrink_to", row.shrink_to, cut) ||
        !expect("sample", row.sample, last && asked.request.max_tokens > 0) ||
        !expect("reuse_victim", row.reuse_victim, false) || !expect("choose_victim", row.choose_victim, false)) {
      return false;
    }
  } else {
    const size_t index = static_cast<size_t>(row.position - request.prompt_length());
    if (index >= request.solo.decodes.size()) return fail("decode step", row.position, -1);
    const DecodeFacts& facts = request.solo.decodes[index];
    live_in = facts.live_in;
    if (!expect("tokens of a decode row", tokens, 1) || !expect("live", row.live, facts.live) ||
        !expect("reuse_victim", row.reuse_victim, facts.victim_waits) ||
        !expect("choose_victim", row.choose_victim, facts.chooses_victim) ||
        !expect("shrink_to", row.shrink_to, facts.cut_to) || !expect("sample", row.sample, true) ||
        !expect("losses asked of a guarantee", row.losses.cuts > 0 && !asked.request.budget.elastic(), false)) {
      return false;
    }
  }
  return CheckTargets(row, request) &&
         expect("blocks", static_cast<int64_t>(row.block_table.size()), BlocksForSlots(live_in));
}

bool FakeExecutor::CheckTargets(const StepRow& row, const SimRequest& request) {
  const bool asked = row.prefill && request.request.prompt_logprobs >= 0;
  const size_t begin = static_cast<size_t>(row.position) + 1;
  const size_t prompt_length = static_cast<size_t>(request.prompt_length());
  const size_t expected = asked ? std::min(row.tokens.size(), prompt_length - begin) : 0;
  const std::vector<int32_t>& text = request.solo.text;
  if (row.targets.size() != expected ||
      !std::equal(row.targets.begin(), row.targets.end(), text.begin() + static_cast<long>(begin))) {
    return failure_.Set("request ", request.id(), ": wrong targets from position ", row.position);
  }
  return true;
}

void FakeExecutor::TakeOver(SimRequest& request, int32_t cached, std::span<const int32_t> blocks) {
  const PrefixUse& use = request.request.request.prefix;
  if (!use.looks_up || request.computed != 0 || cached % kSlotsPerBlock != 0 ||
      cached > request.prompt_length() - use.rows_computed_min || std::ssize(blocks) < cached / kSlotsPerBlock ||
      (request.solo.first_pruned >= 0 && cached >= request.solo.first_pruned)) {
    failure_.Set("step ", step_, ": request ", request.id(), " takes over ", cached, " tokens");
    return;
  }
  for (int32_t block : blocks.first(static_cast<size_t>(cached / kSlotsPerBlock))) {
    if (holders_[static_cast<size_t>(block)]++ == 0) ++held_blocks_;
    request.blocks.push_back(block);
  }
  request.computed = request.cached = cached;
  SetLive(request, cached);
  cached_tokens_ += static_cast<uint64_t>(cached);
}

bool FakeExecutor::ClaimBlocks(const StepRow& row, SimRequest& request, int32_t live_in) {
  const size_t needed = static_cast<size_t>(BlocksForSlots(live_in));
  if (row.live < 0 || row.block_table.size() < needed || row.side_table.size() != row.block_table.size()) {
    return failure_.Set("request ", request.id(), ": ", row.block_table.size(), " blocks for ", live_in, " slots");
  }
  const size_t owned = static_cast<size_t>(BlocksForSlots(row.live));
  for (size_t i = 0; i < needed; ++i) {
    const int32_t block = row.block_table[i], side = row.side_table[i];
    if (side < 0 || side >= options_.blocks + options_.spare_sides) {
      return failure_.Set("side block ", side, " does not exist");
    }
    if (i < owned) {
      if (i >= request.blocks.size() || request.blocks[i] != block) {
        return failure_.Set("step ", step_, ": request ", request.id(), " reads block ", block, " at place ", i);
      }
    } else {
      if (!Claim(block, request)) return false;
      request.blocks.push_back(block);
    }
  }
  return true;
}

bool FakeExecutor::Claim(int32_t block, const SimRequest& request) {
  if (block < 0 || block >= options_.blocks) return failure_.Set("block ", block, " does not exist");
  if (holders_[static_cast<size_t>(block)] != 0) {
    return failure_.Set("step ", step_, ": request ", request.id(), " takes block ", block, ", which somebody holds");
  }
  holders_[static_cast<size_t>(block)] = 1;
  ++held_blocks_;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    std::fill_n(cells_.begin() + CellIndex(pair, block), kSlotsPerBlock, Cell());
    std::fill_n(sides_.begin() + SideIndex(pair, block), kSlotsPerBlock, Side());
  }
  return true;
}

void FakeExecutor::DropBlock(int32_t block) {
  if (--holders_[static_cast<size_t>(block)] == 0) --held_blocks_;
}

void FakeExecutor::SetLive(SimRequest& request, int32_t live) {
  live_slots_ += live - request.live;
  request.live = live;
}

void FakeExecutor::Forget(SimRequest& request) {
  for (int32_t block : request.blocks) DropBlock(block);
  request.blocks.clear();
  SetLive(request, 0);
  if (request.state_row >= 0 && request.decodes()) --decoding_;
  request.state_row = -1;
  request.gone = true;
}

void FakeExecutor::RunRow(const StepRow& row, RowOutput& output) {
  SimRequest* request = RequestOf(row);
  if (request == nullptr) return;
  if (!SeeShrinking(row, *request)) return;
  if (options_.check_contract && !CheckContract(row, *request)) return;
  const int32_t tokens = static_cast<int32_t>(row.tokens.size());
  const int32_t live_in = row.reuse_victim ? row.live : row.live + tokens;
  if (!ClaimBlocks(row, *request, live_in)) return;
  uint64_t shares = 0;
  if (!(row.prefill ? RunPrefill(row, *request, &shares) : RunDecode(row, *request, &shares))) return;
  const bool decoded_before = request->decodes();
  request->computed += tokens;
  if (!decoded_before && request->decodes()) ++decoding_;
  SetLive(*request, live_in);
  if (!CopyBlocks(row, *request)) return;
  if (row.shrink_to > 0 && !Shrink(row, *request, live_in)) return;
  Report(row, *request, shares, output);
}

// The slot holds a token that the oracle may still have, with the scores it should have.
bool FakeExecutor::CheckSlot(const StepRow& row, const SimRequest& request, int32_t pair, int32_t slot,
                             uint64_t state) {
  const Slots slots = SlotsOf(row, pair);
  const Cell& cell = slots[slot];
  const size_t position = static_cast<size_t>(cell.position);
  if (cell.position < 0 || cell.position >= request.computed || cell.key != request.keys[position] ||
      cell.token != request.solo.text[position] ||
      (row.prefill && !request.Pruned(row.position) && cell.position != slot)) {
    return failure_.Set("step ", step_, ": request ", request.id(), " finds in slot ", slot, ", pair ", pair, " token ",
                        cell.token, " of another text, position ", cell.position);
  }
  if (!row.policy->evicts) return true;
  const Side& side = slots.side(slot);
  if (side.position != cell.position || side.state != state) {
    return failure_.Set("step ", step_, ": request ", request.id(), " finds beside slot ", slot, ", pair ", pair,
                        " position ", side.position, " for ", cell.position, " or scores over the wrong rows");
  }
  return true;
}

// The row at `position` adds to the scores of all `live` slots.
void FakeExecutor::AddRow(const StepRow& row, const SimRequest& request, int32_t live, int32_t position) {
  if (!row.policy->evicts) return;
  const uint64_t state = request.ScoreState(position);
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    for (int32_t slot = 0; slot < live; ++slot) slots.side(slot).state = state;
  }
}

bool FakeExecutor::RunPrefill(const StepRow& row, SimRequest& request, uint64_t* shares) {
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()), end = row.live + tokens;
  slots_checked_ += static_cast<uint64_t>(row.live) * static_cast<uint64_t>(options_.pairs);
  const uint64_t state = request.ScoreState(row.position - 1);
  const PromptStop* cut = row.position > request.solo.begin ? &request.solo.StopAfter(row.position) : nullptr;
  if (cut != nullptr && cut->end != row.position) cut = nullptr;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    uint64_t sum = 0;
    for (int32_t slot = 0; slot < row.live; ++slot) {
      if (!CheckSlot(row, request, pair, slot, state)) return false;
      sum += Share(pair, slots[slot].position, slots[slot].token);
    }
    if (cut != nullptr && sum != cut->shares[static_cast<size_t>(pair)]) {
      return failure_.Set("step ", step_, ": request ", request.id(), ", pair ", pair,
                          ": a cut inside the prompt keeps another set than the oracle's");
    }
    for (int32_t i = 0; i < tokens; ++i) {
      const int32_t position = row.position + i;
      slots[row.live + i] = {request.keys[static_cast<size_t>(position)], position, row.tokens[static_cast<size_t>(i)]};
      slots.side(row.live + i) = {0, position};
    }
    if (!row.sample) continue;
    for (int32_t slot = 0; slot < end; ++slot) *shares += Share(pair, slots[slot].position, slots[slot].token);
  }
  for (const ScoreSnapshot& snapshot : row.snapshots) {
    if (snapshot.slots <= row.live || snapshot.slots > end || snapshot.slots % kSlotsPerBlock != 0 ||
        snapshot.sides.size() != static_cast<size_t>(snapshot.slots / kSlotsPerBlock)) {
      return failure_.Set("step ", step_, ": a snapshot at ", snapshot.slots, " of a chunk to ", end);
    }
    AddRow(row, request, snapshot.slots, snapshot.slots - 1);
    for (int32_t pair = 0; pair < options_.pairs; ++pair) {
      for (size_t i = 0; i < snapshot.sides.size(); ++i) {
        std::copy_n(sides_.begin() + SideIndex(pair, row.side_table[i]), kSlotsPerBlock,
                    sides_.begin() + SideIndex(pair, snapshot.sides[i]));
      }
    }
  }
  AddRow(row, request, end, row.position + tokens - 1);
  return true;
}

bool FakeExecutor::RunDecode(const StepRow& row, SimRequest& request, uint64_t* shares) {
  const size_t index = static_cast<size_t>(request.computed - request.prompt_length());
  if (request.computed < request.prompt_length() || index >= request.solo.decodes.size()) {
    return failure_.Set("request ", request.id(), " decodes at ", request.computed);
  }
  const DecodeFacts& facts = request.solo.decodes[index];
  const int32_t logical_length = row.position + 1;
  const uint64_t state = request.ScoreState(request.computed - 1);
  slots_checked_ += static_cast<uint64_t>(row.live) * static_cast<uint64_t>(options_.pairs);
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    int32_t& victim = victims_[static_cast<size_t>(row.state_row * options_.pairs + pair)];
    const int32_t write = row.reuse_victim ? victim : row.live;
    if (write < 0 || write > row.live || (row.reuse_victim && write == row.live)) {
      return failure_.Set("step ", step_, ": request ", request.id(), " writes slot ", write, " of ", row.live);
    }
    if (holders_[static_cast<size_t>(row.block_table[static_cast<size_t>(write / kSlotsPerBlock)])] != 1) {
      return failure_.Set("step ", step_, ": request ", request.id(), " writes into a block that others hold");
    }
    // What may still be read must be what the oracle kept: every cell is of this text, and their sum is the set's.
    uint64_t sum = 0;
    int32_t next_victim = -1;
    uint64_t lowest = 0;
    for (int32_t slot = 0; slot < row.live; ++slot) {
      if (slot == write) continue;
      if (!CheckSlot(row, request, pair, slot, state)) return false;
      const Cell& cell = slots[slot];
      sum += Share(pair, cell.position, cell.token);
      if (!row.choose_victim || cell.position >= logical_length - row.policy->recent) continue;
      const uint64_t score = request.scores[static_cast<size_t>(pair)].of(cell.position);
      if (next_victim < 0 || score < lowest || (score == lowest && cell.position > slots[next_victim].position)) {
        next_victim = slot;
        lowest = score;
      }
    }
    if (sum != facts.shares[static_cast<size_t>(pair)]) {
      return failure_.Set("step ", step_, ": request ", request.id(), ", pair ", pair,
                          ": the kept set is not the oracle's");
    }
    slots[write] = {request.keys[static_cast<size_t>(row.position)], row.position, row.tokens[0]};
    slots.side(write) = {0, row.position};
    *shares += sum + Share(pair, row.position, row.tokens[0]);
    victim = next_victim;
  }
  AddRow(row, request, row.reuse_victim ? row.live : row.live + 1, row.position);
  return true;
}

// After the copies the request holds their targets in the place of what they were made from.
bool FakeExecutor::CopyBlocks(const StepRow& row, SimRequest& request) {
  table_.assign(row.block_table.begin(), row.block_table.end());
  side_table_.assign(row.side_table.begin(), row.side_table.end());
  for (size_t i = 0; i < row.copies.size(); ++i) {
    const BlockCopy& copy = row.copies[i];
    if (i >= table_.size() || copy.from != table_[i] || copy.from_side != side_table_[i]) {
      return failure_.Set("step ", step_, ": request ", request.id(), " copies block ", copy.from, " at place ", i);
    }
    if (!Claim(copy.to, request)) return false;
    for (int32_t pair = 0; pair < options_.pairs; ++pair) {
      std::copy_n(cells_.begin() + CellIndex(pair, copy.from), kSlotsPerBlock,
                  cells_.begin() + CellIndex(pair, copy.to));
      std::copy_n(sides_.begin() + SideIndex(pair, copy.from_side), kSlotsPerBlock,
                  sides_.begin() + SideIndex(pair, copy.to));
    }
    table_[i] = side_table_[i] = copy.to;
    request.blocks[i] = copy.to;
    DropBlock(copy.from);
    ++copied_blocks_;
  }
  return true;
}

bool FakeExecutor::Shrink(const StepRow& row, SimRequest& request, int32_t live_from) {
  if (!Cut(request, *row.policy, live_from, row.shrink_to)) return false;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    victims_[static_cast<size_t>(row.state_row * options_.pairs + pair)] = -1;
  }
  while (request.blocks.size() > static_cast<size_t>(BlocksForSlots(row.shrink_to))) {
    DropBlock(request.blocks.back());
    request.blocks.pop_back();
  }
  SetLive(request, row.shrink_to);
  return true;
}

// In the blocks of table_.
bool FakeExecutor::Cut(const SimRequest& request, const EvictionPolicy& policy, int32_t live_from, int32_t live_to) {
  const int32_t logical_length = request.computed;
  struct Candidate {
    uint64_t score;
    int32_t position;
    int32_t slot;
  };
  std::vector<Candidate> candidates;
  std::vector<int32_t> survivors;  // slots
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(table_, side_table_, pair);
    candidates.clear();
    survivors.clear();
    for (int32_t slot = 0; slot < live_from; ++slot) {
      const int32_t position = slots.side(slot).position;
      if (position >= logical_length - policy.recent) {
        survivors.push_back(slot);
      } else {
        candidates.push_back({request.scores[static_cast<size_t>(pair)].of(position), position, slot});
      }
    }
    // A session whose last turn was shrunk goes on with fewer recent tokens than it asked for; heavy ones take their places.
    const bool exactly = request.before == nullptr;
    const size_t heavy = static_cast<size_t>(live_to) - std::min(survivors.size(), static_cast<size_t>(live_to));
    if (survivors.size() > static_cast<size_t>(live_to) || heavy > candidates.size() ||
        static_cast<int32_t>(heavy) < policy.heavy || (exactly && static_cast<int32_t>(heavy) != policy.heavy)) {
      return failure_.Set("step ", step_, ": request ", request.id(), " is cut to ", live_to, " slots with ",
                          survivors.size(), " recent and ", heavy, " heavy ones");
    }
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<long>(heavy), candidates.end(),
                      [](const Candidate& a, const Candidate& b) {
                        return a.score != b.score ? a.score > b.score : a.position < b.position;
                      });
    for (size_t i = 0; i < heavy; ++i) survivors.push_back(candidates[i].slot);
    std::vector<bool> stays(static_cast<size_t>(live_to), false);
    for (int32_t slot : survivors) {
      if (slot < live_to) stays[static_cast<size_t>(slot)] = true;
    }
    int32_t hole = 0;
    for (int32_t slot : survivors) {
      if (slot < live_to) continue;
      while (stays[static_cast<size_t>(hole)]) ++hole;
      const int32_t target = slots.table[static_cast<size_t>(hole / kSlotsPerBlock)];
      if (holders_[static_cast<size_t>(target)] != 1) {
        return failure_.Set("step ", step_, ": request ", request.id(), " cuts in a block that others hold");
      }
      slots.side(hole) = slots.side(slot);
      slots[hole++] = slots[slot];
    }
    // What is cut is gone, in the block that stays too, if it is nobody else's.
    const int32_t kept_end = static_cast<int32_t>(BlocksForSlots(live_to)) * kSlotsPerBlock;
    for (int32_t slot = live_to; slot < std::min(kept_end, live_from); ++slot) slots[slot] = Cell();
  }
  return true;
}

// The first `live` slots leave with what stands beside them.
void FakeExecutor::Park(const ParkOp& park) {
  const auto user = session_user_.find(park.session);
  if (user == session_user_.end() || park.computed != user->second->computed) {
    failure_.Set("step ", step_, ": session ", park.session, " is parked with ", park.computed, " tokens");
    return;
  }
  const SimRequest& request = *user->second;
  if (park.block_table.size() != request.blocks.size() ||
      !std::equal(request.blocks.begin(), request.blocks.end(), park.block_table.begin())) {
    failure_.Set("step ", step_, ": what is parked for session ", park.session, " is not of request ", request.id());
    return;
  }
  table_.assign(park.block_table.begin(), park.block_table.end());
  side_table_.assign(park.side_table.begin(), park.side_table.end());
  if (park.cut_from > 0 && !Cut(request, *park.policy, park.cut_from, park.live)) return;
  Parked& parked = parked_[park.session];
  parked = Parked();
  parked.live = park.live;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(table_, side_table_, pair);
    for (int32_t slot = 0; slot < park.live; ++slot) {
      parked.cells.push_back(slots[slot]);
      parked.sides.push_back(slots.side(slot));
    }
  }
}

void FakeExecutor::Restore(const RestoreOp& restore) {
  const auto found = parked_.find(restore.session);
  if (found == parked_.end() || found->second.live != restore.live) {
    failure_.Set("step ", step_, ": session ", restore.session, " has nothing parked in ", restore.live, " slots");
    return;
  }
  const Parked& parked = found->second;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(restore.block_table, restore.block_table, pair);
    for (int32_t slot = 0; slot < restore.live; ++slot) {
      const size_t at = static_cast<size_t>(pair) * static_cast<size_t>(restore.live) + static_cast<size_t>(slot);
      slots[slot] = parked.cells[at];
      slots.side(slot) = parked.sides[at];
    }
  }
}

void FakeExecutor::Resume(SimRequest& request, std::span<const int32_t> blocks) {
  request.computed = request.solo.begin;
  SetLive(request, request.solo.live_before);
  restored_tokens_ += static_cast<uint64_t>(request.computed);
  for (int32_t block : blocks.first(static_cast<size_t>(BlocksForSlots(request.live)))) {
    if (!Claim(block, request)) return;
    request.blocks.push_back(block);
  }
}

void FakeExecutor::Report(const StepRow& row, const SimRequest& request, uint64_t shares, RowOutput& output) const {
  for (size_t i = 0; i < row.targets.size(); ++i) {
    SampleResult& target = output.targets[i];
    const int32_t position = row.position + 1 + static_cast<int32_t>(i);
    target.id = row.targets[i];
    target.logprob = FakeLogprob(request.id(), position);
    target.finite = position != request.fate.fail_prompt;
  }
  // The more is dropped the more is lost, and everybody's differently.
  const double per_cut = static_cast<double>(Mix(request.id()) % 97 + 1) / 100.0 / std::max(1, row.losses.cuts);
  for (size_t i = 0; i < output.losses.size(); ++i) {
    output.losses[i] = static_cast<float>(per_cut * static_cast<double>(i + 1));
  }
  if (!row.sample) return;
  output.sampled.id = NextToken(request.id(), request.computed, shares, options_.vocab);
  output.sampled.logprob = FakeLogprob(request.id(), request.computed);
  if (request.computed - request.prompt_length() != request.fate.fail_generated) return;
  if (request.fate.fail_by_id) {
    output.sampled.id = request.computed % 2 == 0 ? -1 : options_.vocab;
  } else {
    output.sampled.finite = false;
  }
}

}  // namespace hydrant::sim
