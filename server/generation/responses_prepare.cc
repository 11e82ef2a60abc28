#include "server/generation/responses_prepare.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/request/response_items.h"
#include "api/request/responses_request.h"
#include "api/response/responses_writer.h"
#include "api/wire/json_writer.h"
#include "server/generation/chat_prepare.h"
#include "server/process/random_id.h"
#include "server/sessions/response_notes.h"
#include "server/sessions/session_prompt.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// What a response goes on from: a response of a session, or a conversation, which is one.
struct Past {
  std::string session_id;
  std::shared_ptr<const SessionPast> past;
  size_t notes = 0;     // those up to the response
  bool newest = false;  // the session itself goes on
  bool locked = false;  // it is a conversation: no other one is begun in its place

  const TurnNote* last() const { return notes == 0 ? nullptr : past->notes[notes - 1].get(); }
  TurnNotes all_notes() const {
    return {past->notes.begin(), past->notes.begin() + static_cast<std::ptrdiff_t>(notes)};
  }
};

std::string Text(const Json& json) { return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace); }

ApiError PreviousNotFound() {
  return NotFound("There is no response with this id. Send the whole history as 'input'.",
                  "previous_response_not_found", "previous_response_id");
}

// Finds what the request goes on from. Its notes are not read: a turn of a chain needs few of them, if any.
ApiResult<std::optional<Past>> FindPastOf(const ResponsesRequest& request, const ServingContext& context,
                                          const TenantRules& rules) {
  Past found;
  if (!request.previous_response_id.empty()) {
    std::optional<FoundResponse> response =
        FindResponse(*context.sessions, rules.sessions, request.previous_response_id);
    if (!response.has_value()) return PreviousNotFound();
    found.session_id = std::move(response->session_id);
    found.past = std::move(response->past);
    found.notes = response->index + 1;
    found.newest = response->newest && !IsConversationId(found.session_id);  // only who names a conversation adds to it
  } else if (!request.conversation_id.empty()) {
    found.session_id = request.conversation_id;
    found.past =
        IsConversationId(found.session_id) ? FindPast(*context.sessions, rules.sessions, found.session_id) : nullptr;
    if (found.past == nullptr) return ConversationNotFound();
    found.notes = found.past->notes.size();
    found.newest = found.locked = true;
  } else {
    return std::optional<Past>();
  }
  return std::optional<Past>(std::move(found));
}

std::optional<ApiError> ResolveReferences(const std::optional<Past>& past, const ServingContext& context,
                                          const TenantRules& rules, ResponsesRequest* request) {
  ItemFinder items(*context.sessions, rules.sessions, context.request,
                   past.has_value() ? past->all_notes() : TurnNotes(), past.has_value() ? past->session_id : "");
  const int64_t bytes_max = TextBytesMax(context.request.context);
  int64_t bytes = 0;
  for (size_t i = 0; i < request->items.size(); ++i) {
    Json& item = request->items[i];
    if (item.at("type") != "item_reference") continue;
    const Json* found = items.Find(static_cast<std::string>(item.at("id")));
    const std::string param = absl::StrCat("input[", i, "].id");
    if (items.read_all()) {
      return TooLarge("The items that are referred to are of too many sessions to be read for one request.",
                      "payload_too_large", param);
    }
    if (found == nullptr) return NotFound("There is no item with this id.", "response_not_found", param);
    bytes += std::ssize(Text(*found));
    if (bytes > bytes_max) {
      return TooLarge(absl::StrCat("The items that are referred to come to more than ", bytes_max, " bytes."),
                      "payload_too_large", param);
    }
    item = *found;
  }
  return std::nullopt;
}

// All of the conversation.
std::optional<ApiError> MakeConversation(const std::optional<Past>& past, const RequestContext& context,
                                         ResponsesRequest* request) {
  ItemMessages messages(request->instructions);
  for (size_t i = 0; past.has_value() && i < past->notes; ++i) {
    const std::optional<NoteItems> items = ItemsOf(*past->past->notes[i], context);
    if (!items.has_value()) return past->locked ? ConversationNotFound() : PreviousNotFound();
    if (std::optional<ApiError> error = messages.Add(items->in, "input")) return error;
    if (std::optional<ApiError> error = messages.Add(items->out, "input")) return error;
  }
  if (std::optional<ApiError> error = messages.Add(request->items, "input")) return error;
  if (messages.messages().empty()) return InvalidField("input", "'input' must not be empty.");
  request->conversation.messages = messages.messages();
  return std::nullopt;
}

// Where the messages stand that begin a turn of the user's, the first aside: what is before one can go.
std::vector<size_t> CutsOf(const Json& messages) {
  std::vector<size_t> cuts;
  bool begun = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].at("role") != "user") continue;
    if (std::exchange(begun, true)) cuts.push_back(i);
  }
  return cuts;
}

Json WithoutOldest(const Json& messages, size_t cut) {
  Json::array_t kept;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& role = messages[i].at("role");
    if (i >= cut || role == "system" || role == "developer") kept.push_back(messages[i]);
  }
  return kept;
}

bool IsCall(const Json& item) { return item.at("type") == "function_call" || item.at("type") == "custom_tool_call"; }

// The calls whose outputs `items` have. The newest notes come first: a call is rarely made long before its output comes, and a note
// that does not have its id is not read. Every note is gone through once, however many ids there are.
Json::array_t CallsOf(const Json::array_t& items, const Past& past, const RequestContext& context) {
  absl::flat_hash_set<std::string> wanted;
  for (const Json& item : items) {
    if (!IsCall(item) && item.contains("call_id")) wanted.insert(Text(item.at("call_id")));
  }
  Json::array_t calls;  // the last one first
  for (size_t i = past.notes; i-- > 0 && !wanted.empty();) {
    const TurnNote& note = *past.past->notes[i];
    if (!HasMember(note, "call_id", wanted)) continue;
    const std::optional<NoteItems> read = ItemsOf(note, context);
    if (!read.has_value()) continue;
    for (const Json::array_t* list : {&read->out, &read->in}) {
      for (auto item = list->rbegin(); item != list->rend(); ++item) {
        if (IsCall(*item) && wanted.erase(Text(item->at("call_id"))) > 0) calls.push_back(*item);
      }
    }
  }
  std::reverse(calls.begin(), calls.end());
  return calls;
}

// What the template writes after an answer of the assistant, and for the messages after it: rendered with a short conversation before
// it, so that it costs what is new, and the past is what its tokens say, whatever the template would make of it today. Nullopt: the
// template does not write one message after another.
std::optional<RequestPrompt> RenderAddition(const ResponsesRequest& request, const Past& past,
                                            const ServingContext& context) {
  constexpr const char* kAnswer = "kq7vhydrantz3";  // no template has it
  ItemMessages messages(request.instructions);
  const Json::array_t said = {Json{{"type", "message"}, {"role", "user"}, {"content", "."}},
                              Json{{"type", "message"}, {"role", "assistant"}, {"content", kAnswer}}};
  if (messages.Add(said, "input").has_value()) return std::nullopt;
  Conversation conversation = request.conversation;
  const auto render = [&](bool generates) {
    conversation.messages = messages.messages();
    conversation.add_generation_prompt = generates;
    return RenderConversation(conversation, context);
  };
  const ApiResult<RequestPrompt> answered = render(false);
  if (!answered.ok()) return std::nullopt;
  const std::string_view text = answered.value().text;
  const size_t at = text.rfind(kAnswer);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string end(text.substr(at + std::string_view(kAnswer).size()));
  // Templates look for the calls whose outputs come.
  const Json::array_t calls = CallsOf(request.items, past, context.request);
  if (messages.Add(calls, "input").has_value()) return std::nullopt;
  const ApiResult<RequestPrompt> before = render(false);
  if (!before.ok() || messages.Add(request.items, "input").has_value()) return std::nullopt;
  ApiResult<RequestPrompt> after = render(true);
  if (!after.ok() || !after.value().text.starts_with(before.value().text)) return std::nullopt;
  const size_t cut = before.value().text.size();
  RequestPrompt addition;
  addition.reasoning = after.value().reasoning;
  addition.text = end + after.value().text.substr(cut);
  for (const ByteRange& range : after.value().client_ranges) {
    if (range.end <= cut) continue;
    addition.client_ranges.push_back({std::max(range.begin, cut) - cut + end.size(), range.end - cut + end.size()});
  }
  return addition;
}

class ResponsesPreparer {
 public:
  ResponsesPreparer(ResponsesRequest request, std::optional<Past> past, const ServingContext& context,
                    const TenantRules& rules)
      : request_(std::move(request)), past_(std::move(past)), context_(context), rules_(rules) {
    stores_ = request_.store.value_or(true);
  }

  ApiResult<PreparedGeneration> Prepare() {
    if (std::optional<ApiError> error = CheckNotes()) return *std::move(error);
    ApiResult<PreparedGeneration> prepared = GoOn();
    if (prepared.ok()) return prepared;
    if (past_.has_value() && past_->newest &&
        (IsTaken(prepared.error()) || (IsOfAnother(prepared.error()) && !past_->locked))) {
      if (past_->locked) return ConversationLocked();
      past_->newest = false;  // another turn goes on from the same one: a chain is a tree
      return GoOn();
    }
    // What a gateway called it was no reason to have one at a time: it has a session of its own.
    if (stores_ && request_.session_is_affinity && !past_.has_value() &&
        (IsTaken(prepared.error()) || HasNoPlace(prepared.error()) || IsOfAnother(prepared.error()))) {
      request_.session_id.clear();
      request_.session_is_affinity = false;
      return Prepare();
    }
    // Who did not ask for it to be kept need not be refused for want of a place.
    const bool optional = !request_.store.has_value() && !past_.has_value() && request_.session_id.empty();
    if (!stores_ || !optional || !HasNoPlace(prepared.error())) return prepared;
    stores_ = false;
    return GoOn();
  }

  // The tokens of the prompt that Prepare would make.
  ApiResult<int64_t> Count() {
    std::optional<RequestPrompt> addition;
    if (HasTokens()) addition = RenderAddition(request_, *past_, context_);
    if (!addition.has_value()) return CountMessages();
    const int64_t tokens = past_->last()->tokens + std::ssize(PromptAlone(*addition, false, *context_.tokenizer).ids);
    return request_.truncates && !Fits(tokens) ? CountMessages() : tokens;
  }

 private:
  // Whether its items can be kept, and there is room for another note beside those that it goes on from: all of them are its conversation.
  std::optional<ApiError> CheckNotes() const {
    if (!stores_) return std::nullopt;
    const TurnNotes before = past_.has_value() && past_->locked ? past_->all_notes() : TurnNotes();
    if (auto error = CheckIds(request_.items, before, context_.request, "input")) return error;
    if (!past_.has_value()) return std::nullopt;
    const int64_t bytes_max = NotesBytesMax(context_.request.context);
    const int64_t more = std::ssize(Text(Json(request_.items))) + std::ssize(request_.head);
    if (NotesBytes(past_->all_notes()) + more <= bytes_max) return std::nullopt;
    return TooLarge(absl::StrCat("With this request the conversation would keep more than ", bytes_max,
                                 " bytes of items, instructions and tools. Begin another with less of it, or send "
                                 "'store': false."),
                    "payload_too_large", past_->locked ? "conversation" : "previous_response_id");
  }

  static bool IsTaken(const ApiError& error) {
    return error.code == "session_busy" || error.code == "turn_conflict" || error.code == "session_not_found" ||
           error.code == "session_expired";
  }

  // The session was computed with another adapter than the request names, or without.
  static bool IsOfAnother(const ApiError& error) { return error.status == 400 && error.param == "model"; }

  static bool HasNoPlace(const ApiError& error) {
    return error.code == "session_limit_exceeded" || error.code == "too_many_sessions";
  }

  // Whether its prompt is the past's tokens and what is new.
  bool HasTokens() const {
    const TurnNote* last = past_.has_value() ? past_->last() : nullptr;
    return last != nullptr && last->tokens > 0 && *last->head == request_.head &&
           (!past_->locked || static_cast<size_t>(last->tokens) == past_->past->tokens.size());
  }

  ApiResult<PreparedGeneration> GoOn() {
    if (!HasTokens()) return FromMessages();
    std::optional<RequestPrompt> addition = RenderAddition(request_, *past_, context_);
    if (!addition.has_value()) return FromMessages();
    ResponsesRequest request = request_;
    const bool continues = stores_ && past_->newest;
    if (!continues) {
      RequestPrompt prompt = *addition;  // the text says how its answer begins
      prompt.is_ids = true;
      const std::vector<int32_t>& tokens = past_->past->tokens;
      prompt.ids.assign(tokens.begin(), tokens.begin() + past_->last()->tokens);
      const std::vector<int32_t> more = PromptAlone(*addition, false, *context_.tokenizer, AdditionIdsMax()).ids;
      prompt.ids.insert(prompt.ids.end(), more.begin(), more.end());
      addition = std::move(prompt);
    }
    ApiResult<PreparedGeneration> prepared = Finish(std::move(request), *std::move(addition), continues);
    if (!prepared.ok() && request_.truncates && IsTooLong(prepared.error())) return FromMessages();
    return prepared;
  }

  // One token more than any prompt has: what is longer is refused for its length, and need not be all there.
  size_t AdditionIdsMax() const {
    const bool rolls = request_.kv.rolls() || past_->past->spec.rolls();
    return static_cast<size_t>(rolls ? context_.limits.request_tokens_max() : int64_t{context_.request.context});
  }

  static bool IsTooLong(const ApiError& error) { return error.code == "context_length_exceeded"; }

  ApiResult<PreparedGeneration> FromMessages() {
    ResponsesRequest whole = request_;
    if (std::optional<ApiError> error = MakeConversation(past_, context_.request, &whole)) return *std::move(error);
    const Json& messages = whole.conversation.messages;
    ApiResult<PreparedGeneration> prepared = Rendered(whole, messages);
    if (prepared.ok() || !request_.truncates || !IsTooLong(prepared.error())) return prepared;
    // The fewest turns that have to go.
    const std::vector<size_t> cuts = CutsOf(messages);
    const auto cut = std::partition_point(cuts.begin(), cuts.end(), [&](size_t at) {
      // Its turn is over before the next one begins.
      const ApiResult<PreparedGeneration> attempt = Rendered(whole, WithoutOldest(messages, at));
      return !attempt.ok() && IsTooLong(attempt.error());
    });
    return cut == cuts.end() ? std::move(prepared) : Rendered(whole, WithoutOldest(messages, *cut));
  }

  ApiResult<int64_t> CountMessages() {
    ResponsesRequest whole = request_;
    if (std::optional<ApiError> error = MakeConversation(past_, context_.request, &whole)) return *std::move(error);
    const Json messages = whole.conversation.messages;
    const std::shared_ptr<const SessionPast> session = SessionGoneOnWith();
    const auto count = [&](Json kept) -> ApiResult<int64_t> {
      whole.conversation.messages = std::move(kept);
      const ApiResult<RequestPrompt> prompt = RenderInput(whole.conversation);
      if (!prompt.ok()) return prompt.error();
      const ApiResult<TurnPrompt> turn = MakeTurnPrompt(prompt.value(), whole, session.get(), *context_.tokenizer);
      if (!turn.ok()) return turn.error();
      return std::ssize(turn.value().ids);
    };
    const auto is_too_long = [this](const ApiResult<int64_t>& tokens) { return tokens.ok() && !Fits(tokens.value()); };
    ApiResult<int64_t> all = count(messages);
    if (!request_.truncates || !is_too_long(all)) return all;
    const std::vector<size_t> cuts = CutsOf(messages);
    const auto cut = std::partition_point(cuts.begin(), cuts.end(),
                                          [&](size_t at) { return is_too_long(count(WithoutOldest(messages, at))); });
    return cut == cuts.end() ? std::move(all) : count(WithoutOldest(messages, *cut));
  }

  // Whether there is room for an answer behind so many tokens.
  bool Fits(int64_t tokens) const {
    return request_.kv.rolls() || (past_.has_value() && past_->past->spec.rolls()) || tokens < context_.request.context;
  }

  // Null: a new one, or none.
  std::shared_ptr<const SessionPast> SessionGoneOnWith() const {
    if (past_.has_value()) return stores_ && past_->newest ? past_->past : nullptr;
    if (request_.session_id.empty()) return nullptr;
    return FindPast(*context_.sessions, rules_.sessions, request_.session_id);
  }

  ApiResult<RequestPrompt> RenderInput(const Conversation& conversation) const {
    ApiResult<RequestPrompt> prompt = RenderConversation(conversation, context_);
    if (prompt.ok() || prompt.error().param != "messages") return prompt;
    ApiError error = prompt.error();
    error.param = "input";
    return error;
  }

  ApiResult<PreparedGeneration> Rendered(ResponsesRequest request, Json messages) {
    request.conversation.messages = std::move(messages);
    ApiResult<RequestPrompt> prompt = RenderInput(request.conversation);
    if (!prompt.ok()) return prompt.error();
    return Finish(std::move(request), std::move(prompt.value()), /*append=*/false);
  }

  ApiResult<PreparedGeneration> Finish(ResponsesRequest request, RequestPrompt prompt, bool append) {
    if (stores_) {
      request.session_is_affinity = false;  // it has to have one
      if (past_.has_value() && past_->newest) {
        request.session_id = past_->session_id;
        request.session_append = append;
        request.session_turn = past_->past->turn;
      } else if (request.session_id.empty()) {
        request.session_id = DrawSessionId();
      }
    }
    // What a session keeps is its own for its life, and that of what goes on from it.
    if (past_.has_value() && !request.has_kv) request.kv = past_->past->spec;
    const std::string stem = stores_ ? NewResponseStem(request.session_id) : std::string();
    ApiResult<PreparedGeneration> prepared =
        PrepareAnswer(request, std::move(prompt), Writer(stem), context_, rules_, "input");
    if (!prepared.ok()) return prepared;
    if (!request_.tools_not_offered.empty()) {
      prepared.value().response_fields.emplace_back("x-hydrant-tools-not-offered", request_.tools_not_offered);
    }
    if (!stores_) return prepared;
    prepared.value().answer_id = stem;
    prepared.value().note_head = request_.head;
    const SessionTurn& turn = *prepared.value().turn;
    if (past_.has_value()) {
      prepared.value().notes = past_->all_notes();
    } else {
      // It has its whole conversation in itself: the oldest before it give way.
      TurnNotes notes = turn.past() != nullptr ? turn.past()->notes : TurnNotes();
      DropOldest(&notes, NotesBytesMax(context_.request.context));
      prepared.value().notes = std::move(notes);
    }
    return prepared;
  }

  std::unique_ptr<AnswerWriter> Writer(const std::string& stem) {
    ResponsesWriterOptions options;
    options.tool_calls = ToolCallsIn(&request_, context_);
    options.argument_types = ArgumentTypesOf(options.tool_calls, request_.conversation.tools);
    options.ids = stem.empty() ? RandomId() : stem;
    options.parallel_tool_calls = request_.parallel_tool_calls;
    options.custom_tools = request_.custom_tools;
    options.encrypts_reasoning = request_.encrypts_reasoning;
    options.head = request_.head;
    options.echo = request_.echo;
    options.chain = "\"previous_response_id\":";
    AppendJsonStringOrNull(&options.chain, request_.previous_response_id);
    options.chain.append(",\"store\":").append(stores_ ? "true" : "false").append(",\"conversation\":");
    if (request_.conversation_id.empty()) {
      options.chain.append("null");
    } else {
      options.chain.append("{\"id\":\"").append(request_.conversation_id).append("\"}");
    }
    if (stores_) {
      Json::array_t items = request_.items;
      NameItems(stem, &items);
      options.items = Text(Json(std::move(items)));
    }
    return std::make_unique<ResponsesWriter>(std::move(options));
  }

  ResponsesRequest request_;
  std::optional<Past> past_;
  const ServingContext& context_;
  const TenantRules& rules_;
  bool stores_ = false;
};

ApiResult<ResponsesPreparer> PreparerOf(std::string_view body, const ServingContext& context, const TenantRules& rules,
                                        const RequestHeaders& headers) {
  ApiResult<ResponsesRequest> parsed = ParseResponsesRequest(body, RequestContextOf(context, rules, headers));
  if (!parsed.ok()) return parsed.error();
  ResponsesRequest& request = parsed.value();
  const bool names_past = !request.previous_response_id.empty() || !request.conversation_id.empty();
  if (names_past) {  // it is in the session that it names, and another name has only brought it here
    request.session_id.clear();
    request.session_turn.reset();
  }
  ApiResult<std::optional<Past>> past = FindPastOf(request, context, rules);
  if (!past.ok()) return past.error();
  if (auto error = ResolveReferences(past.value(), context, rules, &request)) return *std::move(error);
  ToolCallsIn(&request, context);  // says how the answer is decoded
  return ResponsesPreparer(std::move(request), std::move(past.value()), context, rules);
}

}  // namespace

ApiResult<PreparedGeneration> PrepareResponses(std::string_view body, const ServingContext& context,
                                               const TenantRules& rules, const RequestHeaders& headers) {
  ApiResult<ResponsesPreparer> preparer = PreparerOf(body, context, rules, headers);
  if (!preparer.ok()) return preparer.error();
  return preparer.value().Prepare();
}

ApiResult<int64_t> CountResponseTokens(std::string_view body, const ServingContext& context, const TenantRules& rules) {
  ApiResult<ResponsesPreparer> preparer = PreparerOf(body, context, rules, {});
  if (!preparer.ok()) return preparer.error();
  return preparer.value().Count();
}

}  // namespace hydrant
