// What --shared-limits and its companions make.
//
// Thread: any.
#ifndef HYDRANT_SERVER_LIMIT_STORE_SETUP_H_
#define HYDRANT_SERVER_LIMIT_STORE_SETUP_H_

#include <memory>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/metrics/metrics.h"
#include "server/shared_limits/limit_store.h"

namespace hydrant {

// Whether the store's password can be read, if it has one. Errors: LimitStore::ReadPassword's.
absl::Status CheckStorePassword(const Config& config);

// Counted in `metrics`, which outlives it. Null: limits are this server's alone.
std::unique_ptr<LimitStore> MakeLimitStore(const Config& config, Metrics& metrics);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_LIMIT_STORE_SETUP_H_
