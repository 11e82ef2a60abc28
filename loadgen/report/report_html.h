// The result as one HTML file with plots: no script, nothing from elsewhere, so that it can be mailed and kept.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_REPORT_REPORT_HTML_H_
#define HYDRANT_LOADGEN_REPORT_REPORT_HTML_H_

#include <string>
#include <vector>

#include "loadgen/report/report_json.h"
#include "loadgen/results/compare.h"
#include "loadgen/results/run_result.h"
#include "loadgen/results/summary.h"

namespace hydrant {

// What one server did.
struct Measured {
  ReportHead head;
  Summary summary;
  RunResult run;
};

// One server, or the two of compare mode with their ratios. REQUIRES: not empty.
std::string ReportHtml(const std::vector<Measured>& measured, const std::vector<CompareLine>& comparison,
                       const SummarySpec& spec, const std::vector<TenantSpec>& tenants);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_REPORT_REPORT_HTML_H_
