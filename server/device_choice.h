// Opens the device that --device asks for.
//
// Thread: the one that starts the server.
#ifndef HYDRANT_SERVER_DEVICE_CHOICE_H_
#define HYDRANT_SERVER_DEVICE_CHOICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace hydrant {

struct OpenedDevice {
  std::unique_ptr<Device> device;
  std::optional<int64_t> memory_bytes;  // that are free on it; empty: its memory is the host's
  bool queues = false;                  // its ops return before they are done
};

// `name`: auto (a GPU where this program was built for one and the machine has one that can be used, else the processor),
// cpu or cuda. `eager`: a GPU launches every kernel by itself instead of recording CUDA graphs. Errors: FAILED_PRECONDITION
// in words that name the flag.
absl::StatusOr<OpenedDevice> OpenDevice(std::string_view name, int32_t threads, bool eager);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_DEVICE_CHOICE_H_
