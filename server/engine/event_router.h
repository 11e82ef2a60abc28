// EventRouter hands a step's events to the mailboxes they belong to and then, when it is told to, wakes the
// connections, all of them with one post to the io threads per step.
//
// Without memory for an event its request ends: the mailbox says that the event is lost, and the connection cancels what still runs.
// Nobody else notices. Without memory to wake them the connections are woken with the next Flush.
//
// Thread: engine.
#ifndef HYDRANT_SERVER_ENGINE_EVENT_ROUTER_H_
#define HYDRANT_SERVER_ENGINE_EVENT_ROUTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/adapter_slot.h"
#include "server/engine/engine_port.h"
#include "server/engine/engine_types.h"
#include "server/engine/stream_mailbox.h"

namespace hydrant {

class EventRouter {
 public:
  using MailboxList = std::vector<std::shared_ptr<StreamMailbox>>;
  // Called once per step that has events; wakes every mailbox of the list on an io thread.
  using FanOut = std::function<void(MailboxList)>;

  struct Route {
    std::shared_ptr<StreamMailbox> mailbox;
    int32_t choice = 0;
    int32_t waiting_tokens = 0;  // prompt tokens, until the first token is out
    bool with_logprobs = false;
    std::shared_ptr<SequenceLedger> ledger = nullptr;
    AdapterUse adapter = AdapterUse();
  };

  // The changes that a call of Deliver or Refuse made. Who accounts for them does so before Flush: a client that hears
  // of an end may use the place at once.
  struct Settled {
    int32_t sequences = 0;                  // ended
    int64_t prompt_tokens = 0;              // no longer waited for
    std::span<const uint64_t> paused = {};  // sequences whose reader is too far behind; valid until the next Deliver
  };

  // For at most `sequences_max` at once: Add allocates nothing then. A flat_hash_map whose growth fails for want of memory is broken,
  // and with a quarter to spare its tombstones never make it grow.
  explicit EventRouter(FanOut fan_out, int64_t sequences_max = 0) : fan_out_(std::move(fan_out)) {
    routes_.reserve(static_cast<size_t>(sequences_max + sequences_max / 4));
    signalled_.reserve(static_cast<size_t>(sequences_max));
    paused_.reserve(static_cast<size_t>(sequences_max));
  }

  // Does nothing if the id has a route.
  void Add(uint64_t id, Route route) { routes_.emplace(id, std::move(route)); }
  // Ends a sequence that never reached the engine: kRefused, kTooLarge, kNoRoom, kPastMoved or kNoMemory.
  Settled Refuse(uint64_t id, FinishReason finish);
  // These sequences left the queue: their ledgers and adapters are told.
  void Admitted(std::span<const uint64_t> ids);
  Settled Deliver(std::span<const EngineEvent> events, int64_t now_us);
  // Tells every open mailbox that nothing more comes, wakes all, and forgets them.
  void FailAll();

  std::vector<uint64_t> OpenIds() const;

  // Wakes whoever is still to be woken. False: there is no memory for that.
  bool Flush();

 private:
  void Push(const Route& route, uint64_t id, TokenEvent event, const SequenceProgress& progress);
  void Hand(const Route& route, const EngineEvent& event, int64_t now_us);
  void Lose(const Route& route);

  FanOut fan_out_;
  absl::flat_hash_map<uint64_t, Route> routes_;
  MailboxList signalled_;         // those to wake
  std::vector<uint64_t> paused_;  // by the last Deliver
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_EVENT_ROUTER_H_
