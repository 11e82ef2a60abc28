#include "api/session/session.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

// A member of `reader` that must be an id; nullopt when it is not there.
std::optional<std::string> ReadMember(ObjectReader* reader, std::string_view name) {
  const JsonView value = reader->Raw(name);
  if (!value.valid()) return std::nullopt;
  if (value.is_string() && IsSessionId(value.string())) return std::string(value.string());
  reader->FailWith(InvalidSessionId(reader->Path(name)));
  return std::string();
}

void AppendIntegerOrNull(std::string* out, std::string_view name, int64_t value) {
  absl::StrAppend(out, ",\"", std::string(name), "\":");
  AppendJsonIntegerOrNull(out, value);
}

}  // namespace

std::string_view SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kBusy:
      return "busy";
    case SessionState::kParked:
      return "parked";
    case SessionState::kOnDisk:
      return "on_disk";
    case SessionState::kCold:
      return "cold";
  }
  return "";
}

ApiResult<int32_t> ReadQueryInteger(std::string_view name, std::string_view text, int32_t low, int32_t high) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  return InvalidField(name, absl::StrCat("'", std::string(name), "' must be in [", low, ", ", high, "]."));
}

bool IsSessionId(std::string_view text) {
  return !text.empty() && text.size() <= kSessionIdBytesMax && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string ReadSessionId(ObjectReader* request, const SessionHeaders& headers, bool* is_listed) {
  *is_listed = false;
  const auto header = [request](const std::string& value, std::string_view param) {
    if (!IsSessionId(value)) request->FailWith(InvalidSessionId(param));
    return value;
  };
  if (const std::optional<std::string> id = ReadMember(request, "session_id")) return *id;
  if (headers.session_id.has_value()) return header(*headers.session_id, "X-Session-ID");
  if (request->Has("vllm_xargs")) {
    ObjectReader extra = request->Object("vllm_xargs");
    if (const std::optional<std::string> id = ReadMember(&extra, "session_id")) return *id;
  }
  if (const std::optional<std::string> id = ReadMember(request, "conversation_id")) return *id;
  if (headers.affinity.has_value()) return header(*headers.affinity, "x-session-affinity");
  *is_listed = headers.listed.has_value();
  return headers.listed.value_or("");
}

std::string ReadChatKey(ObjectReader* request, const SessionHeaders& headers) {
  constexpr size_t kUserIdBytesMax = 4096;
  const ObjectReader::Unlogged unlogged(request);  // no answer depends on it
  if (headers.claude_code.has_value()) return *headers.claude_code;
  const JsonView metadata = request->Raw("metadata");
  const JsonView user = metadata.valid() && metadata.is_object() ? metadata["user_id"] : JsonView();
  if (user.is_string() && user.string().size() <= kUserIdBytesMax) {
    const std::string text(user.string());
    const ApiResult<JsonBody> parsed = JsonBody::Parse(text, RequestLimits());
    if (parsed.ok() && parsed.value().root().is_object()) {
      const JsonView id = parsed.value().root()["session_id"];
      if (id.is_string()) return std::string(id.string());
    }
    if (text.find("_session_") != std::string::npos) return text;  // as it was written before
  }
  if (headers.codex.has_value()) return *headers.codex;
  const JsonView key = request->Raw("prompt_cache_key");
  return key.is_string() ? std::string(key.string()) : "";
}

std::optional<uint64_t> ReadSessionTurn(ObjectReader* request, const SessionHeaders& headers) {
  if (!headers.turn.has_value()) return std::nullopt;
  uint64_t turn = 0;
  const std::string& text = *headers.turn;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), turn);
  if (error != std::errc() || end != text.data() + text.size()) {
    request->FailWith(
        InvalidField("X-Session-Turn", "X-Session-Turn is the number of the session's last turn; 0: none."));
  }
  return turn;
}

std::string SessionJson(const SessionCard& card) {
  std::string out = "{\"id\":";
  AppendJsonString(&out, card.id);
  absl::StrAppend(&out, ",\"object\":\"session\",\"state\":\"", std::string(SessionStateName(card.state)),
                  "\",\"tokens\":", card.tokens, ",\"live\":", card.live);
  AppendIntegerOrNull(&out, "budget", card.budget);
  out.append(",\"policy\":");
  AppendJsonStringOrNull(&out, card.policy);
  absl::StrAppend(&out, ",\"created\":", card.created, ",\"last_used\":", card.last_used);
  AppendIntegerOrNull(&out, "expires", card.expires);
  AppendIntegerOrNull(&out, "turn", static_cast<int64_t>(card.turn));
  out.append(",\"durable\":").append(card.durable ? "\"tokens\"}" : "false}");
  return out;
}

std::string SessionListJson(const std::vector<SessionCard>& cards, bool has_more) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < cards.size(); ++i) {
    if (i > 0) out.push_back(',');
    out.append(SessionJson(cards[i]));
  }
  out.append("],\"has_more\":");
  AppendJsonBool(&out, has_more);
  out.push_back('}');
  return out;
}

std::string SessionDeletedJson(std::string_view id, bool purged) {
  std::string out = "{\"id\":";
  AppendJsonString(&out, id);
  out.append(",\"object\":\"session\",\"deleted\":true").append(purged ? ",\"purged\":true}" : "}");
  return out;
}

std::string SessionImportedJson(std::string_view id, uint64_t turn, bool durable, std::string_view kv) {
  std::string out = "{\"id\":";
  AppendJsonString(&out, id);
  absl::StrAppend(&out, ",\"object\":\"session\",\"turn\":", turn, ",\"durable\":", durable ? "\"tokens\"" : "false");
  if (!kv.empty()) {
    out.append(",\"kv\":");
    AppendJsonString(&out, kv);
  }
  out.push_back('}');
  return out;
}

std::string SessionTag(uint64_t turn) { return absl::StrCat("\"turn-", turn, "\""); }

std::optional<uint64_t> ReadSessionTag(std::string_view text) {
  constexpr std::string_view kBegin = "\"turn-";
  if (!text.starts_with(kBegin) || !text.ends_with('"') || text.size() <= kBegin.size()) return std::nullopt;
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - 1);
  uint64_t turn = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), turn);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(turn) : std::nullopt;
}

ApiError InvalidSessionId(std::string_view param) {
  return InvalidField(param,
                      absl::StrCat("A session id is 1 to ", kSessionIdBytesMax, " characters of [A-Za-z0-9_-]."));
}

ApiError SessionNotFound(bool expired) {
  std::string message =
      expired ? "The session expired, or was removed to make room for others." : "There is no session with this id.";
  message.append(" Send the whole history, without 'session_append', to start it.");
  const ErrorCode<404> code = expired ? ErrorCode<404>("session_expired") : ErrorCode<404>("session_not_found");
  return NotFound(std::move(message), code, "session_id");
}

ApiError SessionDamaged() {
  return NotFound(
      "What the server has kept of this session cannot be gone on from: it is damaged, or another model's. Send the "
      "whole history, without 'session_append', to start it again.",
      "session_damaged", "session_id");
}

ApiError TurnConflict(uint64_t last) {
  return Conflict(
      last == 0 ? "The session has no turn that ended." : absl::StrCat("The last turn of this session is ", last, "."),
      "turn_conflict");
}

ApiError TurnChanged(uint64_t last) {
  return PreconditionFailed(absl::StrCat("The last turn of this session is ", last, "."), "turn_changed", "If-Match");
}

ApiError SessionExists(uint64_t last) {
  return PreconditionFailed(
      absl::StrCat("There is a session with this id",
                   last == 0 ? std::string(", in its first turn.") : absl::StrCat("; its last turn is ", last, ".")),
      "session_exists", "If-None-Match");
}

ApiError SessionDiskExceeded(int64_t left) {
  return TooLarge(absl::StrCat("Of its session_disk_bytes the tenant has ", left < 0 ? 0 : left, " left."),
                  "session_disk_exceeded", "Content-Length");
}

ApiError InvalidSessionState(std::string_view what) {
  return InvalidField("", absl::StrCat("The body is not a session's state, or not whole: ", std::string(what), "."),
                      "invalid_session_state");
}

ApiError SessionOtherModel() {
  return Conflict("The session's tokens are of another model than this server's, to which they say nothing.",
                  "session_other_model");
}

ApiError SessionBusy() {
  return Conflict("A turn of this session is being computed; there is one at a time.", "session_busy");
}

ApiError SessionTooLong() {
  return InvalidField("session_id",
                      "The session's KV was dropped, and its history is too long to be computed at once. Start "
                      "another session with less of it, or with 'kv.prefill': \"budgeted\".",
                      "kv_capacity_exceeded");
}

}  // namespace hydrant
