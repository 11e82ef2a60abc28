#include "server/frontend/session_transfer.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/session/session.h"
#include "server/frontend/verdict.h"
#include "server/process/ascii_text.h"
#include "server/sessions/past_check.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/response_notes.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

SessionOwner SessionOwnerOf(const TenantEntry& tenant) {
  return {tenant.index(), tenant.config.weight, tenant.config.sessions_max, tenant.config.session_disk_bytes};
}

}  // namespace

SessionFile SessionTransfer::FileOf(const SessionStore::Kept& kept, const TenantEntry& tenant,
                                    const std::string& id) const {
  SessionFile file;
  file.facts = {tenant.config.name,
                id,
                kept.created_s,
                static_cast<int32_t>(kept.past->tokens.size()),
                kept.past->kv.budget.keep,
                static_cast<uint8_t>(kept.past->spec.preset)};
  file.model = context_.sessions->model();
  file.turn = kept.past->turn;
  file.used_s = kept.used_s;
  file.past = EncodePast(*kept.past, nullptr, file.model);
  return file;
}

asio::awaitable<void> SessionTransfer::Give(HttpExchange& exchange, Caller tenant, std::string id) const {
  HttpResponse response;
  const auto work = [&] {
    const ApiResult<SessionStore::Kept> kept = context_.sessions->Export(tenant->index(), id);
    if (!kept.ok()) {
      response = ErrorResponse(kept.error());
      return;
    }
    response.content_type = kSessionFileType;
    response.fields.emplace_back("etag", SessionTag(kept.value().past->turn));
    response.fields.emplace_back("cache-control", "no-store");
    response.body = WriteSessionFile(FileOf(kept.value(), *tenant, id));
  };
  const WorkOwner owner = {tenant->index(), exchange.client()};
  co_await workers_.Run(owner, work);
  co_await exchange.Respond(std::move(response));
}

std::optional<ApiError> SessionTransfer::CheckTake(const HttpExchange& exchange, const TenantEntry& tenant,
                                                   const std::string& id) const {
  const HttpHead& head = exchange.head();
  const std::string* condition = head.Find("if-none-match");
  if (condition == nullptr || Trim(*condition) != "*") {
    return InvalidField("If-None-Match", "'If-None-Match: *' is required: no session is ever replaced.",
                        "missing_field");
  }
  // What there is room for is decided by how much will come.
  if (head.framing != BodyFraming::kLength) return LengthRequired();
  if (admission_.refusing()) return AdmissionControl::Draining().error;
  return context_.sessions->CheckImport(SessionOwnerOf(tenant), id, static_cast<int64_t>(head.content_length));
}

std::optional<ApiError> SessionTransfer::Import(const std::string& body, const TenantEntry& tenant,
                                                const std::string& id, uint64_t* turn,
                                                std::function<void(bool)> done) const {
  absl::StatusOr<SessionFile> file = ReadSessionFile(body);
  if (!file.ok()) return InvalidSessionState(std::string(file.status().message()));
  if (file->facts.id != id) return InvalidField("session_id", "The state is another session's than the path names.");
  if (file->facts.tenant != tenant.config.name) return InvalidField("tenant", "The state is another tenant's.");
  if (file->model != context_.sessions->model()) return SessionOtherModel();
  std::optional<SessionPast> past = DecodePast({&file->past, 1}, file->model);
  if (!past.has_value()) return InvalidSessionState("past: what it says does not fit together");
  if (auto error = CheckPast(*past, context_.request.vocab_size, context_.kv)) return error;
  // The last answer was added when there was room before it.
  const int64_t notes_max = 2 * NotesBytesMax(context_.request.context);
  if (NotesBytes(past->notes) > notes_max) {
    return TooLarge(absl::StrCat("The responses of the session take more than ", notes_max, " bytes."),
                    "payload_too_large", "notes");
  }
  past->turn = *turn = file->turn;
  const SessionStore::Kept kept = {std::make_shared<const SessionPast>(*std::move(past)), file->facts.created_s,
                                   file->used_s};
  return context_.sessions->Import(SessionOwnerOf(tenant), id, kept, std::move(done));
}

asio::awaitable<void> SessionTransfer::Take(HttpExchange& exchange, Caller tenant, std::string id) const {
  Verdict durable(exchange);
  std::optional<ApiError> error;
  uint64_t turn = 0;
  const auto work = [&] { error = Import(exchange.body(), *tenant, id, &turn, durable.Sayer()); };
  const WorkOwner owner = {tenant->index(), exchange.client()};
  co_await workers_.Run(owner, work);
  exchange.DropBody();
  if (error.has_value()) {
    co_await exchange.RespondError(*error);
    co_return;
  }
  const bool here = co_await durable.Wait();
  if (!here) co_return;
  HttpResponse response = JsonResponse(SessionImportedJson(id, turn, durable.yes()));
  response.status = 201;
  response.fields.emplace_back("etag", SessionTag(turn));
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> SessionTransfer::Forget(HttpExchange& exchange, Caller tenant, std::string id) const {
  const std::optional<std::string> purge = QueryValue(exchange.head().query, "purge");
  if (purge.has_value() && *purge != "now") {
    co_await exchange.RespondError(InvalidField("purge", "'purge' can be now."));
    co_return;
  }
  std::optional<uint64_t> turn;
  if (const std::string* tag = exchange.head().Find("if-match")) {
    turn = ReadSessionTag(Trim(*tag));
    if (!turn.has_value()) {
      co_await exchange.RespondError(InvalidField("If-Match", "'If-Match' is the tag of a session's state."));
      co_return;
    }
  }
  Verdict durable(exchange);
  if (const auto error = context_.sessions->Delete(tenant->index(), id, durable.Sayer(), turn)) {
    co_await exchange.RespondError(*error);
    co_return;
  }
  bool here = co_await durable.Wait();
  if (!here) co_return;
  if (!durable.yes()) {
    co_await exchange.RespondError(NotDurable("The session is gone, but a restart of the server may bring it back."));
    co_return;
  }
  if (purge.has_value()) {
    Verdict purged(exchange);
    context_.sessions->Purge(purged.Sayer());
    here = co_await purged.Wait();
    if (!here) co_return;
    if (!purged.yes()) {
      co_await exchange.RespondError(Overloaded(
          "The session is gone for good, but what it said is in the files still: they cannot be written anew.",
          "not_purged", kDiskAgainS));
      co_return;
    }
  }
  HttpResponse response = JsonResponse(SessionDeletedJson(id, purge.has_value()));
  co_await exchange.Respond(std::move(response));
}

}  // namespace hydrant
