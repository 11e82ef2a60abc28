// What a server measures of itself, as its command line says: the options of its metrics, and the audit of what evicting costs.
//
// Thread: the main one, while the server starts.
#ifndef HYDRANT_SERVER_METRICS_SETUP_H_
#define HYDRANT_SERVER_METRICS_SETUP_H_

#include <memory>

#include "server/audit/kv_audit.h"
#include "server/config.h"
#include "server/generation/generation_prepare.h"
#include "server/metrics/metrics.h"
#include "server/sizing.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

MetricsOptions MakeMetricsOptions(const ServingContext& context, const Sizing& sizing, const TenantRegistry& tenants);

// Null without --kv-audit. `tenants` outlives it.
std::unique_ptr<KvAudit> MakeAudit(const Config& config, const Sizing& sizing, const TenantRegistry& tenants);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_METRICS_SETUP_H_
