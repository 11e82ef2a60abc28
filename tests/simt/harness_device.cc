#include "tests/engine/harness_device.h"

#include "kernels/cuda/cuda_device.h"

namespace hydrant {

// As the server has it: memory of its own, steps recorded as graphs, and no wait but where a result is asked for.
std::unique_ptr<Device> MakeHarnessDevice(int) { return CudaDevice::Create({}).value(); }

// Products of few rows and of many are formed by different kernels.
bool HarnessIsBatchInvariant() { return false; }

bool HarnessDeviceQueues() { return true; }

}  // namespace hydrant
