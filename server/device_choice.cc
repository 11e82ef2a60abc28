#include "server/device_choice.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#ifdef HYDRANT_HAS_CUDA
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/cuda_error.h"
#endif
#include "server/process/log.h"

namespace hydrant {
namespace {

absl::StatusOr<OpenedDevice> OpenCpu(int32_t threads) {
  CpuDeviceOptions options;
  options.threads = threads;
  absl::StatusOr<std::unique_ptr<CpuDevice>> device = CpuDevice::Create(options);
  if (!device.ok()) return device.status();
  return OpenedDevice{*std::move(device), {}, /*queues=*/false};
}

absl::StatusOr<OpenedDevice> OpenCuda([[maybe_unused]] bool eager) {
#ifdef HYDRANT_HAS_CUDA
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create({.graphs = !eager});
  if (!device.ok()) return device.status();
  try {
    const auto free_bytes = static_cast<int64_t>((*device)->free_bytes());
    return OpenedDevice{*std::move(device), free_bytes, /*queues=*/true};
  } catch (const CudaError& error) {
    return absl::FailedPreconditionError(error.what());
  }
#else
  return absl::FailedPreconditionError("this program was built without CUDA; build it with cmake --preset cuda");
#endif
}

}  // namespace

absl::StatusOr<OpenedDevice> OpenDevice(std::string_view name, int32_t threads, bool eager) {
  if (name == "cpu") return OpenCpu(threads);
  absl::StatusOr<OpenedDevice> cuda = OpenCuda(eager);
  if (cuda.ok()) return cuda;
  if (name == "auto") {
#ifdef HYDRANT_HAS_CUDA
    Log(LogLevel::kInfo, absl::StrCat("running on the CPU, no usable GPU: ", cuda.status().message()));
#endif
    return OpenCpu(threads);
  }
  return absl::FailedPreconditionError(absl::StrCat("--device ", std::string(name), ": ", cuda.status().message()));
}

}  // namespace hydrant
