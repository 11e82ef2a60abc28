// Admission decides which waiting request is admitted, and when. It holds the tenants' queues, matches the prefix and
// reserves the memory of the request whose turn it is (tenant.h), and has budgets lowered if that admits the head of
// line (elastic_budgets.h). A request is promised all the memory that it may need, so an admitted sequence never waits
// for memory.
//
// Thread: engine.
//
// Invariants
//  1. waiting() is the length of all tenants' queues, and each queue is ordered by priority and then by arrival. A head of line
//     for which room was made stays the head.
//  2. A sequence is admitted only with a reservation that covers the most blocks it may come to hold: what it needs alone
//     (PeakSlots), or, where it shares a prefix, that with the copies of its first eviction (PeakBlocksShared). Where sequences may
//     step aside (swapping.h), with one that covers its prompt and its first tokens, or the copies all the same, and only if the most
//     that it may come to hold has a place in the pool or outside.
//  3. Admission leaves the unused part of their floors to the other tenants. No tenant claims more blocks than its cap,
//     except by requests that were admitted before the cap was lowered, and by one request after that.
//  4. A head of line for which a sequence of its tenant is about to make the next block of its prompt findable waits for that
//     block, and at most until that sequence has computed its prompt or ends. Meanwhile other tenants pass. The tenant's own
//     line stays in its order: a tenant's prompts are computed in the order of their admission, so who stands behind such a
//     head would wait for the same prompt inside of the pool, and holds no memory out here.
//  5. Where sequences may step aside, a head of line is due when it has a place, its tenant stays within its share of the pool
//     with it, and of the state rows if none is free, and has nobody outside, and is not ahead of the turns of others that wait by more than the tokens of a full
//     pool. Who is due waits for nobody outside. After SchedulerOptions::swap_patience plans budgets fall for it, or
//     somebody of a tenant above its share steps aside as soon as one may (victims.h), and what that wins is kept for it.
//  6. An accepted request can be admitted when nothing else runs (Check), even if its session loses its parked KV
//     meanwhile.
#ifndef HYDRANT_SCHEDULER_ADMISSION_H_
#define HYDRANT_SCHEDULER_ADMISSION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "block_manager/block_manager.h"
#include "scheduler/elastic_budgets.h"
#include "scheduler/fairness/tenant.h"
#include "scheduler/parking.h"
#include "scheduler/request/request.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_plan.h"
#include "scheduler/swapping.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class Admission {
 public:
  // `patience`: SchedulerOptions::swap_patience. The others outlive this.
  Admission(SequenceTable& sequences, TenantList& tenants, BlockManager& block_manager, Parking& parking,
            ElasticBudgets& elastic, Swapping& swapping, int32_t patience, SchedulerCounters& counters);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Without Request::history where its tenant can never have the room for that, and can for all else.
  void DropHistoryWithoutRoom(Request* request) const;
  // OK if the request can be admitted at some time. Errors: INVALID_ARGUMENT (malformed), OUT_OF_RANGE (its blocks
  // exceed what its tenant can ever have), RESOURCE_EXHAUSTED (CheckSlotsAtWorst).
  absl::Status Check(const Request& request) const;
  // The most slots that the request will occupy at once if it continues from its session's parked KV.
  int64_t PeakSlots(const Request& request) const { return PeakSlots(request, request.max_tokens); }
  // OK if the request will occupy at most `slots_max` slots at once even if its session's parked KV is lost before it
  // is admitted. Error: RESOURCE_EXHAUSTED.
  absl::Status CheckSlotsAtWorst(const Request& request, int64_t slots_max) const;

  // Puts the sequence into its tenant's queue, and takes from the host all the memory that its admission may need. Throws
  // std::bad_alloc, and nothing has changed but the sequence's own memory. REQUIRES: Check(its request).ok(), and nothing
  // happened since.
  void Enqueue(int32_t index);
  // Takes a waiting sequence out of its tenant's queue.
  void Withdraw(int32_t index);
  // One that waits and cannot go on any more: it needs its past, which was not to be pinned, and is gone. -1: there is none.
  int32_t FindWithoutPast() const;

  // While admission is paused, no request is admitted.
  void Pause(bool paused) { paused_ = paused; }
  bool paused() const { return paused_; }

  // Patience is counted in plans. After so many in which nothing happened the next ones do nothing, either, until somebody says
  // something.
  int64_t patience() const;

  // A plan is begun.
  void Begin();

  // Admits every request that can be admitted: appends the sequences to the table's running(), asks for what their
  // sessions have parked (Parking::Restore), and appends their score starts to `plan`. Then has budgets lowered for those
  // that run and miss blocks (Swapping), or else for the head of line that could not be admitted. REQUIRES: `plan` was begun and has no rows yet.
  void Plan(int64_t now_us, StepPlan& plan);
  // Admits the one for whom the last plan lowered budgets, if it did.
  void KeepPromise(int64_t now_us, StepPlan& plan) {
    if (promised_) AdmitWaiting(now_us, plan, /*promised_alone=*/true);
  }
  // Whether the next Plan may let somebody in, or lower budgets for somebody, given whether somebody leaves before it. What the plan
  // in flight finds out does not count: what that makes room for is seen when it is committed. `plan`: the next one's number.
  bool MayAdmit(bool row_becomes_free, uint64_t plan);

  // A step was committed: it is charged for by what its tenants claimed meanwhile, too.
  void ChargeMemory();

  int32_t waiting() const { return waiting_; }
  // What the last Plan did: the requests it admitted; whether one waits for blocks and nothing else; the request for
  // which budgets are lowered (0: none).
  std::span<const uint64_t> admitted() const { return admitted_; }
  bool somebody_is_blocked() const { return blocked_.tenant != nullptr; }
  uint64_t lowers_for() const { return elastic_.lowers_for(); }

 private:
  static absl::Status CheckHistory(const Request& request);
  void TakeHostMemory(Sequence& sequence);
  int64_t PeakSlots(const Request& request, int32_t max_tokens) const;
  // The most it may come to hold alone; what it reserves for that at first; and where it shares.
  int64_t PrivateBlocks(const Request& request) const;
  int64_t AloneBlocks(const Request& request) const;
  int64_t SharedBlocks(const Request& request) const;
  bool FitsAlone(int64_t private_blocks, const Tenant& tenant) const;
  int32_t PrefixEnd(const Request& request) const;
  int64_t MatchPrefix(const Request& request);
  bool WillPublishFor(const Request& head, const Sequence& leader) const;
  bool AwaitsPrefix(const Request& head) const;
  // How many of `shared` blocks match_ does not find in use.
  int64_t BlocksBeside(int64_t shared) const { return shared - std::ssize(match_.blocks) + match_.revived; }
  int64_t BlocksNeeded(Sequence& sequence, const Tenant& tenant);
  int64_t BlocksNeededExactly(Sequence& sequence, const Tenant& tenant);
  int64_t PeakOf(const Request& request, int64_t blocks) const;
  bool HasPlace(const Sequence& sequence, const Tenant& tenant, int64_t blocks) const;
  Tenant* Choose();
  Tenant* ChoosePromised();
  Tenant* ChooseWithinFloor();
  Tenant* ChooseWithinShare();
  bool MayPassOutside(const Tenant& tenant, int64_t blocks) const;
  int64_t Missing(const Tenant& tenant, int64_t blocks) const;
  bool FindsRow(const Tenant& tenant) const;
  bool IsDue(const Tenant& tenant);
  Tenant* FindOverdue(uint64_t plan);
  bool OthersHaveRoom(const Tenant& tenant) const;
  void MakeRoom(Tenant& tenant, uint64_t plan);
  void CountMissing();
  void CountOverlaps();
  void AdmitWaiting(int64_t now_us, StepPlan& plan, bool promised_alone);
  void Reserve(int32_t index, StepPlan& plan);
  void ReserveResumed(int32_t index, const ParkedCounts& parked);
  bool ReserveShared(Sequence& sequence, int64_t alone_blocks, StepPlan& plan);

  SequenceTable& sequences_;
  TenantList& tenants_;
  BlockManager& block_manager_;
  Parking& parking_;
  ElasticBudgets& elastic_;
  Swapping& swapping_;
  const int32_t patience_;
  SchedulerCounters& counters_;

  int32_t waiting_ = 0;
  int32_t unsure_ = 0;  // of those that wait: they need their past, and have not pinned it
  uint64_t arrivals_ = 0;
  bool paused_ = false;
  bool promised_ = false;           // the last plan lowered budgets for somebody
  HeadOf head_of_;                  // asks this; made once
  std::vector<uint64_t> admitted_;  // request ids, by the last Plan
  Blocked blocked_;                 // by the last Plan
  int32_t holds_up_ = -1;           // the tenant that blocked_ names, if its head would take it above its share
  PrefixMatch match_;               // of the request that was looked at last,
  uint64_t match_of_ = 0;           // this one,
  uint64_t match_at_ = 0;           // when BlockManager::changes() was this
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_ADMISSION_H_
