// CpuBuffer is zeroed memory from the operating system: aligned, huge pages where they help, returned with the object.
//
// Thread: any, one at a time.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_CPU_BUFFER_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_CPU_BUFFER_H_

#include <cstddef>

#include "kernels/device.h"

namespace hydrant {

// Parts of one buffer start on cache lines of their own.
constexpr size_t CacheAligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

class CpuBuffer final : public DeviceBuffer {
 public:
  // data() is aligned to 64 bytes, and to 2 MiB when bytes >= 2 MiB. Throws std::bad_alloc.
  explicit CpuBuffer(size_t bytes);
  ~CpuBuffer() override;

 private:
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_CPU_BUFFER_H_
