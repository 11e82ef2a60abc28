#include "kernels/parallel/sharded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <new>
#include <utility>

namespace hydrant {

const ShardedBuffer& AddressMap::Find(const void* address) const {
  const auto after = buffers_.upper_bound(reinterpret_cast<uintptr_t>(address));
  assert(after != buffers_.begin());
  const ShardedBuffer& buffer = *std::prev(after)->second;
  assert(buffer.OffsetOf(address) < std::max<size_t>(buffer.bytes(), 1));
  return buffer;
}

ShardedBuffer::ShardedBuffer(AddressMap& map, size_t bytes, std::vector<std::unique_ptr<DeviceBuffer>> of_ranks,
                             size_t unit_bytes, size_t heads)
    : DeviceBuffer(nullptr, bytes),
      map_(map),
      of_ranks_(std::move(of_ranks)),
      unit_bytes_(unit_bytes),
      heads_(heads),
      range_(std::max<size_t>(bytes, 1)) {
  data_ = range_.address;
  map_.buffers_.emplace(reinterpret_cast<uintptr_t>(data_), this);
}

ShardedBuffer::~ShardedBuffer() { map_.buffers_.erase(reinterpret_cast<uintptr_t>(data_)); }

ShardedBuffer::Range::Range(size_t range_bytes)
    : address(mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
      bytes(range_bytes) {
  if (address == MAP_FAILED) throw std::bad_alloc();
}

ShardedBuffer::Range::~Range() { munmap(address, bytes); }

}  // namespace hydrant
