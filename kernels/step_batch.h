// StepBatch is what a device computes in one step: the tokens and rows of the batch. Beside it: the ops on sequences'
// cached blocks, and StepBounds, the largest step that there will be.
//
// Thread: engine (plain data; spans point to what the engine keeps until the step's last op was called).
#ifndef HYDRANT_KERNELS_STEP_BATCH_H_
#define HYDRANT_KERNELS_STEP_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/eviction_policy.h"
#include "kernels/step/block_ops.h"
#include "kernels/step/row_plan.h"
#include "kernels/types.h"

namespace hydrant {

// One sequence's share of a step. A prefill row has 1 or more prompt tokens, which occupy slots [live, live +
// token_count) and attend to every slot below `live` and causally to each other; a decode row has one token, and where a
// device takes them (Device::TakesDrafts) drafts behind it, each computed as if it were alone in the step after the one
// before it: to the bit. With reuse_victim each overwrites the victim that the one before it chooses.
struct BatchRow : RowCounts, RowTables {
  int32_t token_begin = 0;  // first of its tokens in the flattened batch
  int32_t token_count = 0;
  EvictionPolicy policy = {};
  std::span<const ScoreSnapshot> snapshots = {};  // prefill, by ascending slots
  // Prefill under a policy with pin_rows, a prompt's last chunk of one that is cut with this step: pins are chosen, and bit p
  // of these words says that a segment begins with position p. Empty: none are chosen. All of the prompt's rows that choose
  // pins are in the chunk, so that nothing of them has to be kept from step to step.
  std::span<const uint64_t> segment_starts = {};
  int32_t draft_begin = 0;  // decode: the number of its first draft among those of the step

  // Slots occupied when all tokens have theirs.
  int32_t live_after() const { return slots_with(token_count); }
  // The position at which a token's key and query are rotated: KvCacheView::position.
  int32_t first_position() const { return position_of(0); }
  int32_t position_of(int32_t i) const { return policy.rolling ? slots_with(i + 1) - 1 : position + i; }
  // Prefill under a policy that scores: the logical position of the first token whose attention counts; no token's
  // counts if it is not below position + token_count.
  int32_t first_scored() const {
    const int32_t window = policy.score_rows == 0 ? prompt_length : policy.score_rows;
    return std::max(prompt_length - window, position);
  }
  bool chooses_pins() const { return !segment_starts.empty(); }
  int32_t drafts() const { return prefill ? 0 : token_count - 1; }
  // Decode: the row of token `i` in a step of its own, after those before it.
  BatchRow Alone(int32_t i) const {
    BatchRow one = *this;
    one.position += i;
    one.live = slots_with(i);
    one.token_begin += i;
    one.token_count = 1;
    return one;
  }
  // The logical position of the first token whose attention chooses pins.
  int32_t first_pinning() const { return std::max(prompt_length - policy.pin_rows, position); }
  // Decode: pins still hold.
  bool pins_hold() const { return policy.pin_rows > 0 && position - prompt_length < policy.pin_tokens; }
  // Decode: a slot may be the victim if its KvCacheView::position is below this.
  int32_t candidates_end() const { return first_position() + 1 - policy.recent; }
};

// The number of steps that may be in flight on a device: the next one may be queued while the device computes the last.
inline constexpr int32_t kStepsInFlight = 2;

// Slots that a row with drafts may have where its policy scores: the scores that each draft leaves are kept until it is known
// which ones stay.
inline constexpr int32_t kDraftScoreSlots = 4096;

// What a device stores as the last sampled id after a stop id: the state row has no next token.
inline constexpr int32_t kNoNextId = -2;

// The flattened batch of a step. Spans must stay valid until the step's last op, Sample, was called.
struct StepBatch {
  // [tokens], each in the vocabulary or kSampledId. A row of kSampledId after a stop id (SampleRequest::stop_ids) is
  // skipped: it changes nothing in the cache, and its outputs are undefined.
  std::span<const int32_t> token_ids;
  std::span<const BatchRow> rows;  // tokens of row r: [token_begin, token_begin + token_count), in order, no gaps
};

// Lowers one sequence to `live_to` slots: per (layer, KV head) the policy's cut chooses the survivors, those in slots
// >= live_to move into the holes below, with score and position.
struct ShrinkOp {
  int32_t live_from = 0;
  int32_t live_to = 0;         // == policy.keep(); of fewer than `recent` recent tokens the heavy part takes the rest
  int32_t logical_length = 0;  // tokens seen
  bool prompt_cut = false;     // the cut that ends the prompt: policy.pool_width and policy.store_pooled apply
  EvictionPolicy policy;
  std::span<const int32_t> block_table;
  std::span<const int32_t> score_table = {};  // beside it; empty: each block's own

  std::span<const int32_t> score_blocks() const { return score_table.empty() ? block_table : score_table; }
  // KvCacheView's positions are below it; the newest token's is the one before.
  int32_t position_end() const { return policy.rolling ? live_from : logical_length; }
};

// Asks what cuts would cost: to each of `keep_max`, `keep_max` - kBlockSlots, … slots, losses.size() of them. The loss
// of a cut is the share of the score mass that the dropped slots hold, the mean over layers and KV heads; where nothing
// is scored, or all scores are 0, every slot counts the same. 0 where the cut drops nothing.
struct LossOp {
  int32_t live = 0;
  int32_t logical_length = 0;  // tokens seen
  int32_t keep_max = 0;
  EvictionPolicy policy;  // the one the request began with: Lowered gives each cut's
  std::span<const int32_t> block_table;
  std::span<const int32_t> score_table = {};  // beside it; empty: each block's own
  std::span<float> losses;

  std::span<const int32_t> score_blocks() const { return score_table.empty() ? block_table : score_table; }
  int32_t position_end() const { return policy.rolling ? live : logical_length; }  // as ShrinkOp's
};

// The largest step that scratch memory is there for.
struct StepBounds {
  int32_t tokens_max = 0;
  int32_t rows_max = 0;     // and state rows that ids are sampled for
  int32_t slots_max = 0;    // of one row
  int32_t drafts_max = 0;   // of all rows together, among the tokens
  int32_t layer_heads = 0;  // layers x KV heads
  int64_t cols_max = 0;     // of a matrix that is multiplied
  int32_t query_heads = 0;  // of attention
  int32_t head_dim = 0;
  int64_t vocab = 0;  // columns of the logits
  int32_t logits_rows_max = 0;
  // The shapes of AddExperts; 0: there will be none.
  int32_t experts = 0;
  int32_t experts_per_row = 0;
  int64_t expert_cols_max = 0;  // of a matrix that is multiplied with an expert's
  // The same of weights that have rows in a quantised format, experts aside; 0: there are none.
  int64_t quantised_cols_max = 0;
  int32_t adapter_rank_max = 0;       // AdapterSpec::rank_max; 0: there are no adapters
  DType adapter_dtype = DType::kF32;  // AdapterSpec::dtype
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_BATCH_H_
