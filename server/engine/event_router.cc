#include "server/engine/event_router.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {
bool EventRouter::Push(const Route& route, TokenEvent event, const SequenceProgress& progress) {
  event.choice = route.choice;
  const StreamMailbox::Pushed pushed = route.mailbox->PushToken(std::move(event), progress);
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
    // Before the client can know of the end, so that its next request finds the limits given back.
    if (event.finish != FinishReason::kNone && route.ledger != nullptr) {
      route.ledger->OnEnded(route.choice, event.prompt_computed, event.generated);
    }
    TokenEvent token;
    static_cast<SequenceOutcome&>(token) = event;
    token.time_us = now_us;
    if (route.with_logprobs && event.sampled != nullptr)
      token.logprobs = std::make_unique<SampleResult>(*event.sampled);
    if (Push(route, std::move(token), event)) settled.paused.push_back(event.id);
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

EventRouter::Settled EventRouter::Refuse(uint64_t id, FinishReason finish) {
  const auto found = routes_.find(id);
  assert(found != routes_.end());
  TokenEvent event;
  event.finish = finish;
  if (found->second.ledger != nullptr) found->second.ledger->OnEnded(found->second.choice, 0, 0);
  Push(found->second, std::move(event), SequenceProgress());
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
