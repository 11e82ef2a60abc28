// Executor runs one step of the model: flat rows in, sampled tokens out. ModelExecutor is the real one; the tests'
// FakeExecutor remembers which token is behind every slot.
//
// Thread: engine. Launch may return before the work is done; Await(ticket) returns its output. Two tickets may be in flight, and
// are awaited in the order they were launched; of the second nothing is done before the first is. StepInput, and what its spans
// and pointers lead to, must stay valid until Await returns.
//
// Launch throws std::bad_alloc where there is no memory for the step. It is over then: what it was to do to the slots of its
// sequences may be done or not, nothing is parked for the sessions it was to drop or to park, and no ticket was given. Any other
// exception is the executor's end.
#ifndef HYDRANT_MODEL_RUN_EXECUTOR_H_
#define HYDRANT_MODEL_RUN_EXECUTOR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/eviction_policy.h"
#include "kernels/kv_cache_view.h"
#include "kernels/sampling.h"
#include "kernels/step/block_ops.h"
#include "kernels/step/row_plan.h"
#include "kernels/step/session_ops.h"
#include "kernels/step_batch.h"

namespace hydrant {

// What a row is asked besides: the losses (kernels/device.h, LossOp) of cuts to `keep_max`, `keep_max` - 16, … slots, as things
// are when the step's token is in.
struct LossQuestion {
  int32_t keep_max = 0;
  int32_t cuts = 0;                        // 0: nothing is asked
  const EvictionPolicy* policy = nullptr;  // the one the request began with
};

struct StepRow : RowPlan {
  std::span<const ScoreSnapshot> snapshots = {};  // of the scores, by ascending slots
  int32_t forced_id = -1;                         // >= 0: take this token instead of sampling one (teacher forcing)
  int32_t logprobs = -1;                          // of the sampled token: -1 none, k >= 0 its own and the k best
  // Prompt log-probabilities: targets[i] is the prompt token after tokens[i]; empty when not asked for. The last token
  // of the prompt has no target.
  std::span<const int32_t> targets = {};
  int32_t target_logprobs = -1;
  bool target_ranks = false;
  LossQuestion losses;  // decode
  const EvictionPolicy* policy = nullptr;
  const SamplingParams* sampling = nullptr;
  const LogitAdjustments* adjustments = nullptr;  // of the sampled token; null: none. Valid until Launch returns
};

struct ParkOp : SessionPark {
  std::span<const int32_t> block_table = {};
  std::span<const int32_t> score_table = {};
  const EvictionPolicy* policy = nullptr;
};

struct RestoreOp : SessionRestore {
  std::span<const int32_t> block_table = {};
  const EvictionPolicy* policy = nullptr;
};

// Scores and positions of a sequence's first slots, whole blocks of them, as the cache has them:
// [block][layer][kv_head][16]. The vectors only grow; what they hold beyond these blocks means nothing.
struct KvScores {
  int32_t blocks = 0;
  std::vector<float> scores;
  std::vector<int32_t> positions;
  bool logical = false;  // positions in the text whatever the policy; else, under a rolling one, ranks
};

// Copies out what is beside a sequence's slots, to be looked at: `score_blocks` names them, or, where it is empty, they are what is
// parked for `session`.
struct ReadOp {
  uint64_t session = 0;
  int32_t live = 0;  // > 0
  std::span<const int32_t> score_blocks = {};
  KvScores* out = nullptr;
};

// A step has rows; between steps there may be one with drops, parks and reads alone.
struct StepInput {
  // Before the rows, in this order.
  std::vector<uint64_t> drops;  // sessions whose parked KV is forgotten
  std::vector<ParkOp> parks;
  std::vector<RestoreOp> restores;
  std::vector<ScoreInit> score_inits;
  std::vector<StepRow> rows;
  std::vector<ReadOp> reads;  // without rows

  void clear() {
    drops.clear();
    parks.clear();
    restores.clear();
    score_inits.clear();
    rows.clear();
    reads.clear();
  }
};

struct RowOutput {
  SampleResult sampled;               // meaningful when the row asked to sample
  std::vector<SampleResult> targets;  // one per StepRow::targets
  std::vector<float> losses;          // one per cut asked about
};

struct StepOutput {
  std::vector<RowOutput> rows;  // in the order of StepInput::rows
  std::vector<uint64_t>
      park_failures;  // sessions of StepInput::parks that there was no memory for: nothing is parked for them
};

class Executor {
 public:
  struct Ticket {
    uint64_t number = 0;
  };

  virtual ~Executor() = default;
  virtual Ticket Launch(const StepInput& input) = 0;
  virtual StepOutput Await(Ticket ticket) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_EXECUTOR_H_
