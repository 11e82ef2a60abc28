// The ranks that this machine's processors make up.
#ifndef HYDRANT_KERNELS_PARALLEL_CPU_RANKS_H_
#define HYDRANT_KERNELS_PARALLEL_CPU_RANKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/parallel/sharded_device.h"

namespace hydrant {

// `ranks` CPU devices with equal parts of `options.threads`, at least one each. Errors: those of CpuDevice::Create. REQUIRES: ranks >= 1.
absl::StatusOr<std::unique_ptr<ShardedDevice>> MakeCpuRanks(int ranks, const CpuDeviceOptions& options);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_CPU_RANKS_H_
