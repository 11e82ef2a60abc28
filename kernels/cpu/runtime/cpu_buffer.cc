#include "kernels/cpu/runtime/cpu_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <new>

namespace hydrant {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;

}  // namespace

CpuBuffer::CpuBuffer(size_t bytes) : DeviceBuffer(nullptr, bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugeBytes;
  const size_t slack = huge ? kHugeBytes : 0;
  if (bytes > std::numeric_limits<size_t>::max() - slack) throw std::bad_alloc();
  mapping_bytes_ = bytes + slack;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  data_ = mapping_;
  if (huge) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(mapping_);
    data_ = reinterpret_cast<void*>((address + kHugeBytes - 1) / kHugeBytes * kHugeBytes);
    // Only advice: the memory works without huge pages, too.
    (void)madvise(data_, bytes, MADV_HUGEPAGE);
  }
}

CpuBuffer::~CpuBuffer() {
  if (mapping_bytes_ != 0) munmap(mapping_, mapping_bytes_);
}

}  // namespace hydrant
