#include "server/frontend/admin_routes.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "api/wire/json_body.h"
#include "api/wire/json_writer.h"
#include "api/wire/object_reader.h"
#include "server/frontend/openapi.h"
#include "server/frontend/routes.h"
#include "server/frontend/session_routes.h"
#include "server/http/http_exchange.h"
#include "server/process/clock.h"
#include "server/process/log.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr size_t kIdsMax = 10'000;
constexpr int64_t kBodyBytesMax = 1 << 20;
constexpr size_t kIdBytesMax = 256, kPathBytesMax = 4096;
// Adapters that are read, or wait for it: more than a program that loads them in turn has, fewer than there are connections.
constexpr int32_t kLoadsMax = 8;
constexpr int32_t kLoadAgainS = 5;

struct State {
  explicit State(AdminSources sources_in) : sources(std::move(sources_in)) {}
  const AdminSources sources;
  std::atomic<int32_t> loads{0};  // of adapters; relaxed: nothing is published through it
};

std::string Bool(bool value) { return value ? "true" : "false"; }

// ,"name":value
template <typename Value>
void AppendMember(std::string* out, std::string_view name, Value value) {
  absl::StrAppend(out, ",\"", std::string(name), "\":", value);
}

HttpResponse Reload(const State& state) {
  const absl::Status status = state.sources.reload();
  if (!status.ok()) {
    // The message names the file and the place in it; the operator wrote both.
    return ErrorResponse(InvalidField("", std::string(status.message()), "invalid_tenants_file"));
  }
  const std::shared_ptr<const TenantTable> table = state.sources.tenants.table();
  std::string json = absl::StrCat("{\"tenants\":", table->entries().size());
  if (!table->warning().empty()) absl::StrAppend(&json, ",\"warning\":\"", std::string(table->warning()), "\"");
  return JsonResponse(json + "}");
}

void AppendLimits(const TenantEntry& entry, const TenantAccount::Snapshot& now, std::string* out) {
  const auto limit = [out](const char* name, int64_t value) {
    if (value > 0) AppendMember(out, name, value);
  };
  AppendMember(out, "weight", entry.config.weight);
  AppendMember(out, "keys", entry.config.keys.size());
  limit("concurrency_max", now.limits.concurrency_max);
  limit("rpm", now.limits.rpm);
  limit("tpm", now.limits.tpm);
  limit("queue_max", now.limits.queue_max);
  limit("sequences_max", now.limits.sequences_max);
  limit("sessions_max", entry.config.sessions_max);
  limit("session_disk_bytes", entry.config.session_disk_bytes);
  limit("priority_max", entry.config.priority_max);
  limit("max_tokens_max", entry.config.max_tokens_max);
  if (entry.config.request_seconds_max > 0) {
    AppendMember(out, "request_seconds_max", entry.config.request_seconds_max);
  }
  limit("kv_budget_max", entry.config.kv_budget_max);
  limit("floor_blocks", entry.config.floor_blocks);
  limit("blocks_max", entry.config.blocks_max);
}

void AppendTenant(const State& state, const std::string& name, const TenantEntry* entry, size_t index,
                  const EngineCounters& engine, std::string* out) {
  out->append("{\"name\":");
  AppendJsonString(out, name);
  AppendMember(out, "configured", Bool(entry != nullptr));
  const TenantCounters counters = index < engine.tenants.size() ? engine.tenants[index] : TenantCounters();
  AppendMember(out, "running", counters.running);
  AppendMember(out, "waiting", counters.waiting);
  AppendMember(out, "service", counters.service);
  AppendMember(out, "blocks", counters.blocks);
  AppendMember(out, "reserved_blocks", counters.reserved_blocks);
  AppendMember(out, "live_slots", counters.live_slots);
  AppendMember(out, "prompt_tokens", counters.prompt_tokens);
  AppendMember(out, "generated_tokens", counters.generated_tokens);
  if (entry != nullptr) {
    const TenantAccount::Snapshot now = entry->account->snapshot(MonotonicUs());
    AppendMember(out, "open", now.open);
    if (now.requests_remaining >= 0) AppendMember(out, "requests_remaining", now.requests_remaining);
    if (now.tokens_remaining >= 0) AppendMember(out, "tokens_remaining", now.tokens_remaining);
    std::string limits;
    AppendLimits(*entry, now, &limits);
    out->append(",\"limits\":{").append(limits, 1).append("}");
  }
  std::string rejected;
  for (int32_t i = 0; i < kRejectReasons; ++i) {
    const auto reason = static_cast<RejectReason>(i);
    AppendMember(&rejected, RejectReasonName(reason),
                 state.sources.metrics.Rejected(static_cast<int32_t>(index), reason));
  }
  out->append(",\"rejected\":{").append(rejected, 1).append("}}");
}

HttpResponse Tenants(const State& state) {
  const std::shared_ptr<const TenantTable> table = state.sources.tenants.table();
  const std::vector<std::string> names = state.sources.tenants.names();
  std::vector<const TenantEntry*> entries(names.size(), nullptr);
  for (const auto& entry : table->entries()) {
    const auto index = static_cast<size_t>(entry->index());
    if (index < entries.size()) entries[index] = entry.get();
  }
  const EngineCounters engine = state.sources.engine.counters();
  std::string out = absl::StrCat("{\"paused\":", Bool(state.sources.service.paused.load(std::memory_order_relaxed)),
                                 ",\"draining\":", Bool(state.sources.service.unready.load(std::memory_order_relaxed)),
                                 ",\"tenants\":[");
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendTenant(state, names[i], entries[i], i, engine, &out);
  }
  out.append("]}");
  return JsonResponse(std::move(out));
}

// The answer that `make` gives to an object, or the error that it, or the object, has.
using FromObject = std::function<HttpResponse(ObjectReader& reader)>;
HttpResponse OfObject(const State& state, const std::string& body, const FromObject& make) {
  const ApiResult<JsonBody> document = JsonBody::Parse(body, state.sources.service.limits);
  if (!document.ok()) return ErrorResponse(document.error());
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  HttpResponse response = make(reader);
  return error.has_value() ? ErrorResponse(*error) : std::move(response);
}

HttpResponse Abort(const State& state, ObjectReader& reader) {
  RequestDirectory::Selection selection;
  selection.ids = reader.Strings("request_ids", kIdsMax, kIdBytesMax);
  if (reader.Has("tenant")) {
    const std::string name = reader.String("tenant", "", kIdBytesMax, /*identifier=*/true);
    const std::vector<std::string> names = state.sources.tenants.names();
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) selection.tenant = static_cast<int32_t>(i);
    }
    if (!selection.tenant.has_value()) reader.Fail("tenant", "There is no tenant of this name.");
  }
  if (selection.ids.empty() && !selection.tenant.has_value()) {
    // An empty list aborts nothing; it must not come to mean everything.
    reader.Fail("request_ids", "'request_ids' (not empty) or 'tenant' is required.", "missing_field");
  }
  if (reader.failed()) return {};
  return JsonResponse(
      absl::StrCat("{\"aborted\":", state.sources.requests.Abort(selection, state.sources.engine), "}"));
}

HttpResponse Pause(const State& state, bool paused) {
  state.sources.engine.PauseAdmission(paused);
  state.sources.service.paused.store(paused, std::memory_order_relaxed);
  state.sources.metrics.SetPaused(paused);
  return JsonResponse(absl::StrCat("{\"paused\":", Bool(paused), "}"));
}

// The level holds until the process ends, or the next call.
HttpResponse SetLevel(ObjectReader& reader) {
  const std::string name = reader.String("level", "", kIdBytesMax, /*identifier=*/true);
  const std::optional<LogLevel> level = LogLevelOf(name);
  if (!level.has_value()) reader.Fail("level", "'level' must be debug, info, warning or error.");
  if (reader.failed()) return {};
  SetLogLevel(*level);
  return JsonResponse(absl::StrCat("{\"level\":\"", std::string(LogLevelName(*level)), "\"}"));
}

HttpResponse PlainText(std::string text) {
  HttpResponse response = JsonResponse(std::move(text));
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

// A name whose adapter there is, or is to be.
std::string ReadAdapterName(ObjectReader& reader) {
  std::string name = reader.String("lora_name", "", kIdBytesMax, /*identifier=*/true);
  if (name.empty()) reader.Fail("lora_name", "'lora_name' is required.", "missing_field");
  return name;
}

// Answers are those of vLLM, whose endpoint it is.
HttpResponse LoadAdapter(AdapterRegistry& adapters, ObjectReader& reader) {
  const std::string name = ReadAdapterName(reader);
  const std::string path = reader.String("lora_path", "", kPathBytesMax, /*identifier=*/true);
  if (path.empty()) reader.Fail("lora_path", "'lora_path' is required.", "missing_field");
  if (reader.Bool("load_inplace", false)) reader.FailUnsupported("load_inplace", "'load_inplace'");
  if (reader.failed()) return {};
  const absl::Status status = adapters.Load(name, path);
  if (status.ok()) return PlainText(absl::StrCat("Success: LoRA adapter '", name, "' added successfully."));
  const std::string message(status.message());
  if (absl::IsUnavailable(status)) {
    reader.FailWith(Overloaded(message, "out_of_memory", kLoadAgainS));
  } else if (absl::IsResourceExhausted(status)) {
    reader.FailWith(
        Overloaded(message, "queue_full", kLoadAgainS));  // until one is unloaded, and nobody has it any more
  } else if (absl::IsInternal(status)) {
    reader.FailWith(ServerError(message, "internal_error"));
  } else {
    reader.Fail(absl::IsInvalidArgument(status) && AdapterRegistry::IsName(name) ? "lora_path" : "lora_name", message);
  }
  return {};
}

// On the thread that reads adapters, in their order.
asio::awaitable<HttpResponse> LoadInTurn(State& state, const HttpExchange& exchange) {
  const absl::Cleanup leave = [&state] { state.loads.fetch_sub(1, std::memory_order_relaxed); };
  if (state.loads.fetch_add(1, std::memory_order_relaxed) >= kLoadsMax) {
    co_return ErrorResponse(
        Overloaded(absl::StrCat(kLoadsMax, " adapters are being loaded already."), "queue_full", kLoadAgainS));
  }
  HttpResponse response;
  co_await state.sources.adapter_workers.Run({}, [&] {
    // The end of the process waits for loads that have begun.
    if (state.sources.service.unready.load(std::memory_order_relaxed)) {
      response = ErrorResponse(AdmissionControl::Draining().error);
      return;
    }
    response = OfObject(state, exchange.body(),
                        [&state](ObjectReader& reader) { return LoadAdapter(*state.sources.adapters, reader); });
  });
  co_return response;
}

HttpResponse UnloadAdapter(AdapterRegistry& adapters, ObjectReader& reader) {
  const std::string name = ReadAdapterName(reader);
  if (reader.failed()) return {};
  if (adapters.Unload(name)) return PlainText(absl::StrCat("Success: LoRA adapter '", name, "' removed successfully."));
  reader.FailWith(NotFound(absl::StrCat("There is no adapter '", name, "'."), "model_not_found", "lora_name"));
  return {};
}

using Make = std::function<HttpResponse(const std::string& body)>;

HttpRoute Route(std::string method, std::string path, bool body, Make make) {
  HttpRoute route;
  route.audited = method != "GET";
  route.method = std::move(method);
  route.path = std::move(path);
  route.handle = [make = std::move(make)](HttpExchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = make(exchange.body());
    co_await exchange.Respond(std::move(response));
  };
  route.body = body;
  route.body_bytes_max = kBodyBytesMax;
  return route;
}

}  // namespace

std::vector<HttpRoute> MakeAdminRoutes(AdminSources sources) {
  const auto state = std::make_shared<State>(std::move(sources));
  std::vector<HttpRoute> routes;
  routes.push_back(Route("GET", "/admin/tenants", false, [state](const std::string&) { return Tenants(*state); }));
  if (state->sources.config != nullptr) {
    routes.push_back(Route("GET", "/admin/config", false,
                           [state](const std::string&) { return JsonResponse(state->sources.config()); }));
  }
  routes.push_back(Route("POST", "/admin/drain", false, [state](const std::string&) {
    return JsonResponse(absl::StrCat("{\"draining\":true,\"in_flight\":", state->sources.drain(), "}"));
  }));
  routes.push_back(Route("POST", "/abort_requests", true, [state](const std::string& body) {
    return OfObject(*state, body, [&state](ObjectReader& reader) { return Abort(*state, reader); });
  }));
  routes.push_back(Route("POST", "/admin/log_level", true,
                         [state](const std::string& body) { return OfObject(*state, body, SetLevel); }));
  routes.push_back(Route("POST", "/pause", false, [state](const std::string&) { return Pause(*state, true); }));
  routes.push_back(Route("POST", "/resume", false, [state](const std::string&) { return Pause(*state, false); }));
  routes.push_back(Route("POST", "/reset_prefix_cache", false, [state](const std::string&) {
    state->sources.engine.ResetPrefixes();
    return JsonResponse("{\"success\":true}");
  }));
  // On the io thread: 256 tenants take 2 ms, and behind the large bodies of a worker thread it could take seconds.
  routes.push_back(Route("POST", "/admin/reload", false, [state](const std::string&) { return Reload(*state); }));
  if (state->sources.adapters != nullptr) {
    routes.push_back(Route("POST", "/v1/load_lora_adapter", true, nullptr));
    routes.back().handle = [state](HttpExchange& exchange) -> asio::awaitable<void> {
      HttpResponse response = co_await LoadInTurn(*state, exchange);
      co_await exchange.Respond(std::move(response));
    };
    routes.push_back(Route("POST", "/v1/unload_lora_adapter", true, [state](const std::string& body) {
      return OfObject(*state, body,
                      [&state](ObjectReader& reader) { return UnloadAdapter(*state->sources.adapters, reader); });
    }));
  }
  AddAdminSessionRoutes({state->sources.sessions, state->sources.transfer}, state->sources.admission,
                        state->sources.tenants, &routes);
  AddHealthRoutes(state->sources.engine, &routes);
  AddMetricsRoute(state->sources.metrics, state->sources.engine, state->sources.sessions, /*open=*/false, &routes);
  // Last, for it tells of the others; itself is in it, too.
  const auto openapi = std::make_shared<std::string>();
  routes.push_back(
      Route("GET", "/openapi.json", false, [openapi](const std::string&) { return JsonResponse(*openapi); }));
  *openapi = OpenApiJson(routes, state->sources.request, state->sources.version);
  return routes;
}

}  // namespace hydrant
