// Memory of a ShardedDevice. An address names a piece of it in every rank's memory, and nothing lies there itself: the range is
// reserved, so that who reads or writes it by mistake ends the process.
//
// Thread: engine; while ranks run, Find any.
#ifndef HYDRANT_KERNELS_PARALLEL_SHARDED_MEMORY_H_
#define HYDRANT_KERNELS_PARALLEL_SHARDED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device.h"

namespace hydrant {

class ShardedBuffer;

// The buffers of one device by their addresses.
class AddressMap {
 public:
  // REQUIRES: `address` lies in a buffer.
  const ShardedBuffer& Find(const void* address) const;

 private:
  friend class ShardedBuffer;
  std::map<uintptr_t, const ShardedBuffer*> buffers_;  // by their first bytes
};

class ShardedBuffer final : public DeviceBuffer {
 public:
  // A copy of `bytes` bytes in every rank's memory, or pieces of `unit_bytes`, `heads` after each other, of which each rank has its
  // heads'. `map` outlives the buffer. Throws std::bad_alloc.
  ShardedBuffer(AddressMap& map, size_t bytes, std::vector<std::unique_ptr<DeviceBuffer>> of_ranks,
                size_t unit_bytes = 0, size_t heads = 0);
  ~ShardedBuffer() override;

  bool by_head() const { return unit_bytes_ > 0; }
  size_t unit_bytes() const { return unit_bytes_; }
  size_t heads() const { return heads_; }
  std::byte* of(int rank) const { return static_cast<std::byte*>(of_ranks_[static_cast<size_t>(rank)]->data()); }
  size_t OffsetOf(const void* address) const {
    return static_cast<size_t>(static_cast<const std::byte*>(address) - static_cast<const std::byte*>(data_));
  }

 private:
  // Addresses at which nothing lies.
  struct Range {
    explicit Range(size_t range_bytes);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

    void* const address;
    const size_t bytes;
  };

  AddressMap& map_;
  const std::vector<std::unique_ptr<DeviceBuffer>> of_ranks_;
  const size_t unit_bytes_;
  const size_t heads_;
  const Range range_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_SHARDED_MEMORY_H_
