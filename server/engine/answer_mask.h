// AnswerMask is what a sequence with a shape may go on with: the engine asks for it when the tokens before are known, a worker
// computes it while the layers run, and the engine takes it when the token is to be chosen.
//
// Thread: engine, but for Compute and Refuse: of these whoever the engine gives it to calls one, once after each Ask.
//
// Invariants
//  1. From Ask until Compute or Refuse has set the state, shape and bits are that thread's; before and after, the engine's.
//  2. It lives until the last of the two lets go of it, whatever becomes of the sequence meanwhile.
#ifndef HYDRANT_SERVER_ENGINE_ANSWER_MASK_H_
#define HYDRANT_SERVER_ENGINE_ANSWER_MASK_H_

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "server/engine/answer_shape.h"

namespace hydrant {

class AnswerMask {
 public:
  enum class State : int32_t {
    kIdle,
    kAsked,
    kThere,
    kLimit,     // the shape met a limit
    kNoMemory,  // there was none for it
  };

  // `shape` is the sequence's own.
  AnswerMask(std::shared_ptr<AnswerShape> shape, int32_t vocab) : shape_(std::move(shape)), vocab_(vocab) {}

  // REQUIRES: !asked().
  AnswerShape& shape() { return *shape_; }
  bool is_promised() const { return shape_->is_promised(); }

  bool asked() const { return state_.load(std::memory_order_relaxed) != State::kIdle; }
  // REQUIRES: !asked().
  void Ask() {
    assert(!asked());
    state_.store(State::kAsked, std::memory_order_relaxed);  // handed over by whoever hands the object over
  }
  // Waits for what was asked; other than kIdle and kAsked. REQUIRES: asked().
  State Take() {
    assert(asked());
    State state;
    // Acquire: the bits, and what the shape has noted for itself.
    while ((state = state_.load(std::memory_order_acquire)) == State::kAsked) state_.wait(State::kAsked);
    state_.store(State::kIdle, std::memory_order_relaxed);
    return state;
  }
  // The sequence has ended: nothing is taken any more, and nobody waits.
  void Abandon() { abandoned_.store(true, std::memory_order_relaxed); }

  // [(vocabulary + 31) / 32], after Take has returned kThere and until the next Ask.
  std::span<const uint32_t> bits() const { return bits_; }

  void Compute() noexcept {
    if (abandoned_.load(std::memory_order_relaxed)) return;  // a hint: it saves work
    try {
      bits_.resize(static_cast<size_t>((vocab_ + 31) / 32));
      Set(shape_->Mask(bits_) ? State::kThere : State::kLimit);
    } catch (const std::bad_alloc&) {
      Set(State::kNoMemory);
    }
  }
  void Refuse() noexcept { Set(State::kNoMemory); }

 private:
  void Set(State state) {
    state_.store(state, std::memory_order_release);
    state_.notify_one();
  }

  const std::shared_ptr<AnswerShape> shape_;
  const int32_t vocab_;
  std::vector<uint32_t> bits_;
  std::atomic<State> state_ = State::kIdle;
  std::atomic<bool> abandoned_ = false;
};

// Has masks computed.
class MaskRunner {
 public:
  virtual ~MaskRunner() = default;
  // Each is asked; calls Compute or Refuse of each, at once or on another thread. Thread: engine.
  virtual void Run(std::span<const std::shared_ptr<AnswerMask>> masks) noexcept = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ANSWER_MASK_H_
