#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_reader.h"
#include "api/wire/ordered_json.h"
#include "server/generation/generation_defaults.h"
#include "server/http/origin_policy.h"
#include "server/process/ascii_text.h"
#include "server/process/version.h"

namespace hydrant {
namespace {

// Flags the design names and this version has no code for: refused by name, because a server that ignores them would
// not be the server that was asked for.
constexpr const char* kLaterFlags[] = {"--session-dir"};

// What the flags set, before it is checked as a whole.
struct Raw {
  std::string dtype = "auto";
  std::string kv_dtype = "auto";
  std::string kv_policy = "full";
  std::string kv_budget;
  int32_t kv_recent = 0;
  int32_t block_size = kBlockSlots;
  std::string allowed_origins;
  std::string allowed_hosts;
  std::string log_level = "info";
  std::string scheduling_policy = "fair";
  std::optional<uint16_t> admin_port;
  std::string config_path;
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

// The text of a flag's description and its place in --help come from here alone.
void AddModelFlags(CLI::App& app, Config& config, Raw& raw) {
  app.add_option("--device", config.device, "auto, cpu or cuda")->group("Model");
  app.add_flag("--enforce-eager", config.enforce_eager,
               "on a GPU: launch every kernel by itself, without recording CUDA graphs")
      ->group("Model");
  app.add_flag_function(
         "--async-scheduling,!--no-async-scheduling", [&config](int64_t on) { config.overlap = on > 0; },
         "plan the next step while the device computes one (default: on for a GPU)")
      ->group("Model");
  app.add_option("--threads", config.threads, "CPU threads (default: physical cores)")
      ->check(CLI::Range(1, 1024))
      ->group("Model");
  app.add_option("--dtype", raw.dtype, "auto, float32, bfloat16 or float16: what weights are held in")->group("Model");
  app.add_option("--max-model-len", config.max_model_len,
                 "most tokens of a prompt and its completion (default: the model's)")
      ->check(CLI::Range(1, 1 << 24))
      ->group("Model");
  app.add_option("--max-num-seqs", config.sequences_max, "sequences in progress at once")
      ->check(CLI::Range(1, 4096))
      ->group("Model")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", config.batch_tokens_max, "tokens of one step")
      ->check(CLI::Range(32, 1 << 17))
      ->group("Model")
      ->capture_default_str();
  app.add_option("--max-prefill-tokens", config.prefill_tokens_max, "prompt tokens of a step that also decodes")
      ->check(CLI::Range(16, 1 << 17))
      ->group("Model")
      ->capture_default_str();
}

void AddKvFlags(CLI::App& app, Config& config, Raw& raw) {
  app.add_option("--kv-cache-dtype", raw.kv_dtype, "auto, float32, bfloat16 or float16")->group("KV cache");
  app.add_option("--block-size", raw.block_size, "token slots in a block; 16")->group("KV cache");
  app.add_option("--kv-cache-memory-bytes", config.kv_cache_memory_bytes, "memory for keys and values")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->group("KV cache");
  app.add_option("--num-gpu-blocks-override", config.blocks_override, "blocks of the KV pool")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max() / kBlockSlots))
      ->group("KV cache");
  app.add_option("--gpu-memory-utilization", config.memory_utilization, "share of the free memory for keys and values")
      ->check(RealRange(0.001, 1.0))
      ->group("KV cache");
  app.add_option("--kv-policy", raw.kv_policy, absl::StrCat("default policy: ", std::string(KvPresetNames())))
      ->group("KV cache");
  app.add_option("--kv-budget", raw.kv_budget, "default budget: tokens, prompt:RATIO or total:RATIO")
      ->group("KV cache");
  app.add_option("--kv-recent", raw.kv_recent,
                 "default number of newest tokens kept (default: half the budget; h2o-plus: a third)")
      ->check(CLI::Range(1, 1 << 24))
      ->group("KV cache");
  app.add_option("--debug-kv-dump", config.kv_dump_path,
                 "append kept positions and victims of each sequence to this file")
      ->group("KV cache");
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", config.prefix_caching,
               "share computed prefixes between requests of a tenant (default: on)")
      ->group("KV cache");
}

void AddSessionFlags(CLI::App& app, Config& config) {
  app.add_option("--session-memory-bytes", config.session_memory_bytes,
                 "memory for the KV of sessions between their turns (default: as much as the pool); 0 keeps none")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
      ->group("Sessions");
  app.add_option("--session-ttl", config.limits.session_ttl_s,
                 "seconds after its last turn that a session is kept; 0: ever")
      ->check(RealRange(0.0, 1e9))
      ->group("Sessions")
      ->capture_default_str();
}

void AddHttpFlags(CLI::App& app, Config& config, Raw& raw) {
  app.add_option("--host", config.host, "address to listen on")->group("HTTP")->capture_default_str();
  app.add_option("--port", config.port, "port to listen on; 0 picks one")
      ->check(CLI::Range(0, 65535))
      ->group("HTTP")
      ->capture_default_str();
  app.add_option("--served-model-name", config.served_model_name, "name in requests and responses")->group("HTTP");
  app.add_option("--chat-template", config.chat_template_path,
                 "Jinja file to use in place of the checkpoint's template")
      ->group("HTTP");
  app.add_option("--tool-call-parser", config.tool_call_parser,
                 "how the model spells tool calls (default: what its template shows)")
      ->check(CLI::IsMember({"auto", "none", "hermes", "llama3_json", "mistral"}))
      ->group("HTTP");
  app.add_option(
         "--override-generation-config", config.generation_override,
         "JSON of defaults for requests, over generation_config.json; max_new_tokens: of chats without max_tokens")
      ->group("HTTP");
  app.add_option("--api-key", config.api_key, "key that clients must send (or HYDRANT_API_KEY)")->group("HTTP");
  app.add_option("--allowed-origins", raw.allowed_origins, "browser origins let in, comma-separated; * for all")
      ->group("HTTP");
  app.add_option("--allowed-hosts", raw.allowed_hosts, "Host names let in besides our own, comma-separated; * for all")
      ->group("HTTP");
  app.add_flag("--ui,!--no-ui", config.ui, "serve the live view at /ui (default: on)")->group("HTTP");
  app.add_flag("--insecure", config.insecure, "listen beyond loopback without TLS")->group("HTTP");
}

void AddTenantFlags(CLI::App& app, Config& config, Raw& raw) {
  app.add_option("--tenants", config.tenants_path, "JSON file of tenants; read again on SIGHUP")->group("Tenants");
  app.add_option("--scheduling-policy", raw.scheduling_policy,
                 "fair: the tenant served least goes first; fcfs: who came first")
      ->group("Tenants")
      ->capture_default_str();
  app.add_option("--admin-port", raw.admin_port, "port of the admin listener; 0 picks one")
      ->check(CLI::Range(0, 65535))
      ->group("Tenants");
  app.add_option("--admin-host", config.admin_host, "its address")->group("Tenants")->capture_default_str();
  app.add_option("--admin-socket", config.admin_socket, "Unix socket of the admin listener")->group("Tenants");
  app.add_option("--admin-api-key", config.admin_key, "key for the admin listener (or HYDRANT_ADMIN_KEY)")
      ->group("Tenants");
}

void AddLimitFlags(CLI::App& app, Config& config) {
  Limits& limits = config.limits;
  const CLI::Validator seconds = RealRange(0.01, 86400.0);
  const auto timeout = [&](const char* name, double& value, const char* help) {
    app.add_option(name, value, help)->check(seconds)->group("Limits")->capture_default_str();
  };
  timeout("--header-timeout-s", limits.header_timeout_s, "for a request's whole header");
  timeout("--body-timeout-s", limits.body_timeout_s, "for a request's whole body");
  timeout("--keepalive-timeout-s", limits.keepalive_timeout_s, "between two requests of a connection");
  timeout("--stream-stall-s", limits.stream_stall_s, "until a response nobody reads is ended");
  timeout("--engine-stall-s", limits.engine_stall_s, "for one engine step, until /health says 503");
  app.add_option("--shutdown-delay-s", config.shutdown_delay_s,
                 "after SIGTERM or a drain, until new requests are refused; /ready says 503 at once")
      ->check(RealRange(0.0, 86400.0))
      ->group("Limits")
      ->capture_default_str();
  app.add_option("--shutdown-timeout-s", config.shutdown_timeout_s, "for running requests after that")
      ->check(RealRange(0.0, 86400.0))
      ->group("Limits")
      ->capture_default_str();
  app.add_option("--max-connections", limits.connections_max, "open connections")
      ->check(CLI::Range(1, 1'000'000))
      ->group("Limits")
      ->capture_default_str();
  app.add_option("--max-waiting-seqs", limits.waiting_sequences_max, "sequences queued beyond --max-num-seqs")
      ->check(CLI::Range(1, 1'000'000))
      ->group("Limits")
      ->capture_default_str();
  app.add_option("--max-body-bytes", limits.body_bytes_max, "of a request")
      ->check(CLI::Range(int64_t{1024}, int64_t{256} << 20))
      ->group("Limits")
      ->capture_default_str();
}

ConfigResult Fail(int exit_code, std::string message) {
  // One line, whatever a library put into it.
  std::replace(message.begin(), message.end(), '\n', ' ');
  ConfigResult result;
  result.message = std::move(message);
  result.exit_code = exit_code;
  return result;
}

std::optional<DType> DTypeFromName(const std::string& name) {
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16" || name == "half") return DType::kF16;
  return std::nullopt;
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
  if (!config->tenants_path.empty() && !config->api_key.empty()) {
    return "--api-key: with --tenants every key is in its file";
  }
  const auto from_environment = [](const char* name, std::string* value) {
    const char* text = std::getenv(name);
    if (value->empty() && text != nullptr) *value = text;
  };
  if (config->tenants_path.empty()) from_environment("HYDRANT_API_KEY", &config->api_key);
  from_environment("HYDRANT_ADMIN_KEY", &config->admin_key);
  if (raw.scheduling_policy != "fair" && raw.scheduling_policy != "fcfs") {
    return "--scheduling-policy: must be fair or fcfs; 'priority' orders the requests of a tenant under both";
  }
  if (raw.scheduling_policy == "fcfs") config->scheduling_policy = SchedulingPolicy::kFcfs;
  config->admin_port = raw.admin_port;
  if (config->admin_port.has_value() && config->admin_key.empty()) {
    return "--admin-port: needs --admin-api-key or HYDRANT_ADMIN_KEY";
  }
  return "";
}

// What the flags mean together. Returns an error that names the flag, or nothing.
std::string Finish(const Raw& raw, Config* config) {
  if (raw.dtype != "auto") {
    config->weight_dtype = DTypeFromName(raw.dtype);
    if (!config->weight_dtype.has_value()) return "--dtype: must be auto, float32, bfloat16 or float16";
  }
  if (raw.kv_dtype != "auto") {
    config->kv_dtype = DTypeFromName(raw.kv_dtype);
    if (!config->kv_dtype.has_value()) return "--kv-cache-dtype: must be auto, float32, bfloat16 or float16";
  }
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
  config->allowed_origins = SplitList(raw.allowed_origins);
  config->allowed_hosts = SplitList(raw.allowed_hosts);
  static constexpr std::pair<const char*, LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                                                 {"info", LogLevel::kInfo},
                                                                 {"warning", LogLevel::kWarning},
                                                                 {"error", LogLevel::kError}};
  const auto* level = std::find_if(std::begin(kLevels), std::end(kLevels),
                                   [&](const auto& entry) { return raw.log_level == entry.first; });
  if (level == std::end(kLevels)) return "--log-level: must be debug, info, warning or error";
  config->log_level = level->second;
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

std::string LaterFlagIn(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    for (const char* flag : kLaterFlags) {
      if (argument == flag || argument.rfind(std::string(flag) + "=", 0) == 0) return flag;
    }
  }
  return "";
}

// CLI11 takes its arguments last first.
void Parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
}

}  // namespace

std::string CheckReach(std::string_view name, std::string_view host, bool insecure) {
  if (insecure || OriginPolicy::IsLoopback(host)) return "";
  return absl::StrCat(std::string(name), " ", std::string(host),
                      ": beyond loopback the traffic is readable; add --insecure to accept that");
}

ConfigResult ParseCommandLine(const std::vector<std::string>& arguments_in) {
  const std::vector<std::string> arguments = Normalise(arguments_in);
  Config config;
  Raw raw;
  CLI::App app("Hydrant serves language models with a fixed KV-cache budget per sequence.", "hydrantd");
  app.set_version_flag("--version", std::string("hydrantd ") + kVersion);
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "Serve a model over HTTP");
  serve->add_option("model", config.model_path, "a Hugging Face checkpoint directory or a .gguf file")->required();
  AddHttpFlags(*serve, config, raw);
  AddTenantFlags(*serve, config, raw);
  AddModelFlags(*serve, config, raw);
  AddKvFlags(*serve, config, raw);
  AddSessionFlags(*serve, config);
  AddLimitFlags(*serve, config);
  serve->add_option("--log-level", raw.log_level, "debug, info, warning or error")->capture_default_str();
  serve->add_option("--config", raw.config_path, "JSON file with the same keys; a flag wins over it");

  if (const std::string flag = LaterFlagIn(arguments); !flag.empty()) {
    return Fail(kExitUsage, absl::StrCat(flag, ": not supported in this version"));
  }
  try {
    Parse(app, arguments);
    if (!raw.config_path.empty()) {
      std::vector<std::string> from_file = {"serve", config.model_path};
      if (const std::string wrong = ReadConfigFile(raw.config_path, &from_file); !wrong.empty()) {
        return Fail(kExitConfig, wrong);
      }
      if (const std::string flag = LaterFlagIn(from_file); !flag.empty()) {
        return Fail(kExitConfig,
                    absl::StrCat(raw.config_path, ": ", flag.substr(2), ": not supported in this version"));
      }
      const std::string path = raw.config_path;
      config = Config();
      raw = Raw();
      try {
        Parse(app, from_file);
      } catch (const CLI::ParseError& error) {
        return Fail(kExitConfig, absl::StrCat(path, ": ", error.what()));
      }
      Parse(app, arguments);  // over it: what is given again wins
    }
  } catch (const CLI::Success& request) {
    std::ostringstream text;
    app.exit(request, text, text);
    std::string message = text.str();
    while (!message.empty() && message.back() == '\n') message.pop_back();
    ConfigResult result;
    result.message = std::move(message);
    return result;
  } catch (const CLI::ParseError& error) {
    return Fail(kExitUsage, error.what());
  }
  if (const std::string wrong = Finish(raw, &config); !wrong.empty()) return Fail(kExitUsage, wrong);
  ConfigResult result;
  result.config = std::move(config);
  return result;
}

}  // namespace hydrant
