#include "server/tenants/byte_budget.h"

#include <cassert>

namespace hydrant {
namespace {

// Chats and prompts that people write are far below it.
constexpr int64_t kSmallBytes = 64 << 10;

}  // namespace

int64_t& ByteBudget::Own(int32_t tenant) {
  const auto index = static_cast<size_t>(tenant);
  if (index >= own_.size()) own_.resize(index + 1);
  return own_[index];
}

std::optional<ByteBudget::Lack> ByteBudget::LackOf(int32_t tenant, double share, int64_t bytes, bool small) {
  const int64_t most = small ? bytes_max_ : bytes_max_ - bytes_max_ / 8;
  if (FitsShare(all_, Own(tenant), bytes, most, share)) return std::nullopt;
  return share < 1 ? Lack::kTenant : Lack::kAll;
}

std::optional<ByteBudget::Lack> ByteBudget::TryTake(int32_t tenant, double share, int64_t bytes, int64_t before) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto lack = LackOf(tenant, share, bytes, before + bytes <= kSmallBytes)) return lack;
  all_ += bytes;
  Own(tenant) += bytes;
  return std::nullopt;
}

std::optional<ByteBudget::Lack> ByteBudget::LackForAnswer(int32_t tenant, double share) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return LackOf(tenant, share, 0, /*small=*/false);
}

void ByteBudget::Take(int32_t tenant, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  all_ += bytes;
  Own(tenant) += bytes;
}

void ByteBudget::GiveBack(int32_t tenant, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t& own = Own(tenant);
  assert(own >= bytes && all_ >= bytes);
  own -= bytes;
  all_ -= bytes;
}

int64_t ByteBudget::used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return all_;
}

}  // namespace hydrant
