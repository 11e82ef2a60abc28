#include "model/run/parked_kv.h"

#include <cassert>
#include <utility>

namespace hydrant {

std::span<std::byte> ParkedKv::Put(const TurnId& turn, size_t bytes) {
  Drop(turn);
  // Not set to zero: the caller writes all of it, and memory is touched once instead of twice.
  Held held = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  const std::span<std::byte> memory(held.bytes.get(), bytes);
  turns_.emplace(turn, std::move(held));
  bytes_ += bytes;
  return memory;
}

std::span<const std::byte> ParkedKv::Read(const TurnId& turn) const {
  const auto found = turns_.find(turn);
  assert(found != turns_.end());
  return {found->second.bytes.get(), found->second.size};
}

void ParkedKv::Drop(const TurnId& turn) {
  const auto found = turns_.find(turn);
  if (found == turns_.end()) return;
  bytes_ -= found->second.size;
  turns_.erase(found);
}

}  // namespace hydrant
