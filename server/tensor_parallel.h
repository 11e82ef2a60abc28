// Opens the device, or the ranks that --tensor-parallel-size asks for. Experimental.
//
// Thread: the one that starts the server.
#ifndef HYDRANT_SERVER_TENSOR_PARALLEL_H_
#define HYDRANT_SERVER_TENSOR_PARALLEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/model_config.h"
#include "server/config.h"
#include "server/device_choice.h"

namespace hydrant {

// What is wrong with so many ranks on a GPU, in words that name the flag.
std::string RanksOnGpu(int32_t ranks);

// INVALID_ARGUMENT, in words that name the flag, where a model has what `ranks` ranks cannot divide.
absl::Status CheckRanks(int32_t ranks, const ModelConfig& model);

// The ranks that take the place of one device. FAILED_PRECONDITION: it is not the processor. REQUIRES: config.ranks > 1.
absl::StatusOr<OpenedDevice> OpenRanks(OpenedDevice opened, const Config& config);

// OpenDevice, and both of these where there are ranks.
absl::StatusOr<OpenedDevice> OpenDeviceFor(const Config& config, const ModelConfig& model);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENSOR_PARALLEL_H_
