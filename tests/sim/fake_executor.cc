#include "tests/sim/fake_executor.h"

#include <algorithm>
#include <limits>

#include "block_manager/kv_budget.h"

namespace hydrant::sim {

struct FakeExecutor::Slots {
  Cell* cells = nullptr;  // of the pair: [block][16]
  std::span<const int32_t> table;
  int32_t pair = 0;

  Cell& operator[](int32_t slot) const {
    return cells[table[static_cast<size_t>(slot / kSlotsPerBlock)] * kSlotsPerBlock + slot % kSlotsPerBlock];
  }
};

FakeExecutor::FakeExecutor(const Options& options, std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure)
    : options_(options),
      requests_(requests),
      failure_(failure),
      cells_(static_cast<size_t>(options.pairs) * static_cast<size_t>(options.blocks) * kSlotsPerBlock),
      victims_(static_cast<size_t>(options.state_rows) * static_cast<size_t>(options.pairs), -1),
      holder_(static_cast<size_t>(options.blocks), 0),
      row_user_(static_cast<size_t>(options.state_rows), 0) {}

FakeExecutor::Slots FakeExecutor::SlotsOf(const StepRow& row, int32_t pair) {
  return {cells_.data() + static_cast<size_t>(pair) * static_cast<size_t>(options_.blocks) * kSlotsPerBlock,
          row.block_table, pair};
}

Executor::Ticket FakeExecutor::Launch(const StepInput& input) {
  if (launched_ != nullptr) failure_.Set("a step was launched before the last one was awaited");
  launched_ = &input;
  ++step_;
  if (input.rows.empty()) failure_.Set("a step without rows was launched");
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
  if (in_flight) in_flight();
  StepOutput output;
  output.rows.resize(launched_->rows.size());
  for (size_t i = 0; i < launched_->rows.size(); ++i) {
    const StepRow& row = launched_->rows[i];
    output.rows[i].targets.resize(row.targets.size());
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
  return failure_.any() ? nullptr : &request;
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
      !expect("logprobs", row.logprobs, asked.logprobs) || !expect("heavy", row.policy->heavy, asked.policy.heavy) ||
      !expect("recent", row.policy->recent, asked.policy.recent)) {
    return false;
  }
  const bool same_text = row.position + tokens <= static_cast<int32_t>(request.solo.text.size()) &&
                         std::equal(row.tokens.begin(), row.tokens.end(), request.solo.text.begin() + row.position);
  if (!expect("the text", same_text, true)) return false;

  int32_t live_in;
  if (prefill) {
    const int32_t end = row.position + tokens;
    const bool last = end == request.prompt_length();
    if (end > request.prompt_length()) return fail("the chunk's end", end, request.prompt_length());
    if (!last && !expect("the chunk's end modulo 16", end % kSlotsPerBlock, 0)) return false;
    const int32_t cut = last && request.solo.live_after_prompt < end ? request.solo.live_after_prompt : 0;
    live_in = end;
    if (!expect("live", row.live, row.position) || !expect("shrink_to", row.shrink_to, cut) ||
        !expect("sample", row.sample, last && asked.request.max_tokens > 0) ||
        !expect("reuse_victim", row.reuse_victim, false) || !expect("choose_victim", row.choose_victim, false)) {
      return false;
    }
  } else {
    const size_t index = static_cast<size_t>(row.position - request.prompt_length());
    if (index >= request.solo.decodes.size()) return fail("decode step", row.position, -1);
    const DecodeFacts& facts = request.solo.decodes[index];
    live_in = facts.live_in;
    const bool exact = asked.policy.evicts && !asked.request.budget.periodic;
    const bool cut = !exact && facts.live_after < facts.live_in;
    const bool over = exact && facts.live_in == asked.policy.keep() + 1;
    if (!expect("tokens of a decode row", tokens, 1) || !expect("live", row.live, facts.live) ||
        !expect("reuse_victim", row.reuse_victim, facts.victim_waits) ||
        !expect("choose_victim", row.choose_victim, over) ||
        !expect("shrink_to", row.shrink_to, cut ? facts.live_after : 0) || !expect("sample", row.sample, true)) {
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

bool FakeExecutor::ClaimBlocks(const StepRow& row, SimRequest& request, int32_t live_in) {
  const size_t needed = static_cast<size_t>(BlocksForSlots(live_in));
  if (row.live < 0 || row.block_table.size() < needed) {
    return failure_.Set("request ", request.id(), ": ", row.block_table.size(), " blocks for ", live_in, " slots");
  }
  const size_t owned = static_cast<size_t>(BlocksForSlots(row.live));
  for (size_t i = 0; i < needed; ++i) {
    const int32_t block = row.block_table[i];
    if (block < 0 || block >= options_.blocks) return failure_.Set("block ", block, " does not exist");
    uint64_t& holder = holder_[static_cast<size_t>(block)];
    if (holder != (i < owned ? request.id() : 0)) {
      return failure_.Set("step ", step_, ": request ", request.id(), i < owned ? " reads" : " takes", " block ", block,
                          " of request ", holder);
    }
    if (i < owned) continue;
    holder = request.id();
    request.blocks.push_back(block);
    ++held_blocks_;
  }
  return true;
}

void FakeExecutor::FreeBlock(int32_t block) {
  holder_[static_cast<size_t>(block)] = 0;
  --held_blocks_;
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const size_t first =
        (static_cast<size_t>(pair) * static_cast<size_t>(options_.blocks) + static_cast<size_t>(block)) *
        kSlotsPerBlock;
    std::fill_n(cells_.begin() + static_cast<long>(first), kSlotsPerBlock, Cell());
  }
}

void FakeExecutor::SetLive(SimRequest& request, int32_t live) {
  live_slots_ += live - request.live;
  request.live = live;
}

void FakeExecutor::Forget(SimRequest& request) {
  for (int32_t block : request.blocks) FreeBlock(block);
  request.blocks.clear();
  SetLive(request, 0);
  if (request.state_row >= 0 && request.decodes()) --decoding_;
  request.state_row = -1;
  request.gone = true;
}

void FakeExecutor::RunRow(const StepRow& row, RowOutput& output) {
  SimRequest* request = RequestOf(row);
  if (request == nullptr) return;
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
  if (row.shrink_to > 0 && !Shrink(row, *request, live_in)) return;
  Report(row, *request, shares, output);
}

bool FakeExecutor::RunPrefill(const StepRow& row, SimRequest& request, uint64_t* shares) {
  const int32_t tokens = static_cast<int32_t>(row.tokens.size());
  const uint32_t owner = static_cast<uint32_t>(request.id());
  slots_checked_ += static_cast<uint64_t>(row.live) * static_cast<uint64_t>(options_.pairs);
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    for (int32_t slot = 0; slot < row.live; ++slot) {
      const Cell& cell = slots[slot];
      if (cell.owner != owner || cell.position != slot || cell.token != request.solo.text[static_cast<size_t>(slot)]) {
        return failure_.Set("step ", step_, ": prefill of request ", owner, " finds in slot ", slot, " token ",
                            cell.token, " of request ", cell.owner, ", position ", cell.position);
      }
    }
    for (int32_t i = 0; i < tokens; ++i) {
      slots[row.live + i] = {owner, row.position + i, row.tokens[static_cast<size_t>(i)]};
    }
    if (!row.sample) continue;
    for (int32_t slot = 0; slot < row.live + tokens; ++slot) {
      *shares += Share(pair, slots[slot].position, slots[slot].token);
    }
  }
  return true;
}

bool FakeExecutor::RunDecode(const StepRow& row, SimRequest& request, uint64_t* shares) {
  const uint32_t owner = static_cast<uint32_t>(request.id());
  const std::vector<int32_t>& text = request.solo.text;
  const size_t index = static_cast<size_t>(request.computed - request.prompt_length());
  if (request.computed < request.prompt_length() || index >= request.solo.decodes.size()) {
    return failure_.Set("request ", owner, " decodes at ", request.computed);
  }
  const DecodeFacts& facts = request.solo.decodes[index];
  const int32_t logical_length = row.position + 1;
  slots_checked_ += static_cast<uint64_t>(row.live) * static_cast<uint64_t>(options_.pairs);
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    int32_t& victim = victims_[static_cast<size_t>(row.state_row * options_.pairs + pair)];
    const int32_t write = row.reuse_victim ? victim : row.live;
    if (write < 0 || write > row.live || (row.reuse_victim && write == row.live)) {
      return failure_.Set("step ", step_, ": request ", owner, " writes slot ", write, " of ", row.live);
    }
    // What may still be read must be what the oracle kept: every cell is this request's, and their sum is the set's.
    uint64_t sum = 0;
    int32_t next_victim = -1;
    uint64_t lowest = 0;
    for (int32_t slot = 0; slot < row.live; ++slot) {
      if (slot == write) continue;
      const Cell& cell = slots[slot];
      if (cell.owner != owner || cell.position < 0 || cell.position >= request.computed ||
          cell.token != text[static_cast<size_t>(cell.position)]) {
        return failure_.Set("step ", step_, ": request ", owner, " finds in slot ", slot, ", pair ", pair, " token ",
                            cell.token, " of request ", cell.owner, ", position ", cell.position);
      }
      sum += Share(pair, cell.position, cell.token);
      if (!row.choose_victim || cell.position >= logical_length - row.policy->recent) continue;
      const uint64_t score = request.scores[static_cast<size_t>(pair)].of(cell.position);
      if (next_victim < 0 || score < lowest || (score == lowest && cell.position > slots[next_victim].position)) {
        next_victim = slot;
        lowest = score;
      }
    }
    if (sum != facts.shares[static_cast<size_t>(pair)]) {
      return failure_.Set("step ", step_, ": request ", owner, ", pair ", pair, ": the kept set is not the oracle's");
    }
    slots[write] = {owner, row.position, row.tokens[0]};
    *shares += sum + Share(pair, row.position, row.tokens[0]);
    victim = next_victim;
  }
  return true;
}

bool FakeExecutor::Shrink(const StepRow& row, SimRequest& request, int32_t live_from) {
  const int32_t live_to = row.shrink_to;
  const int32_t logical_length = request.computed;
  struct Candidate {
    uint64_t score;
    int32_t position;
    int32_t slot;
  };
  std::vector<Candidate> candidates;
  std::vector<int32_t> survivors;  // slots
  for (int32_t pair = 0; pair < options_.pairs; ++pair) {
    const Slots slots = SlotsOf(row, pair);
    candidates.clear();
    survivors.clear();
    for (int32_t slot = 0; slot < live_from; ++slot) {
      const int32_t position = slots[slot].position;
      if (position >= logical_length - row.policy->recent) {
        survivors.push_back(slot);
      } else {
        candidates.push_back({request.scores[static_cast<size_t>(pair)].of(position), position, slot});
      }
    }
    const size_t heavy = static_cast<size_t>(row.policy->heavy);
    if (survivors.size() + heavy != static_cast<size_t>(live_to) || heavy > candidates.size()) {
      return failure_.Set("step ", step_, ": request ", request.id(), " is cut to ", live_to, " slots with ",
                          survivors.size(), " recent and ", heavy, " heavy ones");
    }
    std::partial_sort(candidates.begin(), candidates.begin() + row.policy->heavy, candidates.end(),
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
      slots[hole++] = slots[slot];
    }
    // What is cut is gone, in the block that stays too.
    for (int32_t slot = live_to; slot < live_from; ++slot) slots[slot] = Cell();
    victims_[static_cast<size_t>(row.state_row * options_.pairs + pair)] = -1;
  }
  while (request.blocks.size() > static_cast<size_t>(BlocksForSlots(live_to))) {
    FreeBlock(request.blocks.back());
    request.blocks.pop_back();
  }
  SetLive(request, live_to);
  return true;
}

void FakeExecutor::Report(const StepRow& row, const SimRequest& request, uint64_t shares, RowOutput& output) const {
  for (size_t i = 0; i < row.targets.size(); ++i) {
    SampleResult& target = output.targets[i];
    const int32_t position = row.position + 1 + static_cast<int32_t>(i);
    target.id = row.targets[i];
    target.logprob = FakeLogprob(request.id(), position);
    target.finite = position != request.fate.fail_prompt;
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
