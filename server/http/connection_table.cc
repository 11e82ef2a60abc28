#include "server/http/connection_table.h"

#include <algorithm>

#include "server/http/peer_address.h"

namespace hydrant {
namespace {

// The part of the cap from which on idle connections make way.
constexpr double kCrowded = 0.8;
// The cap divided by this is what one other host may have, when nothing else is said. This host's own are its operator's
// matter, and so are those of a proxy on it.
constexpr int32_t kAddressPart = 4;
// The same of the spare places, and of them for whom nothing else bounds.
constexpr int32_t kSpareOfAddress = ConnectionTable::kSpare / 8;
constexpr int32_t kSpareOfUnbounded = ConnectionTable::kSpare / 2;

bool IsUnbounded(std::string_view address, const Limits& limits, bool proxy) {
  return proxy || (limits.connections_per_address_max == 0 && IsLocalPeer(address));
}

int32_t AddressMax(const Limits& limits) {
  if (limits.connections_per_address_max > 0) return limits.connections_per_address_max;
  return std::max(1, limits.connections_max / kAddressPart);
}

}  // namespace

ConnectionTable::Place::~Place() {
  const std::lock_guard<std::mutex> lock(table_.mutex_);
  if (idle_) node_.splice(node_.begin(), table_.idle_, at_);
  if (count_ != nullptr) --*count_;
  const auto found = table_.by_group_.find(group_);
  if (--found->second == 0) table_.by_group_.erase(found);
}

void ConnectionTable::Place::SetIdle(bool idle) {
  const std::lock_guard<std::mutex> lock(table_.mutex_);
  if (idle == idle_) return;
  idle_ = idle;
  if (idle) {
    table_.idle_.splice(table_.idle_.end(), node_);
  } else {
    node_.splice(node_.begin(), table_.idle_, at_);
  }
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::TryAdd(std::string_view address, const Limits& limits,
                                                                bool proxy) {
  const bool unbounded = IsUnbounded(address, limits, proxy);
  std::string group = PeerGroup(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<double>(count_) >= kCrowded * limits.connections_max) CloseLongestIdle();
  if (count_ >= limits.connections_max) return nullptr;
  return AddToGroup(std::move(group), unbounded ? limits.connections_max : AddressMax(limits), &count_);
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::TryAddSpare(std::string_view address, const Limits& limits,
                                                                     bool proxy) {
  std::string group = PeerGroup(address) + " spare";  // beside what the address has else
  const std::lock_guard<std::mutex> lock(mutex_);
  if (spare_ >= kSpare) return nullptr;
  return AddToGroup(std::move(group), IsUnbounded(address, limits, proxy) ? kSpareOfUnbounded : kSpareOfAddress,
                    &spare_);
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::TryAddClient(std::string_view address, const Limits& limits) {
  // Also of an address that looks like one of this host: a proxy elsewhere may have clients at its own.
  std::string group = PeerGroup(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  return AddToGroup(std::move(group), AddressMax(limits), nullptr);
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::AddToGroup(std::string group, int32_t most, int64_t* count) {
  int32_t& of_group = by_group_[group];
  if (of_group >= most) return nullptr;
  std::unique_ptr<Place> place(new Place(*this, std::move(group), count));
  ++of_group;
  if (count != nullptr) ++*count;
  return place;
}

void ConnectionTable::CloseLongestIdle() {
  if (idle_.empty()) return;
  Place& place = *idle_.front();
  place.node_.splice(place.node_.begin(), idle_, idle_.begin());
  place.idle_ = false;
  place.close_();
}

int64_t ConnectionTable::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

}  // namespace hydrant
