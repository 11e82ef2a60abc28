#include "server/metrics_setup.h"

#include <gtest/gtest.h>

#include "tests/server/generation/byte_context.h"

namespace hydrant {
namespace {

TEST(MetricsSetup, TurnsAreAuditedWhereTheFlagSaysSo) {
  const TenantRegistry tenants(SingleTenant(std::string()), TenantFacts{100, 4, 1000});
  Config config;
  Limits limits;
  limits.context_max = 50;
  EXPECT_EQ(MakeAudit(config, limits, tenants), nullptr);
  config.kv_audit = 1;
  const auto audit = MakeAudit(config, limits, tenants);
  ASSERT_NE(audit, nullptr);
  EXPECT_EQ(audit->context(), 50);
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
