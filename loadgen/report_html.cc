#include "loadgen/report_html.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadgen/plot.h"
#include "loadgen/report_table.h"

namespace hydrant {
namespace {

constexpr const char* kStyle =
    "body{font-family:sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}"
    "pre{background:#f6f6f6;padding:1em;overflow-x:auto;font-size:12px}"
    "table{border-collapse:collapse;font-size:13px}td{padding:2px 12px 2px 0;border-bottom:1px solid #eee}"
    ".late{background:#fde0dc;padding:1em}svg{max-width:100%;height:auto;margin:4px}";
// More dots than this say nothing more and make the file large.
constexpr size_t kDotsMax = 3000;

using Value = std::function<double(const RequestRecord&)>;

std::vector<double> Collect(const RunResult& run, const Value& value) {
  std::vector<double> values;
  for (const RequestRecord& record : run.records) {
    if (record.succeeded()) values.push_back(1000 * value(record));
  }
  return values;
}

std::vector<double> Gaps(const RunResult& run) {
  std::vector<double> values;
  for (const RequestRecord& record : run.records) {
    for (const float gap_s : record.gaps_s) values.push_back(1000 * gap_s);
  }
  return values;
}

// First tokens over time: what a queue that grows looks like. A series per tenant, or for all.
std::vector<Series> FirstTokens(const RunResult& run, const std::vector<TenantSpec>& tenants) {
  std::vector<Series> series;
  for (const TenantSpec& tenant : tenants) series.push_back({tenant.name, {}, false});
  const size_t every = run.records.size() / kDotsMax + 1;
  for (size_t i = 0; i < run.records.size(); i += every) {
    const RequestRecord& record = run.records[i];
    if (record.succeeded()) series[record.tenant_idx].points.emplace_back(record.sent_s, 1000 * record.ttft_s());
  }
  return series;
}

void AppendPlots(const std::vector<Measured>& measured, const std::vector<TenantSpec>& tenants, std::string* html) {
  const bool two = measured.size() > 1;
  const auto name = [&](size_t i) { return std::string(i == 0 ? "A" : "B"); };
  const auto cumulative = [&](const char* title, const std::function<std::vector<double>(const RunResult&)>& values) {
    std::vector<Series> series;
    for (size_t i = 0; i < measured.size(); ++i) series.push_back(Cumulative(name(i), values(measured[i].run)));
    absl::StrAppend(html, Plot({title, "ms", "% of samples at or below"}, series));
  };
  const Value ttft = [](const RequestRecord& record) { return record.ttft_s(); };
  const Value e2e = [](const RequestRecord& record) { return record.e2e_s(); };
  cumulative("Time to first token", [&](const RunResult& run) { return Collect(run, ttft); });
  cumulative("Between two tokens", Gaps);
  cumulative("Whole request", [&](const RunResult& run) { return Collect(run, e2e); });
  for (size_t i = 0; i < measured.size(); ++i) {
    const std::string whose = two ? absl::StrCat(" of ", name(i)) : "";
    const Timeline timeline = MakeTimeline(measured[i].run);
    absl::StrAppend(html,
                    Plot({absl::StrCat("Time to first token", whose), "s since the start, when sent", "ms"},
                         FirstTokens(measured[i].run, tenants)),
                    Plot({absl::StrCat("Output", whose), "s since the start", "events with tokens per s"},
                         {PerSecond("output", timeline.output_events)}),
                    Plot({absl::StrCat("Requests", whose), "s since the start", "per s, and under way"},
                         {PerSecond("sent", timeline.sent), PerSecond("completed", timeline.completed),
                          PerSecond("failed", timeline.failed), PerSecond("running", timeline.running)}));
  }
}

}  // namespace

std::string ReportHtml(const std::vector<Measured>& measured, const std::vector<CompareLine>& comparison,
                       const SummarySpec& spec, const std::vector<TenantSpec>& tenants) {
  const ReportHead& head = measured[0].head;
  const std::string title = EscapeHtml(absl::StrCat(head.title, ", ", head.model, ", ", head.date));
  std::string html = absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", title,
                                  "</title><style>", kStyle, "</style></head><body>\n<h1>", title, "</h1>\n");
  for (const Measured& one : measured) {
    if (one.summary.kept_up) continue;
    absl::StrAppendFormat(&html,
                          "<p class=\"late\">The client did not keep up with this load: it was up to %.1f ms late. Do "
                          "not trust the times.</p>\n",
                          one.summary.max_lag_ms);
  }
  if (!comparison.empty()) {
    absl::StrAppend(&html, "<h2>B in terms of A</h2>\n<pre>",
                    EscapeHtml(CompareTable(head.base_url, measured[1].head.base_url, comparison)), "</pre>\n");
  }
  for (const Measured& one : measured) {
    absl::StrAppend(&html, "<pre>", EscapeHtml(ReportTable(one.head, one.summary, spec)), "</pre>\n");
  }
  AppendPlots(measured, tenants, &html);
  absl::StrAppend(&html, "\n<h2>Configuration</h2>\n<table>");
  for (const auto& [name, value] : head.configuration) {
    absl::StrAppend(&html, "<tr><td>", EscapeHtml(name), "</td><td>", EscapeHtml(value), "</td></tr>\n");
  }
  return html + "</table>\n</body></html>\n";
}

}  // namespace hydrant
