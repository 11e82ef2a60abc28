// ReplaySource has texts to be computed once more, with all of their tokens attended to, while the engine has nothing else to
// do: what server/audit asks of it.
//
// Thread: engine, every method. They are called between two steps of such a text, when nobody waits for a token.
#ifndef HYDRANT_SERVER_ENGINE_REPLAY_SOURCE_H_
#define HYDRANT_SERVER_ENGINE_REPLAY_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/sampling.h"
#include "scheduler/request/token_ids.h"
#include "server/engine/adapter_slot.h"

namespace hydrant {

// Tokens [begin, tokens.size()) are to be scored. 1 <= begin < tokens.size() <= the context, every id in the vocabulary.
struct ReplayText {
  TokenIds tokens;
  int32_t begin = 1;
  bool has_adapter = false;
  std::weak_ptr<AdapterSlot> adapter = {};  // that computes it, as long as it is there
};

enum class ReplayEnd : uint8_t {
  kDone,
  kNoRoom,     // there are too few blocks for it
  kNoAdapter,  // its adapter is gone
  kNoMemory,
  kError,  // the engine is dead
};

class ReplaySource {
 public:
  virtual ~ReplaySource() = default;
  // Whether there may be a text. Cheap.
  virtual bool has_text() const = 0;
  // The next one; OnEnd is called for it, once, before another is asked for.
  virtual std::optional<ReplayText> Next() = 0;
  // Scores of its next tokens, each with the best one in its place. False: they are no longer wanted, nor is OnEnd called.
  virtual bool OnScores(std::span<const SampleResult> scores) = 0;
  virtual void OnEnd(ReplayEnd end) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_REPLAY_SOURCE_H_
