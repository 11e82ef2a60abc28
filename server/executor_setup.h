// How the command line becomes a ModelExecutor: its options, and where weights that are streamed lie.
#ifndef HYDRANT_SERVER_EXECUTOR_SETUP_H_
#define HYDRANT_SERVER_EXECUTOR_SETUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "server/config.h"
#include "server/sizing.h"

namespace hydrant {

// Without those of the process: `on_load` and `dump`.
ModelExecutorOptions ExecutorOptionsOf(const Config& config, const Sizing& sizing);

// ModelExecutor::Create; an error of weights that are to be streamed names the flag, and the log says what a step will read.
absl::StatusOr<std::unique_ptr<ModelExecutor>> CreateExecutor(const Checkpoint& checkpoint, Device& device,
                                                              const ModelExecutorOptions& options);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_EXECUTOR_SETUP_H_
