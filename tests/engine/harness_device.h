// The device that a program of engine tests runs on: each links one implementation, tests/model the CPU's, tests/simt that of
// CUDA's kernels on the host.
#ifndef HYDRANT_TESTS_ENGINE_HARNESS_DEVICE_H_
#define HYDRANT_TESTS_ENGINE_HARNESS_DEVICE_H_

#include <memory>

#include "kernels/device.h"

namespace hydrant {

// `threads` means nothing to some.
std::unique_ptr<Device> MakeHarnessDevice(int threads);

// Whether a row's bits depend on nothing but the row.
bool HarnessIsBatchInvariant();

// Whether its ops return before they are done.
bool HarnessDeviceQueues();

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_HARNESS_DEVICE_H_
