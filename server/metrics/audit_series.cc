#include "server/metrics/audit_series.h"

namespace hydrant {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

void Raise(prometheus::Counter* counter, uint64_t total) {
  const double missing = static_cast<double>(total) - counter->Value();
  if (missing > 0) counter->Increment(missing);
}

}  // namespace

AuditSeries::AuditSeries(const KvAudit& audit, prometheus::Registry* registry)
    : audit_(audit),
      waiting_(&BuildGauge()
                    .Name("hydrant_kv_audits_waiting")
                    .Help("Turns that wait for an idle moment to be audited, or are being.")
                    .Register(*registry)
                    .Add({})),
      computed_(
          &BuildCounter()
               .Name("hydrant_kv_audit_computed_tokens_total")
               .Help("Tokens that audited turns took to compute, history and answer; no prompt tokens of anybody.")
               .Register(*registry)
               .Add({})),
      agreement_(
          BuildGauge()
              .Name("hydrant_kv_agreement")
              .Help("Share of an audited answer's tokens where the whole history has the same best token as what "
                    "was kept of it; of the last 256 turns.")
              .Register(*registry)),
      gap_(BuildGauge()
               .Name("hydrant_kv_logprob_gap")
               .Help(
                   "Mean log-probability of an audited answer's tokens behind the whole history, less that behind what "
                   "was kept of it; of the last 256 turns.")
               .Register(*registry)),
      tokens_(BuildCounter()
                  .Name("hydrant_kv_audited_tokens_total")
                  .Help("Tokens of answers that these were measured on.")
                  .Register(*registry)) {
  auto& results = BuildCounter()
                      .Name("hydrant_kv_audits_total")
                      .Help("Turns of the sample of --kv-audit, by what became of them.")
                      .Register(*registry);
  for (int32_t i = 0; i < kAuditResults; ++i) {
    results_[static_cast<size_t>(i)] = &results.Add({{"result", AuditResultName(static_cast<AuditResult>(i))}});
  }
}

AuditSeries::Row AuditSeries::Add(const prometheus::Labels& labels) {
  return {&agreement_.Add(labels), &gap_.Add(labels), &tokens_.Add(labels)};
}

void AuditSeries::Update() {
  const KvAudit::Counts counts = audit_.counts();
  for (size_t i = 0; i < results_.size(); ++i) Raise(results_[i], counts.results[i]);
  waiting_->Set(static_cast<double>(counts.waiting));
  Raise(computed_, counts.computed_tokens);
  for (auto& [labels, row] : rows_) row.there = false;
  for (const KvAudit::Series& series : counts.series) {
    const prometheus::Labels labels = {
        {"tenant", series.tenant}, {"policy", series.policy}, {"recall", series.recall}, {"budget", series.budget}};
    auto found = rows_.find(labels);
    if (found == rows_.end()) found = rows_.emplace(labels, Add(labels)).first;
    Row& row = found->second;
    row.there = true;
    row.agreement->Set(series.agreement);
    row.gap->Set(series.logprob_gap);
    Raise(row.tokens, series.tokens);
  }
  for (auto row = rows_.begin(); row != rows_.end();) {
    if (row->second.there) {
      ++row;
      continue;
    }
    agreement_.Remove(row->second.agreement);
    gap_.Remove(row->second.gap);
    tokens_.Remove(row->second.tokens);
    row = rows_.erase(row);
  }
}

}  // namespace hydrant
