#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/flags/command_line.h"
#include "api/flags/flag_group.h"
#include "api/flags/help_page.h"
#include "api/wire/json_body.h"
#include "api/wire/nearest_name.h"
#include "api/wire/ordered_json.h"
#include "api/wire/version.h"
#include "kernels/kv_cache_view.h"
#include "server/commands.h"
#include "server/generation/chat_setup.h"
#include "server/generation/generation_defaults.h"
#include "server/http/origin_policy.h"
#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

constexpr size_t kProxiesMax = 64;  // all are compared for each connection

// What the flags set, before it is checked as a whole.
struct Raw {
  std::string dtype = "auto", kv_type = "auto", quantization;
  std::string kv_policy = "full", kv_budget;
  int32_t kv_recent = 0, block_size = kBlockSlots;
  std::string allowed_origins, allowed_hosts, trusted_proxies, config_path;
  std::string proxy_header = "x-forwarded-for", log_level = "info", log_format = "text", scheduling_policy = "fair";
  std::string session_durability;
  std::optional<uint16_t> admin_port;
};

std::optional<double> ParseNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

// CLI::Range takes nan for a number inside any range.
CLI::Validator RealRange(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        const std::optional<double> value = ParseNumber(text);
        return value.has_value() && *value >= low && *value <= high
                   ? std::string()
                   : absl::StrCat("must be a number in [", low, ", ", high, "]");
      },
      absl::StrCat("NUMBER in [", low, " - ", high, "]"));
}

constexpr char kHelpCommand[] = "hydrantd --help-all";  // what lists the flags

// What --help shows; --help-all has every flag.
const char* const kEssentialFlags[] = {"--host",
                                       "--port",
                                       "--served-model-name",
                                       "--api-key",
                                       "--insecure",
                                       "--tenants",
                                       "--admin-port",
                                       "--admin-api-key",
                                       "--device",
                                       "--threads",
                                       "--dtype",
                                       "--max-model-len",
                                       "--max-num-seqs",
                                       "--kv-policy",
                                       "--kv-budget",
                                       "--session-ttl",
                                       "--config",
                                       "--kv-cache-memory-bytes",
                                       "--log-level",
                                       "--session-memory-bytes",
                                       "--max-body-bytes",
                                       "--max-waiting-seqs",
                                       "--shutdown-timeout-s",
                                       "--help",
                                       "--help-all"};

void AddHttpFlags(CLI::App& app, Config& config, Raw& raw) {
  const FlagGroup group(app, "HTTP");
  group.AddWithDefault("--host", "ADDRESS", config.host, "address to listen on");
  group.AddWithDefault("--port", "PORT", config.port, "port to listen on; 0 picks a free one")
      ->check(CLI::Range(0, 65535));
  group.Add("--served-model-name", "NAME", config.served_model_name,
            "the model's name in requests and responses (default: the name of the file or folder)");
  group.Add("--chat-template", "FILE", config.chat_template_path, "Jinja template instead of the checkpoint's");
  group.AddWithDefault("--tool-call-parser", "NAME", config.tool_call_parser, "format of tool calls, by docs/chats.md")
      ->check(CLI::IsMember(ToolCallParserNames()));
  group.Add("--override-generation-config", "JSON", config.generation_override,
            "defaults of request fields, over generation_config.json's; max_new_tokens is that of chats");
  group.Add("--api-key", "KEY", config.api_key, "key that clients must send (or the variable HYDRANT_API_KEY)");
  group.Add("--api-key-file", "FILE", config.api_key_path,
            "file with that key, or two of them, one a line; SIGHUP reads it again");
  group.Add("--allowed-origins", "LIST", raw.allowed_origins,
            "browser origins to allow, comma-separated; * allows all");
  group.Add("--allowed-hosts", "LIST", raw.allowed_hosts,
            "Host names to allow besides our own, comma-separated; * allows all");
  group.Add("--trusted-proxies", "LIST", raw.trusted_proxies,
            "addresses and networks whose word for a client's address is taken, comma-separated");
  group.AddWithDefault("--proxy-header", "NAME", raw.proxy_header,
                       "the field that they write it into: x-forwarded-for or forwarded");
  group.AddSwitch("--ui,!--no-ui", config.ui, "serve the live view at /ui (default: on)");
  group.AddSwitch("--insecure", config.insecure,
                  "allow --host and --admin-host beyond loopback, although there is no TLS");
}

void AddTenantFlags(CLI::App& app, Config& config, Raw& raw) {
  const FlagGroup group(app, "Tenants and administration");
  group.Add("--tenants", "FILE", config.tenants_path, "JSON file of tenants; SIGHUP reads it again");
  group.AddWithDefault("--scheduling-policy", "fair|fcfs", raw.scheduling_policy,
                       "who goes first: the tenant served least, or the request that came first");
  group
      .AddWithDefault("--tenant-floor-share", "SHARE", config.tenant_floor_share,
                      "part of the KV pool that is kept for tenants without floor_blocks, by weight")
      ->check(RealRange(0.0, 0.9));
  group.Add("--admin-port", "PORT", raw.admin_port, "port of the admin listener; 0 picks a free one (default: none)")
      ->check(CLI::Range(0, 65535));
  group.AddWithDefault("--admin-host", "ADDRESS", config.admin_host, "address of the admin listener");
  group.Add("--admin-socket", "PATH", config.admin_socket, "Unix socket of the admin listener (default: none)");
  group.Add("--admin-api-key", "KEY", config.admin_key,
            "key of the admin listener (or the variable HYDRANT_ADMIN_KEY)");
  group.Add("--admin-api-key-file", "FILE", config.admin_key_path,
            "file with that key, or two of them, one a line; SIGHUP reads it again");
  group.Add("--metrics-api-key-file", "FILE", config.metrics_key_path,
            "file with one or two keys of /metrics, which then needs one; SIGHUP reads it again");
}

void AddModelFlags(CLI::App& app, Config& config, Raw& raw) {
  const FlagGroup group(app, "Model and steps");
  group.AddWithDefault("--device", "auto|cpu|cuda", config.device, "where the model runs");
  group.AddSwitch("--enforce-eager", config.enforce_eager, "on a GPU: launch each kernel alone, without CUDA graphs");
  app.add_flag_function(
         "--async-scheduling,!--no-async-scheduling", [&config](int64_t on) { config.overlap = on > 0; },
         "plan the next step while the device computes one (default: on for a GPU)")
      ->group("Model and steps");
  group.Add("--threads", "N", config.threads, "CPU threads (default: the physical cores)")->check(CLI::Range(1, 1024));
  group.AddWithDefault("--dtype", "TYPE", raw.dtype,
                       "type of the weights: auto (as they are stored), float32, bfloat16 or float16");
  group
      .Add("--quantization", "METHOD", raw.quantization,
           "quantise weights at load (int8, int4), or say what they are (gguf, gptq, awq, compressed-tensors, fp8, "
           "mxfp4)")
      ->check(CLI::IsMember(std::vector<std::string>(QuantizationNames().begin(), QuantizationNames().end())));
  group
      .Add("--max-model-len", "TOKENS", config.max_model_len,
           "longest prompt and completion together (default: the model's context)")
      ->check(CLI::Range(1, 1 << 24));
  group.AddWithDefault("--max-num-seqs", "N", config.sequences_max, "most sequences that run at once")
      ->check(CLI::Range(1, 4096));
  group.AddWithDefault("--max-num-batched-tokens", "TOKENS", config.batch_tokens_max, "most tokens of one step")
      ->check(CLI::Range(32, 1 << 17));
  group
      .AddWithDefault("--max-prefill-tokens", "TOKENS", config.prefill_tokens_max,
                      "most prompt tokens of a step that also decodes")
      ->check(CLI::Range(16, 1 << 17));
}

void AddKvFlags(CLI::App& app, Config& config, Raw& raw) {
  const FlagGroup group(app, "KV cache");
  group.Add("--kv-policy", "NAME", raw.kv_policy, absl::StrCat("default policy: ", std::string(KvPresetNames())));
  group.Add("--kv-budget", "BUDGET", raw.kv_budget, "default budget: a number of tokens, prompt:RATIO or total:RATIO");
  group
      .Add("--kv-recent", "TOKENS", raw.kv_recent,
           "newest tokens that are always kept (default: half the budget; h2o-plus: a third)")
      ->check(CLI::Range(1, 1 << 24));
  group.AddWithDefault("--kv-cache-dtype", "TYPE", raw.kv_type,
                       "type of cached keys and values: auto (as the weights), float32, bfloat16, float16, int8");
  group.AddWithDefault("--block-size", "TOKENS", raw.block_size, "token slots of a block; only 16 is supported");
  group
      .Add("--kv-cache-memory-bytes", "BYTES", config.kv_cache_memory_bytes,
           "size of the KV pool (default: a share of the free memory)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  group
      .Add("--num-gpu-blocks-override", "BLOCKS", config.blocks_override, "size of the KV pool in blocks of 16 tokens")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max() / kBlockSlots));
  group
      .Add("--gpu-memory-utilization", "SHARE", config.memory_utilization,
           "size of the KV pool as a share of the free memory (default: 0.25 of the host's, 0.9 of a GPU's)")
      ->check(RealRange(0.001, 1.0));
  group.AddSwitch("--enable-prefix-caching,!--no-enable-prefix-caching", config.prefix_caching,
                  "share the KV of common prefixes between requests of a tenant (default: on)");
  group
      .AddWithDefault("--swap-space", "GIB", config.swap_space_gib,
                      "host memory for sequences that step aside when the pool is full; 0: each reserves all it needs")
      ->check(RealRange(0.0, 1 << 20));
  group.Add("--debug-kv-dump", "FILE", config.kv_dump_path,
            "append the kept positions and the victims of each sequence to this file");
}

void AddSessionFlags(CLI::App& app, Config& config, Raw& raw) {
  const FlagGroup group(app, "Sessions");
  const auto real = [&](const char* flag, const char* unit, double& value, double least, const char* text) {
    group.AddWithDefault(flag, unit, value, text)->check(RealRange(least, 1e9));
  };
  const auto bytes = [](CLI::Option* option) { option->check(CLI::Range(int64_t{0}, int64_t{1} << 50)); };
  group.Add("--session-dir", "DIRECTORY", config.session_dir,
            "directory where sessions outlive the server; each process has its own (default: none)");
  group.Add("--session-key-file", "FILE", config.session_key_path,
            "encrypt --session-dir with the key in this file; of two keys the first encrypts (default: none)");
  group.AddSwitch("--session-dir-unsafe", config.session_dir_unsafe,
                  "allow --session-dir on NFS, or in a container's own layer (overlayfs)");
  real("--session-purge-s", "SECONDS", config.session_purge_s, 0.0,
       "time until what deleted sessions said leaves the files of --session-dir");
  group
      .Add("--session-durability", "PROMISE", raw.session_durability,
           "none, tokens or kv: what is on disk before a turn's end is told (default: tokens with --session-dir)")
      ->check(CLI::IsMember({"none", "tokens", "kv"}));
  bytes(group.AddWithDefault("--session-disk-bytes", "BYTES", config.session_disk_bytes,
                             "of --session-dir for sessions' KV; 0: none is kept there"));
  bytes(group.Add(
      "--session-memory-bytes", "BYTES", config.session_memory_bytes,
      "host memory for sessions' KV between turns; 0: none (default: as the pool, half of what is left at most)"));
  real("--session-disk-mbps", "MB/S", config.session_disk_mbps, 0.0,
       "most that KV is written with for which no turn waits; 0: no limit");
  real("--session-read-timeout-s", "SECONDS", config.limits.session_read_timeout_s, 0.01,
       "longest that a turn waits for its KV from the disk before its history is computed instead");
  real("--session-ttl", "SECONDS", config.limits.session_ttl_s, 0.0,
       "how long a session is kept after its last turn; 0: for ever");
}

void AddLimitFlags(CLI::App& app, Config& config) {
  const FlagGroup group(app, "Limits");
  Limits& limits = config.limits;
  const auto timeout = [&](const char* flag, double& value, const char* text) {
    group.AddWithDefault(flag, "SECONDS", value, text)->check(RealRange(0.01, 86400.0));
  };
  const auto seconds_or_none = [&](const char* flag, double& value, const char* text) {
    group.AddWithDefault(flag, "SECONDS", value, text)->check(RealRange(0.0, 86400.0));
  };
  timeout("--header-timeout-s", limits.header_timeout_s, "time for the whole header of a request");
  timeout("--body-timeout-s", limits.body_timeout_s, "time for the whole body of a request");
  timeout("--keepalive-timeout-s", limits.keepalive_timeout_s, "longest pause between two requests of a connection");
  timeout("--stream-stall-s", limits.stream_stall_s,
          "time after which a response that the client does not read is ended");
  timeout("--engine-stall-s", limits.engine_stall_s, "length of an engine step after which /health answers 503");
  seconds_or_none("--request-timeout-s", limits.request_timeout_s,
                  "time for a request, from its head to the end of its answer; then 504; 0: no limit");
  seconds_or_none("--queue-timeout-s", limits.queue_timeout_s,
                  "time from a request's head to the admission of its first sequence; then 504; 0: no limit");
  seconds_or_none("--shutdown-delay-s", config.shutdown_delay_s,
                  "time after SIGTERM or a drain until new requests are refused; /ready answers 503 at once");
  seconds_or_none("--shutdown-timeout-s", config.shutdown_timeout_s,
                  "time after SIGTERM and --shutdown-delay-s for running requests to end");
  group.AddWithDefault("--max-connections", "N", limits.connections_max, "most open connections")
      ->check(CLI::Range(1, 1'000'000));
  group
      .Add("--max-connections-per-address", "N", limits.connections_per_address_max,
           "of those, from one address or IPv6 /64 (default: a quarter; any number from this host)")
      ->check(CLI::Range(1, 1'000'000));
  group
      .AddWithDefault("--max-waiting-seqs", "N", limits.waiting_sequences_max, "most sequences that wait for admission")
      ->check(CLI::Range(1, 1'000'000));
  group.AddWithDefault("--max-body-bytes", "BYTES", limits.body_bytes_max, "largest body of a request")
      ->check(CLI::Range(int64_t{1024}, int64_t{256} << 20));
  group
      .AddWithDefault("--max-held-bytes", "BYTES", limits.held_bytes_max,
                      "bodies on their way in and answers on their way out, of all requests")
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 40));
}

// What CLI11 calls Options: the flags of no group, the last of --help.
void AddGeneralFlags(CLI::App& app, Config& config, Raw& raw) {
  app.set_help_flag("-h,--help", "print the flags that most operators need, and exit");
  app.set_help_all_flag("--help-all", "print every flag, and exit");
  app.add_option("--config", raw.config_path, "JSON file with the flags' names as keys; a flag wins over it")
      ->type_name("FILE");
  app.add_flag("--allow-core-dumps", config.allow_core_dumps,
               "let a crash write the process's memory, with prompts, keys and weights, and let debuggers attach");
  app.add_option("--log-level", raw.log_level,
                 "least severe level to log: debug (also how the limits were derived), info, warning or error")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", raw.log_format, "text, or json: an object per line")
      ->type_name("FORMAT")
      ->capture_default_str();
}

ConfigResult Fail(int exit_code, std::string message) {
  ConfigResult result;
  result.message = OneLine(std::move(message));
  result.exit_code = exit_code;
  return result;
}

std::optional<DType> DTypeFromName(const std::string& name) {
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16" || name == "half") return DType::kF16;
  return std::nullopt;
}

std::optional<KvType> KvTypeFromName(const std::string& name) {
  if (name == "int8" || name == "int8_per_token_head") return KvType::kInt8;  // the second is vLLM's
  const std::optional<DType> dtype = DTypeFromName(name);
  return dtype.has_value() ? std::optional(KvTypeOf(*dtype)) : std::nullopt;
}

// "256", "prompt:0.2", "total:0.2". Empty: unset. Returns what is wrong.
std::string ParseBudget(const std::string& text, KvSpec* kv) {
  static constexpr char kForm[] = "must be a number of tokens, prompt:RATIO or total:RATIO";
  if (text.empty()) return "";
  const size_t colon = text.find(':');
  const std::optional<double> value = ParseNumber(colon == std::string::npos ? text : text.substr(colon + 1));
  if (!value.has_value()) return kForm;
  if (colon == std::string::npos) {
    if (!(*value >= 1 && *value <= 1 << 24) || *value != static_cast<int32_t>(*value)) return kForm;
    kv->budget_kind = KvBudgetKind::kTokens;
    kv->budget_tokens = static_cast<int32_t>(*value);
    return "";
  }
  const std::string kind = text.substr(0, colon);
  if ((kind != "prompt" && kind != "total") || !(*value > 0 && *value <= 1)) return kForm;
  kv->budget_kind = kind == "prompt" ? KvBudgetKind::kRatioOfPrompt : KvBudgetKind::kRatioOfTotal;
  kv->budget_ratio = *value;
  return "";
}

// The part of Finish about who may use the server.
std::string FinishTenants(const Raw& raw, Config* config) {
  if (!config->tenants_path.empty() && !(config->api_key.empty() && config->api_key_path.empty())) {
    return absl::StrCat(config->api_key.empty() ? "--api-key-file" : "--api-key",
                        ": with --tenants every key is in its file");
  }
  if (!config->api_key.empty() && !config->api_key_path.empty()) return "--api-key, --api-key-file: give one of them";
  if (!config->admin_key.empty() && !config->admin_key_path.empty()) {
    return "--admin-api-key, --admin-api-key-file: give one of them";
  }
  const auto from_environment = [config](const char* variable, const char* setting, std::string* value) {
    const char* text = std::getenv(variable);
    if (!value->empty() || text == nullptr) return;
    *value = text;
    config->origins[setting] = "environment";
  };
  if (config->tenants_path.empty() && config->api_key_path.empty()) {
    from_environment("HYDRANT_API_KEY", "api_key", &config->api_key);
  }
  if (config->admin_key_path.empty()) from_environment("HYDRANT_ADMIN_KEY", "admin_api_key", &config->admin_key);
  if (raw.scheduling_policy != "fair" && raw.scheduling_policy != "fcfs") {
    return "--scheduling-policy: must be fair or fcfs; 'priority' orders the requests of a tenant under both";
  }
  if (raw.scheduling_policy == "fcfs") config->scheduling_policy = SchedulingPolicy::kFcfs;
  config->admin_port = raw.admin_port;
  if (config->admin_port.has_value() && config->admin_key.empty() && config->admin_key_path.empty()) {
    return "--admin-port: needs --admin-api-key or HYDRANT_ADMIN_KEY, or --admin-api-key-file";
  }
  return "";
}

// Empty: nothing is wrong.
std::string FinishSessions(const Raw& raw, Config* config) {
  const std::string& said = raw.session_durability;
  if ((said == "tokens" || said == "kv") && config->session_dir.empty()) {
    return absl::StrCat("--session-durability: ", said, " needs --session-dir");
  }
  if (config->session_dir.empty() && !config->session_key_path.empty()) return "--session-key-file needs --session-dir";
  if (said == "kv" && config->session_disk_bytes == 0) return "--session-durability: kv needs --session-disk-bytes";
  if (said == "kv" && config->session_memory_bytes == 0) return "--session-durability: kv needs --session-memory-bytes";
  config->session_durability = said == "none" ? Durability::kNone
                               : said == "kv" ? Durability::kKv
                                              : Durability::kTokens;
  return "";
}

// The part of Finish about proxies.
std::string FinishProxies(const Raw& raw, Config* config) {
  if (EqualsIgnoreCase(raw.proxy_header, "forwarded")) {
    config->proxy_field = TrustedProxies::Field::kForwarded;
  } else if (!EqualsIgnoreCase(raw.proxy_header, "x-forwarded-for")) {
    return "--proxy-header: must be x-forwarded-for or forwarded";
  }
  config->trusted_proxies = SplitList(raw.trusted_proxies);
  if (config->trusted_proxies.size() > kProxiesMax) {
    return absl::StrCat("--trusted-proxies: at most ", kProxiesMax, " addresses and networks");
  }
  std::string wrong;
  if (!TrustedProxies::Parse(config->trusted_proxies, config->proxy_field, &wrong).has_value()) {
    return absl::StrCat("--trusted-proxies: ", wrong, ": must be an address, or a network such as 10.0.0.0/8");
  }
  return "";
}

// What the flags mean together. Returns an error that names the flag, or nothing.
std::string Finish(const Raw& raw, Config* config) {
  if (raw.dtype != "auto") {
    config->weight_dtype = DTypeFromName(raw.dtype);
    if (!config->weight_dtype.has_value()) return "--dtype: must be auto, float32, bfloat16 or float16";
  }
  if (raw.kv_type != "auto") {
    config->kv_type = KvTypeFromName(raw.kv_type);
    if (raw.kv_type.starts_with("fp8")) {  // vLLM has several such names
      return absl::StrCat("--kv-cache-dtype ", raw.kv_type,
                          " is not supported: int8 takes the same memory and is closer to what it rounds");
    }
    if (!config->kv_type.has_value()) {
      return "--kv-cache-dtype: must be auto, float32, bfloat16, float16 or int8";
    }
  }
  config->quantization = QuantizationFromName(raw.quantization).value_or(Quantization::kNone);
  if (config->device != "auto" && config->device != "cpu" && config->device != "cuda") {
    return "--device: must be auto, cpu or cuda";
  }
  if (raw.block_size != kBlockSlots) return "--block-size: only 16 is supported";
  const std::optional<KvPreset> preset = KvPresetFromName(raw.kv_policy);
  if (!preset.has_value()) return absl::StrCat("--kv-policy: must be one of ", std::string(KvPresetNames()));
  config->kv.preset = *preset;
  if (const std::string wrong = ParseBudget(raw.kv_budget, &config->kv); !wrong.empty()) {
    return absl::StrCat("--kv-budget: ", wrong);
  }
  if (raw.kv_recent > 0) config->kv.recent = raw.kv_recent;
  if (*preset == KvPreset::kFull && (!raw.kv_budget.empty() || raw.kv_recent > 0)) {
    return "--kv-budget, --kv-recent: need a --kv-policy other than full";
  }
  if (*preset != KvPreset::kFull && *preset != KvPreset::kH2oStreaming && raw.kv_budget.empty())
    return "--kv-budget: required with this --kv-policy";
  if (const auto error = CheckKvSpec(config->kv, 1 << 24)) return absl::StrCat("--kv-policy: ", error->message);
  RequestContext defaults;
  if (const std::string wrong = OverrideDefaults(config->generation_override, &defaults); !wrong.empty()) {
    return absl::StrCat("--override-generation-config: ", wrong);
  }
  if (config->limits.held_bytes_max < 2 * config->limits.body_bytes_max) {
    return "--max-held-bytes: must be at least twice --max-body-bytes";
  }
  if (std::string wrong = FinishSessions(raw, config); !wrong.empty()) return wrong;
  config->allowed_origins = SplitList(raw.allowed_origins);
  config->allowed_hosts = SplitList(raw.allowed_hosts);
  if (std::string wrong = FinishProxies(raw, config); !wrong.empty()) return wrong;
  const std::optional<LogLevel> level = LogLevelOf(raw.log_level);
  if (!level.has_value()) return "--log-level: must be debug, info, warning or error";
  config->log_level = *level;
  if (raw.log_format != "text" && raw.log_format != "json") return "--log-format: must be text or json";
  config->log_format = raw.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  const std::pair<const char*, const std::string&> hosts[] = {{"--host", config->host},
                                                              {"--admin-host", config->admin_host}};
  for (const auto& [flag, host] : hosts) {
    if (std::string wrong = CheckReach(flag, host, config->insecure); !wrong.empty()) return wrong;
  }
  return FinishTenants(raw, config);
}

// The members of a configuration file as arguments: {"max_num_seqs": 8} -> --max-num-seqs=8.
std::string ReadConfigFile(const std::string& path, std::vector<std::string>* arguments) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return absl::StrCat(path, ": cannot be read");
  ApiResult<JsonBody> document = JsonBody::Parse(text.str(), RequestLimits());
  if (!document.ok()) return absl::StrCat(path, ": ", document.error().message);
  const JsonView root = document.value().root();
  if (!root.is_object()) return absl::StrCat(path, ": must be a JSON object");
  for (JsonView member = root.first(); member.valid(); member = member.next()) {
    std::string name(member.key());
    std::replace(name.begin(), name.end(), '_', '-');
    std::string flag = "--" + name;
    if (member.absent()) continue;
    if (member.is_bool()) {
      // A flag that is off is a flag that is not there, but for those that are on without being asked for.
      const bool on_by_itself = flag == "--enable-prefix-caching" || flag == "--async-scheduling" || flag == "--ui";
      if (!member.boolean() && !on_by_itself) continue;
      if (!member.boolean()) flag = "--no-" + flag.substr(2);
      arguments->push_back(flag);
    } else if (member.is_string()) {
      arguments->push_back(absl::StrCat(flag, "=", std::string(member.string())));
    } else if (member.is_integer() && member.integer().has_value()) {
      arguments->push_back(absl::StrCat(flag, "=", *member.integer()));
    } else if (member.is_number()) {
      arguments->push_back(absl::StrCat(flag, "=", member.number()));
    } else if (member.is_array()) {
      std::string joined;
      for (JsonView item = member.first(); item.valid(); item = item.next()) {
        if (!item.is_string()) return absl::StrCat(path, ": ", name, ": must be an array of strings");
        absl::StrAppend(&joined, joined.empty() ? "" : ",", std::string(item.string()));
      }
      arguments->push_back(absl::StrCat(flag, "=", joined));
    } else if (std::optional<nlohmann::ordered_json> object = OrderedJson(member);
               object.has_value() && flag == "--override-generation-config") {
      arguments->push_back(absl::StrCat(flag, "=", object->dump()));
    } else {
      return absl::StrCat(path, ": ", name, ": has the wrong type");
    }
  }
  return "";
}

// Notes what was set by the arguments that `app` has just parsed.
void NoteOrigins(const CLI::App& app, const std::string& origin, std::map<std::string, std::string>* origins) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    std::string name = option->get_single_name();
    std::replace(name.begin(), name.end(), '-', '_');
    (*origins)[name] = origin;
  }
}

// vLLM takes - and _ for each other in flag names.
std::vector<std::string> Normalise(const std::vector<std::string>& arguments) {
  std::vector<std::string> normal = arguments;
  for (std::string& argument : normal) {
    if (argument.rfind("--", 0) != 0) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin() + 2, argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return normal;
}

ConfigResult ResultOf(CommandAnswer answer) {
  if (answer.exit_code != kExitOk) return Fail(answer.exit_code, std::move(answer.message));
  return {.config = std::nullopt, .message = std::move(answer.message)};
}

}  // namespace

std::string CheckReach(std::string_view name, std::string_view host, bool insecure) {
  if (insecure || OriginPolicy::IsLoopback(host)) return "";
  return absl::StrCat(std::string(name), " ", std::string(host),
                      ": beyond loopback the traffic is readable; add --insecure to accept that");
}

ConfigResult ParseCommandLine(const std::vector<std::string>& arguments_in) {
  std::vector<std::string> arguments = Normalise(arguments_in);
  // There is one command, so its flags are what a question for help is about.
  if (arguments.size() == 1 && (arguments[0] == "-h" || arguments[0] == "--help" || arguments[0] == "--help-all")) {
    arguments.insert(arguments.begin(), "serve");
  }
  if (std::optional<CommandAnswer> answer = AnswerCommand(arguments)) return ResultOf(*std::move(answer));
  Config config;
  Raw raw;
  CLI::App app("", "hydrantd");
  app.set_version_flag("--version", std::string("hydrantd ") + kVersion);
  app.require_subcommand(1);
  CLI::App* serve =
      app.add_subcommand("serve",
                         "Serves a model over HTTP with a fixed budget of KV cache per sequence.\n"
                         "MODEL is a Hugging Face checkpoint directory, a .gguf file, or the name of a model in the\n"
                         "Hugging Face cache: org/name, or org/name:Q4_K_M for one GGUF file of several.");
  serve->formatter(
      std::make_shared<HelpPage>(std::set<std::string>(std::begin(kEssentialFlags), std::end(kEssentialFlags))));
  serve->add_option("model", config.model_path, "")->required();
  AddHttpFlags(*serve, config, raw);
  AddTenantFlags(*serve, config, raw);
  AddModelFlags(*serve, config, raw);
  AddKvFlags(*serve, config, raw);
  AddSessionFlags(*serve, config, raw);
  AddLimitFlags(*serve, config);
  AddGeneralFlags(*serve, config, raw);

  if (arguments.front() == "serve") {
    if (const std::string wrong = WrongFlag(*serve, arguments, kHelpCommand); !wrong.empty())
      return Fail(kExitUsage, wrong);
  }
  std::map<std::string, std::string> origins;
  try {
    ParseArguments(app, arguments);
    if (!raw.config_path.empty()) {
      const std::string path = raw.config_path;
      std::vector<std::string> from_file = {"serve", config.model_path};
      if (const std::string wrong = ReadConfigFile(path, &from_file); !wrong.empty()) return Fail(kExitConfig, wrong);
      if (const std::string wrong = WrongFlag(*serve, from_file, kHelpCommand); !wrong.empty()) {
        return Fail(kExitConfig, absl::StrCat(path, ": ", wrong));
      }
      config = Config();
      raw = Raw();
      try {
        ParseArguments(app, from_file);
      } catch (const CLI::ParseError& error) {
        return Fail(kExitConfig, absl::StrCat(path, ": ", error.what()));
      }
      NoteOrigins(*serve, "file", &origins);
      ParseArguments(app, arguments);  // over it: what is given again wins
    }
    NoteOrigins(*serve, "flag", &origins);
  } catch (const CLI::Success& request) {
    ConfigResult result;
    result.message = AnswerOf(app, request);
    return result;
  } catch (const CLI::RequiredError&) {
    return Fail(kExitUsage, "MODEL is missing: hydrantd serve MODEL [flags]");
  } catch (const CLI::ParseError& error) {
    return Fail(kExitUsage, error.what());
  }
  config.origins = std::move(origins);
  if (const std::string wrong = Finish(raw, &config); !wrong.empty()) return Fail(kExitUsage, wrong);
  ConfigResult result;
  result.config = std::move(config);
  return result;
}

}  // namespace hydrant
