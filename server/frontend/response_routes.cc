#include "server/frontend/response_routes.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/response_items.h"
#include "api/request/responses_request.h"
#include "api/session/session.h"
#include "api/wire/json_writer.h"
#include "server/frontend/generation_service.h"
#include "server/frontend/verdict.h"
#include "server/generation/responses_prepare.h"
#include "server/http/http_exchange.h"
#include "server/process/ascii_text.h"
#include "server/process/random_id.h"
#include "server/sessions/response_notes.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::ordered_json;

// A request about what is kept: what it says, and whose it is.
struct Asked {
  const ServingContext& context;
  TenantRules rules;
  const std::string id;    // in the path: of the response or conversation
  const std::string item;  // and of one of its items
  const std::string& query;
  const std::string& body;
  const std::function<void(bool durable)> durable;  // for what changes something; null: nothing may

  SessionStore& sessions() const { return *context.sessions; }
  int32_t tenant() const { return rules.sessions.tenant; }
};

// What is answered, and when: at once, or when Asked::durable was told.
enum class Waits { kNo, kForChange, kForDeletion };
struct Answer {
  Answer(HttpResponse at_once) : response(std::move(at_once)) {}  // NOLINT: an answer is a response, as a rule
  Answer(HttpResponse later, Waits for_what) : response(std::move(later)), waits(for_what) {}

  HttpResponse response;
  Waits waits = Waits::kNo;
};
using AnswerTo = std::function<Answer(const Asked&)>;

ApiError ItemNotFound() {
  return NotFound("The conversation has no item with this id.", "conversation_not_found", "item_id");
}
ApiError ResponseNotFound() { return NotFound("There is no response with this id.", "response_not_found", "id"); }

std::string Dump(const Json& json) { return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace); }

// A page of items, as `limit`, `order` and `after` ask for it.
HttpResponse ItemPage(Json::array_t items, const std::string& query) {
  int32_t limit = 20;
  if (const std::optional<std::string> text = QueryValue(query, "limit")) {
    const ApiResult<int32_t> value = ReadQueryInteger("limit", *text, 1, 100);
    if (!value.ok()) return ErrorResponse(value.error());
    limit = value.value();
  }
  const std::string order = QueryValue(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") return ErrorResponse(InvalidField("order", "'order' must be asc or desc."));
  if (order == "desc") std::reverse(items.begin(), items.end());
  auto begin = items.begin();
  if (const std::optional<std::string> after = QueryValue(query, "after")) {
    const auto found =
        std::find_if(items.begin(), items.end(), [&after](const Json& item) { return item.value("id", "") == *after; });
    if (found == items.end()) return ErrorResponse(InvalidField("after", "There is no item of this id here."));
    begin = found + 1;
  }
  const bool has_more = items.end() - begin > limit;
  const Json::array_t page(begin, has_more ? begin + limit : items.end());
  const auto id = [&page](bool first) {
    return page.empty() ? Json(nullptr) : Json((first ? page.front() : page.back()).value("id", ""));
  };
  return JsonResponse(Dump(
      {{"object", "list"}, {"data", page}, {"first_id", id(true)}, {"last_id", id(false)}, {"has_more", has_more}}));
}

Answer GetResponse(const Asked& asked) {
  const std::optional<FoundResponse> found = FindResponse(asked.sessions(), asked.rules.sessions, asked.id);
  if (!found.has_value()) return ErrorResponse(ResponseNotFound());
  if (PercentDecode(asked.query).find("message.output_text.logprobs") != std::string::npos) {
    return ErrorResponse(UnsupportedField("include", "'message.output_text.logprobs' of a response that is kept"));
  }
  if (QueryValue(asked.query, "stream") == "true") {
    return ErrorResponse(UnsupportedField("stream", "'stream' of a response that is kept"));
  }
  std::string response = ResponseJson(found->note());
  return response.empty() ? ErrorResponse(ResponseNotFound()) : JsonResponse(std::move(response));
}

Answer ListInputItems(const Asked& asked) {
  const std::optional<FoundResponse> found = FindResponse(asked.sessions(), asked.rules.sessions, asked.id);
  if (!found.has_value()) return ErrorResponse(ResponseNotFound());
  std::optional<NoteItems> items = ItemsOf(found->note(), asked.context.request);
  if (!items.has_value()) return ErrorResponse(ResponseNotFound());
  return ItemPage(std::move(items->in), asked.query);
}

// Whether nothing but this response is to be found in its session, which the server named, and in which nothing was said after it. A
// branch has the notes of those before it, and they are found elsewhere.
bool IsAlone(const FoundResponse& found) {
  const TurnNotes& notes = found.past->notes;
  if (!IsDrawnSessionId(found.session_id) || !EndsWithNote(*found.past)) return false;
  return std::none_of(notes.begin(), notes.end(), [&found](const std::shared_ptr<const TurnNote>& note) {
    constexpr std::string_view kBegin = "{\"id\":\"";
    const std::string_view text = note->text;
    if (note.get() == &found.note() || !text.starts_with(kBegin)) return false;
    const std::string_view id = text.substr(kBegin.size(), text.find('"', kBegin.size()) - kBegin.size());
    return SessionOfResponse(id) == found.session_id;
  });
}

// Whatever ended in the session since somebody looked: the response is not in it then. What the session is goes into the journal, also
// where it is that already.
std::optional<ApiError> RemoveFrom(const Asked& asked, const std::string& session_id) {
  const auto change = [&asked](TurnNotes* notes) {
    RemoveResponse(notes, asked.id);
    return std::optional<ApiError>();
  };
  return ChangeNotes(asked.sessions(), asked.rules.sessions, session_id, change, asked.durable, /*removes=*/true);
}

// The session as a whole, if `turn` is its last; else another one has ended since.
std::optional<ApiError> DeleteAt(const Asked& asked, const std::string& session_id, uint64_t turn) {
  const std::optional<ApiError> error = asked.sessions().Delete(asked.tenant(), session_id, asked.durable, turn);
  return error.has_value() && error->code == "turn_changed" ? RemoveFrom(asked, session_id) : error;
}

// The response is not there. Where a start would find it, or KV is left, its deletion was not durable, and is asked for again.
std::optional<ApiError> DeleteResponseAgain(const Asked& asked) {
  const std::string session_id = SessionOfResponse(asked.id);
  const std::shared_ptr<const SessionPast> past =
      session_id.empty() ? nullptr : asked.sessions().ReadDurable(asked.tenant(), session_id);
  const bool is_durable = past != nullptr && FindNote(past->notes, asked.id) != past->notes.end();
  const bool is_left = !session_id.empty() && asked.sessions().HasLeftKv(asked.tenant(), session_id);
  if (!is_durable && !is_left) return ResponseNotFound();
  return asked.sessions().Get(asked.tenant(), session_id).ok()
             ? RemoveFrom(asked, session_id)
             : DeleteAt(asked, session_id, is_durable ? past->turn : 0);
}

// A session with nothing else to be found in it goes, too.
std::optional<ApiError> DeleteFound(const Asked& asked, const FoundResponse& found) {
  return IsAlone(found) ? DeleteAt(asked, found.session_id, found.past->turn) : RemoveFrom(asked, found.session_id);
}

Answer DeleteResponse(const Asked& asked) {
  const std::optional<FoundResponse> found = FindResponse(asked.sessions(), asked.rules.sessions, asked.id);
  std::optional<ApiError> error = found.has_value() ? DeleteFound(asked, *found) : DeleteResponseAgain(asked);
  if (error.has_value() && error->code == "session_not_found") error = ResponseNotFound();
  if (error.has_value()) return ErrorResponse(error->code == "session_busy" ? ConversationLocked() : *error);
  return {JsonResponse(Dump({{"id", asked.id}, {"object", "response.deleted"}, {"deleted", true}})),
          Waits::kForDeletion};
}

Answer CancelResponse(const Asked& /*asked*/) {
  return ErrorResponse(InvalidField("id",
                                    "Only a response that runs in the background can be cancelled, and none does here: "
                                    "close the connection instead.",
                                    "unsupported"));
}

Answer CountTokens(const Asked& asked) {
  const ApiResult<int64_t> tokens = CountResponseTokens(asked.body, asked.context, asked.rules);
  if (!tokens.ok()) return ErrorResponse(tokens.error());
  return JsonResponse(Dump({{"object", "response.input_tokens"}, {"input_tokens", tokens.value()}}));
}

// A conversation's object is what its first note begins with.
std::string ConversationJson(const SessionPast& past) {
  const std::string& text = past.notes.front()->text;
  return text.substr(0, text.find('\n'));
}

std::shared_ptr<const SessionPast> FindConversation(const Asked& asked) {
  if (!IsConversationId(asked.id)) return nullptr;
  std::shared_ptr<const SessionPast> past = FindPast(asked.sessions(), asked.rules.sessions, asked.id);
  return past != nullptr && !past->notes.empty() && JsonBody::Parse(ConversationJson(*past), RequestLimits()).ok()
             ? past
             : nullptr;
}

std::shared_ptr<const TurnNote> ItemNote(const std::string& object, const Json::array_t& items) {
  auto note = std::make_shared<TurnNote>();
  note->text = absl::StrCat(object, "\n", Dump(items));
  note->head = std::make_shared<const std::string>();
  return note;
}

struct ConversationBody {
  Json metadata;
  Json::array_t items;
};
// What a body is to say: what a conversation begins with, its metadata, or more items.
enum class Says { kBeginning, kMetadata, kItems };
ApiResult<ConversationBody> ReadConversationBody(const Asked& asked, Says says) {
  JsonBudget budget(asked.context.request.limits);
  const ApiResult<JsonBody> document = JsonBody::ParseObject(asked.body.empty() ? "{}" : asked.body, &budget);
  if (!document.ok()) return document.error();
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  ConversationBody read;
  // Metadata that are null are none; who says nothing of them would have them go.
  if (says == Says::kMetadata && !document.value().root()["metadata"].valid()) {
    reader.Fail("metadata", "'metadata' is required.", "missing_field");
  }
  if (says == Says::kMetadata && reader.Has("items")) {
    reader.Fail("items", "Items are added by POST /v1/conversations/{id}/items.", "unsupported");
  }
  if (says == Says::kItems && reader.Has("metadata")) {
    reader.Fail("metadata", "'metadata' is changed by POST /v1/conversations/{id}.", "unsupported");
  }
  read.metadata = ReadMetadata(&reader);
  if (says == Says::kItems || reader.Has("items"))
    read.items = ReadItems(&reader, "items", asked.context.request, &budget);
  for (size_t i = 0; i < read.items.size() && !error.has_value(); ++i) {
    if (read.items[i].value("type", "") == "item_reference") {
      reader.Fail(absl::StrCat("items[", i, "].type"), "A conversation keeps items, no references.",
                  "unsupported_item");
    }
  }
  if (error.has_value()) return *std::move(error);
  return read;
}

std::string ConversationObject(const std::string& id, int64_t created_s, const Json& metadata) {
  return Dump({{"id", id}, {"object", "conversation"}, {"created_at", created_s}, {"metadata", metadata}});
}

std::optional<Json::array_t> AllItems(const TurnNotes& notes, const RequestContext& context) {
  Json::array_t all;
  for (const std::shared_ptr<const TurnNote>& note : notes) {
    std::optional<NoteItems> items = ItemsOf(*note, context);
    if (!items.has_value()) return std::nullopt;
    for (Json::array_t* list : {&items->in, &items->out}) {
      all.insert(all.end(), std::make_move_iterator(list->begin()), std::make_move_iterator(list->end()));
    }
  }
  return all;
}

bool IsCall(const Json& item) { return item.at("type") == "function_call" || item.at("type") == "custom_tool_call"; }

// The place of the first output whose call is not before it. Nullopt: there is none.
std::optional<size_t> WithoutCall(const Json::array_t& items) {
  std::set<std::string> called;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].contains("call_id")) continue;
    const std::string id = items[i].at("call_id");
    if (IsCall(items[i])) {
      called.insert(id);
    } else if (!called.contains(id)) {
      return i;
    }
  }
  return std::nullopt;
}

// No response could be made of a conversation that has an output and not its call. `before`: what it has.
std::optional<ApiError> CheckOutputs(const Json::array_t& items, const TurnNotes& before,
                                     const RequestContext& context) {
  std::optional<size_t> without = WithoutCall(items);
  if (!without.has_value()) return std::nullopt;
  std::optional<Json::array_t> all = AllItems(before, context);
  if (!all.has_value()) return ConversationNotFound();
  const size_t begin = all->size();
  all->insert(all->end(), items.begin(), items.end());
  without = WithoutCall(*all);
  if (!without.has_value() || *without < begin) return std::nullopt;
  return InvalidField(absl::StrCat("items[", *without - begin, "].call_id"), "There is no call of this id before it.");
}

Answer StartConversation(const Asked& asked) {
  ApiResult<ConversationBody> body = ReadConversationBody(asked, Says::kBeginning);
  if (!body.ok()) return ErrorResponse(body.error());
  if (auto error = CheckIds(body.value().items, {}, asked.context.request, "items")) return ErrorResponse(*error);
  if (auto error = CheckOutputs(body.value().items, {}, asked.context.request)) return ErrorResponse(*error);
  const std::string id = absl::StrCat("conv_", RandomId());
  NameItems(NewResponseStem(id), &body.value().items);
  const int64_t now_s = std::time(nullptr);
  auto past = std::make_shared<SessionPast>();
  past->turn = 1;
  past->spec = asked.rules.kv.value_or(asked.context.request.kv);
  past->notes.push_back(ItemNote(ConversationObject(id, now_s, body.value().metadata), body.value().items));
  const std::optional<ApiError> error =
      asked.sessions().Import(asked.rules.sessions, id, {past, now_s, now_s}, asked.durable);
  if (error.has_value()) return ErrorResponse(*error);
  return {JsonResponse(ConversationJson(*past)), Waits::kForChange};
}

std::optional<ApiError> CheckNotes(const TurnNotes& notes, const Asked& asked) {
  const int64_t bytes_max = NotesBytesMax(asked.context.request.context);
  if (NotesBytes(notes) <= bytes_max) return std::nullopt;
  return TooLarge(absl::StrCat("The conversation would keep more than ", bytes_max, " bytes. Begin another."),
                  "payload_too_large", "items");
}

// Changes what the conversation keeps. Null: that is done.
std::optional<ApiError> ChangeConversation(const Asked& asked,
                                           const std::function<std::optional<ApiError>(TurnNotes*)>& change,
                                           bool removes = false) {
  std::optional<ApiError> error =
      ChangeNotes(asked.sessions(), asked.rules.sessions, asked.id, change, asked.durable, removes);
  if (error.has_value() && error->code == "session_not_found") error = ConversationNotFound();
  if (error.has_value() && error->code == "session_busy") error = ConversationLocked();
  return error;
}

Answer AddItems(const Asked& asked) {
  if (FindConversation(asked) == nullptr) return ErrorResponse(ConversationNotFound());
  ApiResult<ConversationBody> body = ReadConversationBody(asked, Says::kItems);
  if (!body.ok()) return ErrorResponse(body.error());
  NameItems(NewResponseStem(asked.id), &body.value().items);
  const auto change = [&](TurnNotes* notes) -> std::optional<ApiError> {
    if (auto error = CheckIds(body.value().items, *notes, asked.context.request, "items")) return error;
    if (auto error = CheckOutputs(body.value().items, *notes, asked.context.request)) return error;
    notes->push_back(ItemNote("{}", body.value().items));
    return CheckNotes(*notes, asked);
  };
  if (const std::optional<ApiError> error = ChangeConversation(asked, change)) return ErrorResponse(*error);
  return {ItemPage(std::move(body.value().items), "order=asc&limit=100"), Waits::kForChange};
}

// Its metadata.
Answer UpdateConversation(const Asked& asked) {
  if (FindConversation(asked) == nullptr) return ErrorResponse(ConversationNotFound());
  ApiResult<ConversationBody> body = ReadConversationBody(asked, Says::kMetadata);
  if (!body.ok()) return ErrorResponse(body.error());
  std::string object;
  const auto change = [&](TurnNotes* notes) -> std::optional<ApiError> {
    if (notes->empty()) return ConversationNotFound();  // another session has this name since
    const std::string& text = notes->front()->text;
    const size_t line = text.find('\n');
    Json said = Json::parse(text.substr(0, line), nullptr, /*allow_exceptions=*/false);
    if (!said.is_object() || line == std::string::npos) return ConversationNotFound();
    said["metadata"] = body.value().metadata;
    object = Dump(said);
    auto note = std::make_shared<TurnNote>(*notes->front());
    note->text = object + text.substr(line);
    notes->front() = std::move(note);
    return std::nullopt;
  };
  if (const std::optional<ApiError> error = ChangeConversation(asked, change)) return ErrorResponse(*error);
  return {JsonResponse(object), Waits::kForChange};
}

Answer GetConversation(const Asked& asked) {
  const std::shared_ptr<const SessionPast> past = FindConversation(asked);
  return past == nullptr ? ErrorResponse(ConversationNotFound()) : JsonResponse(ConversationJson(*past));
}

std::optional<Json::array_t> FindItems(const Asked& asked) {
  const std::shared_ptr<const SessionPast> past = FindConversation(asked);
  return past == nullptr ? std::nullopt : AllItems(past->notes, asked.context.request);
}

Answer ListItems(const Asked& asked) {
  std::optional<Json::array_t> items = FindItems(asked);
  return items.has_value() ? ItemPage(*std::move(items), asked.query) : ErrorResponse(ConversationNotFound());
}

Answer GetItem(const Asked& asked) {
  const std::optional<Json::array_t> items = FindItems(asked);
  if (!items.has_value()) return ErrorResponse(ConversationNotFound());
  for (const Json& item : *items) {
    if (item.value("id", "") == asked.item) return JsonResponse(Dump(item));
  }
  return ErrorResponse(ItemNotFound());
}

// An item goes from every note that it is in: a conversation from before ids were held apart may have it twice.
std::optional<ApiError> RemoveItem(TurnNotes* notes, const std::string& id, const RequestContext& context) {
  size_t removed = 0;
  for (std::shared_ptr<const TurnNote>& note : *notes) {
    std::optional<NoteItems> items = ItemsOf(*note, context);
    if (!items.has_value()) continue;
    const auto is = [&id](const Json& item) { return item.value("id", "") == id; };
    const size_t here = std::erase_if(items->in, is) + std::erase_if(items->out, is);
    if (here == 0) continue;
    removed += here;
    const std::string& text = note->text;
    Json object = Json::parse(text.substr(0, text.find('\n')), nullptr, /*allow_exceptions=*/false);
    if (object.contains("output")) object["output"] = std::move(items->out);
    auto without = std::make_shared<TurnNote>(*note);
    without->text = absl::StrCat(Dump(object), "\n", Dump(items->in));
    without->tokens = 0;
    note = std::move(without);
  }
  if (removed == 0) return ItemNotFound();
  // What comes next is made of items again.
  auto last = std::make_shared<TurnNote>(*notes->back());
  last->tokens = 0;
  notes->back() = std::move(last);
  const std::optional<Json::array_t> left = AllItems(*notes, context);
  if (!left.has_value() || !WithoutCall(*left).has_value()) return std::nullopt;
  return InvalidField("item_id", "The output of this call is in the conversation: delete that first.");
}

// Whether a start would find this item of the conversation, of which another past is in force.
bool HasDurableItem(const Asked& asked) {
  const std::shared_ptr<const SessionPast> past = asked.sessions().ReadDurable(asked.tenant(), asked.id);
  if (past == nullptr) return false;
  const std::optional<Json::array_t> items = AllItems(past->notes, asked.context.request);
  const auto is = [&asked](const Json& item) { return item.value("id", "") == asked.item; };
  return items.has_value() && std::any_of(items->begin(), items->end(), is);
}

Answer DeleteItem(const Asked& asked) {
  if (FindConversation(asked) == nullptr) return ErrorResponse(ConversationNotFound());
  std::string object;
  // Asked before the turn: others can go on meanwhile.
  const bool was_durable = HasDurableItem(asked) || asked.sessions().HasLeftKv(asked.tenant(), asked.id);
  const auto change = [&](TurnNotes* notes) -> std::optional<ApiError> {
    if (notes->empty()) return ConversationNotFound();  // another session has this name since
    auto failed = RemoveItem(notes, asked.item, asked.context.request);
    // It is gone, and that was not durable, or its KV is left.
    if (failed.has_value() && failed->status == 404 && was_durable) failed.reset();
    if (!failed.has_value()) object = notes->front()->text.substr(0, notes->front()->text.find('\n'));
    return failed;
  };
  const std::optional<ApiError> error = ChangeConversation(asked, change, /*removes=*/true);
  if (error.has_value()) return ErrorResponse(*error);
  return {JsonResponse(std::move(object)), Waits::kForDeletion};
}

Answer DeleteConversation(const Asked& asked) {
  if (FindConversation(asked) == nullptr) {
    // One that is gone is deleted again, where that was not durable.
    const bool is_gone = IsConversationId(asked.id) && !asked.sessions().Get(asked.tenant(), asked.id).ok();
    if (!is_gone) return ErrorResponse(ConversationNotFound());
  }
  std::optional<ApiError> error = asked.sessions().Delete(asked.tenant(), asked.id, asked.durable);
  if (error.has_value() && error->code == "session_not_found") error = ConversationNotFound();
  if (error.has_value()) return ErrorResponse(error->code == "session_busy" ? ConversationLocked() : *error);
  return {JsonResponse(Dump({{"id", asked.id}, {"object", "conversation.deleted"}, {"deleted", true}})),
          Waits::kForDeletion};
}

// Who makes an answer. Tokenizing waits for no disk: what is needed of it is found out first, and then made by those who do.
struct Makers {
  WorkerPool* first;
  WorkerPool* with_disk;  // null: `first` waits for the disk
};

// Has `answer` made, and sends it: what deletes something once the disk has taken it, or cannot.
asio::awaitable<void> RespondWith(HttpExchange& exchange, const ServingContext& context, Makers makers,
                                  const AnswerTo& answer) {
  const TenantEntry& tenant = *exchange.caller();
  std::optional<Verdict> durable;
  if (exchange.head().method != "GET") durable.emplace(exchange);
  Asked asked = {context,
                 TenantRulesOf(tenant, context),
                 exchange.path_value(0),
                 exchange.path_value(1),
                 exchange.head().query,
                 exchange.body(),
                 durable.has_value() ? durable->Sayer() : nullptr};
  Answer made = HttpResponse();
  const auto work = [&] { made = answer(asked); };
  const WorkOwner owner = {tenant.index(), exchange.client()};
  bool needs_disk = false;
  if (makers.with_disk != nullptr) asked.rules.sessions.needs_disk = &needs_disk;
  co_await makers.first->Run(owner, work);
  if (needs_disk) {
    asked.rules.sessions.needs_disk = nullptr;
    co_await makers.with_disk->Run(owner, work);
  }
  if (made.waits != Waits::kNo) {
    const bool here = co_await durable->Wait();
    if (!here) co_return;
    if (made.waits == Waits::kForDeletion && !durable->yes()) {
      made.response = ErrorResponse(
          NotDurable("It is gone, but not from the disk: a restart may bring it back, or its KV is left."));
    } else if (made.waits == Waits::kForChange) {
      const bool kept = durable->yes() && context.sessions->journals();
      made.response.fields.emplace_back("x-hydrant-durable", kept ? "tokens" : "false");
    }
  }
  co_await exchange.Respond(std::move(made.response));
}

}  // namespace

void AddResponseRoutes(const ServingContext& context, AdmissionControl& admission, WorkerPool& workers,
                       WorkerPool& disk_workers, std::vector<HttpRoute>* routes) {
  const auto add = [&](std::string method, std::string path, bool body, AnswerTo answer, Makers makers) {
    HttpRoute route = {std::move(method), std::move(path), /*open=*/false,
                       [&context, makers, answer = std::move(answer)](HttpExchange& exchange) -> asio::awaitable<void> {
                         co_await RespondWith(exchange, context, makers, answer);
                       }};
    route.body = body;
    route.admit = [&admission](const HttpExchange& exchange) { return admission.AdmitWork(exchange); };
    if (body) route.body_bytes_max = TextBytesMax(context.request.context);
    routes->push_back(std::move(route));
  };
  // A session that is asked for may be on the disk only.
  const Makers disk = {&disk_workers, nullptr}, tokenizing = {&workers, &disk_workers};
  const std::string response = "/v1/responses/{response_id}";
  add("GET", response, false, GetResponse, disk);
  add("DELETE", response, false, DeleteResponse, disk);
  add("GET", response + "/input_items", false, ListInputItems, disk);
  add("POST", response + "/cancel", false, CancelResponse, tokenizing);
  add("POST", "/v1/responses/input_tokens", true, CountTokens, tokenizing);
  const std::string conversation = "/v1/conversations/{conversation_id}";
  add("POST", "/v1/conversations", true, StartConversation, tokenizing);
  add("GET", conversation, false, GetConversation, disk);
  add("POST", conversation, true, UpdateConversation, disk);
  add("DELETE", conversation, false, DeleteConversation, disk);
  add("GET", conversation + "/items", false, ListItems, disk);
  add("POST", conversation + "/items", true, AddItems, disk);
  add("GET", conversation + "/items/{item_id}", false, GetItem, disk);
  add("DELETE", conversation + "/items/{item_id}", false, DeleteItem, disk);
}

}  // namespace hydrant
