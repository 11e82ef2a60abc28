// StepPacer sizes steps by time. A step cannot be interrupted: while it runs, a cancelled sequence keeps its blocks, a
// new request waits, and streams beside a prefill stand still. How much work makes a step of bearable length depends on
// the device and the model, so it is learned from past steps. Beside decodes the length of the whole step counts,
// because that is what the streams wait for, but not the time in which KV of sessions was moved: smaller steps would
// not shorten it. What a moved block costs is learned from it: it is charged to its tenant, and as many are moved with
// a step as make it a fraction longer. Costs are in tokens at the beginning of a prompt (scheduler/prefill_cost.h): a
// step with the end of a long one has fewer.
//
// Thread: engine. Pure: what it returns is a function of the reports. (Results do not depend on the size of chunks.)
#ifndef HYDRANT_SERVER_ENGINE_STEP_PACER_H_
#define HYDRANT_SERVER_ENGINE_STEP_PACER_H_

#include <cstdint>
#include <limits>

#include "scheduler/step_limits.h"
#include "server/engine/engine_types.h"

namespace hydrant {

class StepPacer {
 public:
  // `long_steps`: every step takes the time of a pass over weights on a disk, whatever it computes. REQUIRES: tokens_max >=
  // kBlockSlots.
  explicit StepPacer(int32_t tokens_max, bool long_steps = false);

  void Observe(const StepReport& report);

  // For the next step, each at least kBlockSlots.
  StepLimits limits() const;

 private:
  double BesideMost() const;
  double SharedS() const;  // how long steps are to take that several tenants have something for
  double Within(double cost) const;
  double BlockMoved() const;
  int64_t BlocksMovedMost() const;

  double AtLeast(double target_s) const;  // how long a step with such a target is to take, by what every step takes
  double BesideS() const;

  double shortest_s_ = std::numeric_limits<double>::infinity();  // of all steps so far
  const double tokens_max_;
  const bool long_steps_;
  double alone_;                // prompts, in a step without decodes
  double alone_s_;              // how long that step is to take
  double beside_;               // prompts, beside decodes
  double shared_;               // everything, in a step for which several tenants have something
  double block_moved_s_ = 0.0;  // how long a block takes that is parked or restored; 0: none has been
  double step_s_ = 0.0;         // how long a step takes, by the last ones; 0: there was none
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_STEP_PACER_H_
