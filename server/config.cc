#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/flags/command_line.h"
#include "api/wire/json_body.h"
#include "api/wire/nearest_name.h"
#include "api/wire/ordered_json.h"
#include "api/wire/version.h"
#include "kernels/kv_cache_view.h"
#include "server/commands.h"
#include "server/config_flags.h"
#include "server/foreign_flags.h"
#include "server/generation/generation_defaults.h"
#include "server/http/allow_list.h"
#include "server/http/origin_policy.h"
#include "server/process/ascii_text.h"
#include "server/speculative_config.h"
#include "server/tenants/rotating_keys.h"
#include "server/tensor_parallel.h"

namespace hydrant {
namespace {

constexpr size_t kProxiesMax = 64;         // all are compared for each connection
constexpr size_t kSessionHeadersMax = 16;  // all are looked for in each request
constexpr size_t kReplicaIdBytesMax = 128;

constexpr char kHelpCommand[] = "hydrantd --help-all";  // what lists the flags

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
  const std::optional<double> value = ParseReal(colon == std::string::npos ? text : text.substr(colon + 1));
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

// "--api-key" for "api_key".
std::string FlagOf(std::string setting) {
  std::replace(setting.begin(), setting.end(), '_', '-');
  return "--" + setting;
}

// What is wrong with the keys that flags give, and with where keys are. An empty one is a variable of somebody's script that is not
// set, and would leave the server open.
std::string WrongKeys(const Config& config) {
  const std::pair<const char*, const std::string&> given[] = {{"api_key", config.api_key},
                                                              {"api_key_file", config.api_key_path},
                                                              {"admin_api_key", config.admin_key},
                                                              {"admin_api_key_file", config.admin_key_path},
                                                              {"metrics_api_key_file", config.metrics_key_path},
                                                              {"tenants", config.tenants_path}};
  for (const auto& [setting, value] : given) {
    if (value.empty() && config.origins.contains(setting)) return absl::StrCat(FlagOf(setting), ": must not be empty");
  }
  return "";
}

// Takes a key that no flag gave from the environment, where an empty variable is none. Returns what is wrong with it.
std::string FinishKey(const std::string& setting, const char* variable, std::string* key, Config* config) {
  const char* const text = std::getenv(variable);
  const bool from_environment = key->empty() && text != nullptr;
  if (from_environment) {
    *key = text;
    config->origins[setting] = "environment";
  }
  const std::string wrong = key->empty() ? "" : WrongKey(*key);
  if (wrong.empty()) return "";
  return absl::StrCat(from_environment ? variable : FlagOf(setting), ": ", wrong);
}

// The part of Finish about who may use the server.
std::string FinishTenants(const RawConfig& raw, Config* config) {
  if (std::string wrong = WrongKeys(*config); !wrong.empty()) return wrong;
  if (!config->tenants_path.empty() && !(config->api_key.empty() && config->api_key_path.empty())) {
    return absl::StrCat(config->api_key.empty() ? "--api-key-file" : "--api-key",
                        ": with --tenants every key is in its file");
  }
  if (!config->api_key.empty() && !config->api_key_path.empty()) return "--api-key, --api-key-file: give one of them";
  if (!config->admin_key.empty() && !config->admin_key_path.empty()) {
    return "--admin-api-key, --admin-api-key-file: give one of them";
  }
  if (config->tenants_path.empty() && config->api_key_path.empty()) {
    if (std::string wrong = FinishKey("api_key", "HYDRANT_API_KEY", &config->api_key, config); !wrong.empty())
      return wrong;
  }
  if (config->admin_key_path.empty()) {
    std::string wrong = FinishKey("admin_api_key", "HYDRANT_ADMIN_KEY", &config->admin_key, config);
    if (!wrong.empty()) return wrong;
  }
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

// The part of Finish about limits that several servers share.
std::string FinishSharedLimits(const RawConfig& raw, Config* config) {
  config->shared_limits_fail_open = raw.shared_limits_fail == "open";
  if (raw.shared_limits.empty()) {
    for (const char* setting : {"shared_limits_fail", "shared_limits_password_file", "shared_limits_timeout_s"}) {
      if (config->origins.contains(setting)) return absl::StrCat(FlagOf(setting), " needs --shared-limits");
    }
    return "";
  }
  absl::StatusOr<StoreAddress> address = ParseStoreAddress(raw.shared_limits);
  if (!address.ok()) return absl::StrCat("--shared-limits: ", std::string(address.status().message()));
  if (config->tenants_path.empty()) return "--shared-limits: needs --tenants, whose limits they are";
  if (!address->user.empty() && config->shared_limits_password_path.empty()) {
    return "--shared-limits: a user needs --shared-limits-password-file";
  }
  config->shared_limits = *std::move(address);
  return "";
}

// Empty: nothing is wrong.
std::string FinishSessions(const RawConfig& raw, Config* config) {
  const std::string& said = raw.session_durability;
  if ((said == "tokens" || said == "kv") && config->session_dir.empty()) {
    return absl::StrCat("--session-durability: ", said, " needs --session-dir");
  }
  if (said == "kv" && config->session_disk_bytes == 0) return "--session-durability: kv needs --session-disk-bytes";
  if (said == "kv" && config->session_memory_bytes == 0) return "--session-durability: kv needs --session-memory-bytes";
  config->session_durability = said == "none" ? Durability::kNone
                               : said == "kv" ? Durability::kKv
                                              : Durability::kTokens;
  return "";
}

// What `name` may not be among --session-headers for; empty: it may. What such a field says is another thing's already, or secret: a
// session's name is in logs and lists.
std::string WrongSessionHeader(const std::string& name) {
  static constexpr std::string_view kTaken[] = {"accept",
                                                "authorization",
                                                "connection",
                                                "content-length",
                                                "content-type",
                                                "cookie",
                                                "forwarded",
                                                "host",
                                                "origin",
                                                "proxy-authorization",
                                                "te",
                                                "transfer-encoding",
                                                "user-agent",
                                                "x-api-key",
                                                "x-forwarded-for",
                                                "x-session-turn",
                                                "x-request-timeout"};
  const bool is_name =
      std::all_of(name.begin(), name.end(), [](char c) { return IsDigit(c) || IsLetter(c) || c == '-' || c == '_'; });
  if (!is_name) return "is no name of a header field";
  if (std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken)) return "names no sessions";
  return "";
}

// The part of Finish about what gateways look at.
std::string FinishGateways(const RawConfig& raw, Config* config) {
  config->session_headers = SplitList(raw.session_headers);
  if (config->session_headers.size() > kSessionHeadersMax) {
    return absl::StrCat("--session-headers: at most ", kSessionHeadersMax, " names");
  }
  for (std::string& name : config->session_headers) {
    name = LowerCase(std::string_view(name));
    if (std::string wrong = WrongSessionHeader(name); !wrong.empty()) {
      return absl::StrCat("--session-headers: ", name, " ", wrong);
    }
  }
  const std::string& id = config->replica_id;
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain || id.size() > kReplicaIdBytesMax) {
    return absl::StrCat("--replica-id: must be at most ", kReplicaIdBytesMax, " visible ASCII characters");
  }
  return "";
}

// The part of Finish about web pages, and names of this server.
std::string FinishOrigins(const RawConfig& raw, Config* config) {
  config->allowed_origins = SplitList(raw.allowed_origins);
  for (const std::string& origin : config->allowed_origins) {
    if (origin == "*" || IsAllowableOrigin(origin)) continue;
    return absl::StrCat(
        "--allowed-origins: ", origin,
        ": must be *, null or SCHEME://HOST[:PORT], without a path or a slash at its end; commas part several");
  }
  config->allowed_hosts = SplitList(raw.allowed_hosts);
  for (const std::string& host : config->allowed_hosts) {
    if (host == "*" || IsAllowableHost(host)) continue;
    return absl::StrCat("--allowed-hosts: ", host, ": must be * or HOST[:PORT]; commas part several");
  }
  return "";
}

// The part of Finish about proxies.
std::string FinishProxies(const RawConfig& raw, Config* config) {
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

// The part of Finish about adapters.
std::string FinishAdapters(const RawConfig& raw, Config* config) {
  for (const std::string& text : SplitList(raw.adapter_modules)) {
    AdapterModule module;
    if (absl::Status status = ParseAdapterModule(text, &module); !status.ok()) {
      return absl::StrCat("--lora-modules: ", status.message());
    }
    config->adapter_modules.push_back(std::move(module));
  }
  if (!config->adapters && !config->adapter_modules.empty()) return "--lora-modules: needs --enable-lora";
  if (std::ssize(config->adapter_modules) > config->adapters_max) {
    return absl::StrCat("--lora-modules: ", config->adapter_modules.size(), " adapters, and --max-loras is ",
                        config->adapters_max);
  }
  return "";
}

// What ranks cannot divide, of what flags ask for.
std::string FinishRanks(const Config& config) {
  if (config.ranks == 1) return "";
  const std::string flag = absl::StrCat("--tensor-parallel-size ", config.ranks);
  if (config.device == "cuda") return RanksOnGpu(config.ranks);
  if (config.adapters) return absl::StrCat(flag, ": ranks have no adapters (--enable-lora)");
  if (config.weights_memory_bytes > 0) return absl::StrCat(flag, ": ranks stream no weights (--weights-memory)");
  return "";
}

std::string FinishAudit(const Config& config) {
  if (config.kv_audit == 0) return "";
  if (config.weights_memory_bytes > 0)
    return "--kv-audit: each of its short steps would read the weights (--weights-memory)";
  if (!config.kv_dump_path.empty()) return "--kv-audit: a dump is of requests' steps alone (--debug-kv-dump)";
  return "";
}

// The part of Finish about tokens that are guessed.
std::string FinishDrafts(const RawConfig& raw, Config* config) {
  if (raw.speculative_config.empty()) return "";
  const std::string flag = "--speculative-config: ";
  if (std::string wrong = ParseSpeculativeConfig(raw.speculative_config, &config->drafts); !wrong.empty()) {
    return flag + wrong;
  }
  if (config->device == "cuda") return flag + "a GPU computes no drafts; --device cpu does";
  if (config->ranks > 1) return flag + "ranks compute no drafts (--tensor-parallel-size)";
  if (config->overlap.value_or(false)) return flag + "drafts are not planned ahead (--async-scheduling)";
  if (!config->kv_dump_path.empty()) return flag + "drafts are not dumped (--debug-kv-dump)";
  return "";
}

// A flag that says more of another one, without which it has no effect.
std::string FinishNeeds(const Config& config) {
  const bool directory = !config.session_dir.empty(), proxies = !config.trusted_proxies.empty();
  const bool port = config.admin_port.has_value(), admin = port || !config.admin_socket.empty();
  const struct {
    const char* setting;
    bool there;
    const char* needed;
  } rows[] = {{"session_key_file", directory, "--session-dir"},
              {"session_disk_bytes", directory, "--session-dir"},
              {"session_purge_s", directory, "--session-dir"},
              {"session_disk_mbps", directory, "--session-dir"},
              {"session_dir_unsafe", directory, "--session-dir"},
              {"session_read_timeout_s", directory, "--session-dir"},
              {"proxy_header", proxies, "--trusted-proxies"},
              {"max_loras", config.adapters, "--enable-lora"},
              {"max_lora_rank", config.adapters, "--enable-lora"},
              {"admin_host", port, "--admin-port"},
              {"admin_api_key", admin, "--admin-port or --admin-socket"},
              {"admin_api_key_file", admin, "--admin-port or --admin-socket"}};
  for (const auto& row : rows) {
    const auto origin = config.origins.find(row.setting);
    if (row.there || origin == config.origins.end() || origin->second == "environment") continue;
    return absl::StrCat(FlagOf(row.setting), " needs ", row.needed);
  }
  return "";
}

// What the flags mean together. Returns an error that names the flag, or nothing.
std::string Finish(const RawConfig& raw, Config* config) {
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
  config->kv.recall = raw.kv_recall == "turn";
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
  if (!config->weights_image_dir.empty() && config->weights_memory_bytes == 0) {
    return "--weights-image-dir needs --weights-memory";
  }
  if (std::string wrong = FinishRanks(*config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishAudit(*config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishDrafts(raw, config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishSessions(raw, config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishGateways(raw, config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishAdapters(raw, config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishSharedLimits(raw, config); !wrong.empty()) return wrong;
  if (std::string wrong = FinishOrigins(raw, config); !wrong.empty()) return wrong;
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
  if (std::string wrong = FinishTenants(raw, config); !wrong.empty()) return wrong;
  return FinishNeeds(*config);
}

// The members of a configuration file as arguments: {"max_num_seqs": 8} -> --max-num-seqs=8.
std::string ReadConfigFile(const std::string& path, std::vector<std::string>* arguments) {
  std::ifstream file(path);
  std::stringstream text;
  file.peek();
  if (!file.is_open() || file.bad()) return absl::StrCat(path, ": cannot be read");
  if (file.eof()) return absl::StrCat(path, ": is empty");
  text << file.rdbuf();
  std::string not_json;
  const std::optional<JsonBody> document = JsonBody::ParseFile(path, text.str(), &not_json);
  if (!document.has_value()) return not_json;
  const JsonView root = document->root();
  if (!root.is_object()) return absl::StrCat(path, ": must be a JSON object");
  for (JsonView member = root.first(); member.valid(); member = member.next()) {
    std::string name(member.key());
    std::replace(name.begin(), name.end(), '_', '-');
    std::string flag = "--" + name;
    if (name == "help" || name == "help-all" || name == "config")
      return absl::StrCat(path, ": ", name, ": is no setting");
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
               object.has_value() && (flag == "--override-generation-config" || flag == "--speculative-config")) {
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
  // A question for help is about the flags of the command that has most.
  if (arguments.size() == 1 && arguments[0] == "help") arguments[0] = "--help";
  if (arguments.size() == 1 && (arguments[0] == "-h" || arguments[0] == "--help" || arguments[0] == "--help-all")) {
    arguments.insert(arguments.begin(), "serve");
  }
  if (std::optional<CommandAnswer> answer = AnswerCommand(arguments)) return ResultOf(*std::move(answer));
  Config config;
  RawConfig raw;
  CLI::App app("", "hydrantd");
  app.set_version_flag("--version", std::string("hydrantd ") + kVersion);
  app.require_subcommand(1);
  CLI::App* serve =
      app.add_subcommand("serve",
                         "Serves a model over HTTP with a fixed budget of KV cache per sequence.\n"
                         "MODEL is a Hugging Face checkpoint directory, a .gguf file, or the name of a model in the\n"
                         "Hugging Face cache: org/name, or org/name:Q4_K_M for one GGUF file of several.\n\n"
                         "hydrantd sessions | check | families --help: what else there is.");
  serve->add_option("model", config.model_path, "")->required();
  AddServeFlags(*serve, config, raw);

  if (arguments.front() == "serve") {
    if (const std::string wrong = WrongFlag(*serve, arguments, kHelpCommand, ForeignFlags()); !wrong.empty())
      return Fail(kExitUsage, wrong);
  }
  std::map<std::string, std::string> origins;
  try {
    ParseArguments(app, arguments);
    if (!raw.config_path.empty()) {
      const std::string path = raw.config_path;
      std::vector<std::string> from_file = {"serve", config.model_path};
      if (const std::string wrong = ReadConfigFile(path, &from_file); !wrong.empty()) return Fail(kExitConfig, wrong);
      if (const std::string wrong = WrongFlag(*serve, from_file, kHelpCommand, ForeignFlags()); !wrong.empty()) {
        return Fail(kExitConfig, absl::StrCat(path, ": ", wrong));
      }
      config = Config();
      raw = RawConfig();
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
  if (const std::string wrong = Finish(raw, &config); !wrong.empty()) {
    if (raw.config_path.empty()) return Fail(kExitUsage, wrong);
    return Fail(kExitConfig, absl::StrCat(wrong, " (", raw.config_path, " and flags together)"));
  }
  ConfigResult result;
  result.config = std::move(config);
  return result;
}

}  // namespace hydrant
