// KvAudit says what evicting costs on the users' own texts (--kv-audit): the answer of a sample of turns is computed once more
// behind all of its history, and compared, token by token, with the rows that the turn had of what it kept.
//
//   agreement    the share of the answer's tokens where both rows have the same best token, whatever was sampled of them
//   logprob gap  the mean of log p(token | everything) - log p(token | what was kept): below 0 where the turn said what the whole
//                history would have it say less
//
// Both are of logits as they are: neither temperature, penalties, biases nor the form of an answer are in them, on either side.
//
// Thread: any, but for what it is a ReplaySource for.
//
// Invariants
//  1. Waiting turns can be computed, are no more than kWaitingMax, and have no more tokens than Options::tokens_max, but for a single
//     one. The one that came first goes first. Room is made by the tenant that has most of what is short: of its turns the first.
//  2. Every turn that was drawn and ended by itself is counted under one AuditResult, unless it waits or is computed.
//  3. Tokens are here only. What is counted is by tenant, policy, whether it recalls, and a power of two that the budget does not exceed.
#ifndef HYDRANT_SERVER_AUDIT_KV_AUDIT_H_
#define HYDRANT_SERVER_AUDIT_KV_AUDIT_H_

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/engine/replay_source.h"

namespace hydrant {

// What became of a turn that was drawn.
enum class AuditResult : uint8_t {
  kDone,
  kNothingEvicted,  // there is nothing to compare
  kTooLong,         // history and answer exceed the context: what was rolled over has no full attention
  kNoRoom,          // the memory that is set aside is too small for them
  kCrowdedOut,      // too many waited
  kForgotten,       // its session is gone
  kNoAdapter,       // its adapter is
  kNoMemory,
  kError,  // its rows were not finite, or the engine died
};
inline constexpr int32_t kAuditResults = 9;
const char* AuditResultName(AuditResult result);  // its label

// A generated token as the turn had it: the best one in its place, and its own log-probability.
struct AuditToken {
  int32_t best = -1;
  float logprob = 0.0f;
};

struct AuditedTurn {
  int32_t tenant = 0;
  int32_t policy = 0;    // DecodeOptions::policy_label
  bool recalls = false;  // it looks at all of its conversation again (KvSpec::recalls)
  int32_t budget = 0;    // in force at its end
  uint64_t session = 0;  // 0: of none
  TokenIds prompt;       // all of the history
  std::vector<int32_t> answer;
  std::vector<AuditToken> kept;        // [answer]
  bool has_adapter = false;            // then
  std::weak_ptr<AdapterSlot> adapter;  // this one, which may be taken away meanwhile
};

class KvAudit : public ReplaySource {
 public:
  struct Options {
    double share = 0;  // of the turns that may evict; (0, 1]
    uint64_t seed = 0;
    int32_t context = 0;
    int64_t room = std::numeric_limits<int64_t>::max();  // tokens of the longest text that can be computed once more
    int64_t tokens_max = 1 << 18;                        // of waiting turns; one that waits alone may have more
    std::vector<std::string> policy_names;
    std::function<std::string(int32_t tenant)> tenant_name;
  };
  static constexpr size_t kWaitingMax = 256;
  static constexpr size_t kTurnsMean = 256;  // the last of a series, of which it is the mean
  static constexpr size_t kSeriesMax = 512;  // beyond that the one that changed least lately goes

  explicit KvAudit(Options options);
  KvAudit(const KvAudit&) = delete;
  KvAudit& operator=(const KvAudit&) = delete;

  // Called when there may be a text to compute. Before the first Add.
  void SetWake(std::function<void()> wake) { wake_ = std::move(wake); }

  // Whether one more turn is in the sample.
  bool Draws();
  // A turn has come to its end: with what is left of the memory. REQUIRES: as many kept as there are tokens in the answer.
  void Add(AuditedTurn turn);
  // Or it is not to be computed.
  void Skip(AuditResult why);
  // Nothing of the session stays.
  void Forget(uint64_t session);
  // Why no text of so many tokens is computed, or kDone: one may be.
  AuditResult Fits(size_t tokens) const;

  bool has_text() const override { return waiting_count_.load(std::memory_order_relaxed) > 0; }
  std::optional<ReplayText> Next() override;
  bool OnScores(std::span<const SampleResult> scores) override;
  void OnEnd(ReplayEnd end) override;

  struct Series {
    std::string tenant, policy, recall, budget;
    double agreement = 0, logprob_gap = 0;  // of the last kTurnsMean turns, every token alike
    uint64_t tokens = 0;                    // of all of them
  };
  struct Counts {
    std::array<uint64_t, kAuditResults> results = {};
    int64_t waiting = 0;
    uint64_t computed_tokens = 0;
    std::vector<Series> series;
  };
  Counts counts() const;

 private:
  struct Waiting {
    AuditedTurn turn;  // without the prompt and the answer
    TokenIds tokens;   // these, one after the other
    int32_t begin = 0;
  };
  // What came of a turn.
  struct Outcome {
    int32_t tokens = 0, agreed = 0;
    double gap = 0;  // the sum
  };
  struct Key {
    int32_t tenant = 0, policy = 0;
    bool recalls = false;
    int32_t budget = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Mean {
    int64_t tokens = 0, agreed = 0;
    double gap = 0;           // these three: sums of the last turns
    uint64_t all_tokens = 0;  // of all turns
  };
  struct Window {
    std::vector<Outcome> last;  // a ring
    size_t next = 0;
    Mean mean;
    uint64_t changed = 0;
  };

  // REQUIRES, all of them: mutex_ held.
  void CountLocked(AuditResult result) { ++results_[static_cast<size_t>(result)]; }
  void Push(Waiting waiting);
  void MakeRoom(bool of_tokens);
  void Observe();
  Waiting Pop();  // the oldest

  const Options options_;
  std::function<void()> wake_ = [] {};
  std::atomic<uint64_t> drawn_ = 0;         // relaxed: a number
  std::atomic<int64_t> waiting_count_ = 0;  // likewise: of waiting_

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Waiting> waiting_;
  int64_t waiting_tokens_ = 0;
  std::optional<Waiting> current_;  // that is being computed
  bool forgotten_ = false;          // it is,
  bool not_finite_ = false;         // or a row of it,
  Outcome outcome_;                 // so far
  std::array<uint64_t, kAuditResults> results_ = {};
  uint64_t computed_tokens_ = 0;
  uint64_t changes_ = 0;
  std::map<Key, Window> windows_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_AUDIT_KV_AUDIT_H_
