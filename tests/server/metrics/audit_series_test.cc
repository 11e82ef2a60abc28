#include "server/metrics/audit_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AuditSeries, ComeAndGoWithWhatWasAudited) {
  KvAudit::Options options;
  options.share = 1;
  options.context = 100;
  options.policy_names = {"full", "h2o"};
  options.tenant_name = [](int32_t tenant) { return "t" + std::to_string(tenant); };
  KvAudit audit(std::move(options));
  prometheus::Registry registry;
  AuditSeries series(audit, &registry);
  const auto text = [&] {
    series.Update();
    return prometheus::TextSerializer().Serialize(registry.Collect());
  };
  EXPECT_THAT(text(), HasSubstr("hydrant_kv_audits_total{result=\"done\"} 0\n"));
  EXPECT_THAT(text(), Not(HasSubstr("hydrant_kv_agreement{")));
  const auto add = [&](int32_t tenant) {
    AuditedTurn turn;
    turn.tenant = tenant;
    turn.policy = 1;
    turn.budget = 64;
    turn.prompt = {1, 2};
    turn.answer = {3};
    turn.kept = {{3, -1.0f}};
    audit.Add(std::move(turn));
  };
  const auto finish = [&] {
    ASSERT_TRUE(audit.Next().has_value());
    SampleResult score;
    score.logprob = -1.5f;
    score.best = 3;
    EXPECT_TRUE(audit.OnScores({&score, 1}));
    audit.OnEnd(ReplayEnd::kDone);
  };
  add(0);
  EXPECT_THAT(text(), HasSubstr("\nhydrant_kv_audits_waiting 1\n"));
  finish();
  const std::string once = text();
  const std::string labels = "{budget=\"64\",policy=\"h2o\",recall=\"off\",tenant=\"t0\"}";
  EXPECT_THAT(once, HasSubstr("hydrant_kv_agreement" + labels + " 1\n"));
  EXPECT_THAT(once, HasSubstr("hydrant_kv_logprob_gap" + labels + " -0.5\n"));
  EXPECT_THAT(once, HasSubstr("hydrant_kv_audited_tokens_total" + labels + " 1\n"));
  EXPECT_THAT(once, HasSubstr("\nhydrant_kv_audit_computed_tokens_total 3\n"));
  EXPECT_THAT(once, HasSubstr("hydrant_kv_audits_total{result=\"done\"} 1\n"));
  for (int32_t tenant = 1; tenant <= static_cast<int32_t>(KvAudit::kSeriesMax); ++tenant) {
    add(tenant);
    finish();
  }
  EXPECT_THAT(text(), Not(HasSubstr(labels)));
}

}  // namespace
}  // namespace hydrant
