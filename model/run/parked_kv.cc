#include "model/run/parked_kv.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

namespace hydrant {

void ParkedKv::Put(const TurnId& turn, size_t bytes, int32_t computed, int32_t live) {
  Drop(turn);
  // Not set to zero: the caller writes all of it, and memory is touched once instead of twice, when it is written.
  const std::shared_ptr<std::byte[]> memory = memory_.Allocate(bytes);
  turns_.emplace(turn, Held{{memory, bytes, computed, live}, memory.get()});
  SetBytes(bytes_ + bytes);
}

void ParkedKv::SetBytes(size_t bytes) {
  bytes_ = bytes;
  bytes_most_ = std::max(bytes_most_, bytes);
  memory_.SetSpareMost(turns_.empty() ? 0 : bytes_most_ - bytes);
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
  SetBytes(bytes_ + kv.size);
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
  const KvBytes dropped = std::move(found->second.kv);
  turns_.erase(found);
  // Before `dropped` goes, which may be kept.
  SetBytes(bytes_ - dropped.size);
}

}  // namespace hydrant
