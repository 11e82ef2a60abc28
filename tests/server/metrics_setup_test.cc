#include "server/metrics_setup.h"

#include <gtest/gtest.h>

#include "tests/server/generation/byte_context.h"

namespace hydrant {
namespace {

TEST(MetricsSetup, TurnsAreAuditedWhereTheFlagSaysSo) {
  const TenantRegistry tenants(SingleTenant(std::string()), TenantFacts{100, 4, 1000});
  Config config;
  Sizing sizing;
  sizing.limits.context_max = 50;
  sizing.replay_blocks = 2;
  EXPECT_EQ(MakeAudit(config, sizing, tenants), nullptr);
  config.kv_audit = 1;
  const auto audit = MakeAudit(config, sizing, tenants);
  ASSERT_NE(audit, nullptr);
  EXPECT_EQ(audit->Fits(33), AuditResult::kDone) << "the last token is not computed";
  EXPECT_EQ(audit->Fits(34), AuditResult::kNoRoom);
  EXPECT_EQ(audit->Fits(51), AuditResult::kTooLong);
  EXPECT_TRUE(audit->Draws());
}

TEST(MetricsSetup, PoliciesAndTenantsHaveTheirNames) {
  const TenantRegistry tenants(SingleTenant(std::string()), TenantFacts{100, 4, 1000});
  const MetricsOptions options = MakeMetricsOptions(ByteContext(1000), Sizing(), tenants);
  EXPECT_EQ(options.policy_names, KvPolicyLabels());
  EXPECT_EQ(options.tenant_names, tenants.names());
  EXPECT_EQ(options.model_name, "m");
}

}  // namespace
}  // namespace hydrant
