// AuditSeries are the series of KvAudit: what became of the turns, and what came out by tenant, policy, recall and budget. The latter come
// and go with what KvAudit has.
//
// Thread: one at a time.
#ifndef HYDRANT_SERVER_METRICS_AUDIT_SERIES_H_
#define HYDRANT_SERVER_METRICS_AUDIT_SERIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <map>

#include "server/audit/kv_audit.h"

namespace hydrant {

class AuditSeries {
 public:
  // Both outlive it.
  AuditSeries(const KvAudit& audit, prometheus::Registry* registry);
  // As of now.
  void Update();

 private:
  struct Row {
    prometheus::Gauge* agreement;
    prometheus::Gauge* gap;
    prometheus::Counter* tokens;
    bool there = false;  // as of the last Update
  };
  Row Add(const prometheus::Labels& labels);

  const KvAudit& audit_;
  std::array<prometheus::Counter*, kAuditResults> results_;
  prometheus::Gauge* waiting_;
  prometheus::Counter* computed_;
  prometheus::Family<prometheus::Gauge>& agreement_;
  prometheus::Family<prometheus::Gauge>& gap_;
  prometheus::Family<prometheus::Counter>& tokens_;
  std::map<prometheus::Labels, Row> rows_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_METRICS_AUDIT_SERIES_H_
