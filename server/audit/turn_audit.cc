#include "server/audit/turn_audit.h"

#include <new>
#include <utility>

namespace hydrant {

std::unique_ptr<TurnAudit> TurnAudit::Draw(KvAudit* audit, AuditedTurn turn) {
  if (audit == nullptr || !audit->Draws()) return nullptr;
  std::unique_ptr<TurnAudit> drawn(new (std::nothrow) TurnAudit(*audit, std::move(turn)));
  if (drawn == nullptr) audit->Skip(AuditResult::kNoMemory);
  return drawn;
}

void TurnAudit::Take(const TokenEvent& event, const SequenceProgress& status) {
  try {
    if (event.token >= 0) ++tokens_;
    if (event.token >= 0 && fails_ == AuditResult::kDone) Record(event);
  } catch (const std::bad_alloc&) {
    fails_ = AuditResult::kNoMemory;
  }
  if (EndsByItself(event.finish)) End(status);
}

void TurnAudit::Record(const TokenEvent& event) {
  fails_ = audit_.Fits(tokens_);
  if (fails_ != AuditResult::kDone) {
    turn_ = {};
    return;
  }
  if (event.best < 0) {
    fails_ = AuditResult::kError;
    return;
  }
  turn_.answer.push_back(event.token);
  turn_.kept.push_back({event.best, event.logprob});
}

void TurnAudit::End(const SequenceProgress& status) {
  if (status.evicted == 0) return audit_.Skip(AuditResult::kNothingEvicted);
  // What there was no room for may have come to exceed the context as well.
  if (fails_ == AuditResult::kNoRoom) fails_ = audit_.Fits(tokens_);
  if (fails_ != AuditResult::kDone) return audit_.Skip(fails_);
  if (turn_.answer.empty()) return;  // nothing was asked for
  turn_.budget = status.budget;
  audit_.Add(std::move(turn_));
}

}  // namespace hydrant
