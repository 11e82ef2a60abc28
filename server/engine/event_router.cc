#include "server/engine/event_router.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {
namespace {

SequenceEnd Translate(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return SequenceEnd::kNone;
    case FinishReason::kStop:
      return SequenceEnd::kStop;
    case FinishReason::kText:
      return SequenceEnd::kText;
    case FinishReason::kLength:
      return SequenceEnd::kLength;
    case FinishReason::kAbort:
      return SequenceEnd::kAbort;
    case FinishReason::kError:
      return SequenceEnd::kError;
    case FinishReason::kNoMemory:
      return SequenceEnd::kNoMemory;
  }
  return SequenceEnd::kError;
}

}  // namespace

bool EventRouter::Push(const Route& route, TokenEvent event, const SequenceStatus& status) {
  event.choice = route.choice;
  const StreamMailbox::Pushed pushed = route.mailbox->PushToken(std::move(event), status);
  if (pushed.wake) signalled_.push_back(route.mailbox);
  return pushed.pause;
}

EventRouter::Settled EventRouter::Deliver(std::span<const EngineEvent> events, int64_t now_us) {
  Settled settled;
  for (const EngineEvent& event : events) {
    const auto found = routes_.find(event.id);
    assert(found != routes_.end());
    Route& route = found->second;
    if (!event.prompt_logprobs.empty()) {
      PromptEvent prompt;
      prompt.choice = route.choice;
      prompt.begin = event.prompt_begin;
      prompt.results.assign(event.prompt_logprobs.begin(), event.prompt_logprobs.end());
      if (route.mailbox->PushPrompt(std::move(prompt))) signalled_.push_back(route.mailbox);
    }
    if (event.token < 0 && event.finish == FinishReason::kNone) continue;
    // Before the client can know of the end: what it no longer uses is there for its next request.
    if (event.finish != FinishReason::kNone && route.ledger != nullptr) {
      route.ledger->OnEnded(route.choice, event.prompt_computed, event.generated);
    }
    TokenEvent token;
    token.token = event.token;
    token.time_us = now_us;
    token.end = Translate(event.finish);
    token.stop_token = event.stop_token;
    if (route.with_logprobs && event.sampled != nullptr)
      token.logprobs = std::make_unique<SampleResult>(*event.sampled);
    const SequenceStatus status = {event.live,
                                   event.budget,
                                   event.evicted,
                                   event.cached,
                                   event.restored,
                                   event.blocks,
                                   event.times.admitted_us,
                                   event.times.first_token_us,
                                   event.times.last_token_us};
    if (Push(route, std::move(token), status)) settled.paused.push_back(event.id);
    settled.prompt_tokens += std::exchange(route.waiting_tokens, 0);
    if (event.finish != FinishReason::kNone) {
      ++settled.sequences;
      routes_.erase(found);
    }
  }
  Flush();
  return settled;
}

void EventRouter::Admitted(std::span<const uint64_t> ids) {
  for (const uint64_t id : ids) {
    const auto found = routes_.find(id);
    if (found != routes_.end() && found->second.ledger != nullptr)
      found->second.ledger->OnAdmitted(found->second.choice);
  }
}

EventRouter::Settled EventRouter::Refuse(uint64_t id, SequenceEnd end) {
  const auto found = routes_.find(id);
  assert(found != routes_.end());
  TokenEvent event;
  event.end = end;
  if (found->second.ledger != nullptr) found->second.ledger->OnEnded(found->second.choice, 0, 0);
  Push(found->second, std::move(event), SequenceStatus());
  Settled settled;
  settled.sequences = 1;
  settled.prompt_tokens = found->second.waiting_tokens;
  routes_.erase(found);
  Flush();
  return settled;
}

void EventRouter::FailAll() {
  for (const auto& [id, route] : routes_) {
    if (route.mailbox->Fail()) signalled_.push_back(route.mailbox);
  }
  routes_.clear();
  Flush();
}

std::vector<uint64_t> EventRouter::OpenIds() const {
  std::vector<uint64_t> ids;
  ids.reserve(routes_.size());
  for (const auto& [id, route] : routes_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

void EventRouter::Flush() {
  if (signalled_.empty()) return;
  fan_out_(std::exchange(signalled_, {}));
}

}  // namespace hydrant
