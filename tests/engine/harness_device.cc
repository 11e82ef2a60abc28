#include "tests/engine/harness_device.h"

#include "kernels/cpu/cpu_device.h"

namespace hydrant {

std::unique_ptr<Device> MakeHarnessDevice(int threads) {
  return CpuDevice::Create(CpuDeviceOptions{.threads = threads}).value();
}

bool HarnessIsBatchInvariant() { return true; }

bool HarnessDeviceQueues() { return false; }

}  // namespace hydrant
