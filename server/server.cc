#include "server/server.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <ctime>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "api/wire/version.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "model/run/warm_up.h"
#include "model/weights/weights.h"
#include "server/adapter_setup.h"
#include "server/effective_config.h"
#include "server/engine/engine.h"
#include "server/engine/kv_dump.h"
#include "server/engine/mask_pool.h"
#include "server/executor_setup.h"
#include "server/frontend/frontend.h"
#include "server/frontend/loading_server.h"
#include "server/generation/chat_setup.h"
#include "server/generation/generation_defaults.h"
#include "server/limit_store_setup.h"
#include "server/metrics_setup.h"
#include "server/model_path.h"
#include "server/process/clock.h"
#include "server/process/host_facts.h"
#include "server/process/loading_signals.h"
#include "server/process/sha256.h"
#include "server/process/systemd_notifier.h"
#include "server/session_kv.h"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/session_store.h"
#include "server/sizing.h"
#include "server/tenants/rotating_keys.h"
#include "server/tenants/tenant_registry.h"
#include "server/tensor_parallel.h"

namespace hydrant {
namespace {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return kExitResources;
    case absl::StatusCode::kInternal:
      return kExitInternal;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;  // a flag that contradicts another, or the model
    default:
      return kExitConfig;
  }
}

// An error in the model's files, whatever code it was found under.
absl::Status ModelError(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ? absl::FailedPreconditionError(status.message()) : status;
}

KvModelFacts FactsOf(const ModelConfig& model, const Limits& limits, const Device& device) {
  return {.query_heads = model.query_heads,
          .kv_heads = model.kv_heads,
          .budget_max = limits.context_max,
          .rotary = model.position_rows == 0,
          .pins = device.ChoosesPins(),
          .step_tokens = limits.batch_tokens_max - limits.sequences_max};
}

ServingContext MakeContext(const Config& config, const Limits& limits, const Checkpoint& checkpoint, ChatSetup chat) {
  const ModelConfig& model = checkpoint.config;
  ServingContext context;
  RequestContext& request = context.request;
  request.limits = limits;
  request.model_names = {config.served_model_name};
  request.vocab_size = model.vocab;
  request.context = limits.context_max;
  request.state_cols = model.embedding_cols();
  SetDefaults(checkpoint.generation_defaults, &request);
  const std::string wrong = OverrideDefaults(config.generation_override, &request);
  assert(wrong.empty());  // ParseCommandLine looked
  request.kv = config.kv;
  request.constraints = true;
  request.debug_fields = !config.kv_dump_path.empty();
  context.tokenizer = checkpoint.tokenizer;
  context.sentence_ends = std::make_shared<const SentenceEnds>(*checkpoint.tokenizer);
  context.eos_ids = model.eos_ids;
  context.chat = std::move(chat);
  context.shapes = std::make_shared<ShapeCache>(std::make_shared<const ShapeVocabulary>(
      checkpoint.tokenizer, model.vocab, model.eos_ids, AnswerMarkers(context.chat, *checkpoint.tokenizer)));
  DescribeCalls(context.chat, context.shapes->vocabulary(), &request);
  context.limits = limits;
  context.prefix_caching = config.prefix_caching;
  context.ranks = config.ranks;
  context.drafts = config.drafts;
  context.session_durability = config.session_durability;
  context.session_headers = config.session_headers;
  context.system_fingerprint = absl::StrCat("hydrant-", kVersion);
  return context;
}

absl::StatusOr<ChatSetup> MakeChats(const Config& config, const Checkpoint& checkpoint) {
  ChatTemplateSources sources = {checkpoint.chat_template, checkpoint.tool_use_template};
  if (!config.chat_template_path.empty()) {
    absl::StatusOr<std::string> text = ReadChatTemplateFile(config.chat_template_path);
    if (!text.ok()) return text.status();
    sources = {*std::move(text), ""};
  }
  std::vector<std::string> warnings;
  ChatSetup chat =
      MakeChatSetup(std::move(sources), checkpoint.bos_token, checkpoint.eos_token, config.tool_call_parser, &warnings);
  for (const std::string& warning : warnings) Log(LogLevel::kWarning, warning);
  return chat;
}

bool KeepsKvFiles(const Config& config, const Limits& limits) {
  return !config.session_dir.empty() && config.session_durability != Durability::kNone &&
         config.session_disk_bytes > 0 && limits.parked_blocks > 0;
}

absl::StatusOr<std::unique_ptr<TenantRegistry>> MakeTenants(const Config& config, const Limits& limits,
                                                            const KvModelFacts& model) {
  const TenantFacts facts = {limits.blocks,
                             limits.sequences_max,
                             limits.context_max,
                             config.kv,
                             config.tenant_floor_share,
                             config.session_dir.empty() ? Durability::kNone : config.session_durability,
                             KeepsKvFiles(config, limits),
                             [model](const KvSpec& spec) { return CheckKvDefault(spec, model); }};
  if (!config.tenants_path.empty()) return TenantRegistry::FromFile(config.tenants_path, facts);
  if (!config.api_key_path.empty()) return TenantRegistry::FromKeyFile(config.api_key_path, facts);
  return std::make_unique<TenantRegistry>(SingleTenant(config.api_key), facts);
}

EngineCoreOptions MakeCoreOptions(const Config& config, const Sizing& sizing, const ModelConfig& model,
                                  double attention_cost, const TenantRegistry& tenants, bool overlap) {
  const Limits& limits = sizing.limits;
  EngineCoreOptions options;
  options.scheduler.blocks = limits.blocks;
  options.scheduler.spare_score_blocks = limits.spare_score_blocks;
  options.scheduler.sequences_max = limits.sequences_max;
  // A job is counted against the bound when it is submitted, so the scheduler's queue never has to refuse one.
  options.scheduler.waiting_max = limits.sequences_max + limits.waiting_sequences_max;
  options.scheduler.tokens_max = limits.batch_tokens_max;
  // A pass over streamed weights costs the same whatever it computes; how much of a prompt that may be is the pacer's to say.
  const bool all_of_it = sizing.stream_bytes > 0 && !config.origins.contains("max_prefill_tokens");
  options.scheduler.prefill_tokens_max = all_of_it ? limits.batch_tokens_max : config.prefill_tokens_max;
  options.scheduler.drafts_max = sizing.drafts_max;
  options.scheduler.attention_slots_per_token = model.attention_slots_per_token(attention_cost);
  options.scheduler.eos_ids = model.eos_ids;
  options.scheduler.tenants = tenants.options();
  options.scheduler.policy = config.scheduling_policy;
  options.scheduler.parked_blocks_max = limits.parked_blocks;
  options.scheduler.swap_blocks_max = limits.swap_blocks;
  options.layer_heads = model.layers * model.kv_heads;
  options.replay_blocks = sizing.replay_blocks;
  options.vocab = model.vocab;
  options.context = limits.context_max;
  options.overlap = overlap;
  return options;
}

absl::StatusOr<std::shared_ptr<RotatingKeys>> MakeKeys(const std::string& path, const std::string& key) {
  if (!path.empty()) return RotatingKeys::FromFile(path);
  return RotatingKeys::Of(key);
}

absl::Status ReadKeys(const Config& config, FrontendOptions* options) {
  absl::StatusOr<std::shared_ptr<RotatingKeys>> admin = MakeKeys(config.admin_key_path, config.admin_key);
  if (!admin.ok()) return admin.status();
  options->admin.keys = *std::move(admin);
  absl::StatusOr<std::shared_ptr<RotatingKeys>> metrics = MakeKeys(config.metrics_key_path, "");
  if (metrics.ok()) options->metrics_keys = *std::move(metrics);
  return metrics.status();
}

OriginPolicy MakeOrigins(const Config& config) {
  return OriginPolicy(config.host, config.allowed_hosts, config.allowed_origins);
}

FrontendOptions MakeFrontendOptions(const Config& config, const SystemdNotifier& systemd, const Sizing& sizing,
                                    const ModelConfig& model, ServingContext context) {
  FrontendOptions options;
  options.limits = sizing.limits;
  options.admin.port = config.admin_port;
  options.admin.host = config.admin_host;
  options.admin.socket_path = config.admin_socket;
  options.origins = MakeOrigins(config);
  std::string wrong;
  options.proxies =
      TrustedProxies::Parse(config.trusted_proxies, config.proxy_field, &wrong).value_or(TrustedProxies());
  assert(wrong.empty());  // ParseCommandLine looked
  options.replica_id = config.replica_id;
  options.host = config.host;
  options.port = config.port;
  options.socket = systemd.socket();
  options.shutdown_delay_s = config.shutdown_delay_s;
  options.shutdown_timeout_s = config.shutdown_timeout_s;
  options.context = std::move(context);
  options.kv_shape = {model.layers, model.kv_heads};
  options.kv_block_bytes = sizing.block_bytes;
  options.kv_policies = AvailableKvPolicies(options.context.kv);
  options.model_root = config.model_root;
  options.version = kVersion;
  options.ui = config.ui;
  options.handle_signals = true;
  options.notify = [systemd](std::string_view lines) { systemd.Notify(lines); };
  options.watchdog_us = systemd.watchdog_us();
  return options;
}

// The parts of a running server, in the order they are built; they go in the opposite one.
struct Parts {
  std::unique_ptr<LoadingServer> loading;  // has the ports until http goes on with them
  std::string summary;                     // of what is served, for the line that says where
  std::unique_ptr<Device> device;
  bool overlap = false;  // of steps
  std::unique_ptr<KvDump> kv_dump;
  std::unique_ptr<ModelExecutor> executor;
  std::unique_ptr<MaskPool> masks;
  std::unique_ptr<TenantRegistry> tenants;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<LimitStore> limit_store;  // null: without --shared-limits
  std::unique_ptr<SessionJournal> journal;  // null: without --session-dir
  std::future<absl::StatusOr<Sha256Digest>>
      model_digest;                // with a journal, from when the checkpoint is open; it is read meanwhile
  std::unique_ptr<KvKeeper> kv;    // null: no KV is kept on disk
  std::unique_ptr<KvAudit> audit;  // null: without --kv-audit
  std::unique_ptr<SessionStore> sessions;
  std::unique_ptr<AdapterRegistry> adapters;  // null: without --enable-lora
  // The engine's thread posts to http, so it ends first; http's last connections name the engine, so that goes last.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Frontend> http;

  ~Parts() { Stop(kExitInternal); }

  // Before StopLog: all of them write lines. A second time is as good as none.
  void Stop(int exit_code) {
    if (engine != nullptr) engine->Stop();
    if (kv != nullptr) kv->Stop();
    // It ends turns, for which it needs the sessions and the engine; what connections still end by going is not durable.
    if (journal != nullptr) journal->Stop();
    if (limit_store != nullptr) limit_store->Stop(exit_code);  // after what is for the disk: it may end the process
  }
};

// With --session-dir, before the minutes of loading: another process may have it.
absl::Status OpenJournal(const Config& config, Parts* parts) {
  if (config.session_dir.empty() || config.session_durability == Durability::kNone) return absl::OkStatus();
  SessionJournal::Options options;
  options.any_file_system = config.session_dir_unsafe;
  options.purge_s = static_cast<int64_t>(config.session_purge_s);
  if (!config.session_key_path.empty()) {
    absl::StatusOr<std::shared_ptr<const SessionKeys>> keys = SessionKeys::Load(config.session_key_path);
    if (!keys.ok()) return keys.status();
    options.keys = *std::move(keys);
  }
  options.clock = MonotonicUs;
  options.wall_clock = [] { return static_cast<int64_t>(std::time(nullptr)); };
  absl::StatusOr<std::unique_ptr<SessionJournal>> journal =
      SessionJournal::Open(config.session_dir, std::move(options));
  if (!journal.ok()) return journal.status();
  parts->journal = *std::move(journal);
  const LogCounts counts = parts->journal->counts();
  const LogField fields[] = {{"sessions", counts.sessions}, {"bytes", counts.bytes}};
  Log(LogLevel::kInfo, "session log opened", fields);
  if (counts.damaged > 0) {
    Log(LogLevel::kWarning, absl::StrCat("session log: ", counts.damaged, " records are not what was written"));
  }
  return absl::OkStatus();
}

// Null: there is no room for KV on the disk, or in the memory that it comes from.
absl::Status MakeKv(const Config& config, const ModelConfig& model, const Sizing& sizing, Parts* parts) {
  if (!KeepsKvFiles(config, sizing.limits)) {
    // Nobody would read what is there, seal it anew, or remove it with its session.
    const int error = parts->journal == nullptr ? 0 : RemoveKvFiles(*parts->journal->TakeKv());
    if (error < 0) Log(LogLevel::kWarning, absl::StrCat("KV of sessions is left on the disk: ", std::strerror(-error)));
    if (parts->journal != nullptr && error == 0) parts->journal->NoteKvResealed();
    if (config.session_durability != Durability::kKv) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        "--session-durability: kv: there is no memory for sessions' KV, from which it goes "
        "to the disk; see --session-memory-bytes");
  }
  const absl::StatusOr<Sha256Digest> digest = parts->model_digest.get();
  if (!digest.ok()) return ModelError(digest.status());
  const std::string made_of_it = absl::StrCat(sizing.weight_formats, " ", static_cast<int>(config.quantization), " ",
                                              model.rope_is_long(sizing.limits.context_max) ? 1 : 0);
  KvFormat format = MakeKvFormat(parts->journal->directory_id(), DigestOfServed(*digest, made_of_it),
                                 parts->device->kv_format(), parts->executor->kv().layout);
  parts->kv = MakeKvKeeper(*parts->journal, *parts->tenants, std::move(format), config.session_disk_bytes,
                           static_cast<int64_t>(config.session_disk_mbps * 1e6),
                           static_cast<int64_t>(sizing.limits.session_read_timeout_s * 1e6),
                           [parts](const std::string& tenant) { return parts->sessions->KvBytesMaxOf(tenant); });
  return absl::OkStatus();
}

// What was parked goes to the disk while there is time for it.
void KeepParked(Parts& parts) {
  const int64_t until_us = parts.http->stop_until_us();
  if (parts.kv == nullptr || until_us == 0) return;
  const int64_t begin_us = MonotonicUs();
  const int32_t kept =
      parts.sessions->KeepAll(until_us, [&parts](const TurnId& turn) { return parts.engine->ReadParked(turn); });
  const LogField fields[] = {{"sessions", int64_t{kept}}, {"ms", (MonotonicUs() - begin_us) / 1000}};
  Log(LogLevel::kInfo, "wrote the KV of sessions", fields);
}

std::unique_ptr<SessionStore> MakeSessions(const Limits& limits, const ModelId& model, const Parts* parts) {
  SessionStore::Options options;
  options.journal = parts->journal.get();
  options.kv = parts->kv.get();
  options.take_parked = [parts](const TurnId& turn, std::function<void(KvBytes)> done) {
    parts->engine->TakeParked(turn, std::move(done));
  };
  options.model = model;
  options.tenants = static_cast<int32_t>(parts->tenants->names().size());
  options.tenant_name = [parts](int32_t tenant) { return parts->tenants->names()[static_cast<size_t>(tenant)]; };
  options.ttl_us = static_cast<int64_t>(limits.session_ttl_s * 1e6);
  // Most are on disk: half a kilobyte of memory each.
  options.sessions_max = options.journal != nullptr ? std::max(limits.sessions_max, 1 << 20) : limits.sessions_max;
  options.bytes_max = limits.session_bytes_max;
  options.clock = MonotonicUs;
  options.on_forget = [parts](uint64_t session) {
    if (parts->audit != nullptr) parts->audit->Forget(session);  // first: it takes no memory
    parts->engine->DropSession(session);
  };
  options.on_settle = [parts](const TurnId& turn, bool keep) { parts->engine->SettleTurn(turn, keep); };
  return std::make_unique<SessionStore>(std::move(options));
}

absl::Status Build(const Config& config, const Checkpoint& checkpoint, const LoadProgress& on_load, Sizing* sizing,
                   Parts* parts) {
  absl::StatusOr<OpenedDevice> opened = OpenDeviceFor(config, checkpoint.config);
  if (!opened.ok()) return opened.status();
  parts->device = std::move(opened->device);
  // A dump reads the cache as each step leaves it, and what it says of a row is the sequence's that has it then.
  parts->overlap = config.overlap.value_or(opened->queues) && config.kv_dump_path.empty();
  Log(LogLevel::kDebug, absl::StrCat("device ", parts->device->name()));
  const ModelConfig& model = checkpoint.config;
  const Device& device = *parts->device;
  const bool rounds = config.quantization == Quantization::kInt8 || config.quantization == Quantization::kInt4;
  if (rounds && !device.Supports(WeightFormat::kQ8_0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--quantization: ", device.name(), " multiplies no quantised weights"));
  }
  const DeviceFacts facts = {[&device](const StepBounds& bounds) { return device.ScratchBytes(bounds); },
                             opened->memory_bytes,
                             [&device](const LinearSpec& weight, const AdapterSpec& adapters) {
                               return device.AdapterBytes(weight, adapters);
                             },
                             device.copies()};
  const auto plan_weights = [&](WeightChoice choice, int32_t positions_max) {
    return PlanWeights(checkpoint, device, choice, positions_max);
  };
  absl::StatusOr<Sizing> derived =
      DeriveLimits(config, model, plan_weights, facts, {AvailableMemoryBytes(), RaiseOpenFileLimit()});
  if (!derived.ok()) return derived.status();
  *sizing = std::move(*derived);
  for (const std::string& line : sizing->explanation) Log(LogLevel::kDebug, line);
  for (const std::string& line : sizing->warnings) Log(LogLevel::kWarning, line);
  if (const auto error = CheckKvDefault(config.kv, FactsOf(model, sizing->limits, device)); error.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-policy and its budget: ", error->message));
  }
  if (!config.kv_dump_path.empty()) {
    absl::StatusOr<std::unique_ptr<KvDump>> dump = KvDump::Open(config.kv_dump_path, KvPolicyLabels());
    if (!dump.ok()) return dump.status();
    parts->kv_dump = std::move(*dump);
  }
  ModelExecutorOptions executor_options = ExecutorOptionsOf(config, *sizing);
  executor_options.on_load = on_load;
  executor_options.dump = parts->kv_dump.get();
  absl::StatusOr<std::unique_ptr<ModelExecutor>> executor =
      CreateExecutor(checkpoint, *parts->device, executor_options);
  if (!executor.ok()) return ModelError(executor.status());
  parts->executor = std::move(*executor);
  if (!opened->queues || parts->kv_dump != nullptr) return absl::OkStatus();
  const int64_t begin_us = MonotonicUs();
  absl::Status warm = WarmUp(*parts->executor, executor_options);
  Log(LogLevel::kDebug, absl::StrCat("warm-up took ", (MonotonicUs() - begin_us) / 1000, " ms"));
  return warm;
}

// Sessions of tenants that are in no tenants file any more expire, too, and the operator sees them.
void AddTenantsOfLog(const SessionJournal& journal, TenantRegistry* tenants) {
  std::set<std::string> names;
  journal.ForEach([&](const SessionName&, const LoggedSession& session) { names.insert(session.facts.tenant); });
  const size_t without_room = tenants->AddGone(names);
  if (without_room == 0) return;
  Log(LogLevel::kWarning, absl::StrCat("session log: sessions of ", without_room,
                                       " tenants that are configured no more stay as they are: there are too "
                                       "many such tenants (hydrantd sessions list --session-dir names them)"));
}

absl::Status Start(const Config& config, const SystemdNotifier& systemd, const Checkpoint& checkpoint,
                   const Sizing& sizing, Parts* parts) {
  const KvModelFacts facts = FactsOf(checkpoint.config, sizing.limits, *parts->device);
  absl::StatusOr<std::unique_ptr<TenantRegistry>> tenants = MakeTenants(config, sizing.limits, facts);
  if (!tenants.ok()) return tenants.status();
  parts->tenants = std::move(*tenants);
  if (parts->journal != nullptr) AddTenantsOfLog(*parts->journal, parts->tenants.get());
  const LinearSpec& matrix = parts->executor->weights().layers.front().o->spec();
  const double attention_cost = parts->device->AttentionCost(matrix.format);
  if (absl::Status status = MakeKv(config, checkpoint.config, sizing, parts); !status.ok()) return status;
  EngineCoreOptions core_options =
      MakeCoreOptions(config, sizing, checkpoint.config, attention_cost, *parts->tenants, parts->overlap);
  parts->masks = std::make_unique<MaskPool>(MaskPool::WorkersFor(UsableCores()));
  core_options.masks = parts->masks.get();
  if (parts->kv != nullptr) {
    core_options.on_loss = [parts](const TurnId& turn, KvBytes kv) { parts->sessions->OnKvLoss(turn, std::move(kv)); };
  }
  absl::StatusOr<std::unique_ptr<EngineCore>> core = EngineCore::Create(core_options, *parts->executor, MonotonicUs);
  if (!core.ok()) return core.status();
  if (parts->kv_dump != nullptr) parts->kv_dump->Attach(**core);
  const ModelId model_id = MakeModelId(*checkpoint.tokenizer, checkpoint.config, facts);
  parts->audit = MakeAudit(config, sizing, *parts->tenants);
  parts->sessions = MakeSessions(sizing.limits, model_id, parts);
  absl::StatusOr<ChatSetup> chat = MakeChats(config, checkpoint);
  if (!chat.ok()) return chat.status();
  ServingContext context = MakeContext(config, sizing.limits, checkpoint, *std::move(chat));
  context.kv = facts;
  context.sessions = parts->sessions.get();
  parts->adapters = MakeAdapters(config, checkpoint, sizing, *parts->executor);
  context.adapters = parts->adapters.get();
  context.audit = parts->audit.get();
  parts->summary = absl::StrCat(context.request.model_names.front(), " in ", sizing.weight_formats, " on ",
                                parts->device->name(), "; ", DescribeRoom(sizing.limits));
  parts->metrics = std::make_unique<Metrics>(MakeMetricsOptions(context, sizing, *parts->tenants));
  FrontendOptions http_options = MakeFrontendOptions(config, systemd, sizing, checkpoint.config, std::move(context));
  if (absl::Status status = ReadKeys(config, &http_options); !status.ok()) return status;
  http_options.limit_store = (parts->limit_store = MakeLimitStore(config, *parts->metrics)).get();
  http_options.admin.config = [config, sizing, device = parts->device->name()] {
    return EffectiveConfigJson(config, sizing, device);
  };
  if (!http_options.socket.has_value()) http_options.socket = parts->loading->Release();
  if (config.admin_port.has_value()) http_options.admin.socket = parts->loading->ReleaseAdmin();
  parts->http = std::make_unique<Frontend>(std::move(http_options), *parts->metrics, *parts->tenants);
  Metrics& metrics = *parts->metrics;
  Frontend& http = *parts->http;
  EngineHooks hooks;
  hooks.fan_out = http.fan_out();
  hooks.on_step = [&metrics](const StepReport& report) {
    metrics.ObserveStep(report.tokens(), report.plan_us, report.device_us, report.commit_us, report.move_us);
  };
  hooks.on_death = [&http](const std::string&) { http.Fail(kExitInternal); };
  SessionStore& sessions = *parts->sessions;
  hooks.on_parked = [&sessions](std::span<const TurnId> dropped, std::span<const ParkedTurn> parked) {
    sessions.OnParked(dropped, parked);
  };
  hooks.kv_dump = parts->kv_dump.get();
  hooks.keeps_parked = parts->kv != nullptr;
  hooks.replays = parts->audit.get();
  parts->engine = std::make_unique<Engine>(std::move(*core), http.limits(), std::move(hooks));
  if (parts->audit != nullptr) parts->audit->SetWake([engine = parts->engine.get()] { engine->LookForReplays(); });
  parts->tenants->SetHooks({[&metrics](const std::string& name) { metrics.AddTenant(name); },
                            [parts](const std::vector<TenantOptions>& set) { parts->engine->SetTenants(set); }});
  if (absl::Status status = LoadAdapters(config, parts->adapters.get()); !status.ok()) return status;
  parts->engine->Start();
  if (parts->kv != nullptr) {
    parts->kv->Start({[&sessions](const SessionName& name, uint64_t turn) { sessions.OnKvFile(name, turn); },
                      [&sessions] { sessions.KeepDue(); }});
  }
  return http.Open(*parts->engine);
}

// Puts what the model's name means into `config`.
absl::Status FindModelOf(Config* config) {
  absl::StatusOr<FoundModel> found = FindModel(config->model_path, HubCache());
  if (!found.ok()) return ModelError(found.status());
  config->model_path = found->path;
  config->model_root = found->root;
  if (config->served_model_name.empty()) config->served_model_name = found->name;
  return absl::OkStatus();
}

// Before the minutes of loading. Who connects to an inherited socket waits in its backlog, as between two processes.
absl::Status BindPorts(const Config& config, const SystemdNotifier& systemd, Parts* parts) {
  parts->loading = std::make_unique<LoadingServer>(MakeOrigins(config), config.replica_id);
  if (!systemd.socket().has_value()) {
    if (absl::Status status = parts->loading->Open(config.host, config.port); !status.ok()) return status;
  }
  return config.admin_port.has_value() ? parts->loading->OpenAdmin(config.admin_host, *config.admin_port)
                                       : absl::OkStatus();
}

absl::Status LoadAndStart(const Config& config, const SystemdNotifier& systemd, const LoadProgress& on_load,
                          Parts* parts) {
  try {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(config.model_path);
    if (!checkpoint.ok()) return ModelError(checkpoint.status());
    absl::Status quantised =
        QuantiseOnLoad(config.quantization, (*checkpoint)->quantization, (*checkpoint)->config, (*checkpoint)->tensors);
    if (!quantised.ok()) return quantised;
    for (const std::string& warning : (*checkpoint)->warnings) Log(LogLevel::kWarning, warning);
    if (parts->journal != nullptr && config.session_disk_bytes > 0) {
      parts->model_digest = std::async(std::launch::async, [opened = checkpoint->get(), path = config.model_path] {
        return DigestOfModel(*opened, path);
      });
    }
    const absl::Cleanup digest_is_done = [parts] {
      if (parts->model_digest.valid()) parts->model_digest.wait();  // it reads the checkpoint
    };
    Sizing sizing;
    absl::Status status = Build(config, **checkpoint, on_load, &sizing, parts);
    for (const std::string& tensor : (*checkpoint)->tensors.NonFinite()) {
      Log(LogLevel::kWarning,
          absl::StrCat(config.model_path, ": ", tensor, " contains NaN or Inf; requests that use it will fail"));
    }
    if (status.ok()) status = Start(config, systemd, **checkpoint, sizing, parts);
    return status;  // the weights are packed; the checkpoint's files may go
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory");
  } catch (const std::exception& error) {  // of the device
    return absl::InternalError(error.what());
  }
}

}  // namespace

int Serve(const Config& config_in, const Announce& announce, const ShowBar& bar) {
  absl::StatusOr<SystemdNotifier> systemd = SystemdNotifier::FromEnvironment();
  Config config = config_in;
  if (systemd.ok() && systemd->socket().has_value()) {
    config.host = systemd->socket()->host;
    config.port = systemd->socket()->port;
    config.origins["host"] = config.origins["port"] = "socket";
    const std::string wrong = CheckReach("the inherited socket:", config.host, config.insecure);
    if (!wrong.empty()) systemd = absl::InvalidArgumentError(wrong);
  }
  if (!systemd.ok()) {
    announce(absl::StrCat("hydrantd: ", std::string(systemd.status().message())));
    return kExitUsage;
  }
  StartLog(config.log_level, config.log_format);
  // A reader of JSON gets these lines in the log, as objects.
  const bool json = config.log_format == LogFormat::kJson;
  const auto tell = [&](LogLevel level, const std::string& line) { json ? Log(level, line) : announce(line); };
  SetLoadingSignals();
  systemd->Notify("STATUS=Loading the model");
  const int64_t started_us = MonotonicUs();
  Parts parts;
  LoadReporter reporter(json ? nullptr : bar, [&](const std::string& line, const Loaded& loaded) {
    const LogField fields[] = {{"loaded_bytes", loaded.bytes}, {"total_bytes", loaded.total_bytes}};
    json ? Log(LogLevel::kInfo, line, fields) : announce(line);
    systemd->Notify(absl::StrCat("STATUS=", line));
  });
  const LoadProgress on_load = [&](int64_t loaded_bytes, int64_t total_bytes) {
    const Loaded loaded = {loaded_bytes, total_bytes};
    parts.loading->SetPercent(loaded.percent());
    reporter.Report(loaded, MonotonicUs());
  };
  // A file of keys that is wrong ends the start before the minutes of loading.
  absl::Status status = CheckKeyFiles({config.api_key_path, config.admin_key_path, config.metrics_key_path});
  if (status.ok()) status = CheckStorePassword(config);
  if (status.ok()) status = OpenJournal(config, &parts);
  if (status.ok()) status = BindPorts(config, *systemd, &parts);
  if (status.ok()) status = FindModelOf(&config);
  if (status.ok()) status = LoadAndStart(config, *systemd, on_load, &parts);
  reporter.Finish();
  if (!status.ok()) {
    // First: what is stopped may hang, in the lookup of a name, and then this process is ended without another word.
    tell(LogLevel::kError, absl::StrCat("hydrantd: ", std::string(status.message())));
    parts.Stop(ExitCodeOf(status));
    StopLog();
    return ExitCodeOf(status);
  }
  Log(LogLevel::kDebug, absl::StrCat("ready after ", (MonotonicUs() - started_us) / 1000, " ms"));
  const std::string host = config.host.find(':') == std::string::npos ? config.host : "[" + config.host + "]";
  if (parts.http->admin_port() != 0) {
    tell(LogLevel::kInfo, absl::StrCat("admin listener on http://", config.admin_host, ":", parts.http->admin_port()));
  }
  tell(LogLevel::kInfo, absl::StrCat("listening on http://", host, ":", parts.http->port(), " (", parts.summary, ")"));
  const int exit_code = parts.http->Run();
  parts.engine->Stop();
  KeepParked(parts);
  parts.Stop(exit_code);
  Log(LogLevel::kInfo, absl::StrCat("stopped, exit code ", exit_code));
  StopLog();
  return exit_code;
}

}  // namespace hydrant
