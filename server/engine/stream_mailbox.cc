#include "server/engine/stream_mailbox.h"

#include <utility>

namespace hydrant {
namespace {

int64_t Bytes(const SampleResult& result) {
  return static_cast<int64_t>(sizeof(result) + result.top.size() * sizeof(TokenLogprob));
}

}  // namespace

bool StreamMailbox::Signal() { return !std::exchange(signalled_, true); }

StreamMailbox::Pushed StreamMailbox::PushToken(TokenEvent event, const SequenceProgress& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filling_.lost) return {};
  pending_bytes_ += static_cast<int64_t>(sizeof(event)) + (event.logprobs == nullptr ? 0 : Bytes(*event.logprobs));
  filling_.status[static_cast<size_t>(event.choice)] = status;
  const bool continues = event.finish == FinishReason::kNone;
  filling_.tokens.push_back(std::move(event));
  Pushed pushed;
  pushed.wake = Signal();
  pushed.pause = continues && pending_bytes_ > bytes_max_;
  paused_ |= pushed.pause;
  return pushed;
}

bool StreamMailbox::PushPrompt(PromptEvent event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filling_.lost) return false;
  filling_.prompts.push_back(std::move(event));
  return Signal();
}

bool StreamMailbox::Fail() {
  const std::lock_guard<std::mutex> lock(mutex_);
  filling_.failed = true;
  return Signal();
}

bool StreamMailbox::Lose() {
  const std::lock_guard<std::mutex> lock(mutex_);
  filling_.lost = true;
  return Signal();
}

bool StreamMailbox::Take(StreamBatch* batch) {
  batch->Clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  batch->status = filling_.status;
  batch->failed = filling_.failed;
  batch->lost = filling_.lost;
  std::swap(batch->tokens, filling_.tokens);
  std::swap(batch->prompts, filling_.prompts);
  pending_bytes_ = 0;
  signalled_ = false;
  return std::exchange(paused_, false);
}

}  // namespace hydrant
