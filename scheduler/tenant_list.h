// TenantList holds the tenants by index, with the counters that say whose turn it is (tenant.h).
//
// Thread: engine.
//
// Invariants
//  1. Tenants are added and never taken away: an index stays.
//  2. A tenant's `running`, `rows`, `reserved`, `peaks` and `prompt_due` are sums over its admitted sequences, `reserved` also over its
//     parks that are under way; its `queue` has those that wait. The class that admits, computes, ends or parks a
//     sequence updates them.
#ifndef HYDRANT_SCHEDULER_TENANT_LIST_H_
#define HYDRANT_SCHEDULER_TENANT_LIST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "scheduler/fairness/tenant.h"
#include "scheduler/sequence_table.h"

namespace hydrant {

class TenantList {
 public:
  TenantList(SchedulingPolicy policy, int32_t blocks, int32_t rows) : blocks_(blocks), rows_(rows) {
    turns_.policy = policy;
  }
  TenantList(const TenantList&) = delete;
  TenantList& operator=(const TenantList&) = delete;

  // Replaces the options of all tenants; new ones come behind. Throws std::bad_alloc, and nothing has happened. REQUIRES: ValidateTenants(options, blocks, rows).ok(), at least as
  // many as before.
  void Set(std::span<const TenantOptions> options);

  Tenant& at(int32_t index) { return tenants_[static_cast<size_t>(index)]; }
  const Tenant& at(int32_t index) const { return tenants_[static_cast<size_t>(index)]; }
  Tenant& of(const Sequence& sequence) { return at(sequence.request.tenant); }
  const Tenant& of(const Sequence& sequence) const { return at(sequence.request.tenant); }
  std::span<Tenant> all() { return tenants_; }
  std::span<const Tenant> all() const { return tenants_; }
  int32_t size() const { return static_cast<int32_t>(tenants_.size()); }

  // Several tenants take turns and share steps by weight.
  bool fair() const { return turns_.policy == SchedulingPolicy::kFair && tenants_.size() > 1; }
  Turns& turns() { return turns_; }
  // The most blocks one request of a tenant can ever be given.
  int64_t BlocksMax(int32_t index) const { return BlocksMaxOf(options_, static_cast<size_t>(index), blocks_); }
  // A tenant's weight as a part of all weights.
  double ShareOf(int32_t index) const;

  // Recounts invariant 2. `waiting`: the sequences in all queues. `parks_claim`: the blocks of a tenant's parks.
  absl::Status CheckIntegrity(const SequenceTable& sequences, int32_t waiting,
                              absl::FunctionRef<int64_t(int32_t tenant)> parks_claim) const;

 private:
  const int32_t blocks_;                // of the pool
  const int32_t rows_;                  // sequences in progress at once
  std::vector<TenantOptions> options_;  // of tenants_
  std::vector<Tenant> tenants_;
  Turns turns_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_TENANT_LIST_H_
