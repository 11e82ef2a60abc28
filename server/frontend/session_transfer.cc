#include "server/frontend/session_transfer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/session/session.h"
#include "server/frontend/verdict.h"
#include "server/process/ascii_text.h"
#include "server/sessions/kv/kv_travel.h"
#include "server/sessions/past_check.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/response_notes.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// More than any session's state has.
constexpr uint64_t kStateBytesMax = uint64_t{1} << 40;

SessionOwner SessionOwnerOf(const TenantEntry& tenant) {
  return {tenant.index(), tenant.config.weight, tenant.config.sessions_max, tenant.config.session_disk_bytes};
}

// What a state with KV takes while it goes out: a piece that is being written, and one that is read meanwhile.
constexpr auto kSendingBytes = static_cast<int64_t>(2 * kBodyPieceBytes);

// What an import says became of its KV, beside the names of KvReject and KvOutcome.
constexpr std::string_view kKvNotDurable = "not_durable";
constexpr std::string_view kKvNoDirectory = "no_directory";
constexpr std::string_view kKvNotOperator = "not_operator";

// A session's state while it comes in: what was said is put together here, and KV goes to the disk piece by piece.
//
// Thread: one at a time; waits for the disk.
class Arrival {
 public:
  Arrival(const ServingContext& context, const TenantEntry& tenant, const std::string& id, uint64_t bytes,
          int64_t past_bytes_max, bool with_kv)
      : context_(context),
        tenant_(tenant),
        id_(id),
        with_kv_(with_kv),
        past_bytes_max_(static_cast<uint64_t>(past_bytes_max)),
        reader_(bytes, past_bytes_max_,
                {[this](const SessionFile& file, uint64_t kv_bytes) { return BeginKv(file, kv_bytes); },
                 [this](std::string_view piece) { return TakeKv(piece); }}) {}
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  std::optional<ApiError> Take(std::string_view piece) { return ErrorOf(reader_.Take(piece)); }
  // All of it has come: the session is imported. `done` as in SessionStore::Import.
  std::optional<ApiError> Import(std::function<void(bool)> done) {
    if (auto error = ErrorOf(reader_.Finish())) return error;
    if (past_ == nullptr) {
      if (auto error = ReadPast(reader_.file())) return error;
    }
    if (kv_ != nullptr) {
      if (auto error = ErrorOf(Judge(kv_->Finish()))) return error;
    }
    const SessionFile& file = reader_.file();
    return context_.sessions->Import(SessionOwnerOf(tenant_), id_, {past_, file.facts.created_s, file.used_s},
                                     std::move(done));
  }
  bool has_kv() const { return kv_ != nullptr; }
  // REQUIRES: has_kv(); it is imported. `done` as in SessionStore::TakeKv.
  void PutKv(std::function<void(KvOutcome)> done) {
    context_.sessions->TakeKv(SessionOwnerOf(tenant_), std::move(kv_), reader_.file().used_s, std::move(done));
  }
  // What is on the disk of it goes.
  void DropKv(std::string_view why) {
    kv_.reset();
    kv_says_ = why;
  }
  void SayOfKv(std::string_view says) { kv_says_ = says; }
  std::string_view kv_says() const { return kv_says_; }
  uint64_t turn() { return reader_.file().turn; }

 private:
  // What the reader said, or whoever it asked.
  std::optional<ApiError> ErrorOf(const absl::Status& status) {
    if (error_.has_value()) return error_;
    if (status.ok()) return std::nullopt;
    if (absl::IsResourceExhausted(status)) return PayloadTooLarge(past_bytes_max_);
    return InvalidSessionState(std::string(status.message()));
  }
  std::optional<ApiError> ReadPast(SessionFile& file) {
    if (file.facts.id != id_) return InvalidField("session_id", "The state is another session's than the path names.");
    if (file.facts.tenant != tenant_.config.name) return InvalidField("tenant", "The state is another tenant's.");
    if (file.model != context_.sessions->model()) return SessionOtherModel();
    std::optional<SessionPast> past = DecodePast({&file.past, 1}, file.model);
    if (!past.has_value()) return InvalidSessionState("past: what it says does not fit together");
    if (auto error = CheckPast(*past, context_.request.vocab_size, context_.kv)) return error;
    // The last answer was added when there was room before it.
    const int64_t notes_max = 2 * NotesBytesMax(context_.request.context);
    if (NotesBytes(past->notes) > notes_max) {
      return TooLarge(absl::StrCat("The responses of the session take more than ", notes_max, " bytes."),
                      "payload_too_large", "notes");
    }
    past->turn = file.turn;
    past_ = std::make_shared<const SessionPast>(*std::move(past));
    return std::nullopt;
  }
  absl::Status BeginKv(const SessionFile& /*file*/, uint64_t bytes) {
    error_ = ReadPast(reader_.file());
    if (error_.has_value()) return absl::CancelledError();
    if (!with_kv_) {
      kv_says_ = kKvNotOperator;
      return absl::OkStatus();
    }
    if (context_.sessions->kv() == nullptr) {
      kv_says_ = kKvNoDirectory;
      return absl::OkStatus();
    }
    // Where a number of bytes comes round it is no size of a file that there is room for.
    KvOutcome why = KvOutcome::kTaken;
    kv_ = context_.sessions->ReceiveKv(SessionOwnerOf(tenant_), id_, *past_, static_cast<int64_t>(bytes), &why);
    if (kv_ == nullptr) kv_says_ = KvOutcomeName(why);
    return absl::OkStatus();
  }
  absl::Status TakeKv(std::string_view piece) { return kv_ == nullptr ? absl::OkStatus() : Judge(kv_->Take(piece)); }
  // KV that is damaged is the end of the whole file; KV that cannot be used here is passed over.
  absl::Status Judge(KvReject reject) {
    if (reject == KvReject::kNone) return absl::OkStatus();
    DropKv(KvRejectName(reject));
    if (reject != KvReject::kDamaged && reject != KvReject::kShort) return absl::OkStatus();
    return absl::InvalidArgumentError("kv: is not what was written");
  }

  const ServingContext& context_;
  const TenantEntry& tenant_;
  const std::string& id_;
  const bool with_kv_;
  const uint64_t past_bytes_max_;
  SessionFileReader reader_;
  std::optional<ApiError> error_;
  std::shared_ptr<const SessionPast> past_;
  std::unique_ptr<KvIncoming> kv_;
  std::string_view kv_says_;  // empty: none came
};

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
  const std::string with_kv = QueryValue(exchange.head().query, "kv").value_or("0");
  if (with_kv != "0" && with_kv != "1") {
    co_await exchange.RespondError(InvalidField("kv", "'kv' is 0 or 1."));
    co_return;
  }
  const WorkOwner owner = {tenant->index(), exchange.client()};
  // That many of them are under way, and that many files open, as there is room for answers.
  if (with_kv == "1" && exchange.place() != nullptr) exchange.place()->HoldAnswer(kSendingBytes);
  if (with_kv == "1" && exchange.head().method != "HEAD") {
    Verdict written(exchange);
    const auto keep = [&] { context_.sessions->KeepKv(tenant->index(), id, [say = written.Sayer()] { say(true); }); };
    co_await workers_.Run(owner, keep);
    const bool here = co_await written.Wait();
    if (!here) co_return;
  }
  HttpResponse response;
  std::unique_ptr<KvOutgoing> kv;
  const auto work = [&] {
    const ApiResult<SessionStore::Kept> kept = context_.sessions->Export(tenant->index(), id);
    if (!kept.ok()) {
      response = ErrorResponse(kept.error());
      return;
    }
    response.content_type = kSessionFileType;
    response.fields.emplace_back("etag", SessionTag(kept.value().past->turn));
    response.fields.emplace_back("cache-control", "no-store");
    response.fields.emplace_back(kSessionHolderField, instance_);
    if (with_kv == "1") kv = context_.sessions->SendKv(kept.value());
    const SessionFile file = FileOf(kept.value(), *tenant, id);
    response.body =
        kv == nullptr ? WriteSessionFile(file) : WriteSessionHead(file, static_cast<uint64_t>(kv->bytes()), kv->crc());
  };
  co_await workers_.Run(owner, work);
  if (kv == nullptr) {
    co_await exchange.Respond(std::move(response));
  } else {
    co_await GiveKv(exchange, owner, std::move(response), *kv);
    const auto close = [&] { kv.reset(); };
    co_await workers_.Run(owner, close);
  }
}

asio::awaitable<void> SessionTransfer::GiveKv(HttpExchange& exchange, WorkOwner owner, HttpResponse response,
                                              KvOutgoing& kv) const {
  std::string piece = std::move(response.body);
  response.body.clear();
  exchange.BeginStream(std::move(response), std::ssize(piece) + kv.bytes());
  bool goes_on = exchange.head().method != "HEAD";
  while (goes_on && !piece.empty()) {
    goes_on = co_await exchange.Write(piece);
    KvReject reject = KvReject::kNone;
    const auto read = [&] { reject = kv.Next(&piece); };
    if (goes_on) co_await workers_.Run(owner, read);
    if (reject == KvReject::kNone) continue;
    exchange.CutStream();  // what was announced does not come
    co_return;
  }
  co_await exchange.EndStream();
}

std::optional<ApiError> SessionTransfer::CheckTake(const HttpExchange& exchange, const TenantEntry& tenant,
                                                   const std::string& id, bool with_kv) const {
  const HttpHead& head = exchange.head();
  const std::string* condition = head.Find("if-none-match");
  if (condition == nullptr || Trim(*condition) != "*") {
    return InvalidField("If-None-Match", "'If-None-Match: *' is required: no session is ever replaced.",
                        "missing_field");
  }
  // What there is room for is decided by how much will come.
  if (head.framing != BodyFraming::kLength) return LengthRequired();
  const uint64_t bytes_max = with_kv ? kStateBytesMax : static_cast<uint64_t>(past_bytes_max_);
  if (head.content_length > bytes_max) return PayloadTooLarge(bytes_max);
  if (admission_.refusing()) return AdmissionControl::Draining().error;
  // A file that is longer than what a session says can be is mostly KV, and how much of it is known when it comes.
  const bool has_kv = head.content_length > static_cast<uint64_t>(past_bytes_max_);
  return context_.sessions->CheckImport(SessionOwnerOf(tenant), id,
                                        has_kv ? 0 : static_cast<int64_t>(head.content_length));
}

int64_t SessionTransfer::HeldBytes(const HttpHead& head) const {
  return static_cast<int64_t>(std::min<uint64_t>(head.content_length, static_cast<uint64_t>(past_bytes_max_)));
}

asio::awaitable<void> SessionTransfer::Take(HttpExchange& exchange, Caller tenant, std::string id, bool with_kv) const {
  const WorkOwner owner = {tenant->index(), exchange.client()};
  Arrival arrival(context_, *tenant, id, exchange.head().content_length, past_bytes_max_, with_kv);
  std::optional<ApiError> error;
  std::string piece;
  const auto take = [&] { error = arrival.Take(piece); };
  BodyProgress progress = BodyProgress::kPiece;
  while (progress == BodyProgress::kPiece && !error.has_value()) {
    progress = co_await exchange.ReadBodyPiece(&piece);
    if (progress == BodyProgress::kPiece) co_await workers_.Run(owner, take);
  }
  if (progress == BodyProgress::kSlow) error = RequestTimeout();
  if (error.has_value() || progress == BodyProgress::kGone) {
    const auto drop = [&] { arrival.DropKv(""); };
    co_await workers_.Run(owner, drop);
    if (error.has_value()) co_await exchange.RespondError(*error);
    co_return;
  }
  Verdict durable(exchange);
  const auto import = [&] { error = arrival.Import(durable.Sayer()); };
  co_await workers_.Run(owner, import);
  exchange.DropBody();
  if (error.has_value()) {
    const auto drop = [&] { arrival.DropKv(""); };
    co_await workers_.Run(owner, drop);
    co_await exchange.RespondError(*error);
    co_return;
  }
  bool here = co_await durable.Wait();
  if (arrival.has_kv() && !(here && durable.yes())) {
    const auto drop = [&] { arrival.DropKv(kKvNotDurable); };
    co_await workers_.Run(owner, drop);
  } else if (arrival.has_kv()) {
    Verdict kept(exchange);
    // Read once `kept` has been said, which is after this was written.
    const auto outcome = std::make_shared<KvOutcome>(KvOutcome::kFailed);
    const auto put = [&] {
      arrival.PutKv([outcome, say = kept.Sayer()](KvOutcome became) {
        *outcome = became;
        say(became == KvOutcome::kTaken);
      });
    };
    co_await workers_.Run(owner, put);
    here = co_await kept.Wait();
    if (here) arrival.SayOfKv(KvOutcomeName(*outcome));
  }
  if (!here) co_return;
  HttpResponse response = JsonResponse(SessionImportedJson(id, arrival.turn(), durable.yes(), arrival.kv_says()));
  response.status = 201;
  response.fields.emplace_back("etag", SessionTag(arrival.turn()));
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
    // It is gone, and what it said was not: that is asked for again.
    const bool again = purge.has_value() && error->status == 404 && context_.sessions->IsUnpurged(tenant->index(), id);
    if (!again) {
      co_await exchange.RespondError(*error);
      co_return;
    }
    durable.Sayer()(true);
  }
  bool here = co_await durable.Wait();
  if (!here) co_return;
  if (!durable.yes()) {
    co_await exchange.RespondError(
        NotDurable("The session is gone, but not from the disk: a restart may bring it back, or its KV is left."));
    co_return;
  }
  if (purge.has_value()) {
    Verdict purged(exchange);
    context_.sessions->Purge(tenant->index(), id, purged.Sayer());
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
