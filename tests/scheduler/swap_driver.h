// A Driver that does what an executor does with sequences that step aside.
#ifndef HYDRANT_TESTS_SCHEDULER_SWAP_DRIVER_H_
#define HYDRANT_TESTS_SCHEDULER_SWAP_DRIVER_H_

#include <algorithm>
#include <set>
#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {

// Does what an executor does between two steps with what leaves the pool.
class SwapDriver : public Driver {
 public:
  explicit SwapDriver(const SchedulerOptions& options) : Driver(options) {}

  void StepAndMove() {
    Step();
    at_once = std::max(at_once, scheduler.running());
    std::vector<uint64_t> lost;
    for (const PlanSwapOut& out : scheduler.swap_outs()) {
      left.insert(out.id);
      EXPECT_NE(out.sequence, scheduler.swapping().anchor());
      if (out.begins) begun.push_back(out.id);
      if (out.begins && out.id == fails_for) lost.push_back(out.id);
    }
    for (uint64_t id : scheduler.swap_drops()) dropped.push_back(id);
    if (!scheduler.swap_outs().empty() || !scheduler.swap_drops().empty()) {
      scheduler.FinishSwaps(lost);
    }
  }

  void DrainAndMove(int32_t steps_max = 20'000) {
    for (int32_t steps = 0; !scheduler.idle(); ++steps) {
      ASSERT_LT(steps, steps_max) << "it never ends";
      StepAndMove();
    }
    EXPECT_EQ(used(), 0);
    EXPECT_EQ(scheduler.swapping().blocks(), 0);
    EXPECT_EQ(scheduler.swapping().aside(), 0);
  }

  // Steps until the request is in this place.
  const Sequence* Until(uint64_t id, KvPlace place, bool move = true) {
    for (int32_t steps = 0; steps < 2000; ++steps) {
      if (const Sequence* sequence = Find(id); sequence != nullptr && sequence->place == place) return sequence;
      if (move) {
        StepAndMove();
      } else {
        Step();
      }
    }
    ADD_FAILURE() << "request " << id << " never gets there";
    return nullptr;
  }

  const Sequence* Find(uint64_t id) const {
    for (int32_t index : scheduler.running_sequences()) {
      if (scheduler.sequence(index).request.id == id) return &scheduler.sequence(index);
    }
    return nullptr;
  }

  int32_t at_once = 0;
  std::set<uint64_t> left;
  std::vector<uint64_t> begun;
  std::vector<uint64_t> dropped;
  uint64_t fails_for = 0;  // there is no memory outside for this one
};

inline SchedulerOptions WithSwapSpace(int32_t blocks, int64_t swap_blocks, int32_t sequences_max = 8) {
  SchedulerOptions options = SmallOptions(blocks, sequences_max);
  options.waiting_max = 200;
  options.tokens_max = 128;
  options.swap_blocks_max = swap_blocks;
  return options;
}

// A request of 16 prompt tokens and up to 15 blocks more.
inline Request Long(uint64_t id, int32_t tenant = 0) {
  Request request = MakeRequest(id, 16, 15 * kBlockSlots);
  request.tenant = tenant;
  return request;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SCHEDULER_SWAP_DRIVER_H_
