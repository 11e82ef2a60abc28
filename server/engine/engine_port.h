// EnginePort is the engine as the HTTP side sees it; beside it what is asked of the engine and what comes back, plain data
// that knows no JSON.
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/sampling.h"
#include "scheduler/sequence_event.h"
#include "scheduler/tenant.h"
#include "server/engine/engine_types.h"
#include "server/engine/kv_reading.h"
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

// Thread: any.
class EnginePort {
 public:
  virtual ~EnginePort() = default;

  // Returns the id of the job's first sequence; nullopt when there is no room, in which case nothing of the job
  // happens. An accepted sequence reports exactly one end.
  virtual std::optional<uint64_t> TrySubmit(GenerationJob job) = 0;
  // Ends a sequence within one step; ignored when it has ended. REQUIRES: whoever calls it calls it at most once for an
  // id.
  virtual void Cancel(uint64_t id) = 0;
  // Lets the sequences [first_id, first_id + count) go on that were paused because their mailbox was full.
  virtual void Resume(uint64_t first_id, int32_t count) = 0;
  virtual Backlog backlog() const = 0;

  // Orders, carried out between two steps and before any job submitted later: EngineCore's methods of these names.
  virtual void SetTenants(std::vector<TenantOptions> tenants) = 0;
  virtual void PauseAdmission(bool paused) = 0;
  virtual void ResetPrefixes() = 0;
  virtual void DropSession(uint64_t session) = 0;
  // Likewise. `done` is called once: on the engine thread when it is done, or, with source kNone, by whoever gives up because
  // the engine has ended.
  virtual void ReadKv(uint64_t session, bool evicts, std::shared_ptr<KvReading> out, std::function<void()> done) = 0;

  virtual EngineCounters counters() const = 0;  // as of the last step
  // Dead, or busy with one step for too long.
  virtual bool stalled() const = 0;
  // Cancels what runs; returns when the engine's thread has ended.
  virtual void Stop() = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_
