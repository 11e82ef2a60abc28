#include "kernels/cpu/cpu_device.h"
#include "tests/kernels/cpu/tested_isas.h"
#include "tests/kernels/tested_device.h"
#include "tests/support/sanitizers.h"

namespace hydrant {

const std::vector<TestedDevice>& TestedDevices() {
  static const auto& devices = *new std::vector<TestedDevice>([] {
    std::vector<TestedDevice> all;
    for (const CpuIsa isa : TestedIsas()) {
      all.push_back({.name = IsaName(isa),
                     .prompt_dtype =
                         [isa](KvType cache, int32_t) {
                           return isa == CpuIsa::kAvx512Bf16 && cache == KvType::kBF16 ? DType::kBF16 : DType::kF32;
                         },
                     .share = kSanitized ? 8 : 1,
                     .make = [isa](int threads) -> std::unique_ptr<Device> {
                       return CpuDevice::Create({.threads = threads, .isa = isa}).value();
                     }});
    }
    return all;
  }());
  return devices;
}

}  // namespace hydrant
