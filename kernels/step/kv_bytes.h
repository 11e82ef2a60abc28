// KvBytes is the KV that a turn left, outside the pool: what Device::ExportBlocks wrote, block after block.
//
// Thread: any. The bytes are written by one owner, and by nobody once it hands this out: whoever has a copy may read it for as long
// as it likes, whatever becomes of the turn meanwhile.
#ifndef HYDRANT_KERNELS_STEP_KV_BYTES_H_
#define HYDRANT_KERNELS_STEP_KV_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace hydrant {

struct KvBytes {
  std::shared_ptr<const std::byte[]> bytes;  // null: there is none
  size_t size = 0;
  int32_t computed = 0;  // tokens that it stands for
  int32_t live = 0;      // slots

  bool empty() const { return bytes == nullptr; }
  std::span<const std::byte> view() const { return {bytes.get(), size}; }
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_KV_BYTES_H_
