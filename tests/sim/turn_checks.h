// TurnChecks holds what is parked against what must be. A session goes on from its last turn that was kept, and that turn's KV is
// there or was lost for want of room: never because a client left at one step and not at another. What no session goes on from is
// gone, at the scheduler and at the executor.
#ifndef HYDRANT_TESTS_SIM_TURN_CHECKS_H_
#define HYDRANT_TESTS_SIM_TURN_CHECKS_H_

#include <cstdint>
#include <map>

#include "scheduler/scheduler.h"
#include "tests/sim/failure.h"

namespace hydrant::sim {

class TurnChecks {
 public:
  // `blocks_max`: that may be parked.
  TurnChecks(int64_t blocks_max, Failure& failure) : blocks_max_(blocks_max), failure_(failure) {}

  void BeforeStep(const Scheduler& scheduler);
  // In the step a turn ended by itself, which nobody had given up before, with so many blocks.
  void OnEnd(const TurnId& id, int64_t blocks);
  // In the step a turn may have left so many blocks of its prompt; `is_due`: it has to.
  void OnLeave(const TurnId& id, int64_t blocks, bool is_due);
  // `executor_blocks`: parked, as far as the executor knows; -1: it has something yet to do.
  void AfterStep(const Scheduler& scheduler, int64_t executor_blocks);

  // Between two steps; of OnDrop, afterwards.
  void OnSettle(const TurnId& id, bool keep);
  void OnDrop(uint64_t session, const Scheduler& scheduler);

  uint64_t given_up() const { return given_up_; }    // turns that were parked and that their sessions do not go on from
  uint64_t gone_back() const { return gone_back_; }  // of these, with the turn before still parked

 private:
  struct Due {
    int64_t blocks = 0;
    bool dropped = false;  // while somebody counted on it: it goes with him
  };

  const int64_t blocks_max_;
  Failure& failure_;
  std::map<TurnId, Due> due_;
  int64_t blocks_wanted_ = 0;  // at the most, in the step
  uint64_t given_up_ = 0;
  uint64_t gone_back_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_TURN_CHECKS_H_
