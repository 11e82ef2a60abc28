// One episode of the deterministic simulator: the real EngineCore, Scheduler and BlockManager run a random workload on
// the fake executor in virtual time, and everything that must hold is checked. An episode is a pure function of its
// seed: sizes of pool, batch and prompts, budgets, cadences, arrivals, cancels, rows and whole steps that fail, slow
// readers, sessions that are parked, dropped and cut for a turn, clients that leave at any step, colliding prefix
// hashes, positions that roll past the context, tenants and their reloads, overlap of steps.
//
// Checked at every step: provenance, position, contract and ownership (fake_executor.h); used blocks are exactly those
// of the live slots; refusals exactly when the oracle says so; each token and log-probability equal to the oracle's, in
// order; one terminal event per request, with the oracle's reason; no wait beyond the bound that follows from first
// come, first served; what a session goes on from parked, at whatever step its client left, unless there was no room
// for it (turn_checks.h); no more of that moved between two tokens than may; nobody held up by another's slow reader;
// no budget lowered but for a request that is then let in; what is promised to tenants (tenant_checks.h), and what
// memory costs them (memory_checks.h). At every step of some episodes, every eighth of the others and at the end: the
// integrity of pool, tables and counters. At the end: all blocks free.
//
// With EpisodeOptions::swaps the pool is small, and sequences step aside: they come back with every slot of every pair where
// it was, and swap_checks.h says who may be chosen.
#ifndef HYDRANT_TESTS_SIM_SIMULATOR_H_
#define HYDRANT_TESTS_SIM_SIMULATOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/planted_bug.h"

namespace hydrant::sim {

class PlanDigest;

struct EpisodeOptions {
  uint64_t seed = 1;
  PlantedBug bug = PlantedBug::kNone;
  bool check_contract = true;        // off: a planted bug must be seen in the memory or by the client
  bool swaps = false;                // sequences may step aside
  std::optional<bool> overlap = {};  // of steps; empty: of every other episode's
  PlanDigest* digest = nullptr;      // of what the scheduler decides (plan_digest.h); null: nobody asks
};

struct EpisodeResult {
  std::string failure;  // empty: everything held
  uint64_t block_operations = 0;
  uint64_t slots_read = 0;
  uint64_t steps = 0;
  uint64_t requests = 0;
  uint64_t refused = 0;
  uint64_t cancelled = 0;
  uint64_t cancelled_in_flight = 0;
  uint64_t failed = 0;
  uint64_t stopped = 0;
  uint64_t evicted_tokens = 0;
  uint64_t cached_tokens = 0;     // taken over from the prefix cache
  uint64_t generated_taken = 0;   // blocks of them that decoding computed
  uint64_t copied_blocks = 0;     // before a first eviction
  uint64_t restored_tokens = 0;   // of sessions, from what was parked
  uint64_t histories_left = 0;    // by turns, of their prompts
  uint64_t recalled = 0;          // turns that went on from one
  uint64_t turn_cuts = 0;         // of them, to make room for a turn
  uint64_t rolling = 0;           // requests whose keys stand at their ranks
  uint64_t rolling_restored = 0;  // of them, those that went on from their sessions
  uint64_t outgrown = 0;          // of them, those with a history longer than the context
  uint64_t outgrown_far = 0;      // … than four contexts
  uint64_t pasts_missed = 0;      // turns that waited, and whose needed past was pushed out meanwhile
  uint64_t turns_given_up = 0;    // parked in the step in which their client left
  uint64_t turns_gone_back = 0;   // of them, with the turn before still parked
  uint64_t moves_in_slices = 0;   // parks and restores that took more than one step
  uint64_t parked_lost = 0;       // sessions whose parked KV made room for another one's
  uint64_t swaps_out = 0;         // sequences that stepped aside
  uint64_t swaps_in = 0;          // and came back
  uint64_t swaps_lost = 0;        // for which there was no memory
  uint64_t swap_waits = 0;        // plans with somebody outside and somebody in line
  int64_t outside_max = 0;        // plans in a row that a sequence was outside
  int32_t swaps_max = 0;          // times that one stepped aside
  uint64_t held_up = 0;           // times that a stream in the pool waited for moves of others
  int64_t held_up_max = 0;        // plans in a row that a stream in the pool waited for moves of others
  uint64_t floor_waits = 0;       // plans in which a stream had no block that has no room beside others' floors
  uint64_t swap_shares = 0;       // sequences that stepped aside where there were several tenants
  uint64_t swap_passes = 0;       // requests let in while another tenant's sequence waited outside
  uint64_t due_heads = 0;         // heads of line within their tenant's share that waited for more than a plan
  uint64_t row_waits = 0;         // plans in which one of these missed a state row
  int64_t due_plans_max = 0;      // the longest of these waits, in plans
  uint64_t swap_budgets = 0;  // plans that had somebody step aside although budgets could fall by less than was missing
  uint64_t shrinks = 0;       // budgets lowered
  uint64_t giver_checks = 0;  // budgets lowered for another tenant
  uint64_t promises = 0;      // requests for which budgets fell, and that had to be let in next
  uint64_t rows_left_out = 0;     // of steps that were divided between tenants
  uint64_t fairness_checks = 0;   // pairs of tenants that waited at the same time
  uint64_t floor_checks = 0;      // heads of line within their tenant's floor
  uint64_t twin_checks = 0;       // times somebody was let in while a prompt under the same salt was computed
  uint64_t memory_checks = 0;     // charges of a tenant for memory that it held
  uint64_t withdrawn_checks = 0;  // turns that fell with a prompt that was withdrawn, while others waited
  uint64_t reloads = 0;
  uint64_t pauses = 0;         // of requests whose reader was behind
  uint64_t paused_steps = 0;   // with at least one of them
  uint64_t steps_ahead = 0;    // launched while another was in flight
  uint64_t draft_rows = 0;     // with drafts beside their token
  uint64_t drafts_kept = 0;    // that were right
  uint64_t drafts_over = 0;    // of these, in a victim's place
  uint64_t ahead_waiting = 0;  // of these, while somebody waited and nothing changed
  uint64_t rows_behind = 0;    // of these, of requests that had ended by then
  uint64_t ends_known = 0;     // of these, with an end that the device was told of
  uint64_t waited = 0;         // requests that were not admitted in the step after they came
};

EpisodeResult RunEpisode(const EpisodeOptions& options);

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SIMULATOR_H_
