// IdleReplay computes a text once more, with full attention, beside the scheduler: in blocks of its own, a block's worth of tokens at a
// time, so that somebody who comes waits no longer than such a step takes, or a layer of it. Between two steps it may rest for as long as others have
// something to do. No request, tenant or counter knows of it.
//
// Thread: engine. Nothing of it is in flight between two calls.
//
// Life: Begin -> Step, until it is not active any more, or Stop.
#ifndef HYDRANT_SERVER_ENGINE_IDLE_REPLAY_H_
#define HYDRANT_SERVER_ENGINE_IDLE_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/eviction_policy.h"
#include "kernels/sampling.h"
#include "model/run/executor.h"
#include "server/engine/replay_source.h"

namespace hydrant {

// Blocks [first, first + count) of the executor, and score blocks [first_score, first_score + count), are nobody else's: a row writes
// positions beside its keys whatever its policy.
struct ReplayBlocks {
  int32_t first = 0;
  int32_t count = 0;
  int32_t first_score = 0;
};

// Tokens of the longest text that so many blocks have room for: the last one is not computed.
constexpr int64_t ReplayTokensMax(int64_t blocks) { return blocks * kBlockSlots + 1; }

class IdleReplay {
 public:
  // `executor` outlives it.
  IdleReplay(Executor& executor, const ReplayBlocks& blocks);
  IdleReplay(const IdleReplay&) = delete;
  IdleReplay& operator=(const IdleReplay&) = delete;

  // False: there are too few blocks for it. REQUIRES: !active().
  bool Begin(ReplayText text);
  bool active() const { return active_; }
  // Computes the next tokens. The scores of those among them that are to be scored, valid until the next call; nullopt: its adapter is
  // gone. It is over when none are left, or without its adapter. Throws what the executor throws, and then it is over, too.
  // `overtaken`: once it is true the step may be left out, without a score, and is made again. REQUIRES: active(), no step is in flight.
  std::optional<std::span<const SampleResult>> Step(const std::atomic<bool>* overtaken = nullptr);
  void Stop();

 private:
  // Tokens of a step: where the executor does not leave it out, a user's first token may have to wait for one.
  static constexpr int32_t kStepTokens = kBlockSlots;

  Executor& executor_;
  const EvictionPolicy full_;
  std::vector<int32_t> blocks_, score_blocks_;
  bool active_ = false;
  ReplayText text_;
  int32_t computed_ = 0;  // tokens; the last one has nothing to say
  StepInput input_;
  StepOutput output_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_IDLE_REPLAY_H_
