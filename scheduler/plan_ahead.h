// Whether a step may be planned while the one before it is in flight and its results are unknown. Thread: engine. Pure.
#ifndef HYDRANT_SCHEDULER_PLAN_AHEAD_H_
#define HYDRANT_SCHEDULER_PLAN_AHEAD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_plan.h"

namespace hydrant {

struct StepAhead {
  bool plain = false;  // the step is nothing but one more token for each sequence that goes on, and somebody does
  bool row_becomes_free = false;  // as far as is known: a state row becomes free with the step in flight
};

// What is known of the step after `plan`, the only one in flight. `can_plan_ahead(index)` is asked for each sequence that
// would have a row: true if the driver can build the row without knowing the token before it.
StepAhead LookAhead(const StepPlan& plan, const SequenceTable& sequences,
                    absl::FunctionRef<bool(int32_t sequence)> can_plan_ahead);

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PLAN_AHEAD_H_
