#include "model/run/parked_kv.h"

#include <cassert>
#include <utility>

namespace hydrant {

void ParkedKv::Put(const TurnId& turn, size_t bytes) {
  Drop(turn);
  // Not set to zero: the caller writes all of it, and memory is touched once instead of twice, when it is written.
  turns_.emplace(turn, Held{std::make_unique_for_overwrite<std::byte[]>(bytes), bytes});
  bytes_ += bytes;
}

std::span<std::byte> ParkedKv::Write(const TurnId& turn) {
  const auto found = turns_.find(turn);
  assert(found != turns_.end());
  return {found->second.bytes.get(), found->second.size};
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
