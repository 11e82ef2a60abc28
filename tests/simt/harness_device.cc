#include "tests/model/harness_device.h"

#include "kernels/cuda/cuda_device.h"

namespace hydrant {

std::unique_ptr<Device> MakeHarnessDevice(int) { return CudaDevice::Create({.host_visible = true}).value(); }

// Products of few rows and of many are formed by different kernels.
bool HarnessIsBatchInvariant() { return false; }

bool HarnessDeviceQueues() { return true; }

}  // namespace hydrant
