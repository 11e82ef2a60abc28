#include "loadgen/report/report_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hydrant {
namespace {

void Line(std::string* out, const char* what, const std::string& value) {
  absl::StrAppendFormat(out, "%-38s %s\n", what, value);
}

constexpr double kMedian = 50;  // has a column of its own

void Row(std::string* out, const char* what, const Distilled& values, const SummarySpec& spec) {
  absl::StrAppendFormat(out, "%-12s %9d %10.2f %10.2f %10.2f", what, values.count, values.mean, values.deviation,
                        values.median);
  for (size_t i = 0; i < spec.percents.size(); ++i) {
    if (spec.percents[i] != kMedian) absl::StrAppendFormat(out, " %10.2f", values.percentiles[i]);
  }
  absl::StrAppendFormat(out, " %10.2f\n", values.max);
}

void Quantities(const ReportHead& head, const Summary& summary, const SummarySpec& spec, std::string* out) {
  absl::StrAppendFormat(out, "\n%-12s %9s %10s %10s %10s", "ms", "samples", "mean", "std", "median");
  for (const double percent : spec.percents) {
    if (percent != kMedian) absl::StrAppendFormat(out, " %10s", PercentileName(percent));
  }
  absl::StrAppendFormat(out, " %10s\n", "max");
  Row(out, "TTFT", summary.all.ttft_ms, spec);
  Row(out, "TPOT", summary.all.tpot_ms, spec);
  Row(out, "ITL", summary.all.itl_ms, spec);
  Row(out, "E2E", summary.all.e2el_ms, spec);
  // Beyond the client's lag: --max-concurrency held requests back.
  if (!head.closed_loop && summary.all.queue_ms.max > summary.max_send_lag_ms + 1)
    Row(out, "client queue", summary.all.queue_ms, spec);
}

void Groups(const char* what, const std::vector<GroupSummary>& groups, const SummarySpec& spec, double duration_s,
            std::string* out) {
  if (groups.empty()) return;
  const bool goals = !spec.goals.empty();
  absl::StrAppendFormat(out, "\n%-16s %9s %8s %10s %10s %10s %10s %10s%s\n", what, "completed", "failed", "tok/s",
                        "TTFT med.", "TTFT max", "TPOT med.", "E2E med.", goals ? "      good" : "");
  for (const GroupSummary& group : groups) {
    absl::StrAppendFormat(out, "%-16s %9d %8d %10.1f %10.2f %10.2f %10.2f %10.2f", group.name, group.completed,
                          group.failed, duration_s > 0 ? static_cast<double>(group.output_tokens) / duration_s : 0.0,
                          group.ttft_ms.median, group.ttft_ms.max, group.tpot_ms.median, group.e2el_ms.median);
    if (goals) absl::StrAppendFormat(out, " %9d", group.good);
    out->push_back('\n');
  }
}

void Problems(const Summary& summary, const SummarySpec& spec, std::string* out) {
  if (!summary.refusals.empty()) absl::StrAppend(out, "\nFailures, each text once:\n");
  for (const Refusal& refusal : summary.refusals) {
    absl::StrAppendFormat(out, "  %6d x %-12s %s\n", refusal.count, RequestErrorName(refusal.error), refusal.text);
  }
  if (summary.interrupted) absl::StrAppend(out, "\nStopped before its end: these are the figures until then.\n");
  if (!summary.kept_up) {
    absl::StrAppendFormat(out,
                          "\nTHE CLIENT DID NOT KEEP UP: it was up to %.1f ms late (limit %.0f ms), with %.0f %% of a "
                          "core. Do not trust the times; give it a core of its own or a lower rate.\n",
                          summary.max_lag_ms, spec.lag_limit_ms, 100 * summary.cpu_share);
  }
}

}  // namespace

std::string ReportTable(const ReportHead& head, const Summary& summary, const SummarySpec& spec) {
  const GroupSummary& all = summary.all;
  const auto rate = [&](double count) {
    return absl::StrFormat("%.2f", summary.duration_s > 0 ? count / summary.duration_s : 0.0);
  };
  std::string out = absl::StrCat("\n== ", head.title, " against ", head.base_url, ", model ", head.model, "\n");
  Line(&out, "Successful requests:", absl::StrCat(all.completed));
  Line(&out, "Failed requests:", absl::StrCat(all.failed));
  if (all.cancelled > 0) Line(&out, "Cancelled requests:", absl::StrCat(all.cancelled));
  Line(&out, "Duration (s):", absl::StrFormat("%.2f", summary.duration_s));
  Line(&out, "Total input tokens:", absl::StrCat(all.input_tokens, ", ", all.cached_tokens, " of them cached"));
  Line(&out, "Total generated tokens:", absl::StrCat(all.output_tokens));
  Line(&out, "Requests sent (req/s):", absl::StrFormat("%.2f", summary.offered_rate));
  Line(&out, "Request throughput (req/s):", rate(static_cast<double>(all.completed)));
  if (!spec.goals.empty()) {
    Line(&out, "Request goodput (req/s):",
         absl::StrCat(rate(static_cast<double>(all.good)), ", ", all.good, " of ", all.completed + all.failed));
  }
  Line(&out, "Output token throughput (tok/s):", rate(static_cast<double>(all.output_tokens)));
  Line(&out, "Total token throughput (tok/s):", rate(static_cast<double>(all.input_tokens + all.output_tokens)));
  Line(&out, "Peak output token throughput (tok/s):", absl::StrFormat("%.2f", summary.max_output_tokens_per_s));
  Line(&out, "Peak concurrent requests:", absl::StrCat(summary.max_concurrent_requests));
  Line(&out, "Client lag, max (ms):",
       absl::StrFormat("%.2f sending, %.2f loop; %.0f %% of a core", summary.max_send_lag_ms, summary.max_loop_lag_ms,
                       100 * summary.cpu_share));
  Quantities(head, summary, spec, &out);
  Groups("tenant", summary.tenants, spec, summary.duration_s, &out);
  if (!summary.tenants.empty()) {
    absl::StrAppendFormat(&out, "Jain's index: %.4f of tokens by weight, %.4f of completed by sent\n",
                          summary.jain_service, summary.jain_completion);
  }
  Groups("turn", summary.turns, spec, summary.duration_s, &out);
  Problems(summary, spec, &out);
  return out;
}

std::string ProgressLine(const Progress& progress, int64_t events_before) {
  return absl::StrFormat("%4.0f s: %d sent, %d done, %d failed, %d running, %d tok/s, lag %.1f ms", progress.elapsed_s,
                         progress.sent, progress.completed, progress.failed, progress.running,
                         progress.output_events - events_before, 1000 * progress.max_lag_s);
}

}  // namespace hydrant
