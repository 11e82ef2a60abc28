// The part of FakeExecutor that looks: at what rows say, and at what is in the slots they read.
#include <algorithm>

#include "block_manager/kv_budget.h"
#include "tests/sim/fake_executor.h"

namespace hydrant::sim {
namespace {

// One thing that a row says, and what the oracle expects it to say.
struct Expect {
  Failure& failure;
  const uint64_t step;
  const StepRow& row;
  const SimRequest& request;

  bool operator()(const char* what, int64_t got, int64_t expected) const {
    if (got == expected) return true;
    return failure.Set("step ", step, ", request ", request.id(), ", position ", row.position, ": ", what, " is ", got,
                       ", expected ", expected);
  }
};

}  // namespace

bool FakeExecutor::CheckContract(const StepRow& row, const SimRequest& request) {
  const Expect expect{failure_, step_, row, request};
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()) - row.drafts();
  const bool prefill = request.computed < request.prompt_length();
  if (!expect("position", row.position, request.computed) || !expect("prefill", row.prefill, prefill) ||
      !expect("prompt_length", row.prompt_length, request.prompt_length()) ||
      !expect("logprobs", row.logprobs, request.request.logprobs) ||
      !expect("heavy", row.policy->heavy, request.policy.heavy) ||
      !expect("recent", row.policy->recent, request.policy.recent) ||
      !expect("rolling", row.policy->rolling, request.policy.rolling)) {
    return false;
  }
  const auto text = request.solo.text.begin() + row.position;
  const bool same_text = row.position + tokens <= static_cast<int32_t>(request.solo.text.size()) &&
                         (prefill ? std::equal(row.tokens.begin(), row.tokens.end(), text) : TokenOf(row) == *text);
  if (row.tokens.size() > 1 && !prefill && !expect("drafts asked for", request.request.drafter != nullptr, true))
    return false;
  if (!expect("the text", same_text, true)) return false;
  int32_t live_in = 0;
  return (prefill ? CheckPrefill(row, request, &live_in) : CheckDecode(row, request, &live_in)) &&
         CheckTargets(row, request) &&
         expect("blocks", std::ssize(row.block_table), BlocksForSlots(live_in + (row.reuse_victim ? 0 : row.drafts())));
}

bool FakeExecutor::CheckPrefill(const StepRow& row, const SimRequest& request, int32_t* live_in) {
  const Expect expect{failure_, step_, row, request};
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()), end = row.position + tokens;
  const PromptStop& stop = request.solo.StopAfter(row.position + 1);
  if (!expect("a chunk across a stop", end > stop.end, false)) return false;
  *live_in = request.live + tokens;
  if (end < stop.end && !expect("the chunk's end modulo 16", *live_in % kBlockSlots, 0)) return false;
  const EvictionPolicy& policy = request.request.policy;
  const bool ends = end == request.prompt_length();
  if (!ends &&
      !expect("a chunk's end within the rows that pin", end > request.prompt_length() - policy.pin_rows, false)) {
    return false;
  }
  const bool pins = ends && stop.cut_to > 0 && policy.pin_rows > 0;
  const std::vector<uint64_t> none;
  const std::vector<uint64_t>& starts = pins ? request.request.segment_starts : none;
  if (!expect("the same segments", std::ranges::equal(row.segment_starts, starts), true)) return false;
  const bool samples = end == request.prompt_length() && request.request.request.max_tokens > 0;
  return expect("live", row.live, request.live) &&
         expect("shrink_to", row.shrink_to, end == stop.end ? stop.cut_to : 0) &&
         expect("sample", row.sample, samples) && expect("reuse_victim", row.reuse_victim, false) &&
         expect("choose_victim", row.choose_victim, false);
}

bool FakeExecutor::CheckDecode(const StepRow& row, const SimRequest& request, int32_t* live_in) {
  const Expect expect{failure_, step_, row, request};
  const size_t index = static_cast<size_t>(row.position - request.prompt_length());
  if (!expect("a decode step too many", index >= request.solo.decodes.size(), false)) return false;
  const DecodeFacts& facts = request.solo.decodes[index];
  *live_in = facts.live_in;
  return expect("tokens of a decode row", std::ssize(row.tokens) - row.drafts(), 1) &&
         expect("live", row.live, facts.live) && expect("reuse_victim", row.reuse_victim, facts.victim_waits) &&
         expect("choose_victim", row.choose_victim, facts.chooses_victim) &&
         expect("shrink_to", row.shrink_to, facts.cut_to) && expect("sample", row.sample, true) &&
         expect("losses asked of a guarantee", row.losses.cuts > 0 && !request.request.request.budget.elastic(), false);
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

// All that the row reads: each slot holds a token that the oracle may still have, with the scores it should have. What was
// seen already, and nobody wrote since, is not looked at again.
bool FakeExecutor::CheckSlots(const StepRow& row, SimRequest& request) {
  const bool same_slots = row.live == request.live;
  const uint64_t state = row.policy->evicts ? request.ScoreState(request.computed - 1) : 0;
  bool seen_all = same_slots && request.sums_known;
  const int32_t blocks = static_cast<int32_t>(BlocksForSlots(row.live));
  for (int32_t i = 0; i < blocks; ++i) {
    const FakeMemory::Block& block = memory_.block(row.block_table[static_cast<size_t>(i)]);
    const FakeMemory::ScoreBlock& score_block = memory_.score_block(row.score_table[static_cast<size_t>(i)]);
    if (row.policy->evicts && score_block.state != state) {
      return failure_.Set("step ", step_, ": request ", request.id(), " finds the score block ", i,
                          " scores over the wrong rows");
    }
    SimRequest::Versions& seen = request.seen[static_cast<size_t>(i)];
    if (same_slots && seen.block == block.version && seen.score_block == score_block.version) continue;
    seen_all = false;
    if (!CheckBlock(row, request, i)) return false;
    seen = {block.version, score_block.version};
  }
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    const int32_t slot = request.unseen_slot[static_cast<size_t>(layer_head)];
    if (!same_slots || slot < 0 || slot >= row.live) continue;
    if (!CheckSlot(row, request, layer_head, slot, CellAt(row.block_table, layer_head, slot),
                   PositionAt(row.score_table, layer_head, slot))) {
      return false;
    }
  }
  request.unseen_slot.fill(-1);
  if (request.policy.rolling && !CheckRanks(row, request)) return false;
  slots_read_ += static_cast<uint64_t>(row.live) * static_cast<uint64_t>(options_.layer_heads);
  if (seen_all) return true;
  request.sums = {};
  for (int32_t i = 0; i < blocks; ++i) {
    const PairSums& sums = memory_.block(row.block_table[static_cast<size_t>(i)]).sums;
    for (size_t layer_head = 0; layer_head < sums.size(); ++layer_head) request.sums[layer_head] += sums[layer_head];
  }
  request.sums_known = true;
  return true;
}

// The slots in block `place` of the row's table.
bool FakeExecutor::CheckBlock(const StepRow& row, const SimRequest& request, int32_t place) {
  const FakeMemory::Block& block = memory_.block(row.block_table[static_cast<size_t>(place)]);
  const FakeMemory::ScoreBlock& score_block = memory_.score_block(row.score_table[static_cast<size_t>(place)]);
  const int32_t first = place * kBlockSlots;
  const size_t count = static_cast<size_t>(std::min(row.live - first, kBlockSlots));
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(options_.layer_heads); ++layer_head) {
    for (size_t i = 0; i < count; ++i) {
      if (!CheckSlot(row, request, static_cast<int32_t>(layer_head), first + static_cast<int32_t>(i),
                     block.cells[layer_head][i], score_block.positions[layer_head][i])) {
        return false;
      }
    }
  }
  return true;
}

bool FakeExecutor::CheckSlot(const StepRow& row, const SimRequest& request, int32_t layer_head, int32_t slot,
                             const FakeMemory::Cell& cell, int32_t position_beside) {
  const size_t position = static_cast<size_t>(cell.position);
  const bool rolls = request.policy.rolling;
  if (cell.position < 0 || cell.position >= request.computed || cell.key != CellKey(request.keys[position], rolls) ||
      cell.token != request.solo.text[position] ||
      (row.prefill && !request.Pruned(row.position) && cell.position != slot)) {
    return failure_.Set("step ", step_, ": request ", request.id(), " finds in slot ", slot, ", layer_head ",
                        layer_head, " token ", cell.token, " of another text, position ", cell.position);
  }
  if (row.policy->evicts && !rolls && position_beside != cell.position) {
    return failure_.Set("step ", step_, ": request ", request.id(), " finds beside slot ", slot, ", layer_head ",
                        layer_head, " position ", position_beside, " for ", cell.position);
  }
  return true;
}

// In each pair the live tokens stand at their ranks, the oldest first.
bool FakeExecutor::CheckRanks(const StepRow& row, const SimRequest& request) {
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    by_rank_.assign(static_cast<size_t>(row.live), -1);
    for (int32_t slot = 0; slot < row.live; ++slot) {
      const int32_t rank = PositionAt(row.score_table, layer_head, slot);
      if (rank < 0 || rank >= row.live || by_rank_[static_cast<size_t>(rank)] >= 0) {
        return failure_.Set("step ", step_, ": request ", request.id(), ", layer_head ", layer_head, ": slot ", slot,
                            " stands at rank ", rank, " of ", row.live);
      }
      by_rank_[static_cast<size_t>(rank)] = CellAt(row.block_table, layer_head, slot).position;
    }
    if (!std::is_sorted(by_rank_.begin(), by_rank_.end())) {
      return failure_.Set("step ", step_, ": request ", request.id(), ", layer_head ", layer_head,
                          ": ranks are not in the order of the text");
    }
  }
  return true;
}

// Nobody else may hold what the row writes into `slot`.
bool FakeExecutor::CheckWrites(const StepRow& row, const SimRequest& request, int32_t slot) {
  if (memory_.block(row.block_table[static_cast<size_t>(slot / kBlockSlots)]).holders == 1) return true;
  return failure_.Set("step ", step_, ": request ", request.id(), " writes into a block that others hold");
}

}  // namespace hydrant::sim
