#include "server/sessions/response_notes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/response_items.h"
#include "api/session/session.h"
#include "api/wire/json_body.h"
#include "api/wire/json_strings.h"
#include "server/process/random_id.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kDrawn = 16;

// What the note of this response begins with, and no other one.
std::string BeginOf(std::string_view response_id) {
  return absl::StrCat("{\"id\":\"", std::string(response_id), "\",");
}

// What an id has after the first '_'. Empty: no id.
std::string_view StemIn(std::string_view id) {
  const size_t at = id.find('_');
  return at == std::string_view::npos ? std::string_view() : id.substr(at + 1);
}

std::string_view PrefixOf(std::string_view type) {
  if (type == "message") return "msg_";
  if (type == "reasoning") return "rs_";
  if (type == "function_call") return "fc_";
  if (type == "custom_tool_call") return "ctc_";
  return type == "custom_tool_call_output" ? "ctco_" : "fco_";
}

// Items of a note, checked.
std::optional<Json::array_t> ReadNoteItems(JsonView object, const RequestContext& context, JsonBudget* budget) {
  std::optional<ApiError> error;
  ObjectReader reader(object, "", &error);
  Json::array_t items = ReadItems(&reader, "items", context, budget);
  if (error.has_value()) return std::nullopt;
  return items;
}

std::optional<Json::array_t> ParseItems(std::string_view array, const RequestContext& context) {
  JsonBudget budget(context.limits);
  const ApiResult<JsonBody> body = JsonBody::ParseObject(absl::StrCat("{\"items\":", std::string(array), "}"), &budget);
  if (!body.ok()) return std::nullopt;
  return ReadNoteItems(body.value().root(), context, &budget);
}

}  // namespace

std::string NewResponseStem(std::string_view session_id) {
  return absl::StrCat(RandomId().substr(0, kDrawn), "_", std::string(session_id));
}

std::string SessionOfResponse(std::string_view id) {
  std::string_view stem = StemIn(id);
  if (stem.size() <= kDrawn || stem[kDrawn] != '_') return "";
  std::string session(stem.substr(kDrawn + 1));
  return IsSessionId(session) ? session : "";
}

std::shared_ptr<const SessionPast> FindPast(SessionStore& sessions, const SessionOwner& owner,
                                            const std::string& session_id) {
  ApiResult<SessionStore::View> view = sessions.Inspect(owner.tenant, session_id);
  if (!view.ok()) return nullptr;
  if (!view.value().stored) return view.value().past;
  if (owner.needs_disk == nullptr) return sessions.ReadStored(owner.tenant, session_id);
  *owner.needs_disk = true;
  return nullptr;
}

TurnNotes::const_iterator FindNote(const TurnNotes& notes, std::string_view response_id) {
  const std::string begin = BeginOf(response_id);
  return std::find_if(notes.begin(), notes.end(), [&begin](const auto& each) { return each->text.starts_with(begin); });
}

bool EndsWithNote(const SessionPast& past) {
  const TurnNote& last = *past.notes.back();
  // Not by the turn where there are tokens: one that only changes notes says nothing.
  return last.tokens > 0 ? static_cast<size_t>(last.tokens) == past.tokens.size() : last.turn == past.turn;
}

std::optional<FoundResponse> FindResponse(SessionStore& sessions, const SessionOwner& owner, std::string_view id) {
  FoundResponse found;
  found.session_id = SessionOfResponse(id);
  if (found.session_id.empty()) return std::nullopt;
  found.past = FindPast(sessions, owner, found.session_id);
  if (found.past == nullptr) return std::nullopt;
  const TurnNotes& notes = found.past->notes;
  const auto note = FindNote(notes, id);
  if (note == notes.end()) return std::nullopt;
  found.index = static_cast<size_t>(note - notes.begin());
  found.newest = found.index + 1 == notes.size() && EndsWithNote(*found.past);
  return found;
}

std::string ResponseJson(const TurnNote& note) {
  std::string response = note.text.substr(0, note.text.find('\n'));
  if (!response.ends_with('}')) return "";
  response.pop_back();
  response.append(",").append(*note.head).append("}");
  return JsonBody::Parse(response, RequestLimits()).ok() ? response : "";
}

void RemoveResponse(TurnNotes* notes, std::string_view response_id) {
  const std::string begin = BeginOf(response_id);
  for (std::shared_ptr<const TurnNote>& note : *notes) {
    if (!note->text.starts_with(begin)) continue;
    auto without = std::make_shared<TurnNote>(*note);
    without->text.replace(0, begin.size(), BeginOf(""));
    note = std::move(without);
  }
}

std::optional<NoteItems> ItemsOf(const TurnNote& note, const RequestContext& request) {
  // A note has more values than the body that it was made of: ids, states, and what an answer adds.
  constexpr int32_t kMore = 4;
  RequestContext context = request;
  context.limits.json_nodes_max *= kMore;
  context.limits.messages_max *= kMore;
  const size_t line = note.text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  const std::string_view text = note.text;
  JsonBudget budget(context.limits);
  const ApiResult<JsonBody> response = JsonBody::ParseObject(text.substr(0, line), &budget);
  std::optional<Json::array_t> in = ParseItems(text.substr(line + 1), context);
  if (!response.ok() || !in.has_value()) return std::nullopt;
  NoteItems items{*std::move(in), {}};
  std::optional<ApiError> error;
  ObjectReader reader(response.value().root(), "", &error);
  if (reader.Has("output")) items.out = ReadItems(&reader, "output", context, &budget);
  if (error.has_value()) return std::nullopt;
  return items;
}

bool HasMember(const TurnNote& note, std::string_view name, const absl::flat_hash_set<std::string>& values) {
  const std::string member = absl::StrCat("\"", std::string(name), "\":");
  const std::string_view text = note.text;
  for (size_t at = text.find(member); at != std::string_view::npos; at = text.find(member, at)) {
    at += member.size();
    const size_t bytes = StringBytes(text.substr(at));
    if (values.contains(std::string(text.substr(at, bytes)))) return true;
    at += bytes;
  }
  return false;
}

std::optional<ApiError> CheckIds(const Json::array_t& items, const TurnNotes& before, const RequestContext& context,
                                 std::string_view path) {
  std::map<std::string, size_t> places;    // of items, by id
  absl::flat_hash_set<std::string> names;  // as the notes have them
  const auto twin = [path](size_t place, const std::string& id) {
    return InvalidField(
        absl::StrCat(std::string(path), "[", place, "].id"),
        absl::StrCat("Duplicate item found with id ", id, ". Remove duplicate items from your input and try again."));
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string id = items[i].value("id", "");
    if (id.empty()) continue;
    if (!places.emplace(id, i).second) return twin(i, id);
    names.insert(Json(id).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
  }
  for (const std::shared_ptr<const TurnNote>& note : before) {
    if (names.empty() || !HasMember(*note, "id", names)) continue;
    const std::optional<NoteItems> kept = ItemsOf(*note, context);
    if (!kept.has_value()) continue;
    for (const Json::array_t* list : {&kept->in, &kept->out}) {
      for (const Json& item : *list) {
        const auto found = places.find(item.value("id", ""));
        if (found != places.end()) return twin(found->second, found->first);
      }
    }
  }
  return std::nullopt;
}

int64_t NotesBytes(const TurnNotes& notes) {
  size_t bytes = 0;
  const std::string* head = nullptr;
  for (const std::shared_ptr<const TurnNote>& note : notes) {
    bytes += sizeof(TurnNote) + note->text.size() + (note->head.get() != head ? note->head->size() : 0);
    head = note->head.get();
  }
  return static_cast<int64_t>(bytes);
}

void DropOldest(TurnNotes* notes, int64_t bytes_max) {
  while (!notes->empty() && NotesBytes(*notes) > bytes_max) notes->erase(notes->begin());
}

bool ItemFinder::MayRead() {
  read_all_ = bytes_ > NotesBytesMax(context_.context);
  return !read_all_;
}

const Json* ItemFinder::Find(std::string_view id) {
  const size_t number = id.rfind('_');
  const std::string session = number == std::string_view::npos ? "" : SessionOfResponse(id.substr(0, number));
  if (!session.empty() && !read_.contains(session)) {
    if (!MayRead()) return nullptr;
    Read(session);
  }
  auto found = items_.find(std::string(id));
  if (found == items_.end() && !past_.empty()) {
    if (!MayRead()) return nullptr;
    ReadNotes(std::exchange(past_, {}), past_id_);
    found = items_.find(std::string(id));
  }
  return found == items_.end() ? nullptr : &found->second;
}

void ItemFinder::Read(const std::string& session) {
  read_.insert(session);
  const std::shared_ptr<const SessionPast> past = FindPast(sessions_, owner_, session);
  if (past == nullptr) return;
  bytes_ += std::ssize(past->tokens) * static_cast<int64_t>(sizeof(int32_t));
  ReadNotes(past->notes, session);
}

void ItemFinder::ReadNotes(const TurnNotes& notes, const std::string& session) {
  bytes_ += NotesBytes(notes);
  // A conversation has the items of a response that is deleted; nothing else has.
  const bool keeps_deleted = IsConversationId(session);
  for (const std::shared_ptr<const TurnNote>& note : notes) {
    if (!keeps_deleted && note->text.starts_with(BeginOf(""))) continue;
    std::optional<NoteItems> items = ItemsOf(*note, context_);
    if (!items.has_value()) continue;
    for (Json::array_t* list : {&items->in, &items->out}) {
      for (Json& item : *list) {
        std::string id = item.value("id", "");
        items_.emplace(std::move(id), std::move(item));
      }
    }
  }
}

std::string DrawSessionId() { return absl::StrCat("r", RandomId()); }

bool IsDrawnSessionId(std::string_view id) {
  constexpr size_t kDigits = 32;
  return id.size() == 1 + kDigits && id[0] == 'r' &&
         id.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

bool IsConversationId(std::string_view id) { return id.starts_with("conv_") && IsSessionId(id); }

ApiError ConversationNotFound() {
  return NotFound("There is no conversation with this id.", "conversation_not_found", "conversation");
}

ApiError ConversationLocked() {
  return Conflict("The conversation is being changed, by a response or a request of its own; one thing at a time.",
                  "conversation_locked");
}

std::optional<ApiError> ChangeNotes(SessionStore& sessions, const SessionOwner& owner, const std::string& session_id,
                                    const std::function<std::optional<ApiError>(TurnNotes*)>& change,
                                    std::function<void(bool)> done, bool removes) {
  ApiResult<SessionTurn> turn = sessions.Begin(owner, session_id, /*must_exist=*/true);
  if (!turn.ok()) return turn.error();
  SessionPast past = *turn.value().past();
  std::optional<ApiError> error = change(&past.notes);
  if (!error.has_value()) error = sessions.CheckWrite(owner, past);
  if (error.has_value()) return error;
  // Without a journal no start finds anything.
  const bool journals = sessions.journals();
  const auto told = [journals, done = std::move(done)](Durability durable) {
    done(!journals || durable != Durability::kNone);
  };
  turn.value().Commit(std::move(past), told, removes);
  return std::nullopt;
}

void NameItems(std::string_view stem, Json::array_t* items) {
  for (size_t i = 0; i < items->size(); ++i) {
    Json& item = (*items)[i];
    if (item.contains("id")) continue;
    Json::object_t named = {{"id", absl::StrCat(std::string(PrefixOf(static_cast<std::string>(item.at("type")))),
                                                std::string(stem), "_i", i)}};
    for (auto& member : item.items()) named.emplace_back(member.key(), std::move(member.value()));
    item = std::move(named);
  }
}

}  // namespace hydrant
