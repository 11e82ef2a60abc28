// Executor runs one step of the model: rows in, sampled tokens out. ModelExecutor is the real one; the tests'
// FakeExecutor keeps track of the token in every slot.
//
// Thread: engine. A step is launched, sampled if it has rows, and awaited. Launch has the layers computed, and Sample(ticket)
// the tokens chosen: what is asked of these need not be known before. Either may return before that is done;
// Await(ticket) returns the output. A step is sampled before the next one is launched. Up to kStepsInFlight tickets may
// be in flight. They must be awaited in the order in which they were launched, and the steps are computed in that order.
// StepInput, and everything that its spans and pointers refer to, must stay valid until Await returns.
//
// Launch and Sample throw std::bad_alloc if there is not enough memory. The step has then failed: its writes to its
// sequences' slots may or may not have happened, no KV is parked of the turns that it was to drop or to begin to park, of
// other parks the slices may or may not have been copied, and there is no ticket to await. So it is with sequences that were to be
// swapped out; those that were to come back, in any slice, are lost, and what is left of them is for swap_drops. After any
// other exception the executor must not be used again.
#ifndef HYDRANT_MODEL_RUN_EXECUTOR_H_
#define HYDRANT_MODEL_RUN_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/eviction_policy.h"
#include "kernels/kv_cache_view.h"
#include "kernels/sampling.h"
#include "kernels/step/block_ops.h"
#include "kernels/step/kv_bytes.h"
#include "kernels/step/row_plan.h"
#include "kernels/step/session_ops.h"
#include "kernels/step/swap_ops.h"
#include "kernels/step_batch.h"
#include "model/checkpoint/adapter.h"
#include "model/run/pooled_states.h"
#include "model/weights/weight_stream.h"

namespace hydrant {

// Asks for the losses (LossOp in kernels/step_batch.h) of cuts to `keep_max`, `keep_max` - 16, … slots, measured when
// the row's token is in the cache.
struct LossQuestion {
  int32_t keep_max = 0;
  int32_t cuts = 0;                        // 0: do not measure
  const EvictionPolicy* policy = nullptr;  // the request's first one
};

struct StepRow : RowPlan {
  std::span<const ScoreSnapshot> snapshots = {};  // score snapshots to take, by ascending slots
  std::span<const uint64_t> segment_starts = {};  // BatchRow::segment_starts
  int32_t forced_id = -1;                         // >= 0: take this token instead of sampling one (teacher forcing)
  int32_t logprobs = -1;                          // of the sampled token: -1 none, k >= 0 its own and the k best
  // For prompt log-probabilities: targets[i] is the prompt token after tokens[i]; the last token of the prompt has
  // none. Empty if they are not asked for.
  std::span<const int32_t> targets = {};
  int32_t target_logprobs = -1;
  bool target_ranks = false;
  // Gets the hidden states of the row's tokens, or of its prompt's last one, before Sample returns. Null: they are not asked for.
  std::shared_ptr<PooledStates> states = nullptr;
  LossQuestion losses;  // decode
  const EvictionPolicy* policy = nullptr;
  const SamplingParams* sampling = nullptr;
};

// The tables are of all slices.
struct ParkOp : SessionPark {
  std::span<const int32_t> block_table = {};
  std::span<const int32_t> score_table = {};
  const EvictionPolicy* policy = nullptr;  // where it begins
};

struct RestoreOp : SessionRestore {
  std::span<const int32_t> block_table = {};
  const EvictionPolicy* policy = nullptr;
};

// The tables are of all slices. The score table may be empty: each block's own.
struct SwapOutOp : SwapOut {
  std::span<const int32_t> block_table = {};
  std::span<const int32_t> score_table = {};
};

// The blocks are the sequence's alone, and so are the score blocks of their numbers, which get its scores.
struct SwapInOp : SwapIn {
  std::span<const int32_t> block_table = {};
};

// Scores and positions of a sequence's first `blocks` blocks in the cache's order: [block][layer][kv_head][16]. The
// vectors only grow; their elements beyond these blocks are undefined.
struct KvScores {
  int32_t blocks = 0;
  std::vector<float> scores;
  std::vector<int32_t> positions;
  bool logical = false;  // `positions` are logical positions for every policy; else a rolling policy's are ranks
};

// Copies the scores and positions of a sequence to the host, for inspection: from `score_blocks`, or, if that is empty,
// from the KV that the turn `parked` left.
struct ReadOp {
  TurnId parked;
  int32_t live = 0;  // > 0
  std::span<const int32_t> score_blocks = {};
  KvScores* out = nullptr;
};

// The input of a step has rows, or what rows wait for: restores and sequences that are swapped in. Between steps there may
// be others: drops, parks, sequences that are swapped out, and reads.
struct StepInput {
  // Done before the rows, in this order.
  std::vector<TurnId> drops;         // turns whose parked KV is deleted
  std::vector<uint64_t> swap_drops;  // sequences that do not come back: what was swapped out of them is deleted
  std::vector<ParkOp> parks;
  std::vector<SwapOutOp> swap_outs;
  std::vector<RestoreOp> restores;
  std::vector<SwapInOp> swap_ins;
  std::vector<ScoreInit> score_inits;
  std::vector<StepRow> rows;
  std::vector<ReadOp> reads;  // only without rows
  // Set, by any thread, when somebody more urgent has come: the executor may then leave rows out that it has not computed
  // (StepOutput::left_out). Null: it does not. For rows that may be computed once more.
  const std::atomic<bool>* overtaken = nullptr;

  void clear() {
    overtaken = nullptr;
    drops.clear();
    swap_drops.clear();
    parks.clear();
    swap_outs.clear();
    restores.clear();
    swap_ins.clear();
    score_inits.clear();
    rows.clear();
    reads.clear();
  }
};

struct RowOutput {
  SampleResult sampled;               // defined if StepRow::sample; after the first token of a row with drafts
  std::vector<SampleResult> drafts;   // after each draft, as if all of them up to it were right
  std::vector<SampleResult> targets;  // one per StepRow::targets
  std::vector<float> losses;          // [LossQuestion::cuts]
};

struct StepOutput {
  std::vector<RowOutput> rows;  // in the order of StepInput::rows
  // Turns of StepInput::parks that were to begin and for which there was not enough memory: none of their KV is parked.
  std::vector<TurnId> park_failures;
  // Sequences of StepInput::swap_outs that were to begin and for which there was not enough memory: nothing of them was
  // copied, and in the pool they are as they were.
  std::vector<uint64_t> swap_failures;
  // The rows were not all computed: what is said of them means nothing, and in their slots is anything.
  bool left_out = false;
  int64_t restore_us = 0;  // that restores and swap_ins took, of the time from Launch to Await's return
};

class Executor {
 public:
  struct Ticket {
    uint64_t number = 0;
  };

  virtual ~Executor() = default;
  virtual Ticket Launch(const StepInput& input) = 0;
  // For the step launched last. adjustments[i] is for the token that row i samples, null where nothing is asked of it; empty:
  // for none. They are read before Sample returns. REQUIRES: the step has rows.
  virtual void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) = 0;
  virtual StepOutput Await(Ticket ticket) = 0;
  // For the step awaited last, if a row of it has drafts, whose input is still valid: so many tokens of each row stay, at least one.
  // The slots of those behind them are free. Before the next step is launched. An executor that is given no drafts has no use for it.
  virtual void KeepDrafts(std::span<const int32_t> /*kept*/) {}

  // A step from Launch to Await, without adjustments.
  StepOutput Run(const StepInput& input) {
    const Ticket ticket = Launch(input);
    if (!input.rows.empty()) Sample(ticket, {});
    return Await(ticket);
  }

  // Puts an adapter into a slot that rows of steps launched after this may name (RowCounts::adapter): AdapterSlots::Put. Any thread,
  // beside whatever steps run. An executor without weights has no use for it.
  virtual void PutAdapter(int32_t /*slot*/, const Adapter& /*adapter*/) {}

  // What was read of weights that are streamed; zeros: none are.
  virtual WeightStream::Counters WeightReads() const { return {}; }

  // The parked KV of a turn, for whoever keeps it elsewhere; empty: there is none, or a slice of it is still to be copied.
  virtual KvBytes Parked(const TurnId&) const { return {}; }
  // Parks KV of a turn that was kept elsewhere, as if this had parked it. False: it cannot be KV of this model, or there is no memory
  // for it; then nothing is parked of the turn. An executor that keeps no bytes takes none.
  virtual bool Adopt(const TurnId&, const KvBytes&) { return false; }
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_EXECUTOR_H_
