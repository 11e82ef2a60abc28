#include "tests/sim/engine/buggy_engine.h"

#include <algorithm>
#include <iterator>

namespace hydrant::sim {
namespace {

// In the order of EngineBug.
constexpr const char* kNames[] = {
    "None",        "CancelLost",     "ResumeLost",        "SettleLost",      "ForgetLost",     "PauseLost",
    "TenantsLost", "ReadUnanswered", "ReadAnsweredTwice", "StopLost",        "LostStepHidden", "LostParkHidden",
    "WakeLost",    "DeathUntold",    "ParkedUntold",      "AdmissionUntold", "EndUntold",      "EndToldTwice",
    "TokenLost",   "TokenTwice",     "TerminalLost",      "TerminalTwice",   "ChoicesMixedUp", "MailboxKept",
};
static_assert(std::size(kNames) == static_cast<size_t>(kLastEngineBug) + 1);

TokenEvent CopyOf(const TokenEvent& event) {
  TokenEvent copy;
  static_cast<SequenceOutcome&>(copy) = event;
  copy.choice = event.choice;
  copy.time_us = event.time_us;
  return copy;
}

}  // namespace

const char* NameOf(EngineBug bug) { return kNames[static_cast<size_t>(bug)]; }

std::optional<uint64_t> BuggyEngine::TrySubmit(GenerationJob job) {
  if (bug_ == EngineBug::kMailboxKept) kept_.push_back(job.mailbox);
  return engine_.TrySubmit(std::move(job));
}

void BuggyEngine::Cancel(uint64_t id) {
  if (bug_ != EngineBug::kCancelLost) engine_.Cancel(id);
}

void BuggyEngine::Resume(uint64_t first_id, int32_t count) {
  if (bug_ != EngineBug::kResumeLost) engine_.Resume(first_id, count);
}

void BuggyEngine::SetTenants(std::vector<TenantOptions> tenants) {
  if (bug_ != EngineBug::kTenantsLost) engine_.SetTenants(std::move(tenants));
}

void BuggyEngine::PauseAdmission(bool paused) {
  if (bug_ != EngineBug::kPauseLost) engine_.PauseAdmission(paused);
}

void BuggyEngine::SettleTurn(TurnId id, bool keep) {
  if (bug_ != EngineBug::kSettleLost) engine_.SettleTurn(id, keep);
}

void BuggyEngine::DropSession(uint64_t session) {
  if (bug_ != EngineBug::kForgetLost) engine_.DropSession(session);
}

void BuggyEngine::ReadKv(uint64_t session, std::shared_ptr<KvReading> out, std::function<void()> done) {
  if (bug_ == EngineBug::kReadUnanswered) return;
  if (bug_ == EngineBug::kReadAnsweredTwice) {
    done = [done] {
      done();
      done();
    };
  }
  engine_.ReadKv(session, /*evicts=*/true, std::move(out), std::move(done));
}

void BuggyEngine::Stop() {
  if (bug_ != EngineBug::kStopLost) engine_.Stop();
}

void SpoilBatch(EngineBug bug, int32_t choices, StreamBatch& batch) {
  if (batch.tokens.empty()) return;
  const bool ends = batch.tokens.back().finish != FinishReason::kNone;
  switch (bug) {
    case EngineBug::kTokenLost:
      if (!ends) batch.tokens.pop_back();
      break;
    case EngineBug::kTokenTwice:
      if (!ends) batch.tokens.push_back(CopyOf(batch.tokens.back()));
      break;
    case EngineBug::kTerminalLost:
      if (ends) batch.tokens.pop_back();
      break;
    case EngineBug::kTerminalTwice:
      if (ends) batch.tokens.push_back(CopyOf(batch.tokens.back()));
      break;
    case EngineBug::kChoicesMixedUp:
      for (TokenEvent& event : batch.tokens) event.choice = (event.choice + 1) % choices;
      break;
    default:
      break;
  }
}

}  // namespace hydrant::sim
