#include "scheduler/tenant.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace hydrant {

Tenant* ChooseTenant(std::span<Tenant> tenants) {
  Tenant* chosen = nullptr;
  for (Tenant& tenant : tenants) {
    if (!tenant.queue.empty() && (chosen == nullptr || tenant.service < chosen->service)) chosen = &tenant;
  }
  return chosen;
}

void LiftFromIdle(Tenant& tenant, std::span<const Tenant> tenants) {
  assert(!tenant.active());
  double least = std::numeric_limits<double>::infinity();
  for (const Tenant& other : tenants) {
    if (other.active()) least = std::min(least, other.service);
  }
  if (least < std::numeric_limits<double>::infinity()) tenant.service = std::max(tenant.service, least);
}

}  // namespace hydrant
