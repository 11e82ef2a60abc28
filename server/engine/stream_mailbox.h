// StreamMailbox carries one request's events from the engine thread to its connection. Nobody waits at it: the engine
// appends, the connection swaps the filled batch for an empty one.
//
// Thread: Push* and Fail on the engine thread, Take on the connection's strand, the rest any. The lock is held for a
// few moves only.
//
// Invariants
//  1. The connection is woken (once) after a Push that found the mailbox unsignalled, and Take clears the signal
//     together with the events; so no event is left without a wake-up.
//  2. A Push that leaves more than bytes_max asks for its sequence to be paused, and the next Take asks for all of the
//     request to be resumed. The engine pauses before it looks at its inbox again, so the resume always comes second.
#ifndef HYDRANT_SERVER_ENGINE_STREAM_MAILBOX_H_
#define HYDRANT_SERVER_ENGINE_STREAM_MAILBOX_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "server/engine/engine_port.h"

namespace hydrant {

struct StreamBatch {
  std::vector<TokenEvent> tokens;
  std::vector<PromptEvent> prompts;
  std::vector<SequenceProgress> status;  // [choices], always the latest
  bool failed = false;                   // the engine is gone; nothing more comes
  bool lost = false;                     // there was no memory for an event; nothing more comes

  void Clear() {
    tokens.clear();
    prompts.clear();
  }
};

class StreamMailbox {
 public:
  // `wake` may be called on any thread.
  StreamMailbox(int32_t choices, int64_t bytes_max, std::function<void()> wake)
      : bytes_max_(bytes_max), wake_(std::move(wake)) {
    filling_.status.resize(static_cast<size_t>(choices));
  }

  struct Pushed {
    bool wake = false;   // the connection has to be woken
    bool pause = false;  // the reader is too far behind
  };
  // Both throw std::bad_alloc, and then the event is lost.
  Pushed PushToken(TokenEvent event, const SequenceProgress& status);
  // Bounded by the prompt, so never a reason to pause.
  bool PushPrompt(PromptEvent event);
  bool Fail();
  // An event was lost for want of memory, so the events after it are left out. True: the connection has to be woken.
  bool Lose();

  // Swaps the events so far into `batch`, whose old content is dropped. True: sequences were paused and may go on.
  [[nodiscard]] bool Take(StreamBatch* batch);
  void Wake() { wake_(); }

 private:
  bool Signal();

  const int64_t bytes_max_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  StreamBatch filling_;
  int64_t pending_bytes_ = 0;  // of token events not taken yet
  bool signalled_ = false;
  bool paused_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_STREAM_MAILBOX_H_
