#include "server/config_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/flags/flag_group.h"
#include "api/flags/help_page.h"
#include "server/generation/chat_setup.h"

namespace hydrant {
namespace {

// CLI::Range takes nan for a number inside any range.
CLI::Validator RealRange(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        const std::optional<double> value = ParseReal(text);
        return value.has_value() && *value >= low && *value <= high
                   ? std::string()
                   : absl::StrCat("must be a number in [", low, ", ", high, "]");
      },
      absl::StrCat("NUMBER in [", low, " - ", high, "]"));
}

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

void AddHttpFlags(CLI::App& app, Config& config, RawConfig& raw) {
  const FlagGroup group(app, "HTTP");
  group.AddWithDefault("--host", "ADDRESS", config.host, "address to listen on");
  group.AddWithDefault("--port", "PORT", config.port, "port to listen on; 0 picks a free one")
      ->check(CLI::Range(0, 65535));
  group.Add("--replica-id", "NAME", config.replica_id,
            "what every response says in X-Hydrant-Replica (default: it is not sent)");
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
            "Host names to allow besides our own, on the admin listener as well, comma-separated; * allows all");
  group.Add("--trusted-proxies", "LIST", raw.trusted_proxies,
            "addresses and networks whose word for a client's address is taken, comma-separated");
  group.AddWithDefault("--proxy-header", "NAME", raw.proxy_header,
                       "the field that they write it into: x-forwarded-for or forwarded");
  group.AddSwitch("--ui,!--no-ui", config.ui, "serve the live view at /ui (default: on)");
  group.AddSwitch("--insecure", config.insecure,
                  "allow --host and --admin-host beyond loopback, although there is no TLS");
}

void AddTenantFlags(CLI::App& app, Config& config, RawConfig& raw) {
  const FlagGroup group(app, "Tenants and administration");
  group.Add("--tenants", "FILE", config.tenants_path, "JSON file of tenants; SIGHUP reads it again");
  group.AddWithDefault("--scheduling-policy", "fair|fcfs", raw.scheduling_policy,
                       "who goes first: the tenant served least, or the request that came first");
  group
      .AddWithDefault("--tenant-floor-share", "SHARE", config.tenant_floor_share,
                      "part of the KV pool that is kept for tenants without floor_blocks, by weight")
      ->check(RealRange(0.0, 0.9));
  group.Add("--shared-limits", "URL", raw.shared_limits,
            "Redis that counts for all servers that name it: redis://HOST:PORT/DATABASE or unix:///PATH?db=DATABASE");
  group.AddChoice("--shared-limits-fail", {"open", "closed"}, raw.shared_limits_fail,
                  "without an answer of it, requests go by this server's counts alone, or are refused (503)");
  group.Add("--shared-limits-password-file", "FILE", config.shared_limits_password_path,
            "file with its password, read for each connection (default: none)");
  group
      .AddWithDefault("--shared-limits-timeout-s", "SECONDS", config.shared_limits_timeout_s,
                      "longest that a request waits for its answer")
      ->check(RealRange(0.001, 10.0));
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

void AddModelFlags(CLI::App& app, Config& config, RawConfig& raw) {
  const FlagGroup group(app, "Model and steps");
  group.AddWithDefault("--device", "auto|cpu|cuda", config.device, "where the model runs");
  group
      .AddWithDefault("--tensor-parallel-size", "N", config.ranks,
                      "experimental, of --device cpu: parts of the processor that compute the model together")
      ->check(CLI::Range(1, 64));
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
      .Add("--weights-memory", "BYTES", config.weights_memory_bytes,
           "most memory for weights: those beyond are read from a disk in every step (default: all are in memory)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  group.Add(
      "--weights-image-dir", "DIRECTORY", config.weights_image_dir,
      "where the file is that they are read from, which is written at the first start (default: beside the model)");
  group.AddSwitch("--enable-lora", config.adapters, "serve adapters (LoRA) beside the model, by names of their own");
  group.AddWithDefault("--max-loras", "N", config.adapters_max, "most adapters in memory, which is taken at the start")
      ->check(CLI::Range(1, 1024));
  group.AddWithDefault("--max-lora-rank", "RANK", config.adapter_rank_max, "largest rank of an adapter")
      ->check(CLI::Range(1, kAdapterRankMax));
  group.Add("--lora-modules", "LIST", raw.adapter_modules, "adapters to begin with: NAME=FOLDER, comma-separated");
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
                      "most prompt tokens of a step that also decodes (a prompt's end under auto: 79)")
      ->check(CLI::Range(16, 1 << 17));
  group.Add("--speculative-config", "JSON", raw.speculative_config,
            "on a CPU: guess tokens from the text itself, as {\"method\": \"ngram\", \"num_speculative_tokens\": N}");
}

void AddKvFlags(CLI::App& app, Config& config, RawConfig& raw) {
  const FlagGroup group(app, "KV cache");
  group.Add("--kv-policy", "NAME", raw.kv_policy, absl::StrCat("default policy: ", std::string(KvPresetNames())));
  group.Add("--kv-budget", "BUDGET", raw.kv_budget, "default budget: a number of tokens, prompt:RATIO or total:RATIO");
  group
      .Add("--kv-recent", "TOKENS", raw.kv_recent,
           "newest tokens that are always kept (default: half the budget; h2o-plus and auto: a third)")
      ->check(CLI::Range(1, 1 << 24));
  group
      .AddWithDefault("--kv-recall", "WHEN", raw.kv_recall,
                      "what a session's turn goes by: off: what was kept of the turns before; turn: all of them")
      ->check(CLI::IsMember({"off", "turn"}));
  group
      .AddWithDefault("--kv-audit", "SHARE", config.kv_audit,
                      "share of the answers under a policy that evicts that are compared with full attention when idle")
      ->check(RealRange(0.0, 1.0));
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

void AddSessionFlags(CLI::App& app, Config& config, RawConfig& raw) {
  const FlagGroup group(app, "Sessions");
  const auto real = [&](const char* flag, const char* unit, double& value, double least, const char* text) {
    group.AddWithDefault(flag, unit, value, text)->check(RealRange(least, 1e9));
  };
  const auto bytes = [](CLI::Option* option) { option->check(CLI::Range(int64_t{0}, int64_t{1} << 50)); };
  group.Add(
      "--session-headers", "LIST", raw.session_headers,
      "header fields that name a session where nothing else does, comma-separated, in this order (default: none)");
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
void AddGeneralFlags(CLI::App& app, Config& config, RawConfig& raw) {
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

}  // namespace

std::optional<double> ParseReal(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

void AddServeFlags(CLI::App& app, Config& config, RawConfig& raw) {
  app.formatter(
      std::make_shared<HelpPage>(std::set<std::string>(std::begin(kEssentialFlags), std::end(kEssentialFlags))));
  AddHttpFlags(app, config, raw);
  AddTenantFlags(app, config, raw);
  AddModelFlags(app, config, raw);
  AddKvFlags(app, config, raw);
  AddSessionFlags(app, config, raw);
  AddLimitFlags(app, config);
  AddGeneralFlags(app, config, raw);
}

}  // namespace hydrant
