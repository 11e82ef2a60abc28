// Who loses something for a newcomer where a store is full: parked sessions in memory, KV files on a disk, sessions that are
// remembered. One rule for all of them: the tenant with the most for its weight loses first, and nobody loses anything for a
// newcomer whose tenant has still more than they have.
//
// Pure.
#ifndef HYDRANT_SCHEDULER_FAIRNESS_OVER_SHARE_H_
#define HYDRANT_SCHEDULER_FAIRNESS_OVER_SHARE_H_

#include <cstdint>

namespace hydrant {

// What a tenant has of a store, in the store's own unit.
struct ShareHeld {
  int64_t held = 0;     // the newcomer's included, for its tenant
  double weight = 1.0;  // > 0
  bool gives = false;   // something of it can go, the newcomer apart

  double share() const { return static_cast<double>(held) / weight; }
};

// The one of `tenants` that loses something next, the first of equals; `held(tenant)` is its ShareHeld. Null: nobody gives, or
// the newcomer's tenant has more than any of those that give and gives nothing itself. `newcomer`, one of them, may be null: then
// whoever gives may lose.
template <typename Tenants, typename Tenant, typename HeldOf>
Tenant* WhoLoses(Tenants& tenants, const Tenant* newcomer, HeldOf held) {
  Tenant* most = nullptr;
  double most_share = 0.0;
  for (Tenant& tenant : tenants) {
    const ShareHeld of = held(tenant);
    if (!of.gives || (most != nullptr && of.share() <= most_share)) continue;
    most = &tenant;
    most_share = of.share();
  }
  if (most == nullptr || newcomer == nullptr) return most;
  const ShareHeld own = held(*newcomer);
  return own.gives || own.share() <= most_share ? most : nullptr;
}

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_FAIRNESS_OVER_SHARE_H_
