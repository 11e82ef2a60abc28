// TenantConfig is what an operator says about one tenant: who it is, its share, and its limits. Plain data; tenants_file
// reads it, TenantRegistry puts it into force.
//
// Thread: any (plain data).
#ifndef HYDRANT_SERVER_TENANTS_TENANT_CONFIG_H_
#define HYDRANT_SERVER_TENANTS_TENANT_CONFIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/kv/kv_spec.h"
#include "api/wire/durability.h"
#include "server/tenants/key_ring.h"

namespace hydrant {

// Limits that are enforced before a request reaches the engine. 0: none.
struct TenantLimits {
  int32_t concurrency_max = 0;  // open requests
  int64_t rpm = 0;              // requests per minute
  int64_t tpm = 0;              // computed prompt tokens and generated tokens per minute
  int32_t queue_max = 0;        // sequences that wait to be admitted
  int32_t sequences_max = 0;    // sequences that wait or run
};

using AdapterNames = std::set<std::string, std::less<>>;

struct TenantConfig {
  std::string name = "default";
  std::vector<KeyDigest> keys;  // any of them; none: nobody can present one
  double weight = 1.0;
  TenantLimits limits;
  std::optional<KvSpec> kv;        // what its requests get when they say nothing; nullopt: the server's default
  int32_t kv_budget_max = 0;       // most slots a sequence may keep; 0: the context
  int32_t floor_blocks = 0;        // TenantOptions
  bool names_floor = false;        // the file does
  int32_t blocks_max = 0;          // TenantOptions
  int32_t sessions_max = 0;        // sessions kept at a time; 0: no limit of its own
  int64_t session_disk_bytes = 0;  // of --session-dir, for its sessions; 0: no limit of its own
  std::optional<Durability> session_durability;  // of its sessions' turns; nullopt: the server's
  int32_t priority_max = 0;                      // largest `priority` its requests may have
  int32_t max_tokens_max = 0;  // largest `max_tokens`, and the longest answer to a request without one; 0: none
  std::shared_ptr<const AdapterNames> adapters;  // that its requests may ask for; null: all
  double request_seconds_max = 0;                // from a request's head to the end of its answer; 0: none
};

struct TenantsConfig {
  std::vector<TenantConfig> tenants;
  int32_t default_tenant = -1;  // index of who is served without a key; -1: nobody is
};

// Without a tenants file there is one tenant, `default`: whoever presents one of `keys`, or everybody when there is none.
TenantsConfig SingleTenant(std::vector<KeyDigest> keys);
TenantsConfig SingleTenant(const std::string& api_key);  // empty: none

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_TENANT_CONFIG_H_
