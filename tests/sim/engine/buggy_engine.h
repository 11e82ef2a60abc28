// BuggyEngine is an Engine with a bug planted around it, to show that EngineEpisode sees it: each stands for a mistake
// that the engine's loop, its inbox or its router could make. Without one it passes everything on.
#ifndef HYDRANT_TESTS_SIM_ENGINE_BUGGY_ENGINE_H_
#define HYDRANT_TESTS_SIM_ENGINE_BUGGY_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/stream_mailbox.h"

namespace hydrant::sim {

enum class EngineBug : uint8_t {
  kNone,
  // Orders.
  kCancelLost,         // a sequence goes on though its client has gone
  kResumeLost,         // who was paused stays so
  kSettleLost,         // nobody says from which turn a session goes on
  kForgetLost,         // what is parked of a session that is gone stays
  kPauseLost,          // requests are admitted though the operator has said no
  kTenantsLost,        // a reload is not taken
  kReadUnanswered,     // who asks for a session's KV never hears of it
  kReadAnsweredTwice,  // … or twice
  kStopLost,           // the engine goes on after Stop
  // Between the engine and its executor.
  kLostStepHidden,  // a step that there was no memory for passes for one that was computed
  kLostParkHidden,  // KV that is parked nowhere passes for parked
  // What it tells.
  kWakeLost,         // a client is not woken
  kDeathUntold,      // nobody hears that the engine is dead
  kParkedUntold,     // the session store does not hear what is parked
  kAdmissionUntold,  // nor the account of a request that it left the queue
  kEndUntold,        // … or that it ended
  kEndToldTwice,
  // What the client reads.
  kTokenLost,
  kTokenTwice,
  kTerminalLost,
  kTerminalTwice,
  kChoicesMixedUp,  // one sequence's tokens come as another's
  // What it keeps.
  kMailboxKept,  // a mailbox is never let go of
};
inline constexpr EngineBug kLastEngineBug = EngineBug::kMailboxKept;

const char* NameOf(EngineBug bug);

class BuggyEngine {
 public:
  // `engine` outlives this.
  BuggyEngine(EngineBug bug, Engine& engine) : bug_(bug), engine_(engine) {}

  std::optional<uint64_t> TrySubmit(GenerationJob job);
  void Cancel(uint64_t id);
  void Resume(uint64_t first_id, int32_t count);
  void SetTenants(std::vector<TenantOptions> tenants);
  void PauseAdmission(bool paused);
  void ResetPrefixes() { engine_.ResetPrefixes(); }
  void SettleTurn(TurnId id, bool keep);
  void DropSession(uint64_t session);
  void ReadKv(uint64_t session, std::shared_ptr<KvReading> out, std::function<void()> done);
  void Stop();

  Engine::Round MakeRound() { return engine_.MakeRound(/*may_wait=*/false); }
  const Engine& engine() const { return engine_; }

 private:
  const EngineBug bug_;
  Engine& engine_;
  std::vector<std::shared_ptr<StreamMailbox>> kept_;
};

// Changes what a client takes out of its mailbox.
void SpoilBatch(EngineBug bug, int32_t choices, StreamBatch& batch);

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_ENGINE_BUGGY_ENGINE_H_
