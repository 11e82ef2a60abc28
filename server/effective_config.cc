#include "server/effective_config.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"
#include "kernels/kv_cache_view.h"
#include "server/speculative_config.h"

namespace hydrant {
namespace {

std::string Number(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

// Writes the members of one object.
class Members {
 public:
  void Raw(std::string_view name, std::string_view json) {
    out_.append(out_.empty() ? "\"" : ",\"").append(name).append("\":").append(json);
  }
  std::string Object() const { return "{" + out_ + "}"; }

 private:
  std::string out_;
};

class Settings {
 public:
  explicit Settings(const Config& config) : config_(config) {}

  // The setting `name`; `append(out, value)` writes its value.
  template <typename Value>
  void Add(const std::string& name, void (*append)(std::string*, Value), Value value) {
    std::string json;
    append(&json, value);
    Json(name, json);
  }
  void Json(const std::string& name, const std::string& json) {
    const auto from = config_.origins.find(name);
    members_.Raw(name, absl::StrCat("{\"value\":", json, ",\"from\":\"",
                                    from == config_.origins.end() ? "default" : from->second, "\"}"));
  }
  void Text(const std::string& name, std::string_view text) { Add(name, AppendJsonStringOrNull, text); }
  void Secret(const std::string& name, const std::string& key) { Text(name, key.empty() ? "" : "***"); }
  void Bool(const std::string& name, bool value) { Add(name, AppendJsonBool, value); }
  void Integer(const std::string& name, int64_t value) { Add(name, AppendJsonInteger, value); }
  void IntegerIfAny(const std::string& name, int64_t value) { Add(name, AppendJsonIntegerOrNull, value); }
  void Seconds(const std::string& name, double value) { Json(name, Number(value)); }
  void List(const std::string& name, const std::vector<std::string>& values) {
    std::string json = "[";
    for (const std::string& value : values) {
      if (json.size() > 1) json.push_back(',');
      AppendJsonString(&json, value);
    }
    Json(name, json + "]");
  }
  std::string Object() const { return members_.Object(); }

 private:
  const Config& config_;
  Members members_;
};

std::string BudgetOf(const KvSpec& kv) {
  switch (kv.budget_kind) {
    case KvBudgetKind::kUnset:
      return "";
    case KvBudgetKind::kTokens:
      return absl::StrCat(kv.budget_tokens);
    case KvBudgetKind::kRatioOfPrompt:
      return "prompt:" + Number(kv.budget_ratio);
    case KvBudgetKind::kRatioOfTotal:
      return "total:" + Number(kv.budget_ratio);
  }
  return "";
}

std::string_view LevelInForce() {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning}) {
    if (LogEnabled(level)) return LogLevelName(level);
  }
  return LogLevelName(LogLevel::kError);
}

std::string_view NameOrAuto(const std::optional<DType>& dtype) {
  return dtype.has_value() ? DTypeName(*dtype) : "auto";
}
std::string_view NameOrAuto(const std::optional<KvType>& type) { return type.has_value() ? KvTypeName(*type) : "auto"; }

void AddHttp(const Config& config, Settings* out) {
  out->Text("host", config.host);
  out->Integer("port", config.port);
  out->Text("replica_id", config.replica_id);
  out->Text("served_model_name", config.served_model_name);
  out->Text("chat_template", config.chat_template_path);
  out->Text("tool_call_parser", config.tool_call_parser);
  out->Text("override_generation_config", config.generation_override);
  out->Secret("api_key", config.api_key);
  out->Text("api_key_file", config.api_key_path);
  out->List("allowed_origins", config.allowed_origins);
  out->List("allowed_hosts", config.allowed_hosts);
  out->List("trusted_proxies", config.trusted_proxies);
  out->Text("proxy_header", config.proxy_field == TrustedProxies::Field::kForwarded ? "forwarded" : "x-forwarded-for");
  out->Bool("ui", config.ui);
  out->Bool("insecure", config.insecure);
}

void AddTenants(const Config& config, Settings* out) {
  out->Text("tenants", config.tenants_path);
  out->Text("scheduling_policy", config.scheduling_policy == SchedulingPolicy::kFair ? "fair" : "fcfs");
  out->Json("tenant_floor_share", Number(config.tenant_floor_share));
  out->Text("shared_limits", config.shared_limits.has_value() ? config.shared_limits->Text() : "");
  out->Text("shared_limits_fail", config.shared_limits_fail_open ? "open" : "closed");
  out->Text("shared_limits_password_file", config.shared_limits_password_path);
  out->Seconds("shared_limits_timeout_s", config.shared_limits_timeout_s);
  out->Json("admin_port", config.admin_port.has_value() ? absl::StrCat(*config.admin_port) : "null");
  out->Text("admin_host", config.admin_host);
  out->Text("admin_socket", config.admin_socket);
  out->Secret("admin_api_key", config.admin_key);
  out->Text("admin_api_key_file", config.admin_key_path);
  out->Text("metrics_api_key_file", config.metrics_key_path);
}

void AddModel(const Config& config, Settings* out) {
  out->Text("device", config.device);
  out->Integer("tensor_parallel_size", config.ranks);
  out->Bool("enforce_eager", config.enforce_eager);
  out->Json("async_scheduling", config.overlap.has_value() ? (*config.overlap ? "true" : "false") : "null");
  out->IntegerIfAny("threads", config.threads);
  out->Text("dtype", NameOrAuto(config.weight_dtype));
  out->Text("quantization", QuantizationName(config.quantization));
  out->IntegerIfAny("weights_memory", config.weights_memory_bytes);
  out->Text("weights_image_dir", config.weights_image_dir);
  out->Bool("enable_lora", config.adapters);
  out->Integer("max_loras", config.adapters_max);
  out->Integer("max_lora_rank", config.adapter_rank_max);
  std::vector<std::string> modules;
  for (const AdapterModule& module : config.adapter_modules) modules.push_back(module.name + "=" + module.path);
  out->List("lora_modules", modules);
  out->IntegerIfAny("max_model_len", config.max_model_len);
  out->Integer("max_num_seqs", config.sequences_max);
  out->Integer("max_num_batched_tokens", config.batch_tokens_max);
  out->Integer("max_prefill_tokens", config.prefill_tokens_max);
  out->Text("speculative_config", SpeculativeConfigText(config.drafts));
}

void AddKv(const Config& config, Settings* out) {
  out->Text("kv_policy", KvPresetName(config.kv.preset));
  out->Text("kv_budget", BudgetOf(config.kv));
  out->IntegerIfAny("kv_recent", config.kv.recent.value_or(0));
  out->Text("kv_recall", config.kv.recall ? "turn" : "off");
  out->Json("kv_audit", Number(config.kv_audit));
  out->Text("kv_cache_dtype", NameOrAuto(config.kv_type));
  out->Integer("block_size", kBlockSlots);
  out->IntegerIfAny("kv_cache_memory_bytes", config.kv_cache_memory_bytes);
  out->IntegerIfAny("num_gpu_blocks_override", config.blocks_override);
  out->Json("gpu_memory_utilization", config.memory_utilization > 0 ? Number(config.memory_utilization) : "null");
  out->Bool("enable_prefix_caching", config.prefix_caching);
  out->Json("swap_space", Number(config.swap_space_gib));
  out->Text("debug_kv_dump", config.kv_dump_path);
  out->Json("session_memory_bytes",
            config.session_memory_bytes.has_value() ? absl::StrCat(*config.session_memory_bytes) : "null");
}

void AddLimits(const Limits& limits, const Config& config, Settings* out) {
  out->List("session_headers", config.session_headers);
  out->Text("session_dir", config.session_dir);
  out->Text("session_key_file", config.session_key_path);
  out->Bool("session_dir_unsafe", config.session_dir_unsafe);
  out->Seconds("session_purge_s", config.session_purge_s);
  out->Text("session_durability",
            DurabilityName(config.session_dir.empty() ? Durability::kNone : config.session_durability));
  out->Integer("session_disk_bytes", config.session_disk_bytes);
  out->Seconds("session_disk_mbps", config.session_disk_mbps);
  out->Seconds("session_read_timeout_s", limits.session_read_timeout_s);
  out->Seconds("session_ttl", limits.session_ttl_s);
  out->Seconds("header_timeout_s", limits.header_timeout_s);
  out->Seconds("body_timeout_s", limits.body_timeout_s);
  out->Seconds("keepalive_timeout_s", limits.keepalive_timeout_s);
  out->Seconds("stream_stall_s", limits.stream_stall_s);
  out->Seconds("engine_stall_s", limits.engine_stall_s);
  out->Seconds("request_timeout_s", limits.request_timeout_s);
  out->Seconds("queue_timeout_s", limits.queue_timeout_s);
  out->Seconds("shutdown_delay_s", config.shutdown_delay_s);
  out->Seconds("shutdown_timeout_s", config.shutdown_timeout_s);
  out->Integer("max_connections", limits.connections_max);
  out->IntegerIfAny("max_connections_per_address", limits.connections_per_address_max);
  out->Integer("max_waiting_seqs", limits.waiting_sequences_max);
  out->Integer("max_body_bytes", limits.body_bytes_max);
  out->Integer("max_held_bytes", limits.held_bytes_max);
}

std::string Derived(const Sizing& sizing, const std::string& device) {
  const Limits& limits = sizing.limits;
  Members out;
  const auto integer = [&out](std::string_view name, int64_t value) { out.Raw(name, absl::StrCat(value)); };
  const auto text = [&out](std::string_view name, std::string_view value) {
    std::string json;
    AppendJsonString(&json, value);
    out.Raw(name, json);
  };
  text("device", device);
  text("dtype", DTypeName(sizing.weights.expanded));
  text("weight_formats", sizing.weight_formats);
  text("kv_cache_dtype", KvTypeName(sizing.kv_type));
  integer("max_model_len", limits.context_max);
  integer("blocks", limits.blocks);
  integer("parked_blocks", limits.parked_blocks);
  integer("swap_blocks", limits.swap_blocks);
  integer("max_num_seqs", limits.sequences_max);
  integer("max_connections", limits.connections_max);
  return out.Object();
}

}  // namespace

std::string EffectiveConfigJson(const Config& config, const Sizing& sizing, const std::string& device) {
  Settings settings(config);
  settings.Text("model", config.model_path);
  AddHttp(config, &settings);
  AddTenants(config, &settings);
  AddModel(config, &settings);
  AddKv(config, &settings);
  AddLimits(config.limits, config, &settings);
  settings.Bool("allow_core_dumps", config.allow_core_dumps);
  settings.Text("log_level", LevelInForce());
  settings.Text("log_format", config.log_format == LogFormat::kJson ? "json" : "text");
  return absl::StrCat("{\"settings\":", settings.Object(), ",\"derived\":", Derived(sizing, device), "}");
}

}  // namespace hydrant
