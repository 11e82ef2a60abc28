// The flags of `hydrantd serve`, group by group, and what they set.
//
// Thread: any (pure but for what it is given).
#ifndef HYDRANT_SERVER_CONFIG_FLAGS_H_
#define HYDRANT_SERVER_CONFIG_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/kv_cache_view.h"
#include "server/config.h"

namespace CLI {
class App;
}

namespace hydrant {

// What the flags set, before it is checked as a whole.
struct RawConfig {
  std::string dtype = "auto", kv_type = "auto", quantization;
  std::string kv_policy = "full", kv_budget, kv_recall = "off";
  int32_t kv_recent = 0, block_size = kBlockSlots;
  std::string allowed_origins, allowed_hosts, trusted_proxies, config_path;
  std::string proxy_header = "x-forwarded-for", log_level = "info", log_format = "text", scheduling_policy = "fair";
  std::string session_durability, session_headers, adapter_modules;
  std::string shared_limits, shared_limits_fail = "open";
  std::string speculative_config;
  std::optional<uint16_t> admin_port;
};

// All of `text` as a number; nullopt: it is none.
std::optional<double> ParseReal(const std::string& text);

// Gives `app` every flag of the command but its model, and the page of its --help. Parsing then writes into `config` and `raw`, which
// outlive `app`.
void AddServeFlags(CLI::App& app, Config& config, RawConfig& raw);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_CONFIG_FLAGS_H_
