// StreamMailbox carries one request's events from the engine thread to its connection. Nobody waits at it: the engine
// appends, the connection swaps the filled batch for an empty one.
//
// Thread: Push* and Fail on the engine thread, Take on the connection's strand, the rest any. The lock is held for a few
// moves only.
//
// Invariant: the connection is woken (once) after a Push that found the mailbox unsignalled, and Take clears the signal
// before it looks; so no event is left without a wake-up.
#ifndef HYDRANT_SERVER_STREAM_MAILBOX_H_
#define HYDRANT_SERVER_STREAM_MAILBOX_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "server/generation.h"

namespace hydrant {

struct StreamBatch {
  std::vector<TokenEvent> tokens;
  std::vector<PromptEvent> prompts;
  std::vector<SequenceStatus> status;  // [choices], always the latest
  bool failed = false;                 // the engine is gone; nothing more comes

  void Clear() {
    tokens.clear();
    prompts.clear();
  }
};

class StreamMailbox {
 public:
  // `wake` may be called on any thread.
  StreamMailbox(int32_t choices, std::function<void()> wake) : wake_(std::move(wake)) {
    filling_.status.resize(static_cast<size_t>(choices));
  }

  // Both return true when the connection has to be woken for it.
  bool PushToken(TokenEvent event, const SequenceStatus& status);
  bool PushPrompt(PromptEvent event);
  bool Fail();

  // Swaps the events so far into `batch`, whose old content is dropped.
  void Take(StreamBatch* batch);
  void Wake() { wake_(); }

  // Bytes of events not taken yet.
  int64_t pending_bytes() const;

 private:
  bool Signal();

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  StreamBatch filling_;
  int64_t pending_bytes_ = 0;
  bool signalled_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_STREAM_MAILBOX_H_
