#include "server/frontend/routes.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/messages_request.h"
#include "api/request/tokenize.h"
#include "server/frontend/openapi.h"
#include "server/frontend/response_routes.h"
#include "server/frontend/session_routes.h"
#include "server/generation/chat_prepare.h"
#include "server/generation/embedding_prepare.h"
#include "server/generation/responses_prepare.h"
#include "server/http/http_exchange.h"
#include "server/http/worker_pool.h"
#include "server/live_view/ui_routes.h"
#include "server/process/clock.h"
#include "server/sessions/session_prompt.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr int32_t kProbeAgainS = 5;

// vLLM's /health and /ping answer with nothing.
HttpResponse Empty(int status) {
  HttpResponse response;
  response.status = status;
  return response;
}

HttpResponse TokenizeNow(const std::string& body, const RequestContext& read, const ServingContext& context) {
  const ApiResult<TokenizeRequest> request = ParseTokenizeRequest(body, read);
  if (!request.ok()) return ErrorResponse(request.error());
  RequestPrompt prompt;
  prompt.text = request.value().prompt;
  if (request.value().conversation.has_value()) {
    ApiResult<RequestPrompt> rendered = RenderConversation(*request.value().conversation, context);
    if (!rendered.ok()) return ErrorResponse(rendered.error());
    prompt = std::move(rendered.value());
  }
  const std::vector<int32_t> tokens = PromptAlone(prompt, request.value().add_special_tokens, *context.tokenizer).ids;
  std::optional<std::vector<std::string>> pieces;
  if (request.value().return_token_strs) {
    // A string per token costs fifty times the text.
    if (static_cast<int64_t>(tokens.size()) > context.limits.request_tokens_max()) {
      return ErrorResponse(
          InvalidField("return_token_strs", absl::StrCat("'return_token_strs' is possible for at most ",
                                                         context.limits.request_tokens_max(), " tokens.")));
    }
    pieces.emplace();
    for (const int32_t id : tokens) pieces->emplace_back(context.tokenizer->TokenPiece(id));
  }
  return JsonResponse(TokenizeJson(tokens, pieces, context.request.context));
}

HttpResponse CountTokensNow(const std::string& body, const RequestContext& read, const ServingContext& context) {
  const ApiResult<Conversation> conversation = ParseCountTokensRequest(body, read);
  if (!conversation.ok()) return ErrorResponse(conversation.error());
  const ApiResult<RequestPrompt> prompt = RenderConversation(conversation.value(), context);
  if (!prompt.ok()) return ErrorResponse(prompt.error());
  const size_t tokens = PromptAlone(prompt.value(), /*add_special_tokens=*/false, *context.tokenizer).ids.size();
  return JsonResponse(absl::StrCat("{\"input_tokens\":", tokens, "}"));
}

// The prompt of a chat, as it would be without a session.
HttpResponse RenderNow(const std::string& body, const RequestContext& read, const ServingContext& context) {
  const ApiResult<ChatRequest> request = ParseChatRequest(body, read);
  if (!request.ok()) return ErrorResponse(request.error());
  const ApiResult<RequestPrompt> prompt = RenderConversation(request.value().conversation, context);
  if (!prompt.ok()) return ErrorResponse(prompt.error());
  const std::vector<int32_t> tokens =
      PromptAlone(prompt.value(), request.value().add_special_tokens, *context.tokenizer).ids;
  const std::string& asked = request.value().model;
  const bool adapted = context.adapters != nullptr && context.adapters->Find(asked) != nullptr;
  return JsonResponse(RenderedJson(adapted ? asked : context.request.model_names.front(), prompt.value().text, tokens));
}

HttpResponse DetokenizeNow(const std::string& body, const RequestContext& read, const ServingContext& context) {
  const ApiResult<DetokenizeRequest> request = ParseDetokenizeRequest(body, read);
  if (!request.ok()) return ErrorResponse(request.error());
  return JsonResponse(DetokenizeJson(context.tokenizer->Decode(request.value().tokens, /*skip_special_tokens=*/false)));
}

HttpResponse Readiness(const RouteSources& sources) {
  if (sources.service.unready.load(std::memory_order_relaxed)) {
    return ErrorResponse(Overloaded("The server is shutting down.", "draining", kProbeAgainS));
  }
  if (sources.service.paused.load(std::memory_order_relaxed)) {
    return ErrorResponse(Overloaded("The operator has paused admission.", "paused", kProbeAgainS));
  }
  if (sources.engine.stalled()) {
    return ErrorResponse(Overloaded("The engine is stalled.", "engine_stalled", kProbeAgainS));
  }
  const SessionJournal* journal = sources.context.sessions->journal();
  // Ready all the same: answers are right, and a balancer that looked elsewhere would leave the sessions behind.
  if (journal != nullptr && journal->counts().read_only) return JsonResponse("{\"sessions\":\"not durable\"}");
  return Empty(200);
}

// The counts of /metrics that gateways choose by.
HttpResponse Loads(const RouteSources& sources, const ServerFacts& facts) {
  const EngineCounters counters = sources.engine.counters();
  return JsonResponse(LoadsJson({static_cast<int64_t>(std::time(nullptr)), counters.running, counters.waiting,
                                 counters.blocks_used, counters.parked_blocks},
                                facts));
}

// A route whose response is a function of the request's head.
HttpRoute Simple(std::string method, std::string path, bool open, std::function<HttpResponse(const HttpHead&)> make) {
  return {std::move(method), std::move(path), open,
          [make = std::move(make)](HttpExchange& exchange) -> asio::awaitable<void> {
            HttpResponse response = make(exchange.head());
            co_await exchange.Respond(std::move(response));
          }};
}

// What routers of SGLang ask for.
void AddInfoRoutes(const std::shared_ptr<const ServerFacts>& facts, std::vector<HttpRoute>* routes) {
  for (const char* path : {"/server_info", "/get_server_info"}) {
    routes->push_back(
        Simple("GET", path, false, [facts](const HttpHead&) { return JsonResponse(ServerInfoJson(*facts)); }));
  }
  for (const char* path : {"/model_info", "/get_model_info"}) {
    routes->push_back(
        Simple("GET", path, false, [facts](const HttpHead&) { return JsonResponse(ModelInfoJson(*facts)); }));
  }
}

// A route whose response is a function of the body, computed on the worker threads when that may take long. It is one of the open
// requests of its tenant, whose processor time it costs.
using FromBody = HttpResponse (*)(const std::string& body, const RequestContext& read, const ServingContext& context);
HttpRoute OnBody(std::string path, const RouteSources& sources, FromBody make) {
  HttpRoute route = {
      "POST", std::move(path), false,
      [&workers = sources.workers, &context = sources.context, make](HttpExchange& exchange) -> asio::awaitable<void> {
        const TenantEntry& tenant = *exchange.caller();
        HttpResponse response;
        // Without the limits of generation: nothing is generated.
        RequestContext read = context.request;
        read.is_other_model = AdapterCheck(context, tenant.config.adapters);
        const auto work = [&] { response = make(exchange.body(), read, context); };
        const WorkOwner owner = {tenant.index(), exchange.client()};
        co_await workers.RunHereIfSmall(exchange.body().size(), owner, work);
        exchange.DropBody();
        AddFields(&response, tenant.account->RateFields(MonotonicUs()));
        co_await exchange.Respond(std::move(response));
      }};
  route.admit = [&admission = sources.admission](const HttpExchange& exchange) {
    return admission.AdmitWork(exchange);
  };
  route.body_bytes_max = TextBytesMax(sources.context.request.context);
  return route;
}

// The last name of a path, which may end with slashes: never a path of the server's.
std::string FolderName(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.find_last_of('/') + 1));
}

// The model, and the adapters that the caller may name.
std::vector<ModelCard> CardsFor(const RouteSources& sources, const HttpExchange& exchange) {
  std::vector<ModelCard> cards = {sources.model};
  for (const auto& adapter : AdaptersOf(sources.context, exchange.caller()->config.adapters.get())) {
    ModelCard& card = cards.emplace_back(sources.model);
    card.id = adapter->name;
    card.created = adapter->created;
    card.root = FolderName(adapter->path);
    card.parent = sources.model.id;
  }
  return cards;
}

// They are OpenAI's and Anthropic's alike, and answer each client in its own words.
void AddModelRoutes(const std::shared_ptr<const RouteSources>& sources, std::vector<HttpRoute>* routes) {
  routes->push_back({"GET", "/v1/models", false, [sources](HttpExchange& exchange) -> asio::awaitable<void> {
                       const bool anthropic = exchange.dialect() == Dialect::kAnthropic;
                       const std::vector<ModelCard> cards = CardsFor(*sources, exchange);
                       HttpResponse response =
                           JsonResponse(anthropic ? MessagesModelListJson(cards) : ModelListJson(cards));
                       co_await exchange.Respond(std::move(response));
                     }});
  routes->back().dialect = std::nullopt;
  routes->push_back({"GET", "/v1/models/{model...}", false, [sources](HttpExchange& exchange) -> asio::awaitable<void> {
                       const bool anthropic = exchange.dialect() == Dialect::kAnthropic;
                       const std::string id = exchange.path_value(0);
                       HttpResponse response = ErrorResponse(ModelNotFound(sources->model.id));
                       for (const ModelCard& card : CardsFor(*sources, exchange)) {
                         if (card.id == id)
                           response = JsonResponse(anthropic ? MessagesModelJson(card) : ModelJson(card));
                       }
                       co_await exchange.Respond(std::move(response));
                     }});
  routes->back().dialect = std::nullopt;
}

HttpRoute Generation(std::string path, const RouteSources& sources, PrepareFunction prepare, bool reads_past = false) {
  HttpRoute route = {"POST", std::move(path), false,
                     [&generations = sources.generations, prepare, reads_past](HttpExchange& exchange) {
                       return generations.Serve(exchange, prepare, reads_past);
                     }};
  route.admit = [&admission = sources.admission](const HttpExchange& exchange) {
    return admission.AdmitGeneration(exchange);
  };
  return route;
}

}  // namespace

std::vector<HttpRoute> MakeRoutes(RouteSources sources_in) {
  const auto sources = std::make_shared<const RouteSources>(std::move(sources_in));
  const ServingContext& context = sources->context;
  std::vector<HttpRoute> routes;
  routes.push_back(Generation("/v1/completions", *sources, PrepareCompletion));
  routes.push_back(Generation("/v1/chat/completions", *sources, PrepareChat));
  // llama.cpp's name for it is the second.
  for (const char* path : {"/v1/chat/completions/render", "/apply-template"}) {
    routes.push_back(OnBody(path, *sources, RenderNow));
  }
  routes.push_back(Generation("/v1/messages", *sources, PrepareMessages));
  routes.back().dialect = Dialect::kAnthropic;
  routes.push_back(OnBody("/v1/messages/count_tokens", *sources, CountTokensNow));
  routes.back().dialect = Dialect::kAnthropic;
  routes.push_back(Generation("/v1/embeddings", *sources, PrepareEmbeddings));
  routes.push_back(Generation("/v1/responses", *sources, PrepareResponses, /*reads_past=*/true));
  AddResponseRoutes(context, sources->admission, sources->workers, sources->disk_workers, &routes);
  AddModelRoutes(sources, &routes);
  AddSessionRoutes({*context.sessions, sources->transfer}, sources->admission, sources->inspector, &routes);
  routes.push_back(Simple("GET", "/tokenizer_info", false, [&context](const HttpHead&) {
    return JsonResponse(TokenizerInfoJson({context.chat.bos_token, context.chat.eos_token, context.chat.for_all.source,
                                           context.request.vocab_size, context.request.context}));
  }));
  routes.push_back(OnBody("/tokenize", *sources, TokenizeNow));
  routes.push_back(OnBody("/detokenize", *sources, DetokenizeNow));
  routes.push_back({"GET", "/load", false, [sources](HttpExchange& exchange) -> asio::awaitable<void> {
                      const int64_t load = sources->shared
                                               ? exchange.caller()->account->snapshot(MonotonicUs()).generations
                                               : sources->generations.in_flight();
                      HttpResponse response = JsonResponse(LoadJson(load));
                      co_await exchange.Respond(std::move(response));
                    }});

  const auto facts = std::make_shared<const ServerFacts>(ServerFacts{
      sources->model, sources->version, context.limits.blocks, context.limits.sequences_max, context.ranks});
  AddInfoRoutes(facts, &routes);

  // Whatever else a tenant's key opens.
  for (HttpRoute& route : routes) {
    if (route.admit) continue;
    route.admit = [sources](const HttpExchange& exchange) { return sources->admission.AdmitAnswer(exchange); };
  }

  AddHealthRoutes(sources->engine, &routes);
  for (const char* path : {"/ready", "/readyz"}) {
    routes.push_back(Simple("GET", path, true, [sources](const HttpHead&) { return Readiness(*sources); }));
    routes.back().probe = true;
  }
  routes.push_back(Simple("GET", "/version", true,
                          [sources](const HttpHead&) { return JsonResponse(VersionJson(sources->version)); }));
  if (sources->ui) AddUiRoutes(&routes);
  const bool keyed = sources->metrics_reader != nullptr;
  if (keyed || !sources->shared) {
    AddMetricsRoute(sources->metrics, sources->engine, *context.sessions, /*open=*/!keyed, &routes);
    routes.back().authenticate = sources->metrics_reader;
    routes.push_back(
        Simple("GET", "/v1/loads", !keyed, [sources, facts](const HttpHead&) { return Loads(*sources, *facts); }));
    routes.back().authenticate = sources->metrics_reader;
  }
  // Last, for it tells of the others; itself is in it, too.
  const auto openapi = std::make_shared<std::string>();
  routes.push_back(Simple("GET", "/openapi.json", true, [openapi](const HttpHead&) { return JsonResponse(*openapi); }));
  *openapi = OpenApiJson(routes, context.request, sources->version);
  return routes;
}

void AddHealthRoutes(const EnginePort& engine, std::vector<HttpRoute>* routes) {
  const auto health = [&engine](const HttpHead&) { return Empty(engine.stalled() ? 503 : 200); };
  for (const char* path : {"/health", "/healthz", "/v1/health", "/live", "/livez", "/ping"}) {
    routes->push_back(Simple("GET", path, true, health));
    routes->back().probe = true;
  }
  routes->push_back(Simple("POST", "/ping", true, health));
  routes->back().body = false;
}

void AddMetricsRoute(Metrics& metrics, const EnginePort& engine, SessionStore& sessions, bool open,
                     std::vector<HttpRoute>* routes) {
  routes->push_back(Simple("GET", "/metrics", open, [&metrics, &engine, &sessions](const HttpHead&) {
    const EngineCounters counters = engine.counters();  // before stalled(): no stall is counted twice
    HttpResponse response =
        JsonResponse(metrics.Render(counters, sessions.counts(), engine.stalled(), sessions.journal(), sessions.kv()));
    response.content_type = kMetricsContentType;
    return response;
  }));
  routes->back().probe = true;
}

}  // namespace hydrant
