// EnginePort is the engine as the HTTP side sees it. Beside it: the plain data that goes to the engine and comes back,
// free of JSON.
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/sampling.h"
#include "model/run/executor.h"
#include "scheduler/fairness/tenant.h"
#include "scheduler/request/sequence_event.h"
#include "server/engine/adapter_slot.h"
#include "server/engine/engine_types.h"
#include "server/engine/kv_reading.h"
#include "server/engine/sequence_request.h"

namespace hydrant {

class StreamMailbox;

// Keeps the account of one request's sequences. Thread: engine; calls are short and do no I/O. A sequence for which
// OnEnded is never called (the engine died) counts as not computed.
class SequenceLedger {
 public:
  virtual ~SequenceLedger() = default;
  // The sequence left the queue.
  virtual void OnAdmitted(int32_t choice) = 0;
  // The sequence ended, for any reason, with this many prompt tokens computed and tokens generated. Called at most once
  // per choice.
  virtual void OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) = 0;
  // Its tenant has no other prompt waiting: this one finds room, however many tokens of others wait. Constant.
  virtual bool first_of_tenant() const { return false; }
};

// The sequences of one request: sequence i reports as choice i. The engine numbers them, one after the other.
struct GenerationJob {
  std::vector<SequenceRequest> sequences;  // not empty
  std::shared_ptr<StreamMailbox> mailbox;
  std::shared_ptr<SequenceLedger> ledger;  // may be null
  // Let go of when every sequence has ended and no step has a row of one, whoever stays to hear of it. May be null.
  std::shared_ptr<AdapterSlot> adapter = nullptr;
};

// A token, an end, or both, on its way to a connection.
struct TokenEvent : SequenceOutcome {
  int32_t choice = 0;
  int64_t time_us = 0;
  // The best token in its place, and its own log-probability, where the sequence is audited. They take no memory: who is audited may not
  // be lost for it.
  int32_t best = -1;
  float logprob = 0.0f;
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
  double wait_s = 0;        // an estimate of how long a new request would wait
  double prefill_rate = 0;  // prompt tokens a second, as of late; a low guess as long as few were computed
};

// Thread: any.
class EnginePort {
 public:
  virtual ~EnginePort() = default;

  // Returns the id of the job's first sequence; nullopt when there is no room, in which case nothing of the job
  // happens. An accepted sequence reports exactly one end.
  virtual std::optional<uint64_t> TrySubmit(GenerationJob job) = 0;
  // Ends these sequences within one step; does nothing for one that has ended. Takes no memory: who may have to cancel when
  // there is none makes the list before.
  virtual void Cancel(std::list<IdRange> ids) noexcept = 0;
  // Lets the sequences [first_id, first_id + count) go on that were paused because their mailbox was full.
  virtual void Resume(uint64_t first_id, int32_t count) = 0;
  virtual Backlog backlog() const = 0;

  // Orders: EngineCore's methods of these names, carried out between two steps and before any job submitted later.
  virtual void SetTenants(std::vector<TenantOptions> tenants) = 0;
  virtual void PauseAdmission(bool paused) = 0;
  virtual void ResetPrefixes() = 0;
  virtual void SettleTurn(TurnId id, bool keep) = 0;
  virtual void DropSession(uint64_t session) = 0;
  // Likewise. Calls `done`, which must not throw, once: on the engine thread after the copy, or, with source kNone, on the
  // thread that finds that the engine has ended.
  virtual void ReadKv(uint64_t session, bool evicts, std::shared_ptr<KvReading> out, std::function<void()> done) = 0;

  // Likewise, EngineCore::ReadParked. Calls `done` once, with nothing where there is nothing: on the engine thread, for which it must be
  // short, once it is known, or on the thread that finds that the engine has ended. It must not throw. Throws std::bad_alloc, and then
  // `done` is not called.
  virtual void TakeParked(TurnId turn, std::function<void(KvBytes)> done) = 0;

  virtual EngineCounters counters() const = 0;  // as of the last step
  // True if the engine is dead, or has been busy with one step for longer than the stall threshold.
  virtual bool stalled() const = 0;
  // Cancels what runs; returns when the engine's thread has ended.
  virtual void Stop() = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_PORT_H_
