#include "loadgen/report/report_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

Summary SomeSummary() {
  Summary summary;
  summary.duration_s = 2;
  summary.all.completed = 4;
  summary.all.output_tokens = 100;
  summary.all.ttft_ms = Distil({1.5, 2.5}, std::vector<double>{99});
  summary.all.tpot_ms = summary.all.itl_ms = summary.all.e2el_ms = summary.all.queue_ms =
      Distil({}, std::vector<double>{99});
  return summary;
}

const SummarySpec kSpec{.percents = {99}};

TEST(ReportTable, SaysWhatWasMeasured) {
  const std::string table = ReportTable({.title = "t", .base_url = "u", .model = "m"}, SomeSummary(), kSpec);
  EXPECT_THAT(table, HasSubstr("Successful requests:                   4\n"));
  EXPECT_THAT(table, HasSubstr("Output token throughput (tok/s):       50.00\n"));
  EXPECT_THAT(table, HasSubstr("TTFT                 2       2.00       0.50       2.00       2.49       2.50\n"));
  EXPECT_THAT(table, Not(HasSubstr("goodput")));
  EXPECT_THAT(table, Not(HasSubstr("KEEP UP")));
}

TEST(ReportTable, ShowsTheMedianOnce) {
  Summary summary = SomeSummary();
  const SummarySpec spec{.percents = {50, 99}};
  for (Distilled* values : {&summary.all.ttft_ms, &summary.all.tpot_ms, &summary.all.itl_ms, &summary.all.e2el_ms})
    *values = Distil({1.5, 2.5}, spec.percents);
  const std::string table = ReportTable({}, summary, spec);
  EXPECT_THAT(table, HasSubstr("std     median        p99        max\n"));
  EXPECT_THAT(table, HasSubstr("E2E                  2       2.00       0.50       2.00       2.49       2.50\n"));
}

TEST(ReportTable, SaysWhatWentWrong) {
  Summary summary = SomeSummary();
  summary.kept_up = false;
  summary.max_lag_ms = 80;
  summary.interrupted = true;
  summary.refusals = {{RequestError::kHttp429, "slow down", 7}};
  const std::string table = ReportTable({}, summary, kSpec);
  EXPECT_THAT(table, HasSubstr("DID NOT KEEP UP: it was up to 80.0 ms late (limit 50 ms)"));
  EXPECT_THAT(table, HasSubstr("7 x http_429     slow down"));
  EXPECT_THAT(table, HasSubstr("Stopped before its end"));
}

TEST(ReportTable, AClosedLoopHasNoQueue) {
  Summary summary = SomeSummary();
  summary.all.queue_ms = Distil({3000}, std::vector<double>{99});
  EXPECT_THAT(ReportTable({}, summary, kSpec), HasSubstr("client queue"));
  EXPECT_THAT(ReportTable({.closed_loop = true}, summary, kSpec), Not(HasSubstr("client queue")));
}

TEST(ReportTable, HasATableOfTenants) {
  Summary summary = SomeSummary();
  GroupSummary group = summary.all;
  group.name = "team-a";
  summary.tenants = {group, group};
  summary.jain_service = 0.5;
  EXPECT_THAT(ReportTable({}, summary, kSpec), HasSubstr("team-a"));
  EXPECT_THAT(ReportTable({}, summary, kSpec), HasSubstr("Jain's index: 0.5000 of tokens by weight"));
}

TEST(ReportTable, ProgressIsOneLine) {
  EXPECT_EQ(ProgressLine({3, 10, 8, 1, 1, 700, 0.0021}, 200),
            "   3 s: 10 sent, 8 done, 1 failed, 1 running, 500 tok/s, lag 2.1 ms");
}

}  // namespace
}  // namespace hydrant
