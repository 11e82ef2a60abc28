// The part of FakeExecutor that moves sequences that step aside: all their slots in their order, and the state row.
#include <algorithm>
#include <utility>

#include "block_manager/kv_budget.h"
#include "tests/sim/fake_executor.h"

namespace hydrant::sim {

SimRequest* FakeExecutor::Swapped(uint64_t id) {
  if (id > 0 && id <= requests_.size() && requests_[id - 1]->started) return requests_[id - 1].get();
  failure_.Set("step ", step_, ": request ", id, " steps aside or comes back");
  return nullptr;
}

// What is in each slot of each pair, slot by slot.
uint64_t FakeExecutor::OrderOf(std::span<const int32_t> table, std::span<const int32_t> score_table, int32_t live,
                               bool evicts) const {
  uint64_t order = 1;
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    for (int32_t slot = 0; slot < live; ++slot) {
      const FakeMemory::Cell& cell = CellAt(table, layer_head, slot);
      const int32_t beside = evicts ? PositionAt(score_table, layer_head, slot) : 0;
      order =
          Mix(order * 3 + cell.key) + Mix(static_cast<uint64_t>(cell.position) * 977 + static_cast<uint64_t>(beside));
    }
  }
  return order;
}

void FakeExecutor::SwapOutOf(const SwapOutOp& out, StepOutput* output) {
  SimRequest* request = Swapped(out.id);
  if (request == nullptr) return;
  const auto blocks = static_cast<size_t>(BlocksForSlots(out.live));
  const bool whole = !request->gone && out.live == request->live && request->blocks.size() == blocks &&
                     out.block_table.size() >= blocks && out.score_table.size() >= blocks &&
                     std::equal(request->blocks.begin(), request->blocks.end(), out.block_table.begin());
  if (!whole || out.begins == swapped_.contains(out.id)) {
    failure_.Set("step ", step_, ": request ", out.id, " steps aside with ", out.live, " slots, it has ",
                 request->live);
    return;
  }
  const auto row = static_cast<size_t>(out.state_row);
  const auto victims = victims_.begin() + static_cast<std::ptrdiff_t>(row) * options_.layer_heads;
  if (out.begins) {
    if (swap_fails && swap_fails()) {
      request->swap_failed = true;
      Forget(*request);
      output->swap_failures.push_back(out.id);
      return;
    }
    AsideKv& kv = swapped_[out.id];
    kv.live = out.live;
    kv.blocks.resize(blocks);
    kv.score_blocks.resize(blocks);
    kv.victims.assign(victims, victims + options_.layer_heads);
    if (loses_victims) std::fill(kv.victims.begin(), kv.victims.end(), 0);
    kv.sampled = sampled_[row];
    request->order = OrderOf(out.block_table, out.score_table, out.live, request->policy.evicts);
  }
  AsideKv& kv = swapped_.at(out.id);
  if (out.slice.begin != kv.moved || out.slice.size() < 1 || out.slice.end > std::ssize(kv.blocks)) {
    failure_.Set("step ", step_, ": request ", out.id, " steps aside in another order");
    return;
  }
  for (; kv.moved < out.slice.end; ++kv.moved) {
    const auto i = static_cast<size_t>(kv.moved);
    kv.blocks[i] = memory_.block(out.block_table[i]);
    kv.score_blocks[i] = memory_.score_block(out.score_table[i]);
  }
  if (out.slice.end < std::ssize(kv.blocks)) return;
  kv.moved = 0;
  kv.is_whole = true;
  ++swaps_out_;
  request->aside = true;
  for (int32_t block : request->blocks) memory_.Drop(block);
  request->blocks.clear();
  request->seen.clear();
  std::fill(victims, victims + options_.layer_heads, -1);
  sampled_[row] = 0;
}

void FakeExecutor::TakeBack(SimRequest& request, std::span<const int32_t> blocks) {
  if (!request.aside || !request.blocks.empty()) return;
  for (int32_t block : blocks.first(static_cast<size_t>(BlocksForSlots(request.live)))) {
    if (!Append(block, request)) return;
  }
}

void FakeExecutor::SwapInOf(const SwapInOp& in) {
  const auto found = swapped_.find(in.id);
  SimRequest* request = Swapped(in.id);
  if (request == nullptr) return;
  if (found == swapped_.end() || !found->second.is_whole || found->second.live != in.live ||
      in.slice.begin != found->second.moved || in.slice.end > std::ssize(in.block_table) ||
      std::ssize(in.block_table) != BlocksForSlots(in.live)) {
    failure_.Set("step ", step_, ": request ", in.id, " has nothing outside in ", in.live, " slots");
    return;
  }
  AsideKv& kv = found->second;
  for (; kv.moved < in.slice.end; ++kv.moved) {
    const auto i = static_cast<size_t>(kv.moved);
    const int32_t block = in.block_table[i];
    if (!request->gone && (i >= request->blocks.size() || request->blocks[i] != block)) {
      failure_.Set("step ", step_, ": request ", in.id, " comes back into block ", block, ", which is not its own");
      return;
    }
    memory_.PutBlock(kv.blocks[i], block);
    memory_.PutScoreBlock(kv.score_blocks[i], block);
  }
  if (!in.ends()) return;
  const auto row = static_cast<size_t>(in.state_row);
  std::copy(kv.victims.begin(), kv.victims.end(),
            victims_.begin() + static_cast<std::ptrdiff_t>(row) * options_.layer_heads);
  sampled_[row] = kv.sampled;
  swapped_.erase(found);
  request->aside = false;
  request->came_back = true;
  request->state_row = in.state_row;
  request->sums_known = false;
  request->unseen_slot.fill(-1);
  request->seen.assign(request->blocks.size(), {});
}

// The first row of a sequence that was outside finds every slot where it was.
bool FakeExecutor::CheckOrder(const StepRow& row, SimRequest& request) {
  if (request.aside) return failure_.Set("step ", step_, ": request ", request.id(), " has a row while it is outside");
  if (!std::exchange(request.came_back, false)) return true;
  const uint64_t order = OrderOf(row.block_table, row.score_table, request.live, request.policy.evicts);
  return order == request.order ||
         failure_.Set("step ", step_, ": request ", request.id(), " came back with its slots in another order");
}

int64_t FakeExecutor::swapped_blocks() const {
  int64_t blocks = 0;
  for (const auto& [id, kv] : swapped_) blocks += std::ssize(kv.blocks);
  return blocks;
}

}  // namespace hydrant::sim
