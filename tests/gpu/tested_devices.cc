#include "kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/cuda_prompt_dtype.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {

const std::vector<TestedDevice>& TestedDevices() {
  static const auto& devices = *new std::vector<TestedDevice>{
      {.name = "cuda",
       .prompt_dtype = CudaPromptDType,
       .rounding = 0x1p-17,
       .share = 2,
       .make = [](int) -> std::unique_ptr<Device> { return CudaDevice::Create({.host_visible = true}).value(); }}};
  return devices;
}

}  // namespace hydrant
