// LimitStore keeps what tenants have used of their limits in a Redis that several servers name, so that the limits hold for all of them
// together. It asks on a thread of its own; who wants to know is woken, and waits no longer than its patience. What a request is told
// when the store does not answer is its owner's to decide (fails_open).
//
// Thread: any; a short lock. The connection, and LimitAsk's part of the store, are the own thread's.
//
// Invariants
//  1. An ask ends exactly once for its owner: by an answer, or, at the latest when it is due, by kFailed.
//  2. What the store granted is given back exactly once, or forgotten with the connection that it was granted on: then no tenant gets
//     more than its limits, and it may have less for a minute. Places that nobody renews end by themselves (kPlaceTtlMs).
//  3. While the store is away (CircuitBreaker) nobody waits.
//  4. GiveBack takes no memory, so the engine's thread may call it.
//  5. Nobody is woken once Stop has returned, and no `wake` is left.
//
// Without memory it is away, and its asks fail; but see StoreConnection.
#ifndef HYDRANT_SERVER_SHARED_LIMITS_LIMIT_STORE_H_
#define HYDRANT_SERVER_SHARED_LIMITS_LIMIT_STORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/process/exit_codes.h"
#include "server/shared_limits/circuit_breaker.h"
#include "server/shared_limits/store_address.h"
#include "server/shared_limits/store_connection.h"

namespace hydrant {

// What of a tenant's limits an ask is about.
enum class LimitKind : uint8_t { kRequests, kTokens };

struct LimitDemand {
  std::string tenant;
  LimitKind kind = LimitKind::kRequests;
  int64_t per_minute = 0;  // of the rate; 0: there is none
  int64_t amount = 0;      // taken of it
  int64_t places_max = 0;  // at a time; 0: no such limit
  int64_t places = 0;      // taken of them
};

enum class LimitVerdict : uint8_t { kAsked, kGranted, kNoRate, kNoPlaces, kFailed };

// How an ask ended, for metrics.
enum class AskEnd : uint8_t { kGranted, kRefused, kTimeout, kError, kAway };
inline constexpr int32_t kAskEnds = 5;

class LimitAsk {
 public:
  explicit LimitAsk(LimitDemand demand, int64_t due_us) : demand_(std::move(demand)), due_us_(due_us) {}

  // Acquires: what follows is there when it is not kAsked.
  LimitVerdict verdict() const { return verdict_.load(std::memory_order_acquire); }
  int64_t left() const { return left_; }        // of the rate. REQUIRES: kGranted or kNoRate, with a rate
  int64_t wait_us() const { return wait_us_; }  // until there would be enough. REQUIRES: kNoRate
  const LimitDemand& demand() const { return demand_; }

  int64_t due_us() const { return due_us_; }
  // It is due: kFailed, unless an answer was first.
  void GiveUp() { (void)End(LimitVerdict::kFailed); }

 private:
  friend class LimitStore;
  enum class Stage : uint8_t { kQueued, kSent, kHeld, kOver };

  // False: it had ended.
  bool End(LimitVerdict verdict) {
    LimitVerdict asked = LimitVerdict::kAsked;
    return verdict_.compare_exchange_strong(asked, verdict, std::memory_order_acq_rel);
  }

  const LimitDemand demand_;
  const int64_t due_us_;
  std::atomic<LimitVerdict> verdict_ = LimitVerdict::kAsked;
  int64_t left_ = 0;
  int64_t wait_us_ = 0;

  // Guarded by LimitStore::mutex_ until the store has taken it off its list.
  std::shared_ptr<LimitAsk> next_back_;
  int64_t back_ = 0;  // tokens that come back; negative: more were used than taken

  // The store's thread.
  std::function<void()> wake_;
  std::string name_;  // of its places
  Stage stage_ = Stage::kQueued;
  int64_t connection_ = 0;  // it was granted on
  int64_t asked_us_ = 0;
  bool counted_ = false;  // its end
  bool returned_ = false;
};

class LimitStore {
 public:
  // A server that is gone keeps its places for so long, and one that lives says three times meanwhile that it has them.
  static constexpr int64_t kPlaceTtlMs = 10'000;
  // The lookup of a host's name has no end that we could set: a process that is to stop ends without it then.
  static constexpr double kStopS = 20;

  struct Options {
    StoreAddress address;
    std::string password_path;  // of the file that has it, read for each connection; empty: there is none
    bool fails_open = true;
    int64_t patience_us = 50'000;
    std::function<void(AskEnd end, int64_t us)> on_end;  // any thread; may be null
    std::function<void(bool away)>
        on_away;  // the own thread, and before it begins that of the constructor; may be null
  };

  // The first line of the file. Errors: ReadSecretFile's; there is nothing in it.
  static absl::StatusOr<std::string> ReadPassword(const std::string& path);

  // Starts the thread. The store need not be there.
  explicit LimitStore(Options options);
  ~LimitStore();
  LimitStore(const LimitStore&) = delete;
  LimitStore& operator=(const LimitStore&) = delete;

  // Ends the thread and all asks. Before what `wake` needs goes, and before StopLog. On one thread; once is enough. `exit_code`: of a
  // process that ends without it.
  void Stop(int exit_code = kExitInternal);

  bool fails_open() const { return options_.fails_open; }

  // `wake` is called on any thread once the ask has ended. Null: the store is away, or stopped, and `wake` is not called.
  std::shared_ptr<LimitAsk> Ask(LimitDemand demand, std::function<void()> wake);
  // Gives back the places of `ask`, if it was granted or may still be, and `unused` of what it took. At most once each.
  void GiveBack(const std::shared_ptr<LimitAsk>& ask, int64_t unused);

 private:
  enum class Script : uint8_t { kTake, kGive, kRenew };
  static constexpr size_t kScripts = 3;
  // A command whose answer is to come.
  struct Sent {
    Script script;
    std::shared_ptr<LimitAsk> ask;  // null: of kRenew
    bool whole;                     // with the script's text
    int64_t at_us = 0;
  };

  void Run();
  absl::Status Turn();          // errors: the connection is of no more use
  bool Wait(int64_t until_us);  // for something to do; true: the connection has something
  bool TakeQueued();            // false: it is to stop
  void Begin(const std::shared_ptr<LimitAsk>& ask);
  void TakeBack(const std::shared_ptr<LimitAsk>& ask);
  absl::Status TakeAnswers();
  absl::Status ExpireAsks(int64_t now_us);
  void RenewPlaces(int64_t now_us);
  void SayGoodbye();
  absl::Status Connect();
  absl::Status Greet(StoreConnection& connection, int64_t until_us);
  void Disconnect(const absl::Status& why) noexcept;
  void SetAway(bool away);
  void TellState(std::string_view reason);

  void Send(Script script, const std::shared_ptr<LimitAsk>& ask, bool whole);
  void SendCommand(Sent sent, std::vector<std::string> keys, const std::vector<std::string>& arguments);
  absl::Status OnReply(const Sent& sent, const StoreReply& reply);
  absl::Status OnTaken(const std::shared_ptr<LimitAsk>& ask, const StoreReply& reply);
  absl::Status OnError(int64_t asked_us, const StoreReply& reply);
  int64_t SilentUs() const;  // when it has been silent for too long
  void EndAsk(LimitAsk& ask, LimitVerdict verdict, AskEnd end) noexcept;
  static void Signal(int fd) noexcept;

  const Options options_;
  const std::string instance_;          // places of this process begin with it
  const int wake_fd_;                   // eventfd
  const int stop_fd_;                   // eventfd; nobody reads it
  std::atomic<bool> away_ = true;       // relaxed: who sees it late asks in vain, or not once
  std::atomic<int64_t> under_way_ = 0;  // asks whose end was not counted. Relaxed: a bound

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::shared_ptr<LimitAsk>> queue_;
  std::shared_ptr<LimitAsk> back_;  // first of those that come back, linked by next_back_
  bool stopping_ = false;

  // The own thread's.
  const absl::Status no_memory_ = absl::ResourceExhaustedError("out of memory");  // made while there is some
  CircuitBreaker breaker_;
  std::unique_ptr<StoreConnection> connection_;
  int64_t connections_ = 0;                                              // made so far
  int64_t asks_ = 0;                                                     // names of places
  std::array<std::string, kScripts> digests_;                            // that the store knows the scripts by
  std::deque<Sent> sent_;                                                // oldest first
  std::deque<std::shared_ptr<LimitAsk>> waiting_;                        // asks whose end was not counted, oldest first
  std::unordered_map<const LimitAsk*, std::shared_ptr<LimitAsk>> held_;  // with places
  int64_t renew_us_ = 0;
  bool renew_whole_ = false;  // the store has forgotten the script
  int64_t told_us_ = 0;       // of the last warning in the log; 0: none
  bool told_away_ = false;

  std::thread thread_;  // last: it uses the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHARED_LIMITS_LIMIT_STORE_H_
