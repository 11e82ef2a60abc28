#include "loadgen/results/summary.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

RequestRecord Done(double sent_s, double ttft_s, std::vector<float> gaps_s, int64_t output_tokens) {
  RequestRecord record;
  record.scheduled_s = record.due_s = record.sent_s = sent_s;
  record.first_s = record.last_s = sent_s + ttft_s;
  for (const float gap_s : gaps_s) record.last_s += gap_s;
  record.end_s = record.last_s;
  record.gaps_s = std::move(gaps_s);
  record.prompt_tokens = 10;
  record.output_tokens = output_tokens;
  return record;
}

RequestRecord Failed(double sent_s, RequestError error, const std::string& text) {
  RequestRecord record;
  record.scheduled_s = record.due_s = record.sent_s = sent_s;
  record.end_s = sent_s + 0.25;
  record.error = error;
  record.error_text = text;
  return record;
}

RunResult SomeRun() {
  RunResult run;
  run.records = {Done(0, 0.5, {0.25f, 0.25f}, 3),
                 Done(1, 1.0, {}, 1),
                 Failed(1.5, RequestError::kHttp429, "full"),
                 Failed(1.5, RequestError::kHttp429, "full"),
                 Failed(1.5, RequestError::kConnect, "refused"),
                 Failed(1.75, RequestError::kCancelled, "")};
  run.duration_s = 2;
  run.cpu_s = 0.5;
  return run;
}

TEST(Summary, CountsAndTimes) {
  const Summary summary = Summarise(SomeRun(), {TenantSpec()}, {});
  EXPECT_EQ(summary.all.completed, 2u);
  EXPECT_EQ(summary.all.failed, 3u);
  EXPECT_EQ(summary.all.cancelled, 1u);
  EXPECT_EQ(summary.all.errors[static_cast<size_t>(RequestError::kHttp429)], 2u);
  EXPECT_EQ(summary.all.input_tokens, 20);
  EXPECT_EQ(summary.all.output_tokens, 4);
  EXPECT_DOUBLE_EQ(summary.all.ttft_ms.mean, 750);
  EXPECT_DOUBLE_EQ(summary.all.tpot_ms.mean, 250);
  EXPECT_EQ(summary.all.tpot_ms.count, 1u) << "one token has no time per further token";
  EXPECT_EQ(summary.all.itl_ms.count, 2u);
  EXPECT_DOUBLE_EQ(summary.all.e2el_ms.max, 1000);
  EXPECT_EQ(summary.max_output_tokens_per_s, 2);
  EXPECT_DOUBLE_EQ(summary.cpu_share, 0.25);
  EXPECT_EQ(summary.max_concurrent_requests, 4u);
  EXPECT_TRUE(summary.tenants.empty());
  EXPECT_TRUE(summary.turns.empty());
}

TEST(Summary, ShowsEveryRefusalOnce) {
  const Summary summary = Summarise(SomeRun(), {TenantSpec()}, {});
  ASSERT_EQ(summary.refusals.size(), 2u);
  EXPECT_EQ(summary.refusals[0].text, "full");
  EXPECT_EQ(summary.refusals[0].count, 2u);
  EXPECT_EQ(summary.refusals[1].error, RequestError::kConnect);
}

TEST(Summary, GoodRequestsKeepToEveryGoal) {
  SummarySpec spec;
  spec.goals.ttft_ms = 600;
  EXPECT_EQ(Summarise(SomeRun(), {TenantSpec()}, spec).all.good, 1u);
  spec.goals.tpot_ms = 249;
  EXPECT_EQ(Summarise(SomeRun(), {TenantSpec()}, spec).all.good, 0u);
  spec.goals = Goals();
  spec.goals.tpot_ms = 0;
  EXPECT_EQ(Summarise(SomeRun(), {TenantSpec()}, spec).all.good, 1u) << "one token: 0, as vLLM has it";
  spec.goals = Goals();
  spec.goals.e2el_ms = 1000;
  EXPECT_EQ(Summarise(SomeRun(), {TenantSpec()}, spec).all.good, 2u);
}

TEST(Summary, GroupsByTenantAndTurn) {
  RunResult run = SomeRun();
  run.records[1].tenant_idx = 1;
  run.records[1].turn = 2;
  const Summary summary = Summarise(run, {{.name = "a", .weight = 1}, {.name = "b", .weight = 11.0 / 13}}, {});
  ASSERT_EQ(summary.tenants.size(), 2u);
  EXPECT_EQ(summary.tenants[0].name, "a");
  EXPECT_EQ(summary.tenants[0].completed, 1u);
  EXPECT_EQ(summary.tenants[0].failed, 3u);
  EXPECT_EQ(summary.tenants[1].completed, 1u);
  // a was served 13 tokens of weight 1, b 11 of 11/13: the same for their weights.
  EXPECT_NEAR(summary.jain_service, 1, 1e-12);
  // Completed 1 of 4 and 1 of 1.
  EXPECT_NEAR(summary.jain_completion, 1.25 * 1.25 / (2 * (0.0625 + 1)), 1e-12);
  ASSERT_EQ(summary.turns.size(), 3u);
  EXPECT_EQ(summary.turns[1].completed, 0u);
  EXPECT_EQ(summary.turns[2].completed, 1u);
  EXPECT_EQ(summary.turns[2].name, "turn 3");
}

TEST(Summary, FairnessIsAmongTenantsThatSentSomething) {
  RunResult run = SomeRun();
  run.records.resize(2);
  std::vector<TenantSpec> tenants = {{.name = "a"}, {.name = "b"}};
  EXPECT_EQ(Summarise(run, tenants, {}).jain_service, 1);
  EXPECT_EQ(Summarise(run, tenants, {}).jain_completion, 1);
  // One whose every request was cut off waited for what others had.
  run.records.push_back(Failed(1, RequestError::kCancelled, ""));
  run.records.back().tenant_idx = 1;
  EXPECT_EQ(Summarise(run, tenants, {}).jain_service, 0.5);
  EXPECT_EQ(Summarise(run, tenants, {}).jain_completion, 1) << "of what came to an end";
}

TEST(Summary, AClientThatIsLateSaysSo) {
  RunResult run = SomeRun();
  EXPECT_TRUE(Summarise(run, {TenantSpec()}, {}).kept_up);
  run.records[0].due_s -= 0.2;
  const Summary sending = Summarise(run, {TenantSpec()}, {});
  EXPECT_FALSE(sending.kept_up);
  EXPECT_NEAR(sending.max_lag_ms, 200, 1e-9);
  EXPECT_NEAR(sending.max_send_lag_ms, 200, 1e-9);
  run = SomeRun();
  run.max_loop_lag_s = 0.06;
  EXPECT_FALSE(Summarise(run, {TenantSpec()}, {}).kept_up);
  SummarySpec patient;
  patient.lag_limit_ms = 100;
  EXPECT_TRUE(Summarise(run, {TenantSpec()}, patient).kept_up);
}

TEST(Summary, WaitingForASlotIsNotLag) {
  RunResult run = SomeRun();
  run.records[0].scheduled_s -= 3;
  const Summary summary = Summarise(run, {TenantSpec()}, {});
  EXPECT_TRUE(summary.kept_up);
  EXPECT_DOUBLE_EQ(summary.all.queue_ms.max, 3000);
}

TEST(Summary, OfNothingIsNothing) {
  const Summary summary = Summarise(RunResult(), {TenantSpec()}, {});
  EXPECT_EQ(summary.all.completed, 0u);
  EXPECT_EQ(summary.all.ttft_ms.mean, 0);
}

TEST(Summary, ThePeakIsOfCompletedRequests) {
  RunResult run = SomeRun();
  RequestRecord broken = Done(0, 0.25, {0.125f, 0.125f}, 3);
  broken.error = RequestError::kProtocol;
  run.records.push_back(broken);
  EXPECT_EQ(Summarise(run, {TenantSpec()}, {}).max_output_tokens_per_s, 2);
}

// Several tokens in one event, as a server sends them that takes drafts, and an end in mid-second.
TEST(Summary, ThePeakIsOfTokensAndNeverBelowTheMean) {
  RunResult run;
  run.records = {Done(0, 0.25, {0.25f, 1.0f, 0.125f}, 16)};
  run.duration_s = 2;
  EXPECT_EQ(MakeTimeline(run).output_tokens, (std::vector<double>{8, 8, 0}));
  EXPECT_EQ(Summarise(run, {TenantSpec()}, {}).max_output_tokens_per_s, 8);
  run.duration_s = 1.75;
  EXPECT_EQ(Summarise(run, {TenantSpec()}, {}).max_output_tokens_per_s, 16 / 1.75);
}

TEST(Summary, ATimelineCountsSeconds) {
  const Timeline timeline = MakeTimeline(SomeRun());
  EXPECT_EQ(timeline.sent, (std::vector<double>{1, 5, 0}));
  EXPECT_EQ(timeline.completed, (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(timeline.failed, (std::vector<double>{0, 3, 0})) << "cancelled is not failed";
  EXPECT_EQ(timeline.output_tokens, (std::vector<double>{2, 1, 1}));
  EXPECT_EQ(timeline.running, (std::vector<double>{1, 6, 2}));
}

}  // namespace
}  // namespace hydrant
