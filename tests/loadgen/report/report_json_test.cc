#include "loadgen/report/report_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace hydrant {
namespace {

RunResult Run() {
  RunResult run;
  RequestRecord late;
  late.sent_s = 1;
  late.error = RequestError::kHttp503;
  late.error_text = "HTTP 503: full";
  RequestRecord record;
  record.sent_s = 0.5;
  record.first_s = 1;
  record.last_s = 2;
  record.gaps_s = {0.25f, 0.75f};
  record.prompt_tokens = 4;
  record.output_tokens = 3;
  run.records = {late, record};
  run.duration_s = 2;
  return run;
}

nlohmann::ordered_json Report(bool detailed, SummarySpec spec = {}) {
  ReportHead head{.title = "t", .date = "d", .backend = "openai", .base_url = "u", .model = "m"};
  head.request_rate = std::numeric_limits<double>::infinity();
  head.concurrency_max = 4;
  head.metadata = {{"version", "1"}};
  head.configuration = {{"seed", "0"}};
  return ReportJson(head, Summarise(Run(), {TenantSpec()}, spec), spec, Run(), detailed);
}

TEST(ReportJson, HasVllmsNames) {
  const auto json = Report(false);
  for (const char* name : {"date",
                           "backend",
                           "label",
                           "model_id",
                           "duration",
                           "completed",
                           "failed",
                           "total_input_tokens",
                           "total_output_tokens",
                           "request_throughput",
                           "request_goodput",
                           "output_throughput",
                           "total_token_throughput",
                           "mean_ttft_ms",
                           "median_ttft_ms",
                           "std_ttft_ms",
                           "p99_ttft_ms",
                           "mean_tpot_ms",
                           "p99_tpot_ms",
                           "mean_itl_ms",
                           "p99_itl_ms",
                           "mean_e2el_ms",
                           "p99_e2el_ms",
                           "max_output_tokens_per_s",
                           "max_concurrent_requests",
                           "max_lag_ms"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["completed"], 1);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["mean_ttft_ms"], 500.0);
  EXPECT_EQ(json["mean_tpot_ms"], 500.0);
  EXPECT_EQ(json["output_throughput"], 1.5);
  EXPECT_EQ(json["errors_by_kind"]["http_503"], 1);
  EXPECT_EQ(json["refusals"][0]["text"], "HTTP 503: full");
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["max_concurrency"], 4);
  EXPECT_EQ(json["num_prompts"], 2);
  EXPECT_EQ(json["version"], "1");
  EXPECT_EQ(json["configuration"]["seed"], "0");
  EXPECT_TRUE(json["request_goodput"].is_null());
  EXPECT_FALSE(json.contains("ttfts"));
}

TEST(ReportJson, GoodputNeedsGoals) {
  SummarySpec spec;
  spec.goals.ttft_ms = 500;
  EXPECT_EQ(Report(false, spec)["request_goodput"], 0.5);
}

TEST(ReportJson, DetailsComeInTheOrderOfSending) {
  const auto json = Report(true);
  EXPECT_EQ(json["start_times"].dump(), "[0.5,1.0]");
  EXPECT_EQ(json["ttfts"].dump(), "[0.5,0.0]");
  EXPECT_EQ(json["itls"].dump(), "[[0.25,0.75],[]]");
  EXPECT_EQ(json["output_lens"].dump(), "[3,0]");
  EXPECT_EQ(json["errors"][1], "HTTP 503: full");
}

TEST(ReportJson, PercentilesAreNamedAsVllmNamesThem) {
  EXPECT_EQ(PercentileName(99), "p99");
  EXPECT_EQ(PercentileName(99.9), "p99.9");
}

}  // namespace
}  // namespace hydrant
