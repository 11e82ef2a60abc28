#include "server/metrics_setup.h"

#include <utility>

#include "server/engine/idle_replay.h"
#include "server/kv/kv_resolution.h"
#include "server/process/random_id.h"

namespace hydrant {

MetricsOptions MakeMetricsOptions(const ServingContext& context, const Sizing& sizing, const TenantRegistry& tenants) {
  MetricsOptions options;
  options.model_name = context.request.model_names.front();
  options.context = sizing.limits.context_max;
  options.blocks = sizing.limits.blocks;
  options.prefix_caching = context.prefix_caching;
  options.score_block_bytes = sizing.score_block_bytes;
  options.kv_block_bytes = sizing.kv_block_bytes;
  options.block_slots = kBlockSlots;
  options.cache_dtype = KvTypeName(sizing.kv_type);
  options.weight_bytes = sizing.weight_bytes;
  options.policy_names = KvPolicyLabels();
  options.tenant_names = tenants.names();
  return options;
}

std::unique_ptr<KvAudit> MakeAudit(const Config& config, const Sizing& sizing, const TenantRegistry& tenants) {
  if (config.kv_audit == 0) return nullptr;
  KvAudit::Options options;
  options.share = config.kv_audit;
  options.seed = RandomSeed();
  options.context = sizing.limits.context_max;
  options.room = ReplayTokensMax(sizing.replay_blocks);
  options.policy_names = KvPolicyLabels();
  options.tenant_name = [&tenants](int32_t tenant) { return tenants.names()[static_cast<size_t>(tenant)]; };
  return std::make_unique<KvAudit>(std::move(options));
}

}  // namespace hydrant
