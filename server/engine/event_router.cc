#include "server/engine/event_router.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace hydrant {

void EventRouter::Push(const Route& route, uint64_t id, TokenEvent event, const SequenceProgress& progress) {
  event.choice = route.choice;
  const StreamMailbox::Pushed pushed = route.mailbox->PushToken(std::move(event), progress);
  if (pushed.wake) signalled_.push_back(route.mailbox);
  if (pushed.pause) paused_.push_back(id);
}

void EventRouter::Lose(const Route& route) {
  if (route.mailbox->Lose()) signalled_.push_back(route.mailbox);
}

void EventRouter::Hand(const Route& route, const EngineEvent& event, int64_t now_us) {
  if (!event.prompt_logprobs.empty()) {
    PromptEvent prompt;
    prompt.choice = route.choice;
    prompt.begin = event.prompt_begin;
    prompt.results.assign(event.prompt_logprobs.begin(), event.prompt_logprobs.end());
    if (route.mailbox->PushPrompt(std::move(prompt))) signalled_.push_back(route.mailbox);
  }
  if (event.token < 0 && event.finish == FinishReason::kNone) return;
  TokenEvent token;
  static_cast<SequenceOutcome&>(token) = event;
  token.time_us = now_us;
  if (event.sampled != nullptr) {
    token.best = event.sampled->best;
    token.logprob = event.sampled->logprob;
  }
  if (route.with_logprobs && event.sampled != nullptr) token.logprobs = std::make_unique<SampleResult>(*event.sampled);
  Push(route, event.id, std::move(token), event);
}

EventRouter::Settled EventRouter::Deliver(std::span<const EngineEvent> events, int64_t now_us) {
  Settled settled;
  paused_.clear();
  for (const EngineEvent& event : events) {
    const auto found = routes_.find(event.id);
    assert(found != routes_.end());
    Route& route = found->second;
    // Before the client can know of the end, so that its next request finds the limits given back.
    if (event.finish != FinishReason::kNone && route.ledger != nullptr) {
      route.ledger->OnEnded(route.choice, event.prompt_computed, event.generated);
    }
    try {
      Hand(route, event, now_us);
    } catch (const std::bad_alloc&) {
      Lose(route);
    }
    if (event.token < 0 && event.finish == FinishReason::kNone) continue;
    settled.prompt_tokens += std::exchange(route.waiting_tokens, 0);
    if (event.finish != FinishReason::kNone) {
      ++settled.sequences;
      routes_.erase(found);
    }
  }
  settled.paused = paused_;
  return settled;
}

void EventRouter::Admitted(std::span<const uint64_t> ids) {
  for (const uint64_t id : ids) {
    const auto found = routes_.find(id);
    if (found == routes_.end()) continue;
    found->second.adapter.Admit();
    if (found->second.ledger != nullptr) found->second.ledger->OnAdmitted(found->second.choice);
  }
}

EventRouter::Settled EventRouter::Refuse(uint64_t id, FinishReason finish) {
  const auto found = routes_.find(id);
  assert(found != routes_.end());
  TokenEvent event;
  event.finish = finish;
  if (found->second.ledger != nullptr) found->second.ledger->OnEnded(found->second.choice, 0, 0);
  try {
    Push(found->second, id, std::move(event), SequenceProgress());
  } catch (const std::bad_alloc&) {
    Lose(found->second);
  }
  Settled settled;
  settled.sequences = 1;
  settled.prompt_tokens = found->second.waiting_tokens;
  routes_.erase(found);
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

bool EventRouter::Flush() {
  if (signalled_.empty()) return true;
  try {
    fan_out_(MailboxList(signalled_));
  } catch (const std::bad_alloc&) {
    return false;
  }
  signalled_.clear();
  return true;
}

}  // namespace hydrant
