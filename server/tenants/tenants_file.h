// Reads the file of --tenants:
//
//   {"tenants": [{"name", "api_keys_sha256": […], "weight", "kv": {"policy", "budget", "recent", "cadence", "budget_max",
//                 "floor_blocks", "blocks_max"}, "sessions_max", "concurrency_max", "rpm", "tpm", "queue_max", "sequences_max",
//                 "priority_max", "max_tokens_max", "request_seconds_max"}, …],
//    "default_tenant": name}
//
// Only `name` is required. Nothing in the file is ignored: an unknown or repeated member is an error, and so is a file
// that others may read.
//
// Thread: any (pure functions, the file aside).
#ifndef HYDRANT_SERVER_TENANTS_TENANTS_FILE_H_
#define HYDRANT_SERVER_TENANTS_TENANTS_FILE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kv/kv_spec.h"
#include "api/wire/api_error.h"
#include "api/wire/durability.h"
#include "server/tenants/tenant_config.h"

namespace hydrant {

// The server's sizes, against which the promises of a file are checked.
struct TenantFacts {
  int32_t blocks = 0;         // of the pool
  int32_t sequences_max = 0;  // in progress at once
  int32_t context = 0;
  KvSpec kv;  // the server's default
  // The part of the pool that tenants without `floor_blocks` have as floors, by weight, where there are several tenants. Less where
  // named floors and a request of a full context leave less; none where too many rows would go with them.
  double floor_share = 0;
  Durability durability = Durability::kNone;  // of sessions, of tenants that say nothing else
  bool keeps_kv_files = false;                // KV can be on the disk: a tenant may have it promised
  // What is wrong with a tenant's `kv` whatever its requests are, on this model and device; null: nothing.
  std::function<std::optional<ApiError>(const KvSpec& spec)> check_kv;
};

// Errors: FAILED_PRECONDITION, one line: "FILE:LINE: …" for text that is not JSON, "FILE: tenants[2].weight: …" for a
// member. A message never holds a key or its digest.
absl::StatusOr<TenantsConfig> ParseTenants(std::string_view text, const std::string& file, const TenantFacts& facts);

// The same of a file (ReadSecretFile).
absl::StatusOr<TenantsConfig> ReadTenantsFile(const std::string& path, const TenantFacts& facts);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_TENANTS_FILE_H_
