// SimJob is one request of EngineEpisode as its client has it: what must come of each of its sequences, what has come,
// and what its account was told.
#ifndef HYDRANT_TESTS_SIM_ENGINE_SIM_JOB_H_
#define HYDRANT_TESTS_SIM_ENGINE_SIM_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/engine/engine_port.h"
#include "server/engine/stream_mailbox.h"
#include "server/sessions/session_store.h"
#include "tests/sim/engine/buggy_engine.h"
#include "tests/sim/failure.h"

namespace hydrant::sim {

// The vocabulary, and the token that ends a sequence.
inline constexpr int32_t kVocab = 50;
inline constexpr int32_t kEos = 1;

// The token at `position` of the sequence with this SamplingParams::key.
int32_t ScriptedToken(uint64_t key, int32_t position);

struct SimChoice {
  uint64_t key = 0;
  int32_t prompt_length = 0;
  std::vector<int32_t> text;               // that it generates when nothing happens to it
  FinishReason end = FinishReason::kNone;  // … and why it ends then
  bool too_long = false;                   // it must be refused
  bool cancelled = false;                  // somebody asked for its end
  bool failed = false;                     // a row of it was not finite
  bool lost = false;                       // a step of it, or one that was to restore its session, was lost
  // As its client has seen it.
  size_t seen = 0;
  FinishReason finish = FinishReason::kNone;
  // As its account was told.
  bool admitted = false;
  bool ended = false;

  // Computes `text` and `end`.
  void Run(int32_t max_tokens);
};

class SimJob {
 public:
  SimJob(EngineBug bug, int32_t choices, int64_t unread_max, Failure& failure);
  SimJob(const SimJob&) = delete;
  SimJob& operator=(const SimJob&) = delete;

  // Takes what the engine has sent. True: its sequences were paused, and may go on.
  [[nodiscard]] bool Read();
  // Its client lets go of it.
  void Release();
  // Nothing but its client has it.
  bool IsFree() const { return mailbox_seen.expired() && ledger_seen.expired(); }
  // All of its sequences have ended, as far as its client knows.
  bool IsOver() const;
  // Its sequences without an end, as far as its account knows.
  int32_t open() const;

  uint64_t first_id = 0;  // 0: refused
  std::vector<SimChoice> choices;
  std::shared_ptr<StreamMailbox> mailbox;
  std::shared_ptr<SequenceLedger> ledger;
  std::weak_ptr<StreamMailbox> mailbox_seen;
  std::weak_ptr<SequenceLedger> ledger_seen;
  bool woken = false;
  bool engine_died = false;  // as its mailbox says
  // A turn of a session; the prompt is its whole history.
  std::unique_ptr<SessionTurn> turn;
  std::vector<int32_t> prompt;
  KvResolution kv;
  int32_t tenant = 0;
  uint64_t resumes = 0;               // the turn from which it goes on
  std::function<void()> on_ended;     // a sequence's account is closed
  std::function<void()> on_admitted;  // one has left the queue

 private:
  class Ledger;

  void See(const TokenEvent& event);
  void SeeEnd(const SimChoice& choice);

  const EngineBug bug_;
  const int64_t unread_max_;  // tokens; 0: no bound
  Failure& failure_;
  StreamBatch batch_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_ENGINE_SIM_JOB_H_
