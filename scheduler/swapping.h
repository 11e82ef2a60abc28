// Swapping lets sequences step aside: admission gives them what they need soon and not all that they may ever need
// (SchedulerOptions::swap_blocks_max > 0), they ask for more as they grow, and where there is none a sequence leaves the
// pool whole and comes back later as it was. Nothing is computed twice and no bit changes, as it would if its tokens
// were computed again: after an eviction that is another text.
//
// Life of a sequence that steps aside: PlanGrowth chooses it (kLeaving: no rows any more) -> PlanOuts names a slice
// after each step, the executor copies it, Finish counts it -> its blocks are free (kOutside) -> PlanReturns reserves
// what it held and what it needs for its next kGuard tokens (kReturning) and puts slices into the plans -> with the last
// one it may have a row. It keeps its place in running() all the while, but not its state row: that is another one's while
// it is outside, and with its return it takes any that is free. So more sequences may be in progress than there are rows.
//
// Who steps aside: victims.h, and nobody twice within kGuard tokens. The anchor never does: one sequence at a time, the
// oldest of the tenant whose turn it is, until it ends. So the pool is its in the end, and whatever else happens it
// advances. After kTenure times the patience in tokens it passes that on, if somebody has been outside for long: so each
// of n sequences that may go on for ever has its turn. And before anybody steps aside, budgets fall that agreed to it, if they win as much (elastic_budgets.h).
//
// Thread: engine. Pure. Off (swap_blocks_max 0) it changes nothing. Allocates only when a sequence is chosen.
//
// Invariants
//  1. What is outside or on its way fills at most swap_blocks_max blocks.
//  2. Whoever has to step aside finds room: what those that run may come to hold, and once more the largest of it, is at
//     most pool and swap space together, or it fits into the pool altogether (HasPlace).
//  3. The anchor is never chosen. Whoever is chosen had kGuard tokens since it came back, unless its reader is behind.
//  4. A sequence with Sequence::guard > scheduled has reserved what it needs until then.
//  5. Who has been outside for SchedulerOptions::swap_patience plans asks for its return before those that grow, of a tenant's the
//     one that has been there longest; for it those step aside that have rested (Victims::Rested).
//  6. While somebody waits outside whose reader is not behind, nobody is admitted except into the floor of its tenant, or within
//     the share of a tenant that has nobody outside, or for whom somebody stepped aside.
//  7. A tenant that has anything in progress has a state row, or one is kept for it (Tenant::unused_rows). Where there are more
//     sequences than rows, whoever is chosen to step aside finds room outside: what all may come to hold is at most
//     swap_blocks_max. A row that misses to a head of line within its tenant's share of the rows, or to one that has been
//     outside for swap_patience plans, is given by one of a tenant above its share of them, or of that one's own.
//  8. What is kept for floors is kept from those that run only as far as each can have all that it was let in for beside them: who
//     was let in before floors were raised further takes any block that is free. So what the anchor waits for are blocks that others
//     hold beyond their floors, and while it waits nobody takes more of these (invariant 6): it waits at most until those end.
#ifndef HYDRANT_SCHEDULER_SWAPPING_H_
#define HYDRANT_SCHEDULER_SWAPPING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "block_manager/block_manager.h"
#include "scheduler/elastic_budgets.h"
#include "scheduler/parking.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_plan.h"
#include "scheduler/tenant_list.h"
#include "scheduler/victims.h"

namespace hydrant {

class Swapping {
 public:
  // Decode steps for which a sequence reserves at once: a block's. It asks again when fewer than kAskBefore are left.
  static constexpr int32_t kHorizon = kBlockSlots;
  static constexpr int32_t kAskBefore = Sequence::kAskBefore;
  // Plans until it is looked for somebody again where nobody could step aside: planning each step alone would cost those that run.
  static constexpr uint64_t kAskAgain = 4;
  // Own tokens before a sequence that came back may have to go again.
  static constexpr int32_t kGuard = Victims::kGuard;
  // Own tokens of an anchor, in plans of patience, before one that has been outside for long may be it.
  static constexpr int32_t kTenure = 32;

  // `blocks_max`, `patience`: SchedulerOptions::swap_blocks_max, swap_patience. The others outlive this.
  Swapping(int64_t blocks_max, int32_t patience, SequenceTable& sequences, TenantList& tenants,
           BlockManager& block_manager, const Parking& parking, ElasticBudgets& elastic, SchedulerCounters& counters);
  Swapping(const Swapping&) = delete;
  Swapping& operator=(const Swapping&) = delete;

  bool on() const { return blocks_max_ > 0; }

  // Admission: tokens that a request reserves for at first; whether the peak of one more sequence of the tenant has a
  // place; whether it should wait all the same, so that those that run may grow; and that it was admitted.
  int32_t TokensAhead(int32_t max_tokens) const;
  bool HasPlace(const Tenant& tenant, int64_t peak) const;
  bool LeavesHeadroom(const Tenant& tenant, int64_t blocks) const;
  void Admitted(Sequence& sequence, int64_t peak);
  // Somebody asked in vain, or waits outside: invariant 5.
  bool closed() const;
  // Those that run miss blocks; and whether one of the tenant's sequences waits outside.
  bool somebody_misses() const { return short_; }
  bool HasOutside(int32_t tenant) const;
  bool anybody_outside() const { return !asides_.empty(); }

  // The plan with this number is begun.
  void Begin(uint64_t plan);
  // Those that run reserve what they need soon, and where there is too little somebody is chosen to step aside. REQUIRES:
  // no plan is in flight that has rows.
  void PlanGrowth();
  // For what those that run miss budgets are to fall, and for the sake of which request; without a tenant: for nothing.
  const Blocked& awaits_budgets() const { return awaits_budgets_; }
  uint64_t awaits_budgets_for() const { return awaits_budgets_for_; }
  // Somebody of a tenant above its share steps aside so that the tenant's head of line, which misses `missing` of `blocks`, or a
  // state row, is admitted. Both are kept for it until KeepNothing, except from the anchor. False: nobody may, as things stand.
  // REQUIRES: PlanGrowth was called for this plan.
  bool MakeRoomForHead(int32_t tenant, int64_t blocks, int64_t missing, bool row);
  void KeepNothing() {
    kept_tenant_ = -1;
    kept_row_ = false;
  }
  // Whoever can come back does, and slices of those that do, `blocks_max` at most, go into the plan. Allocates nothing if
  // `to` has the room.
  void PlanReturns(int64_t blocks_max, std::vector<PlanSwapIn>* to);
  // As PlanGrowth for the plan with this number, behind a plan in flight. False: somebody has to step aside or come back first.
  bool GrowAhead(uint64_t plan);

  // What a sequence with `slots` slots, all of whose tokens are computed, keeps of its reservation after a cut; and the
  // most that it may come to hold now.
  int64_t ReservationAfterCut(const Sequence& sequence, int32_t slots) const;
  void LowerPeak(Sequence& sequence, int64_t peak);

  // Says in outs() what is to be moved now. The executor first forgets what it has of drops(); then it copies these.
  void PlanOuts(int64_t blocks_max);
  std::span<const PlanSwapOut> outs() const { return outs_; }
  std::span<const uint64_t> drops() const { return drops_; }
  // It has done that, but for those in `lost`, for which it had no memory to begin: theirs stay in the pool, and they are
  // to end.
  void Finish(std::span<const uint64_t> lost);
  // It had no memory for anything: those that were to begin are lost, the others try again.
  std::span<const uint64_t> Fail();
  // A step that was to bring something back failed: the sequence's KV is lost, and its next row fails.
  void LoseReturn(int32_t index);

  // The sequence ends.
  void LetGo(int32_t index, Sequence& sequence);

  bool moving() const;
  // Sequences that are outside, or of which a part is, and the blocks that they fill there.
  int32_t aside() const;
  int64_t blocks() const { return blocks_; }
  // The sequence that is not chosen; -1: none.
  int32_t anchor() const { return anchor_; }

  // Recounts the invariants. O(sequences).
  absl::Status CheckIntegrity() const;

 private:
  // A sequence that is not in the pool, or not in it alone.
  struct Aside {
    int32_t sequence = -1;  // -1: it is over, and this goes once no plan has its table
    uint64_t id = 0;
    int32_t payer = 0;
    int32_t live = 0;
    int32_t moved = 0;           // blocks, in the direction of Sequence::place
    int32_t gain = 0;            // blocks that its leaving frees
    bool begun = false;          // memory was taken for it
    uint64_t again_at = 0;       // … and asks again, after nobody could step aside for it
    uint64_t asks_at = 0;        // once it is outside: the number of the plan with which it asks for its return
    std::vector<int32_t> table;  // to which it returns
    int32_t blocks() const { return static_cast<int32_t>(BlocksForSlots(live)); }
  };

  Sequence& of(const Aside& aside) { return sequences_.at(aside.sequence); }
  const Sequence& of(const Aside& aside) const { return sequences_.at(aside.sequence); }
  bool Fits(int64_t peaks, int64_t largest, int64_t blocks) const;
  int64_t LargestOf(const Tenant& tenant) const;
  void CountOverlaps();
  Aside* FindAside(int32_t index);
  int32_t FindAnchor() const;
  bool IsOverdue(const Aside& aside) const;
  void AskForReturns();
  bool MayTake(const Sequence& sequence, int64_t blocks) const;
  bool CapHoldsBack(const Sequence& sequence, int64_t blocks) const;
  bool Reserve(Sequence& sequence, int64_t blocks);
  int64_t ReturnNeed(const Sequence& sequence) const;
  bool FindsRow(const Sequence& sequence) const;
  int64_t Wish(const Sequence& sequence) const;
  bool Return(int32_t index);
  void Ask(int32_t index);
  void Miss(int32_t index, int64_t blocks, bool row);
  int64_t Leaving(int32_t tenant) const;
  int64_t Coming(int32_t tenant) const;
  int32_t RowsComing() const;
  void AwaitBudgets();
  bool MakeRoom(const Asker& asker);
  bool MakeRow(const Asker& asker);
  bool SetAside(int32_t index, const Asker& asker);
  static bool Waits(const Sequence& sequence);
  void ChooseReturns();
  void Leave(Aside& aside);
  void Forget(Aside& aside);
  int32_t growing() const;

  const int64_t blocks_max_;
  const uint64_t patience_;  // plans
  SequenceTable& sequences_;
  TenantList& tenants_;
  BlockManager& block_manager_;
  const Parking& parking_;
  ElasticBudgets& elastic_;
  SchedulerCounters& counters_;
  const Victims victims_;

  std::vector<Aside> asides_;  // in the order in which they were chosen
  std::vector<PlanSwapOut> outs_;
  std::vector<uint64_t> drops_;
  std::vector<uint64_t> lost_;  // Fail's answer
  int64_t blocks_ = 0;          // of asides_
  int64_t largest_ = 0;         // Sequence::peak_blocks, at most
  bool floors_hold_ = true;     // floors were not raised so far that those that run cannot have their peaks beside them
  bool short_ = false;          // somebody asked in vain in the last plan
  uint64_t anchor_id_ = 0;      // of its request
  int32_t anchor_ = -1;         // its index, as of the last plan
  int32_t anchor_since_ = 0;    // its Sequence::scheduled when it became that
  uint64_t plan_ = 0;           // the number of the plan that was begun last
  Blocked awaits_budgets_;
  uint64_t awaits_budgets_for_ = 0;
  int32_t budget_waits_ = 0;  // plans in a row in which somebody missed blocks and budgets were to fall, and none did
  int32_t kept_tenant_ = -1;  // for whose head of line blocks are kept
  int64_t kept_blocks_ = 0;
  bool kept_row_ = false;
  std::vector<Asker> askers_;     // scratch of PlanGrowth, in the order in which they asked
  std::vector<int64_t> missing_;  // likewise: by tenant
  int64_t missing_all_ = 0;
  int32_t missing_rows_ = 0;
  std::vector<char> passed_;   // scratch of ChooseReturns: by tenant
  std::vector<char> settled_;  // scratch of PlanGrowth: by tenant
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SWAPPING_H_
