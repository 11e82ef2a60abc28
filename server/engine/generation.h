// What the HTTP side asks of the engine, and what comes back: plain data that knows no JSON.
#ifndef HYDRANT_SERVER_ENGINE_GENERATION_H_
#define HYDRANT_SERVER_ENGINE_GENERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/sampling.h"
#include "scheduler/sequence_event.h"
#include "server/engine/sequence_request.h"

namespace hydrant {

class StreamMailbox;

// Keeps account of the sequences of one request. Thread: engine; short and without I/O. What it is never told of has not
// happened: a sequence that ends without a call (the engine died) was not computed.
class SequenceLedger {
 public:
  virtual ~SequenceLedger() = default;
  // The sequence left the queue.
  virtual void OnAdmitted(int32_t choice) = 0;
  // Its end, with what was computed of its prompt and generated for it, by whatever end. At most once per choice.
  virtual void OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) = 0;
};

// The sequences of one request: sequence i reports as choice i. The engine numbers them, one after the other.
struct GenerationJob {
  std::vector<SequenceRequest> sequences;  // not empty
  std::shared_ptr<StreamMailbox> mailbox;
  std::shared_ptr<SequenceLedger> ledger;  // may be null
};

// A token, an end, or both, on its way to a connection.
struct TokenEvent : SequenceOutcome {
  int32_t choice = 0;
  int64_t time_us = 0;
  std::unique_ptr<SampleResult> logprobs;  // null when not asked for
};

// Log-probabilities of prompt tokens [begin, begin + results.size()).
struct PromptEvent {
  int32_t choice = 0;
  int32_t begin = 0;
  std::vector<SampleResult> results;
};

// Work accepted and not finished.
struct Backlog {
  int64_t sequences = 0;
  int64_t sequences_max = 0;
  int64_t prompt_tokens = 0;  // of sequences without a first token
  int64_t prompt_tokens_max = 0;
  double wait_s = 0;  // an estimate of how long a new request would wait
};

// The engine as the HTTP side sees it. Thread: any.
class GenerationQueue {
 public:
  virtual ~GenerationQueue() = default;
  // Returns the id of the job's first sequence; nullopt when there is no room, in which case nothing of the job
  // happens. An accepted sequence reports exactly one end.
  virtual std::optional<uint64_t> TrySubmit(GenerationJob job) = 0;
  // Ends a sequence within one step; ignored when it has ended. REQUIRES: whoever calls it calls it at most once for an
  // id.
  virtual void Cancel(uint64_t id) = 0;
  // Lets the sequences [first_id, first_id + count) go on that were paused because their mailbox was full.
  virtual void Resume(uint64_t first_id, int32_t count) = 0;
  virtual Backlog backlog() const = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_GENERATION_H_
