// SequenceRequest is all that the engine is asked of one sequence. It is built once (server/generation/generation_run) and
// moved: through the inbox, into EngineCore::Add, and from there its two parts to where they are used, Request to the
// scheduler and DecodeOptions beside it.
//
// Thread: any (plain data); what its pointers lead to belongs to whoever has the sequence.
#ifndef HYDRANT_SERVER_ENGINE_SEQUENCE_REQUEST_H_
#define HYDRANT_SERVER_ENGINE_SEQUENCE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/eviction_policy.h"
#include "kernels/sampling.h"
#include "kernels/step/kv_bytes.h"
#include "model/run/pooled_states.h"
#include "scheduler/request/request.h"
#include "server/drafts/drafter.h"
#include "server/engine/answer_shape.h"
#include "server/engine/logit_shaper.h"

namespace hydrant {

// Labels under which evicted tokens are counted: the server gives every policy name an index below this.
inline constexpr int32_t kPolicyLabelsMax = 16;

// Finds the end of a sequence in its text, which only its driver can read: stop strings. Engine thread.
class EndFinder {
 public:
  virtual ~EndFinder() = default;
  // `token` is the sequence's next one. True: it ends with it.
  virtual bool Push(int32_t token) = 0;
};

// How a sequence's tokens are chosen, evicted and reported: what the scheduler does not look at.
struct DecodeOptions : ScoringOptions {
  SamplingParams sampling;
  EvictionPolicy policy;  // policy.evicts == request.budget.limited(), and then policy.keep() == request.budget.keep
  std::vector<uint64_t> segment_starts;   // of the prompt: BatchRow::segment_starts; empty unless policy.pin_rows > 0
  bool prompt_ranks = false;              // reported with prompt_logprobs
  bool audited = false;                   // TokenEvent::best and its logprob are reported whatever else is
  int32_t policy_label = 0;               // [0, kPolicyLabelsMax)
  int32_t adapter = -1;                   // RowCounts::adapter of all its rows
  std::shared_ptr<EndFinder> end_finder;  // its own; null: only tokens end it
  std::shared_ptr<LogitShaper> shaper;    // its own, made with its prompt; null: nothing is asked of tokens
  std::shared_ptr<AnswerShape> shape;     // its own; null: any token may come next
  std::shared_ptr<Drafter> drafter;       // its own, made with its prompt; null: nothing is guessed
  std::shared_ptr<PooledStates> states;   // gets those of its prompt; null: nobody asks
};

// Validated by the caller; EngineCore::Add checks what would break somebody else (sizes, ids, capacity).
struct SequenceRequest : DecodeOptions {
  Request request;
  int32_t parked_tokens = 0;  // of the prompt, which its session has parked: they will hardly have to be computed
  KvBytes staged;  // KV of the turn that it resumes, as it was kept elsewhere; empty: it is parked, or not kept

  int32_t tokens_to_compute() const { return static_cast<int32_t>(request.prompt.size()) - parked_tokens; }
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_SEQUENCE_REQUEST_H_
