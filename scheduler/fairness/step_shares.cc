#include "scheduler/fairness/step_shares.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace hydrant {
namespace {

// The part of a tenant's share that its prompts keep however many of its sequences decode.
constexpr double kPromptsLeast = 0.25;
// Halvings of the interval in which the level lies: below a token of a step of any size.
constexpr int kHalvings = 60;

}  // namespace

void StepShares::Begin(size_t tenants) {
  shares_.resize(tenants);
  for (Share& share : shares_) {
    share.decode = share.prompts = share.granted = share.taken = 0.0;
    share.has_row = false;
  }
  several_ = bounded_ = false;
}

double StepShares::Share::UpTo(double to_level) const { return std::clamp(weight * (to_level - level), 0.0, wanted()); }

double StepShares::GivenUpTo(double level) const {
  double given = 0.0;
  for (const Share& share : shares_) given += share.UpTo(level);
  return given;
}

void StepShares::Divide(double total, double lag) {
  assert(total > 0.0 && lag >= total);
  double wanted = 0.0;
  int tenants = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (const Share& share : shares_) {
    if (share.wanted() == 0.0) continue;
    wanted += share.wanted();
    ++tenants;
    highest = std::max(highest, share.level);
  }
  if (tenants == 0) return;
  for (Share& share : shares_) share.level = std::max(share.level, highest - lag / share.weight);
  several_ = tenants > 1;
  bounded_ = several_ && wanted > total;
  if (!bounded_) return;
  double low = std::numeric_limits<double>::infinity();
  double high = highest;
  for (const Share& share : shares_) {
    if (share.wanted() == 0.0) continue;
    low = std::min(low, share.level);
    high = std::max(high, share.level + share.wanted() / share.weight);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    (GivenUpTo(middle) < total ? low : high) = middle;
  }
  for (Share& share : shares_) share.granted = share.UpTo(high);
}

bool StepShares::HasRoomForDecode(int32_t tenant, double cost) const {
  assert(bounded_);
  const Share& share = of(tenant);
  const double for_prompts = std::min(share.prompts, kPromptsLeast * share.granted);
  return !share.has_row || share.taken + cost <= share.granted - for_prompts;
}

double StepShares::left(int32_t tenant) const {
  assert(bounded_);
  return std::max(0.0, of(tenant).granted - of(tenant).taken);
}

void StepShares::TakeDecode(int32_t tenant, double cost) {
  of(tenant).has_row = true;
  Take(of(tenant), cost);
}

void StepShares::Take(Share& share, double cost) {
  share.taken += cost;
  share.level += cost / share.weight;
}

}  // namespace hydrant
