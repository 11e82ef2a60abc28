#include "server/sessions/tools/http_place.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "api/session/session.h"
#include "api/wire/limits.h"
#include "server/sessions/transfer/session_file.h"

namespace hydrant {
namespace {

constexpr int kAttemptsMax = 30;
constexpr int kPauseMaxS = 5;

// A member of an object, as text; empty: it is none.
std::string TextOf(const JsonView& object, std::string_view name) {
  for (JsonView member = object.first(); member.valid(); member = member.next()) {
    if (member.key() == name && member.is_string()) return std::string(member.string());
  }
  return "";
}

int64_t IntegerOf(const JsonView& object, std::string_view name) {
  for (JsonView member = object.first(); member.valid(); member = member.next()) {
    if (member.key() == name && member.is_integer()) return member.integer().value_or(0);
  }
  return 0;
}

JsonView MemberOf(const JsonView& object, std::string_view name) {
  for (JsonView member = object.first(); member.valid(); member = member.next()) {
    if (member.key() == name) return member;
  }
  return {};
}

struct Refused {
  std::string code;
  std::string message;
};

Refused RefusedBy(const HttpClient::Reply& reply) {
  const ApiResult<JsonBody> body = JsonBody::Parse(reply.body, RequestLimits());
  Refused refused;
  if (body.ok() && body.value().root().is_object()) {
    const JsonView error = MemberOf(body.value().root(), "error");
    if (error.valid() && error.is_object()) refused = {TextOf(error, "code"), TextOf(error, "message")};
  }
  return refused;
}

absl::Status StatusOf(const std::string& url, const HttpClient::Reply& reply) {
  const Refused refused = RefusedBy(reply);
  const std::string message = absl::StrCat(url, ": HTTP ", reply.status, refused.code.empty() ? "" : " ", refused.code,
                                           refused.message.empty() ? "" : ": ", refused.message);
  if (refused.code == "session_damaged") return absl::DataLossError(message);
  if (refused.code == "session_busy") return absl::AbortedError(message);
  if (refused.code == "session_other_model") return absl::FailedPreconditionError(message);
  if (refused.code == "session_exists") return absl::AlreadyExistsError(message);
  if (refused.code == "turn_changed") return absl::OutOfRangeError(message);
  if (refused.code == "session_not_found" || refused.code == "session_expired") return absl::NotFoundError(message);
  if (reply.status == 413 || reply.status == 429) return absl::ResourceExhaustedError(message);
  if (reply.status == 401 || reply.status == 403) return absl::PermissionDeniedError(message);
  if (reply.status >= 500) return absl::UnavailableError(message);
  return absl::InvalidArgumentError(message);
}

// Whether it is the moment that is wrong, and not what was asked.
bool IsTooMuchNow(const HttpClient::Reply& reply) {
  if (reply.status != 429 && reply.status != 503) return false;
  const std::string code = RefusedBy(reply).code;
  return code == "rate_limit_exceeded" || code == "held_bytes_exceeded" || code == "connections_exceeded" ||
         code == "disk_behind";
}

}  // namespace

absl::Status HttpPlace::ErrorOf(const HttpClient::Reply& reply) const {
  if (RefusedBy(reply).code != "route_not_found") return StatusOf(name(), reply);
  if (is_admin_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(),
                     ": is not the admin listener, which the operator's key is for: give that one's address; or a "
                     "tenant's key (--api-key-file), which goes before HYDRANT_ADMIN_KEY"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name(),
                   ": has no sessions of tenants: give the clients' address; or, of the admin listener, the "
                   "operator's key (--admin-api-key-file)"));
}

std::string HttpPlace::Target(const std::string& tenant, const std::string& below, std::string query) const {
  if (is_admin_ && !tenant.empty()) query = absl::StrCat("tenant=", tenant, query.empty() ? "" : "&", query);
  return absl::StrCat(is_admin_ ? "/admin/sessions" : "/v1/sessions", below, query.empty() ? "" : "?", query);
}

absl::StatusOr<HttpClient::Reply> HttpPlace::Ask(std::string_view method, const std::string& target, std::string fields,
                                                 const HttpClient::Body& body, const HttpClient::Sink* sink) {
  if (!key_.empty()) absl::StrAppend(&fields, "Authorization: Bearer ", key_, "\r\n");
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<HttpClient::Reply> reply = client_.Ask(method, target, fields, body, sink);
    if (!reply.ok() || !IsTooMuchNow(*reply) || attempt == kAttemptsMax) return reply;
    const std::string after = reply->Field("retry-after");
    int pause_s = 1;
    std::from_chars(after.data(), after.data() + after.size(), pause_s);
    std::this_thread::sleep_for(std::chrono::seconds(std::clamp(pause_s, 1, kPauseMaxS)));
  }
}

absl::StatusOr<JsonBody> HttpPlace::AskJson(const std::string& target) {
  const absl::StatusOr<HttpClient::Reply> reply = Ask("GET", target);
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) return ErrorOf(*reply);
  ApiResult<JsonBody> body = JsonBody::Parse(reply->body, RequestLimits());
  if (!body.ok() || !body.value().root().is_object()) {
    return absl::UnavailableError(absl::StrCat(name(), target, ": the answer is not the JSON of this server"));
  }
  return std::move(body.value());
}

absl::Status HttpPlace::ListOf(const std::string& tenant, std::vector<PlacedSession>* sessions) {
  std::string after;
  while (true) {
    const absl::StatusOr<JsonBody> page =
        AskJson(Target(tenant, "", absl::StrCat("limit=1000", after.empty() ? "" : "&after=", after)));
    if (!page.ok()) return page.status();
    const JsonView data = MemberOf(page->root(), "data");
    const size_t before = sessions->size();
    if (data.valid() && data.is_array()) {
      for (JsonView card = data.first(); card.valid(); card = card.next()) {
        PlacedSession session;
        session.tenant = tenant;
        session.id = TextOf(card, "id");
        session.turn = static_cast<uint64_t>(IntegerOf(card, "turn"));
        session.tokens = IntegerOf(card, "tokens");
        session.bytes = -1;
        session.budget = static_cast<int32_t>(IntegerOf(card, "budget"));
        session.policy = TextOf(card, "policy");
        session.created_s = IntegerOf(card, "created");
        session.used_s = IntegerOf(card, "last_used");
        // It becomes part of a path.
        if (IsSessionId(session.id)) sessions->push_back(std::move(session));
      }
    }
    const JsonView more = MemberOf(page->root(), "has_more");
    if (!more.valid() || !more.is_bool() || !more.boolean() || sessions->size() == before) return absl::OkStatus();
    after = sessions->back().id;
  }
}

absl::StatusOr<std::vector<PlacedSession>> HttpPlace::List(const std::string& tenant) {
  std::vector<PlacedSession> sessions;
  if (!is_admin_ || !tenant.empty()) {
    absl::Status status = ListOf(tenant, &sessions);
    if (!status.ok()) return status;
    return sessions;
  }
  const absl::StatusOr<JsonBody> tenants = AskJson("/admin/tenants");
  if (!tenants.ok()) return tenants.status();
  const JsonView list = MemberOf(tenants->root(), "tenants");
  if (!list.valid() || !list.is_array()) return absl::UnavailableError(absl::StrCat(name(), ": names no tenants"));
  for (JsonView entry = list.first(); entry.valid(); entry = entry.next()) {
    absl::Status status = ListOf(TextOf(entry, "name"), &sessions);
    if (!status.ok()) return status;
  }
  std::sort(sessions.begin(), sessions.end(), [](const PlacedSession& a, const PlacedSession& b) {
    return std::tie(a.tenant, a.id) < std::tie(b.tenant, b.id);
  });
  return sessions;
}

absl::StatusOr<ExportedSession> HttpPlace::Export(const std::string& tenant, const std::string& id) {
  absl::StatusOr<HttpClient::Reply> reply = Ask("GET", Target(tenant, absl::StrCat("/", id, "/state")));
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) return ErrorOf(*reply);
  return ExportedSession{std::move(reply->body), reply->Field(kSessionHolderField)};
}

absl::StatusOr<MovingSession> HttpPlace::ExportState(const std::string& tenant, const std::string& id) {
  std::unique_ptr<MovingSessionReader> reader;
  const HttpClient::Sink sink = {[&](uint64_t bytes) { reader = std::make_unique<MovingSessionReader>(bytes); },
                                 [&](std::string_view piece) { return reader->Take(piece); }};
  const absl::StatusOr<HttpClient::Reply> reply =
      Ask("GET", Target(tenant, absl::StrCat("/", id, "/state"), "kv=1"), "", {}, &sink);
  if (reply.ok() && reply->status != 200) return ErrorOf(*reply);
  absl::Status status = reply.status();
  if (reply.ok() && reader != nullptr) {
    absl::StatusOr<MovingSession> state = reader->Finish();
    if (state.ok()) state->holder = reply->Field(kSessionHolderField);
    if (state.ok()) return state;
    status = state.status();
  }
  // It was KV that broke off: what was said is there to be had.
  absl::StatusOr<MovingSession> without = SessionPlace::ExportState(tenant, id);
  if (without.ok()) without->kv_lost = status.ok() ? "it broke off" : std::string(status.message());
  return without.ok() || status.ok() ? without : status;
}

absl::StatusOr<bool> HttpPlace::Import(const std::string& tenant, const std::string& bytes) {
  absl::StatusOr<SessionFile> file = ReadSessionFile(bytes);
  if (!file.ok()) return file.status();
  std::string kv;
  return ImportState(tenant, {*std::move(file), nullptr, 0, "", ""}, &kv);
}

absl::StatusOr<bool> HttpPlace::ImportState(const std::string& tenant, const MovingSession& state, std::string* kv) {
  kv->clear();
  if (!IsSessionId(state.file.facts.id)) return absl::InvalidArgumentError("header: the session's id is none");
  const std::string target = Target(tenant, absl::StrCat("/", state.file.facts.id, "/state"));
  MovingSession sent = state;
  sent.file.facts.tenant = tenant;
  const std::string fields = absl::StrCat("If-None-Match: *\r\nContent-Type: ", std::string(kSessionFileType), "\r\n");
  absl::StatusOr<HttpClient::Reply> reply = Ask("PUT", target, fields, {sent.Head(), sent.kv.get()});
  // One that takes no such length, or broke off: what was said is what counts.
  const bool is_told = reply.ok() && (reply->status == 201 || !RefusedBy(*reply).code.empty());
  const bool is_too_long = is_told && RefusedBy(*reply).code == "payload_too_large";
  if (sent.kv != nullptr && (!is_told || is_too_long)) {
    reply = Ask("PUT", target, fields, {sent.Head(/*with_kv=*/false), nullptr});
    *kv = "not_sent";
  }
  if (!reply.ok()) return reply.status();
  if (reply->status != 201) return ErrorOf(*reply);
  const ApiResult<JsonBody> body = JsonBody::Parse(reply->body, RequestLimits());
  if (!body.ok() || !body.value().root().is_object()) return false;
  if (kv->empty()) *kv = TextOf(body.value().root(), "kv");
  return TextOf(body.value().root(), "durable") == "tokens";
}

absl::StatusOr<bool> HttpPlace::IsDurable(const std::string& tenant, const std::string& id) {
  const absl::StatusOr<JsonBody> card = AskJson(Target(tenant, absl::StrCat("/", id)));
  if (!card.ok()) return card.status();
  return TextOf(card->root(), "durable") == "tokens";
}

absl::StatusOr<bool> HttpPlace::Forget(const std::string& tenant, const std::string& id, uint64_t turn) {
  const std::string fields = turn > 0 ? absl::StrCat("If-Match: ", SessionTag(turn), "\r\n") : "";
  const absl::StatusOr<HttpClient::Reply> reply = Ask("DELETE", Target(tenant, absl::StrCat("/", id)), fields);
  if (!reply.ok()) return reply.status();
  if (reply->status == 200) return true;
  if (RefusedBy(*reply).code == "not_durable") return false;
  return ErrorOf(*reply);
}

absl::Status HttpPlace::Purge(const std::string& tenant, const std::string& id) {
  // No session has ended this turn, so that one that was begun anew stays.
  const std::string fields = absl::StrCat("If-Match: ", SessionTag(0), "\r\n");
  const absl::StatusOr<HttpClient::Reply> reply =
      Ask("DELETE", Target(tenant, absl::StrCat("/", id), "purge=now"), fields);
  if (!reply.ok()) return reply.status();
  if (reply->status == 200) return absl::OkStatus();
  const absl::Status status = ErrorOf(*reply);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;  // there is nothing of it
}

absl::StatusOr<VerifyReport> HttpPlace::Verify(const std::string& tenant) {
  const absl::StatusOr<std::vector<PlacedSession>> sessions = List(tenant);
  if (!sessions.ok()) return sessions.status();
  VerifyReport report;
  for (const PlacedSession& session : *sessions) {
    const absl::StatusOr<ExportedSession> exported = Export(session.tenant, session.id);
    // One that has a turn in progress was read for it; one that is gone is not there to be read.
    if (absl::IsAborted(exported.status()) || absl::IsNotFound(exported.status())) continue;
    if (!exported.ok() && !absl::IsDataLoss(exported.status())) return exported.status();
    ++report.sessions;
    report.bytes += exported.ok() ? std::ssize(exported->file) : 0;
    const absl::Status read = exported.ok() ? ReadSessionFile(exported->file).status() : exported.status();
    if (read.ok()) continue;
    report.Add(absl::StrCat("session ", session.tenant, session.tenant.empty() ? "" : "/", session.id),
               std::string(read.message()));
  }
  report.records = report.sessions;
  return report;
}

}  // namespace hydrant
