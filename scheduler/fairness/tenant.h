// Tenant is a party that shares the server: a weight, a line of waiting requests, the service it has received and the
// part of the pool it may and must be able to use.
//
// Whose turn it is: the virtual token counter of "Fairness in Serving Large Language Models" (OSDI 2024). Every computed
// prompt token and every generated one is charged to its tenant, divided by the weight; of the tenants that wait, the
// one with the lowest counter goes next. What an admitted prompt will cost counts for its turn from admission on, as in
// the paper, and is charged when it is computed; the chunks of admitted prompts are computed in turns, by a counter of
// their own, so that a short prompt is not behind the long ones of somebody else. A tenant that comes back starts beside
// the least served of those who wait (Lift), so nobody saves up time, and a prompt that is withdrawn brings its tenant
// before nobody who waits (ForgivePrompt). For two tenants that always wait the counters differ by at most what their
// admitted sequences may still cost: 2 * max(kPromptCharge * longest prompt, kOutputCharge * tokens of the batch).
//
// Whoever holds memory keeps others from computing, so the counter has that, too (ChargeMemory): what a step computes is charged to
// each tenant by its part of the tokens or by the part of the pool that it claims, whichever is more, and KV that moves between
// pool and host is charged by the time that everybody waits for it. And who had the pool emptied
// for a request above its share is charged for the emptiness once that is let in.
//
// Memory is not in that proof, so blocks have bounds of their own, and no one waits for ever because of them:
//  - A head of line that its tenant's own cap (blocks_max) holds back does not count: others pass, and the tenant is
//    treated as if it were away (it is lifted when the cap lets it in). It waits for sequences of its own tenant.
//  - A head of line that the pool holds back is passed by nobody, with two exceptions. One is a tenant that takes nothing
//    that the head could have: a row of its own floor, and blocks of that floor or, where the head waits for a row alone,
//    blocks that the head leaves. Nobody else has a row then, and the next end of a sequence beyond its tenant's floor
//    gives the head one. (Where sequences step aside, so does one that has all that it has in progress outside, with the row
//    that is kept for it: in blocks that the head leaves, ahead of it by as much as memory was charged for what is outside.)
//    The other is for a head with which its tenant would claim more than its share of the pool by
//    weight: those pass it with whom theirs do not, but only until they are ahead of its turn by the tokens of a full pool
//    (PassesAhead). Everything else that runs ends, so a wait is bounded as if there were no tenants, by the time that a
//    pool of tokens takes at most.
//  - A head of line that waits until its tenant's own sequence has computed the prefix of its prompt (admission.h) does not count
//    either: others pass, and the tenant is treated as if it were away meanwhile. It is served by that sequence.
//  - A head of line for which room was made (budgets fell, somebody steps aside, or it has been due for long and nothing is missing)
//    takes that, whoever has come first meanwhile: its turn was when it was made, some steps before. Before it goes nobody for
//    whom it was made earlier and who could not be let in then, as its cap was lowered.
//  - A head of line that would not fit beside the floors of the others (they were raised while it waited) is passed by
//    nobody at all, and is let in at the latest when nothing runs and nothing is on its way out of the pool.
//
// Thread: engine.
#ifndef HYDRANT_SCHEDULER_FAIRNESS_TENANT_H_
#define HYDRANT_SCHEDULER_FAIRNESS_TENANT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace hydrant {

enum class SchedulingPolicy : uint8_t {
  kFair,  // the lowest counter first
  kFcfs,  // the earliest head of line first: what fairness is compared with
};

struct TenantOptions {
  std::string name = "default";
  double weight = 1.0;       // > 0
  int32_t floor_blocks = 0;  // always there for it: nobody else is promised what it has not reserved of these
  int32_t blocks_max = 0;    // claimed by all its sequences at most; 0 = the whole pool
  bool gone = false;  // in no configuration any more: what it still has running ends, and it has no share of anything
};

// The request at the head of a tenant's queue.
struct HeadOfLine {
  int64_t blocks = 0;          // by which it raises what its tenant claims, and what the pool has given away
  uint64_t arrival = 0;        // lower: came earlier
  bool awaits_prefix = false;  // it waits for a prompt of its own tenant, so `blocks` is not asked for
  uint64_t given_room = 0;     // room was made for it, last with the plan of this number; 0: none was
  bool has_place = true;       // beside what those that run may come to hold (swapping.h)
};

struct Tenant {
  TenantOptions options;
  int32_t floor_rows = 0;     // sequences it can always have in progress: its floor's share of them
  std::deque<int32_t> queue;  // sequences that wait for admission, by priority and then first come first
  HeadOfLine head;            // of the queue, as ChooseTenant saw it last
  int32_t running = 0;        // admitted and not yet released
  int32_t rows = 0;           // of these that have a state row: all but those outside (swapping.h)
  int64_t reserved = 0;       // blocks of those that run, held or promised, and of its parks that are under way
  int64_t peaks = 0;          // Sequence::peak_blocks of those that run
  int64_t let_in_cap = 0;     // the largest cap with which somebody was let in since peaks was 0 last (swapping.h)
  int64_t overlap = 0;   // how many of these are counted again, as several of them hold the block; as of the last Plan
  double service = 0.0;  // the counter: charges, and what lifting added
  double charged = 0.0;  // charges of tokens alone
  double memory_charged = 0.0;  // by which memory raised the counter: held, kept empty, moved
  double step_charge = 0.0;     // of tokens since the last ChargeMemory, not divided by the weight
  double held_up = 0.0;  // likewise of blocks that were kept empty for its head of line: due when that leaves the line
  uint64_t passes = 0;   // times it passed a head that wanted more than its tenant's share
  int64_t prompt_due = 0;  // prompt tokens of those that run, not computed yet: charges to come
  double prefilled = 0.0;  // a counter of what its chunks cost (prefill_cost.h): whose is computed next
  double moved = 0.0;      // likewise of blocks of its sessions' KV that were parked or restored, by weight
  bool held_back = false;  // HoldsBackItsHead(), as ChooseTenant saw it last: it counts as away

  uint64_t prompt_tokens = 0;  // computed
  uint64_t generated_tokens = 0;

  // Costs of a token; an output token takes a whole row of a memory-bound step (weights of the paper).
  static constexpr double kPromptCharge = 1.0;
  static constexpr double kOutputCharge = 2.0;

  bool in_use() const { return !options.gone && (running > 0 || !queue.empty()); }
  bool waits() const { return !queue.empty() && !held_back; }
  double turn() const { return service + kPromptCharge * static_cast<double>(prompt_due) / options.weight; }
  int64_t claimed() const { return reserved - overlap; }  // blocks of the pool
  int64_t unused_floor() const { return std::max<int64_t>(0, options.floor_blocks - claimed()); }
  // State rows that nobody else is given: of its floor, and one if all that it has in progress is outside.
  int32_t unused_rows() const { return std::max(0, (running > 0 ? std::max(1, floor_rows) : floor_rows) - rows); }
  // Whether it may claim `blocks` more by its own cap.
  bool CapAllows(int64_t blocks) const { return options.blocks_max == 0 || claimed() + blocks <= options.blocks_max; }
  // Whether its own cap keeps it from claiming `blocks` more. With nothing of its own running it would wait for nobody: a cap
  // that was lowered meanwhile lets it pass once.
  bool CapHoldsBack(int64_t blocks) const { return reserved > 0 && !CapAllows(blocks); }
  // Whether its head of line waits for its own tenant alone.
  bool HoldsBackItsHead() const { return head.awaits_prefix || CapHoldsBack(head.blocks); }
  // `tokens` of a prompt are computed, which takes the time of `cost` at its beginning. Tokens that need no computing are neither
  // due nor charged.
  void ChargePrompt(int32_t tokens, double cost) {
    prompt_due -= tokens;
    prefilled += cost / options.weight;
    prompt_tokens += static_cast<uint64_t>(tokens);
    Charge(kPromptCharge * tokens);
  }
  // A prompt of which `tokens` are to be computed was admitted.
  void OwePrompt(int64_t tokens, double prefill_now) {
    if (prompt_due == 0) prefilled = std::max(prefilled, prefill_now);
    prompt_due += tokens;
  }
  void ChargeMemory(double cost) {
    service += cost / options.weight;
    memory_charged += cost / options.weight;
  }
  // Its head of line leaves the line.
  void SettleHeldUp() { ChargeMemory(std::exchange(held_up, 0.0)); }
  void ChargeOutput() {
    ++generated_tokens;
    Charge(kOutputCharge);
  }

 private:
  void Charge(double cost) {
    service += cost / options.weight;
    charged += cost / options.weight;
    step_charge += cost;
  }
};

using HeadOf = std::function<HeadOfLine(const Tenant&)>;

// The blocks and rows that admission may give away.
struct Room {
  int64_t blocks = 0;  // neither held nor promised
  int32_t rows = 0;    // sequences that may still be admitted
  int64_t blocks_total = 0;
};

// The order between tenants. `now` is the virtual time: the turn of the last tenant whose turn it was, or beside which one was
// lifted. It only grows, tells a newcomer where the others are even when none of them waits, and nobody who waits is behind it.
struct Turns {
  SchedulingPolicy policy = SchedulingPolicy::kFair;
  double now = 0.0;
  double prefill_now = 0.0;  // the same for chunks of prompts: the lowest Tenant::prefilled that had one to compute
  double move_now = 0.0;     // and for KV that moves: the highest Tenant::moved whose turn it was
};

// The tenant whose head of line would be admitted next if there were more blocks.
struct Blocked {
  const Tenant* tenant = nullptr;        // null: nobody, or blocks alone would not help
  int64_t blocks = 0;                    // that are missing
  bool over_share = false;               // with it, its tenant would claim more than its share
  std::span<const int32_t> shares = {};  // that are not, because it finds them in use; Admission adds these
};

// How far one that passes a head above its tenant's share, or one whose tenant has a sequence outside (swapping.h), may be ahead
// of that tenant's turn: by the tokens of a full pool.
double PassesAhead(const Tenant& tenant, int64_t blocks_total);

// The tenant whose head of line is admitted now; null when nobody's can be, and then `blocked` (may be null) says who waits
// for blocks. `head_of` is asked once for each tenant with a line. Marks who is held back by its own cap, and lifts who no
// longer is, beside those who wait now.
Tenant* ChooseTenant(std::span<Tenant> tenants, Turns& turns, const Room& room, const HeadOf& head_of,
                     Blocked* blocked = nullptr);

// Weights of the tenants that have or want anything: a tenant's share of the pool is its weight's part of these.
double WeightsInUse(std::span<const Tenant> tenants);
// Whether `claimed` blocks of `blocks_total` are within the share of a tenant.
inline bool WithinShare(const Tenant& tenant, int64_t claimed, double weights, int64_t blocks_total) {
  return static_cast<double>(claimed) * weights <= static_cast<double>(blocks_total) * tenant.options.weight;
}

// Whether `rows` state rows of `rows_total` are within the share of a tenant, which is one at least.
inline bool WithinRowShare(const Tenant& tenant, int32_t rows, double weights, int32_t rows_total) {
  return rows <= 1 || rows * weights <= rows_total * tenant.options.weight;
}

// A step is over. `holds_up` (may be null) is whose head of line, above its share, keeps `idle` of `blocks_total` blocks empty.
void ChargeMemory(std::span<Tenant> tenants, int64_t blocks_total, Tenant* holds_up, int64_t idle);

// Called before a request joins an empty line, and when a cap no longer holds a line back: the tenant does not bring the
// time it did not wait, but goes on beside the least served of those who did.
void Lift(Tenant& tenant, std::span<const Tenant> tenants, Turns& turns);

// An admitted prompt ended with `tokens` of it not computed: its tenant owes them no more. Its turn comes no sooner than that of
// who waits, for they may stand where they do because of that prompt; nor does it go back behind the virtual time.
void ForgivePrompt(Tenant& tenant, int64_t tokens, std::span<const Tenant> tenants, const Turns& turns);

// The sequences that a floor of `floor_blocks` of `blocks` blocks guarantees of `rows`: as large a part of them, at
// least one. A floor of memory is worth nothing to a tenant without a row.
int32_t FloorRows(int32_t floor_blocks, int32_t blocks, int32_t rows);

// The most blocks one request of tenants[index] can ever be given in a pool of `blocks`.
int64_t BlocksMaxOf(std::span<const TenantOptions> tenants, size_t index, int32_t blocks);

// INVALID_ARGUMENT, naming the tenant, when a pool of `blocks` blocks and `rows` sequences cannot keep these promises.
absl::Status ValidateTenants(std::span<const TenantOptions> tenants, int32_t blocks, int32_t rows);

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_FAIRNESS_TENANT_H_
