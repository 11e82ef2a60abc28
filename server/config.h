// Config is what the command line and the configuration file say. Flags mean what vLLM's flags of the same name mean.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_SERVER_CONFIG_H_
#define HYDRANT_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kv/kv_spec.h"
#include "api/wire/durability.h"
#include "kernels/types.h"
#include "model/checkpoint/quantization.h"
#include "scheduler/fairness/tenant.h"
#include "server/adapters/adapter_registry.h"
#include "server/drafts/ngram_drafter.h"
#include "server/http/trusted_proxies.h"
#include "server/process/exit_codes.h"
#include "server/process/limits.h"
#include "server/process/log.h"
#include "server/shared_limits/store_address.h"

namespace hydrant {

struct Config {
  std::string model_path;  // or a hub's name of it (FindModel)
  std::string model_root;  // FoundModel::root
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string replica_id;          // that answers name this server by; empty: they do not
  std::string served_model_name;   // empty: FoundModel::name
  std::string chat_template_path;  // empty: the checkpoint's
  std::string tool_call_parser = "auto";
  std::string generation_override = "{}";  // OverrideDefaults takes it
  std::string api_key;                     // empty: none
  std::string api_key_path;                // of a file that has it; empty: none
  std::string tenants_path;                // empty: one tenant
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFair;
  double tenant_floor_share = 0.125;          // TenantFacts::floor_share
  std::optional<StoreAddress> shared_limits;  // what --shared-limits says
  std::string shared_limits_password_path;    // empty: none
  bool shared_limits_fail_open = true;
  double shared_limits_timeout_s = 0.05;
  std::optional<uint16_t> admin_port;  // 0 picks one
  std::string admin_host = "127.0.0.1";
  std::string admin_socket;      // empty: none
  std::string admin_key;         // empty: none
  std::string admin_key_path;    // of a file that has it; empty: none
  std::string metrics_key_path;  // of a file with the key of /metrics; empty: none
  std::string device = "auto";
  int32_t ranks = 1;                  // devices that compute the model together
  bool enforce_eager = false;         // no CUDA graphs
  std::optional<bool> overlap;        // nullopt: where the device queues
  int32_t threads = 0;                // 0: physical cores
  std::optional<DType> weight_dtype;  // nullopt: auto
  std::optional<KvType> kv_type;      // nullopt: auto
  Quantization quantization = Quantization::kNone;
  int64_t weights_memory_bytes = 0;  // of the matrices; 0: all of them
  std::string weights_image_dir;     // of the image that the others are read from; empty: beside the model
  bool adapters = false;             // LoRA
  int32_t adapters_max = 8;          // in memory at a time
  int32_t adapter_rank_max = 16;
  std::vector<AdapterModule> adapter_modules;  // that are there from the start
  int32_t max_model_len = 0;                   // 0: from the model
  int32_t sequences_max = 256;
  int32_t batch_tokens_max = 2048;
  int32_t prefill_tokens_max = 256;   // of a step that also decodes
  NgramOptions drafts;                // what --speculative-config says
  int64_t kv_cache_memory_bytes = 0;  // 0: not given
  int32_t blocks_override = 0;        // 0: not given
  double memory_utilization = 0;      // 0: not given
  KvSpec kv;                          // server-wide default
  double kv_audit = 0;                // share of the turns under policies that evict; 0: none is audited
  bool prefix_caching = true;
  double swap_space_gib = 0;                    // host memory for sequences that step aside; 0: none does
  std::optional<int64_t> session_memory_bytes;  // nullopt: as large as the pool
  std::vector<std::string> session_headers;     // fields that name a session, lower case, the first that is there
  std::string session_dir;                      // empty: sessions do not outlive the process
  Durability session_durability = Durability::kTokens;  // with it; of tenants that say nothing else
  int64_t session_disk_bytes = int64_t{10} << 30;       // of KV files; 0: there are none
  double session_disk_mbps = 0;                         // most that they are written with behind turns; 0: no limit
  std::string session_key_path;                         // empty: what is in it is not encrypted
  bool session_dir_unsafe = false;                      // on any file system
  double session_purge_s = 3600;                        // until what was deleted leaves its files
  std::string kv_dump_path;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> trusted_proxies;
  TrustedProxies::Field proxy_field = TrustedProxies::Field::kXForwardedFor;
  bool insecure = false;
  bool ui = true;  // serve the live view
  bool allow_core_dumps = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  double shutdown_delay_s = 0;
  double shutdown_timeout_s = 30;
  Limits limits;  // the fields that are flags; the rest is derived

  // Where a setting came from that is not its default: name as in a file of --config -> "flag", "file", "environment" or "socket".
  std::map<std::string, std::string> origins;
};

// Either a config, or a text for the user and the code to exit with.
struct ConfigResult {
  std::optional<Config> config;
  std::string message;  // one line for errors; without a newline at the end
  int exit_code = kExitOk;
};

// The environment variables that keys are read from. They are read once: whoever did may take them out of the environment.
inline constexpr const char* kKeyVariables[] = {"HYDRANT_API_KEY", "HYDRANT_ADMIN_KEY"};
// The flags whose values are keys, likewise.
inline constexpr const char* kKeyFlags[] = {"--api-key", "--admin-api-key"};

// `arguments` without the program's name: `serve MODEL [flags]`; or `families` or `check DIRECTORY` (whether its config.json can be
// served), whose answer is a message. Reads the file of --config and, for keys that no flag gives, the environment variables
// HYDRANT_API_KEY (unless there is a --tenants) and HYDRANT_ADMIN_KEY.
ConfigResult ParseCommandLine(const std::vector<std::string>& arguments);

// What is wrong with listening at `host`, which `name` says, or nothing.
std::string CheckReach(std::string_view name, std::string_view host, bool insecure);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_CONFIG_H_
