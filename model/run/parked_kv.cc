#include "model/run/parked_kv.h"

#include <cassert>
#include <new>
#include <utility>

namespace hydrant {

std::span<std::byte> ParkedKv::Put(uint64_t session, size_t bytes) {
  try {
    std::vector<std::byte>& held = sessions_[session];
    // Not resized: a vector never gives back what it had. A chat whose turns are of one length writes over what it has.
    if (held.size() != bytes) {
      std::vector<std::byte> fresh(bytes);
      bytes_ += bytes - held.size();
      held = std::move(fresh);
    }
    return held;
  } catch (const std::bad_alloc&) {
    Drop(session);
    throw;
  }
}

std::span<const std::byte> ParkedKv::Read(uint64_t session) const {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end());
  return found->second;
}

void ParkedKv::Drop(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  bytes_ -= found->second.size();
  sessions_.erase(found);
}

}  // namespace hydrant
