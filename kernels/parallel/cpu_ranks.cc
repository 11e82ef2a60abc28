#include "kernels/parallel/cpu_ranks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/parallel/shared_memory_collective.h"

namespace hydrant {

absl::StatusOr<std::unique_ptr<ShardedDevice>> MakeCpuRanks(int ranks, const CpuDeviceOptions& options) {
  CpuDeviceOptions of_rank = options;
  of_rank.threads = std::max(1, options.threads / ranks);
  std::vector<std::unique_ptr<Device>> devices;
  while (std::ssize(devices) < ranks) {
    absl::StatusOr<std::unique_ptr<CpuDevice>> device = CpuDevice::Create(of_rank);
    if (!device.ok()) return device.status();
    devices.push_back(*std::move(device));
  }
  return std::make_unique<ShardedDevice>(std::move(devices), std::make_unique<SharedMemoryCollective>(ranks));
}

}  // namespace hydrant
