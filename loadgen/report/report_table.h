// The result as text for a terminal.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_REPORT_REPORT_TABLE_H_
#define HYDRANT_LOADGEN_REPORT_REPORT_TABLE_H_

#include <string>

#include "loadgen/report/report_json.h"
#include "loadgen/results/run_result.h"
#include "loadgen/results/summary.h"

namespace hydrant {

// Several lines, the last one ended.
std::string ReportTable(const ReportHead& head, const Summary& summary, const SummarySpec& spec);

// One line: 12 s: 240 sent, 230 done, …
std::string ProgressLine(const Progress& progress, int64_t events_before);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_REPORT_REPORT_TABLE_H_
