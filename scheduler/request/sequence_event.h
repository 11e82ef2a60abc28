// SequenceEvent is what happened to a sequence in a step. Its parts travel as they are, from the scheduler to the answer and
// the metrics: SequenceOutcome says what the step brought, SequenceProgress where the sequence stands.
//
// Thread: any (plain data).
#ifndef HYDRANT_SCHEDULER_REQUEST_SEQUENCE_EVENT_H_
#define HYDRANT_SCHEDULER_REQUEST_SEQUENCE_EVENT_H_

#include <cstdint>

namespace hydrant {

// Why a sequence ended. What clients and scrapers read of it: AnswerFinishName (api/response/answer), and the table in
// server/metrics.
enum class FinishReason : uint8_t {
  kNone,      // not finished
  kStop,      // a stop token
  kText,      // the driver found the end in the text: a stop string
  kLength,    // max_tokens
  kAbort,     // cancelled
  kError,     // its row failed: non-finite logits or a token outside the vocabulary
  kNoMemory,  // there was no memory for it, or for a step that it was part of
  // The sequence never reached the scheduler: EngineCore::Add refused it.
  kRefused,
  kTooLarge,    // it turned out not to fit: what its session had parked is gone, and the whole history needs too much
  kComplete,    // nothing but the end could follow: the answer has the shape that was asked for
  kNoToken,     // nothing that is allowed and that the model gives a chance could follow
  kShapeLimit,  // a limit ended what the shape of its answer can follow
  kNoWeights,   // a step that it was part of could not read a weight
  kNoRoom,      // its tenant can have less of the pool than when it was checked, and too little for it
  kPastMoved,   // Request::needs_past, and it is not parked any more
};
inline constexpr int32_t kFinishReasons = 15;

// True if the sequence was not cancelled and did not fail: what it computed counts.
constexpr bool EndsByItself(FinishReason finish) {
  return finish == FinishReason::kStop || finish == FinishReason::kText || finish == FinishReason::kLength ||
         finish == FinishReason::kComplete;
}

// Moments of a sequence's life, -1 = not reached. Monotonic.
struct RequestTimes {
  int64_t arrival_us = -1;
  int64_t admitted_us = -1;  // left the queue
  int64_t first_token_us = -1;
  int64_t last_token_us = -1;
};

// A token, an end, or both.
struct SequenceOutcome {
  int32_t token = -1;  // -1: no new token
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;  // kStop: the id, when it is one of the request's stop_token_ids; -1 when it is an eos
};

// Where a sequence stands after a step.
struct SequenceProgress {
  int32_t generated = 0;        // tokens so far
  int32_t live = 0;             // slots
  int32_t budget = 0;           // in force; 0: unlimited
  int32_t evicted = 0;          // tokens dropped so far, per layer and head
  int32_t blocks = 0;           // held; on a terminal event: held until just now
  int32_t prompt_computed = 0;  // prompt tokens computed so far: all that the prompt is charged for
  int32_t cached = 0;           // prompt tokens taken over from the prefix cache
  int32_t restored = 0;         // prompt tokens whose KV the session had parked
  RequestTimes times;
};

struct SequenceEvent : SequenceOutcome, SequenceProgress {
  uint64_t id = 0;       // of the request
  int32_t sequence = 0;  // free for another request from a terminal event on; meaningless when row is -1
  // Index into the rows of the committed plan, which may be the plan after the token's; -1: the event comes from Cancel alone.
  int32_t row = -1;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_SEQUENCE_EVENT_H_
