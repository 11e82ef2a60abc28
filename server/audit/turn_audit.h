// TurnAudit writes down, while a turn is generated, what KvAudit compares.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_AUDIT_TURN_AUDIT_H_
#define HYDRANT_SERVER_AUDIT_TURN_AUDIT_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "scheduler/request/sequence_event.h"
#include "server/audit/kv_audit.h"
#include "server/engine/engine_port.h"

namespace hydrant {

class TurnAudit {
 public:
  // Null: the turn is not in the sample, or there is none, or no memory for it. `audit` outlives it. `turn` is as it begins. Never throws.
  static std::unique_ptr<TurnAudit> Draw(KvAudit* audit, AuditedTurn turn);

  // An event of its sequence, with the best token in its place. With the last one the turn is KvAudit's, if it ended by
  // itself and something was evicted; where it stood then is in `status`. Without memory for it, it is none any more. Never throws.
  void Take(const TokenEvent& event, const SequenceProgress& status);

 private:
  TurnAudit(KvAudit& audit, AuditedTurn turn) : audit_(audit), turn_(std::move(turn)), tokens_(turn_.prompt.size()) {}
  void Record(const TokenEvent& event);
  void End(const SequenceProgress& status);

  KvAudit& audit_;
  AuditedTurn turn_;
  size_t tokens_;                           // of its prompt, and of its answer so far
  AuditResult fails_ = AuditResult::kDone;  // kDone: it can still be audited
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_AUDIT_TURN_AUDIT_H_
