// Drafter guesses a sequence's next tokens. They are computed beside the last one that is known, and those count that are what is
// sampled: a guess changes when tokens come, never which ones.
//
// Thread: made on any thread, then the engine's.
#ifndef HYDRANT_SERVER_DRAFTS_DRAFTER_H_
#define HYDRANT_SERVER_DRAFTS_DRAFTER_H_

#include <cstdint>
#include <span>

namespace hydrant {

class Drafter {
 public:
  virtual ~Drafter() = default;
  // At most `most` tokens that may come next, in a step in which `rows` sequences have a row; none: nothing is worth trying. Valid
  // until the next call. Throws std::bad_alloc.
  virtual std::span<const int32_t> Propose(int32_t most, int32_t rows) = 0;
  // The sequence's next token, however it came about. Throws std::bad_alloc.
  virtual void Push(int32_t token) = 0;
  // So many tokens of the last proposal were computed, and so many of these were right.
  virtual void Learn(int32_t computed, int32_t right) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_DRAFTS_DRAFTER_H_
