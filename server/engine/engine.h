// Engine runs an EngineCore on a thread of its own: it takes jobs and cancels out of its inbox, steps, and hands the
// events to the router. Nothing else happens on that thread: no JSON, no text, no log line per token.
//
// Thread: Start and Stop on one thread; everything else any. The core's clock is asked on any thread.
//
// Life: Start -> running -> Stop (every open sequence is cancelled and reported, then the thread ends), or, when a step
// throws, dead: open mailboxes fail, on_death is called once, TrySubmit refuses.
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine/engine_core.h"
#include "server/engine/engine_port.h"
#include "server/engine/event_router.h"
#include "server/engine/inbox.h"
#include "server/engine/replay_source.h"
#include "server/engine/step_pacer.h"
#include "server/process/limits.h"
#include "server/process/work_rate.h"

namespace hydrant {

class KvDump;

struct EngineHooks {
  EventRouter::FanOut fan_out;
  std::function<void(const StepReport&)> on_step;           // engine thread, after every step that computed something
  std::function<void(const std::string& reason)> on_death;  // engine thread
  // EngineCore::dropped and parked. Called on the engine thread after a step that dropped or parked, before its events
  // are delivered.
  std::function<void(std::span<const TurnId> dropped, std::span<const ParkedTurn> parked)> on_parked;
  KvDump* kv_dump = nullptr;  // outlives the engine
  bool keeps_parked = false;  // what is parked may outlive the engine
  // Has texts to be computed once more while there is nothing else to do (IdleReplay); outlives the engine. May be null.
  ReplaySource* replays = nullptr;
};

class Engine : public EnginePort {
 public:
  // `limits` gives queue bounds and the stall threshold. The core's executor outlives the engine.
  Engine(std::unique_ptr<EngineCore> core, const Limits& limits, EngineHooks hooks);
  ~Engine() override;

  void Start();
  void Stop() override;

  // What came of a round of the engine's loop.
  enum class Round : uint8_t {
    kWorked,  // it took orders, or made a step
    kWaits,   // there was nothing to do, and no order
    kEnded,   // everything is reported after Stop, or the engine is dead: there is no further round
  };
  // Makes one round. Start's thread makes one after the other; without Start the caller's thread is the engine's, and
  // decides what happens between two of them. `may_wait`: waits for an order where there is nothing else to do.
  Round MakeRound(bool may_wait);

  std::optional<uint64_t> TrySubmit(GenerationJob job) override;
  void Cancel(uint64_t id) { Cancel(std::list<IdRange>{{id, 1}}); }
  void Cancel(std::list<IdRange> ids) noexcept override { inbox_.PushCancels(std::move(ids)); }
  void Resume(uint64_t first_id, int32_t count) override {
    inbox_.PushResume({first_id, static_cast<uint64_t>(count)});
  }
  Backlog backlog() const override;

  void SetTenants(std::vector<TenantOptions> tenants) override;
  void PauseAdmission(bool paused) override;
  void ResetPrefixes() override;
  void SettleTurn(TurnId id, bool keep) override;
  void DropSession(uint64_t session) override;
  void ReadKv(uint64_t session, bool evicts, std::shared_ptr<KvReading> out, std::function<void()> done) override;
  void TakeParked(TurnId turn, std::function<void(KvBytes)> done) override;
  // The same once Stop has returned, which lets KV that is on its way out of the pool leave it where EngineHooks::keeps_parked.
  KvBytes ReadParked(const TurnId& turn) const;

  // EngineHooks::replays may have a text now. Any thread; throws std::bad_alloc.
  void LookForReplays() {
    inbox_.PushCall([] {});
  }
  // How long there has to have been nothing to do before a text is computed once more: who sends one request after the other
  // never waits for a step of it.
  static constexpr int64_t kQuietUs = 250'000;
  // Between two steps that can do nothing: a step of those who could, so that patience (Admission::patience) lasts as long as ever.
  static constexpr int64_t kEmptyStepUs = 10'000;

  EngineCounters counters() const override;
  // True if the engine is dead, or has been busy with one step for longer than limits.engine_stall_s.
  bool stalled() const override;
  bool dead() const { return dead_.load(std::memory_order_relaxed); }

 private:
  struct OneAnswer {
    explicit OneAnswer(std::function<void(KvBytes)> call) : done(std::move(call)) {}
    OneAnswer(const OneAnswer&) = delete;
    OneAnswer& operator=(const OneAnswer&) = delete;
    ~OneAnswer() { Give({}); }
    void Give(KvBytes kv) {
      if (const auto call = std::exchange(done, nullptr)) call(std::move(kv));
    }
    std::function<void(KvBytes)> done;
  };
  // Somebody who wants parked KV, and hears of it once, whatever happens.
  struct Taking {
    TurnId turn;
    std::shared_ptr<OneAnswer> answer;
  };

  Round Work(bool may_wait);
  // Until there are some, or it has been quiet for long enough.
  void WaitForOrders();
  // Nobody has anything to be computed: there is nobody, or who is there is paused.
  bool rests() const;
  bool MayReplay() const;
  // A step of it, if it is time. False: it is not.
  bool ReplaySome();
  void Replay();
  void Step(int64_t started);
  void CancelEverything();
  void TakeOrders();
  void Accept(GenerationJob& job);
  void Adopt(SequenceRequest& sequence);
  void GiveParked();
  absl::Status CheckPast(const Request& request) const;
  // `resumes`: the sequence was to continue from its session's parked KV.
  void Refuse(uint64_t id, bool resumes, const absl::Status& status);
  void FailEverything();
  // Gives back the places of those that ended, and then wakes their clients.
  void Settle(const EventRouter::Settled& settled);
  void Publish();
  int64_t WaitingTokensMax() const;

  const Limits limits_;
  const EngineHooks hooks_;
  Inbox<GenerationJob> inbox_;
  std::thread thread_;

  // Engine thread only.
  std::unique_ptr<EngineCore> core_;
  Inbox<GenerationJob>::Batch batch_;  // taken out of the inbox; its jobs stay until all of them are accepted
  EventRouter router_;
  StepPacer pacer_;
  uint64_t stalls_ = 0;          // steps that took longer than limits_.engine_stall_s
  int64_t accepted_tokens_ = 0;  // those of waiting_tokens_ whose jobs have left the inbox
  bool closing_ = false;         // everything is cancelled, for Stop was called
  std::list<Taking>
      takings_;  // of KV that is on its way out of the pool: bounded by those who wait for the end of a turn
  int64_t quiet_since_us_ = 0;  // when somebody was last there, or a step for them ended
  // Since the last order, steps one after the other that could do nothing: whatever runs is paused, and no KV waits to be moved.
  int64_t empty_steps_ = 0;

  // Bounds are checked with what fetch_add returns, so that no interleaving lets in more than the limit. Relaxed: they
  // are numbers, nothing is published through them.
  std::atomic<uint64_t> next_id_ = 1;
  std::atomic<int64_t> open_sequences_ = 0;
  std::atomic<int64_t> waiting_tokens_ = 0;
  WorkRate prefill_rate_;        // prompt tokens per second of steps that computed some
  WorkRate completion_rate_{0};  // sequences ended per second while all rows were taken; 0: they never were
  std::atomic<int64_t> step_started_us_ = 0;  // 0: idle
  std::atomic<bool> dead_ = false;

  mutable std::mutex counters_mutex_;
  EngineCounters counters_;  // guarded by counters_mutex_: as of the last step
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_H_
