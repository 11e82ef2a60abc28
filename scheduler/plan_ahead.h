// Whether a step may be planned while the one before it is in flight, without knowing what that finds out.
#ifndef HYDRANT_SCHEDULER_PLAN_AHEAD_H_
#define HYDRANT_SCHEDULER_PLAN_AHEAD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_plan.h"

namespace hydrant {

struct StepAhead {
  bool plain = false;  // the step is nothing but one more token for each sequence that goes on, and somebody does
  bool somebody_leaves = false;  // as far as is known: a state row becomes free with the step in flight
};

// What is known of the step behind `plan`, the only one in flight. `independent` is asked for the sequences that would have a row:
// whether the driver can make it without the token before.
StepAhead LookAhead(const StepPlan& plan, const SequenceTable& sequences,
                    absl::FunctionRef<bool(int32_t sequence)> independent);

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PLAN_AHEAD_H_
