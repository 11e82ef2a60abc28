// AnswerShape says which tokens may come next in the answer of one sequence: a grammar, a schema, a list of choices. The
// engine follows it token by token and asks it for a mask before each token that is sampled. A sequence has its own, as it
// has its EndFinder.
//
// Thread: Push on the engine's, Mask on a worker's; never both at once for one sequence, and every call sees what the call
// before it did. The destructor: either thread.
//
// Either call may throw std::bad_alloc, which ends that sequence alone, if the shape was promised.
#ifndef HYDRANT_SERVER_ENGINE_ANSWER_SHAPE_H_
#define HYDRANT_SERVER_ENGINE_ANSWER_SHAPE_H_

#include <cstdint>
#include <span>

namespace hydrant {

class AnswerShape {
 public:
  enum class Verdict : uint8_t {
    kGoesOn,
    kComplete,  // nothing but the end can follow: the sequence ends with this token, or with an end of text after it
    kLost,      // a limit ended what the shape can follow: the sequence fails
  };

  virtual ~AnswerShape() = default;
  // Somebody asked for it. Else the sequence goes on without a mask where there is none, and Push never ends it: kGoesOn is all it says.
  // Any thread; it never changes.
  virtual bool is_promised() const { return true; }
  // `token` is the sequence's next one, however it was chosen.
  virtual Verdict Push(int32_t token) = 0;
  // Whether the next token has to be of a mask; else any may come, and Mask is not called. The engine's thread.
  virtual bool is_masked() const { return true; }
  // Writes all of `bits`, [(vocabulary + 31) / 32]: bit id % 32 of word id / 32 is set if token `id` may be next. Ends of
  // text, the model's, are among them iff the answer may end here. What is written is a function of the tokens pushed. False: a limit
  // was met, and the sequence fails.
  virtual bool Mask(std::span<uint32_t> bits) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ANSWER_SHAPE_H_
