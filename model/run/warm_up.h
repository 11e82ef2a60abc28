// Steps before the first request. A device loads a kernel, and its libraries one of theirs, when it is first asked for: that takes
// some milliseconds each, and memory. Whoever starts a server waits for that instead of the first client, and hears there that
// the largest step does not fit.
//
// Thread: engine.
#ifndef HYDRANT_MODEL_RUN_WARM_UP_H_
#define HYDRANT_MODEL_RUN_WARM_UP_H_

#include "absl/status/status.h"
#include "model/run/executor.h"
#include "model/run/model_executor.h"

namespace hydrant {

// Runs steps of every kind on an executor that was made with `options`: the largest one of prompts, generated tokens in the numbers
// of rows that are multiplied by different kernels, each without a budget, with one, and with one whose keys stand at their
// ranks; cuts, questions, copies, and a session parked and restored; prompts and generated tokens once more with adapters, where there are
// slots for them. What it leaves in the cache means nothing, and nothing is left
// parked. Errors: RESOURCE_EXHAUSTED.
// REQUIRES: no sequence is in progress; options.dump is null.
absl::Status WarmUp(Executor& executor, const ModelExecutorOptions& options);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_WARM_UP_H_
