#include "scheduler/step_shares.h"

#include <algorithm>
#include <cassert>

namespace hydrant {
namespace {

// Of a tenant's share, what its prompts keep however many of its sequences decode: they have to be computed some time.
constexpr double kPromptsLeast = 0.25;

}  // namespace

void StepShares::Begin(size_t tenants) {
  shares_.assign(tenants, Share());
  bounded_ = false;
}

void StepShares::AddDecode(int32_t tenant, double cost) { shares_[static_cast<size_t>(tenant)].decode += cost; }
void StepShares::AddPrompt(int32_t tenant, double cost) { shares_[static_cast<size_t>(tenant)].prompts += cost; }

void StepShares::Divide(double total) {
  double wanted = 0.0, weight = 0.0;
  int tenants = 0;
  for (const Share& share : shares_) {
    if (share.wanted() == 0.0) continue;
    wanted += share.wanted();
    weight += share.weight;
    ++tenants;
  }
  bounded_ = tenants > 1 && wanted > total;
  if (!bounded_) return;
  // Whoever wants less than its part gets what it wants and leaves the rest to the others; with that, others may.
  bool again = true;
  while (again) {
    again = false;
    for (Share& share : shares_) {
      if (share.wanted() == 0.0 || share.granted > 0.0 || share.wanted() > total * share.weight / weight) continue;
      share.granted = share.wanted();
      total -= share.granted;
      weight -= share.weight;
      again = true;
    }
  }
  for (Share& share : shares_) {
    if (share.wanted() > 0.0 && share.granted == 0.0) share.granted = total * share.weight / weight;
  }
}

bool StepShares::TakeDecode(int32_t tenant, double cost) {
  assert(bounded_);
  Share& share = shares_[static_cast<size_t>(tenant)];
  const double for_prompts = std::min(share.prompts, kPromptsLeast * share.granted);
  if (share.has_row && share.taken + cost > share.granted - for_prompts) return false;
  share.has_row = true;
  share.taken += cost;
  return true;
}

double StepShares::left(int32_t tenant) const {
  const Share& share = shares_[static_cast<size_t>(tenant)];
  return std::max(0.0, share.granted - share.taken);
}

void StepShares::TakePrompt(int32_t tenant, double cost) { shares_[static_cast<size_t>(tenant)].taken += cost; }

}  // namespace hydrant
