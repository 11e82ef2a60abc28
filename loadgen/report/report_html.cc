#include "loadgen/report/report_html.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "loadgen/report/plot.h"
#include "loadgen/report/report_table.h"

namespace hydrant {
namespace {

constexpr const char* kStyle =
    "body{font-family:sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}"
    "pre{background:#f6f6f6;padding:1em;overflow-x:auto;font-size:12px}"
    "table{border-collapse:collapse;font-size:13px}td{padding:2px 12px 2px 0;border-bottom:1px solid #eee}"
    "pre.late{background:#fde0dc}svg{max-width:100%;height:auto;margin:4px}";
// More dots than this say nothing more and make the file large.
constexpr size_t kDotsMax = 3000;

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
  std::vector<Samples> samples(measured.size());
  for (size_t i = 0; i < measured.size(); ++i) {
    for (const RequestRecord& record : measured[i].run.records) samples[i].Add(record);
  }
  const auto cumulative = [&](const char* title, std::vector<double> Samples::*values) {
    std::vector<Series> series;
    for (size_t i = 0; i < samples.size(); ++i) series.push_back(Cumulative(name(i), std::move(samples[i].*values)));
    absl::StrAppend(html, Plot({title, "ms", "% of samples at or below"}, series));
  };
  cumulative("Time to first token", &Samples::ttft_ms);
  cumulative("Between two tokens", &Samples::itl_ms);
  cumulative("Whole request", &Samples::e2el_ms);
  for (size_t i = 0; i < measured.size(); ++i) {
    const std::string whose = two ? absl::StrCat(" of ", name(i)) : "";
    const Timeline timeline = MakeTimeline(measured[i].run);
    absl::StrAppend(html,
                    Plot({absl::StrCat("Time to first token", whose), "s since the start, when sent", "ms"},
                         FirstTokens(measured[i].run, tenants)),
                    Plot({absl::StrCat("Output", whose), "s since the start", "events with tokens per s"},
                         {PerSecond("output", timeline.output_tokens)}),
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
  if (!comparison.empty()) {
    absl::StrAppend(&html, "<h2>B in terms of A</h2>\n<pre>",
                    EscapeHtml(CompareTable(head.base_url, measured[1].head.base_url, comparison)), "</pre>\n");
  }
  for (const Measured& one : measured) {
    absl::StrAppend(&html, one.summary.kept_up ? "<pre>" : "<pre class=\"late\">",
                    EscapeHtml(ReportTable(one.head, one.summary, spec)), "</pre>\n");
  }
  AppendPlots(measured, tenants, &html);
  absl::StrAppend(&html, "\n<h2>Configuration</h2>\n<table>");
  for (const auto& [name, value] : head.configuration) {
    absl::StrAppend(&html, "<tr><td>", EscapeHtml(name), "</td><td>", EscapeHtml(value), "</td></tr>\n");
  }
  return html + "</table>\n</body></html>\n";
}

}  // namespace hydrant
