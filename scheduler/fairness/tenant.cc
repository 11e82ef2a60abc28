#include "scheduler/fairness/tenant.h"

#include <cassert>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "block_manager/kv_budget.h"

namespace hydrant {
namespace {

// Ties go to the tenant that runs less for its weight, then to the first in the table: the order depends on the table
// alone.
void KeepFirst(Tenant*& best, Tenant& other, SchedulingPolicy policy) {
  const auto goes_before = [&] {
    if (best == nullptr) return true;
    if (policy == SchedulingPolicy::kFcfs) return other.head.arrival < best->head.arrival;
    if (other.turn() != best->turn()) return other.turn() < best->turn();
    return other.running * best->options.weight < best->running * other.options.weight;
  };
  if (goes_before()) best = &other;
}

// The turn of the least served of the others that wait; nothing when nobody else does.
std::optional<double> LeastTurnBeside(const Tenant& tenant, std::span<const Tenant> tenants) {
  std::optional<double> least;
  for (const Tenant& other : tenants) {
    if (&other != &tenant && other.waits()) least = std::min(least.value_or(other.turn()), other.turn());
  }
  return least;
}

// Who is held back is known of all before anybody is lifted beside those who are not.
void SeeHeads(std::span<Tenant> tenants, Turns& turns, const HeadOf& head_of) {
  for (Tenant& tenant : tenants) {
    if (tenant.queue.empty()) continue;
    tenant.head = head_of(tenant);
    tenant.held_back |= tenant.HoldsBackItsHead();
  }
  for (Tenant& tenant : tenants) {
    if (tenant.queue.empty() || !tenant.held_back || tenant.HoldsBackItsHead()) continue;
    Lift(tenant, tenants, turns);
    tenant.held_back = false;
  }
}

}  // namespace

double PassesAhead(const Tenant& tenant, int64_t blocks_total) {
  return Tenant::kOutputCharge * static_cast<double>(blocks_total * kBlockSlots) / tenant.options.weight;
}

Tenant* ChooseTenant(std::span<Tenant> tenants, Turns& turns, const Room& room, const HeadOf& head_of,
                     Blocked* blocked) {
  if (blocked != nullptr) *blocked = Blocked();
  int64_t floors = 0;
  int64_t unused_floors = 0;
  int32_t unused_rows = 0;
  bool anything_ends = false;  // and gives its blocks back: what runs, and what is on its way out
  for (const Tenant& tenant : tenants) {
    floors += tenant.options.floor_blocks;
    unused_floors += tenant.unused_floor();
    unused_rows += tenant.unused_rows();
    anything_ends |= tenant.running > 0 || tenant.reserved > 0;
  }
  SeeHeads(tenants, turns, head_of);
  const auto missing = [&](const Tenant& one) {
    return one.head.blocks - (room.blocks - (unused_floors - one.unused_floor()));
  };
  const auto finds_row = [&](const Tenant& one) { return room.rows > unused_rows - one.unused_rows(); };
  const auto fits = [&](const Tenant& one) { return one.head.has_place && missing(one) <= 0 && finds_row(one); };

  Tenant* best = nullptr;
  Tenant* given_room = nullptr;
  for (Tenant& tenant : tenants) {
    if (!tenant.waits()) continue;
    KeepFirst(best, tenant, turns.policy);
    const uint64_t latest = given_room == nullptr ? 0 : given_room->head.given_room;
    if (tenant.head.given_room == 0 || tenant.head.given_room < latest || !fits(tenant)) continue;
    // What was won last is for whom it was won.
    if (tenant.head.given_room > latest) given_room = nullptr;
    KeepFirst(given_room, tenant, turns.policy);
  }
  if (best == nullptr) return nullptr;
  turns.now = std::max(turns.now, best->turn());
  if (given_room != nullptr) return given_room;
  if (fits(*best)) return best;
  if (!anything_ends) return best->head.blocks <= room.blocks && room.rows > 0 ? best : nullptr;
  const bool fits_beside_floors = best->head.blocks + floors - best->options.floor_blocks <= room.blocks_total;
  if (!fits_beside_floors) return nullptr;
  // A row and blocks of its own floor were never to be had for the best; of other blocks it takes what the best leaves.
  const auto delays_best = [&](const Tenant& one) {
    const int64_t beyond_floor = std::max<int64_t>(0, one.head.blocks - one.unused_floor());
    return one.unused_rows() == 0 || (beyond_floor > 0 && missing(*best) + beyond_floor > 0);
  };
  Tenant* beside = nullptr;
  for (Tenant& tenant : tenants) {
    if (tenant.waits() && fits(tenant) && !delays_best(tenant)) KeepFirst(beside, tenant, turns.policy);
  }
  if (beside != nullptr) return beside;
  if (!finds_row(*best)) return nullptr;
  const double weights = WeightsInUse(tenants);
  const auto within_share = [&](const Tenant& one) {
    return WithinShare(one, one.claimed() + one.head.blocks, weights, room.blocks_total);
  };
  const bool over_share = turns.policy == SchedulingPolicy::kFair && !within_share(*best);
  Tenant* passes = nullptr;
  for (Tenant& tenant : tenants) {
    if (!over_share || &tenant == best || !tenant.waits()) continue;
    if (tenant.turn() <= best->turn() + PassesAhead(tenant, room.blocks_total) && within_share(tenant) &&
        fits(tenant)) {
      KeepFirst(passes, tenant, turns.policy);
    }
  }
  if (passes != nullptr) {
    ++passes->passes;
    return passes;
  }
  if (blocked != nullptr && best->head.has_place) *blocked = {best, missing(*best), over_share};
  return nullptr;
}

double WeightsInUse(std::span<const Tenant> tenants) {
  double weights = 0.0;
  for (const Tenant& tenant : tenants) weights += tenant.in_use() ? tenant.options.weight : 0.0;
  return weights;
}

void ChargeMemory(std::span<Tenant> tenants, int64_t blocks_total, Tenant* holds_up, int64_t idle) {
  double computed = 0.0;
  int64_t claimed = 0;
  for (const Tenant& tenant : tenants) {
    computed += tenant.step_charge;
    claimed += tenant.claimed();
  }
  for (Tenant& tenant : tenants) {
    const double part = static_cast<double>(tenant.claimed()) / static_cast<double>(blocks_total);
    const double tokens = std::exchange(tenant.step_charge, 0.0);
    tenant.ChargeMemory(std::max(0.0, part * computed - tokens));
  }
  // As if the empty blocks had computed as much as the others.
  if (holds_up != nullptr && claimed > 0) {
    holds_up->held_up += computed * static_cast<double>(idle) / static_cast<double>(claimed);
  }
}

void Lift(Tenant& tenant, std::span<const Tenant> tenants, Turns& turns) {
  turns.now = std::max(turns.now, LeastTurnBeside(tenant, tenants).value_or(turns.now));
  tenant.service = std::max(tenant.service, turns.now);
}

void ForgivePrompt(Tenant& tenant, int64_t tokens, std::span<const Tenant> tenants, const Turns& turns) {
  const double before = tenant.turn();
  tenant.prompt_due -= tokens;
  const double least = std::max(turns.now, LeastTurnBeside(tenant, tenants).value_or(turns.now));
  tenant.service += std::max(0.0, std::min(before, least) - tenant.turn());
}

int32_t FloorRows(int32_t floor_blocks, int32_t blocks, int32_t rows) {
  if (floor_blocks == 0) return 0;
  return std::max(1, static_cast<int32_t>(int64_t{rows} * floor_blocks / blocks));
}

int64_t BlocksMaxOf(std::span<const TenantOptions> tenants, size_t index, int32_t blocks) {
  int64_t most = blocks;
  for (size_t i = 0; i < tenants.size(); ++i) {
    if (i != index) most -= tenants[i].floor_blocks;
  }
  const int32_t cap = tenants[index].blocks_max;
  return cap > 0 ? std::min<int64_t>(most, cap) : most;
}

absl::Status ValidateTenants(std::span<const TenantOptions> tenants, int32_t blocks, int32_t rows) {
  if (tenants.empty()) return absl::InvalidArgumentError("there is no tenant");
  int64_t floor_rows = 0;
  for (const TenantOptions& tenant : tenants) {
    const auto wrong = [&tenant](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("tenant ", tenant.name, ": ", what...));
    };
    if (!std::isfinite(tenant.weight) || tenant.weight <= 0) return wrong("the weight must be positive");
    if (tenant.floor_blocks < 0 || tenant.blocks_max < 0) return wrong("block counts must not be negative");
    if (tenant.blocks_max > 0 && tenant.floor_blocks > tenant.blocks_max) {
      return wrong("the floor of ", tenant.floor_blocks, " blocks is above the cap of ", tenant.blocks_max);
    }
    floor_rows += FloorRows(tenant.floor_blocks, blocks, rows);
  }
  for (size_t i = 0; i < tenants.size(); ++i) {
    const int64_t others_rows = floor_rows - FloorRows(tenants[i].floor_blocks, blocks, rows);
    if (BlocksMaxOf(tenants, i, blocks) < std::max(1, tenants[i].floor_blocks) || others_rows >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("tenant ", tenants[i].name,
                                                     ": the floors of the others leave it too little of ", blocks,
                                                     " blocks and ", rows, " sequences"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hydrant
