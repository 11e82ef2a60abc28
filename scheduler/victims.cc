#include "scheduler/victims.h"

#include <algorithm>
#include <tuple>

namespace hydrant {

int64_t Victims::GainFrom(const Sequence& sequence, int32_t asking) const {
  const Tenant& tenant = tenants_.of(sequence);
  const int64_t freed = sequence.blocks.reserved() - block_manager_.BlocksOthersUse(sequence.blocks);
  if (sequence.request.tenant == asking) return freed;
  const int64_t lacks = std::max<int64_t>(0, tenant.options.floor_blocks - (tenant.claimed() - freed));
  return freed - (lacks - tenant.unused_floor());
}

bool Victims::Rested(const Sequence& sequence) {
  constexpr int32_t kDoublings = 2;
  const int32_t since = sequence.swaps == 0 ? sequence.prompt_length() : sequence.guard - kGuard;
  return sequence.paused || sequence.scheduled - since >= kGuard << std::min(sequence.swaps, kDoublings);
}

bool Victims::GivesToOthers(const Tenant& tenant) const {
  return tenant.options.gone ||
         !WithinShare(tenant, tenant.claimed(), WeightsInUse(tenants_.all()), block_manager_.pool().total());
}

// Whatever it is that somebody misses.
bool Victims::MayLeave(const Sequence& sequence, const Asker& asker, int64_t room) const {
  const bool rests = sequence.in_pool() && !sequence.retired() && sequence.in_flight == 0 && sequence.to_restore == 0;
  // One that was just let in has not computed anything of its own.
  if (!rests || sequence.live == 0 || sequence.last_row == 0 || EndsSoon(sequence)) return false;
  const bool guarded = sequence.scheduled < sequence.guard && (!sequence.paused || sequence.guard == kLostGuard);
  if (guarded || BlocksForSlots(sequence.live) > room) return false;
  return !asker.rotates || Rested(sequence);
}

bool Victims::MayStepAside(int32_t index, const Asker& asker, int64_t room) const {
  const Sequence& sequence = sequences_.at(index);
  if (!MayLeave(sequence, asker, room)) return false;
  if (index == asker.sequence) return true;
  const bool own = sequence.request.tenant == asker.tenant;
  if (own && asker.others_alone) return false;
  if (!own && (asker.own_alone || !GivesToOthers(tenants_.of(sequence)))) return false;
  return GainFrom(sequence, asker.tenant) > 0;
}

bool Victims::MayGiveRow(const Sequence& sequence, const Asker& asker, int64_t room) const {
  if (!MayLeave(sequence, asker, room)) return false;
  if (sequence.request.tenant == asker.tenant) return !asker.others_alone;
  const Tenant& tenant = tenants_.of(sequence);
  // Below the rows of its floor the row would stay its own.
  if (asker.own_alone || tenant.rows <= tenant.floor_rows) return false;
  return tenant.options.gone || !WithinRowShare(tenant, tenant.rows, WeightsInUse(tenants_.all()), sequences_.rows());
}

int32_t Victims::ChooseForRow(const Asker& asker, int32_t anchor, int64_t room) const {
  int32_t victim = -1;
  const auto rank = [&](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    const Tenant& tenant = tenants_.of(sequence);
    const double has = static_cast<double>(tenant.rows) / tenant.options.weight;
    return std::tuple(tenant.options.gone ? -std::numeric_limits<double>::infinity() : -has, sequence.request.tenant,
                      sequence.swaps, BlocksForSlots(sequence.live));
  };
  for (int32_t index : sequences_.running()) {
    if (index == anchor || !MayGiveRow(sequences_.at(index), asker, room)) continue;
    if (victim < 0 || rank(index) <= rank(victim)) victim = index;
  }
  return victim;
}

int32_t Victims::Choose(const Asker& asker, int32_t anchor, int64_t room) const {
  int32_t victim = -1;
  const auto rank = [&](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    const Tenant& tenant = tenants_.of(sequence);
    const int64_t blocks = BlocksForSlots(sequence.live);
    const bool all = GainFrom(sequence, asker.tenant) >= asker.blocks;
    const double has = static_cast<double>(tenant.claimed()) / tenant.options.weight;
    return std::tuple(tenant.options.gone ? -std::numeric_limits<double>::infinity() : -has, sequence.request.tenant,
                      sequence.swaps, asker.rotates && !all, asker.rotates && !all ? -blocks : blocks);
  };
  for (int32_t index : sequences_.running()) {
    if (index == anchor || !MayStepAside(index, asker, room)) continue;
    if (victim < 0 || rank(index) <= rank(victim)) victim = index;
  }
  return victim;
}

}  // namespace hydrant
