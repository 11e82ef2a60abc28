#include "server/limit_store_setup.h"

#include <utility>

namespace hydrant {

absl::Status CheckStorePassword(const Config& config) {
  if (config.shared_limits_password_path.empty()) return absl::OkStatus();
  return LimitStore::ReadPassword(config.shared_limits_password_path).status();
}

std::unique_ptr<LimitStore> MakeLimitStore(const Config& config, Metrics& metrics) {
  if (!config.shared_limits.has_value()) return nullptr;
  LimitStore::Options options;
  options.address = *config.shared_limits;
  options.password_path = config.shared_limits_password_path;
  options.fails_open = config.shared_limits_fail_open;
  options.patience_us = static_cast<int64_t>(config.shared_limits_timeout_s * 1e6);
  options.on_end = [&metrics](AskEnd end, int64_t us) { metrics.CountStoreAsk(end, us); };
  options.on_away = [&metrics](bool away) { metrics.SetStoreAway(away); };
  return std::make_unique<LimitStore>(std::move(options));
}

}  // namespace hydrant
