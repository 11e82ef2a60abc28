#include "model/run/parked_kv.h"

#include <cassert>
#include <memory>
#include <utility>

namespace hydrant {

void ParkedKv::Put(const TurnId& turn, size_t bytes, int32_t computed, int32_t live) {
  Drop(turn);
  // Not set to zero: the caller writes all of it, and memory is touched once instead of twice, when it is written.
  const std::shared_ptr<std::byte[]> memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
  turns_.emplace(turn, Held{{memory, bytes, computed, live}, memory.get()});
  bytes_ += bytes;
}

void ParkedKv::SetWhole(const TurnId& turn) {
  const auto found = turns_.find(turn);
  assert(found != turns_.end());
  found->second.to = nullptr;
}

void ParkedKv::Adopt(const TurnId& turn, const KvBytes& kv) {
  assert(!kv.empty());
  Drop(turn);
  turns_.emplace(turn, Held{kv, nullptr});
  bytes_ += kv.size;
}

KvBytes ParkedKv::Share(const TurnId& turn) const {
  const auto found = turns_.find(turn);
  return found == turns_.end() || found->second.to != nullptr ? KvBytes() : found->second.kv;
}

std::span<std::byte> ParkedKv::Write(const TurnId& turn) {
  const auto found = turns_.find(turn);
  assert(found != turns_.end() && found->second.to != nullptr);
  return {found->second.to, found->second.kv.size};
}

std::span<const std::byte> ParkedKv::Read(const TurnId& turn) const {
  const auto found = turns_.find(turn);
  assert(found != turns_.end());
  return found->second.kv.view();
}

void ParkedKv::Drop(const TurnId& turn) {
  const auto found = turns_.find(turn);
  if (found == turns_.end()) return;
  bytes_ -= found->second.kv.size;
  turns_.erase(found);
}

}  // namespace hydrant
