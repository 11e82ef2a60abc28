// The part of SessionStore that has sessions leave for another server, and come from one.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/session_store.h"

namespace hydrant {
namespace {

constexpr int32_t kDiskAgainS = 10;  // Retry-After: a disk that hangs does so for seconds

}  // namespace

ApiResult<SessionStore::Kept> SessionStore::Export(int32_t tenant, const std::string& id) {
  Kept kept;
  SessionName name{};
  uint64_t turn = 0;
  {
    const Lock lock(*this);
    Expire();
    const Session* session = Find(tenant, id);
    if (session == nullptr) return SessionNotFound(/*expired=*/false);
    if (session->busy) return SessionBusy();
    kept = {session->past, session->created_s, session->used_s, session->name};
    name = session->name;
    turn = session->past_turn;
  }
  if (kept.past != nullptr) return kept;
  // Without the lock: the next turn may begin meanwhile, and then this is the one that it goes on from.
  kept.past = ReadLogged(name, turn);
  if (kept.past != nullptr) return kept;
  const Lock lock(*this);
  const Session* session = Find(tenant, id);
  if (session == nullptr) return SessionNotFound(/*expired=*/false);
  return session->past_turn == turn ? SessionDamaged() : SessionBusy();
}

void SessionStore::KeepKv(int32_t tenant, const std::string& id, std::function<void()> done) {
  std::optional<KvWish> wish;
  if (options_.kv != nullptr) {
    const Lock lock(*this);
    Session* session = Find(tenant, id);
    const bool parked = session != nullptr && !session->busy && ParkedPast(*session) != nullptr;
    if (parked) wish = WishOf(session);
  }
  if (!wish.has_value()) return done();
  WriteKv(*std::move(wish), {}, /*urgent=*/true, [done = std::move(done)](bool) { done(); });
}

std::unique_ptr<KvOutgoing> SessionStore::SendKv(const Kept& kept) {
  if (options_.kv == nullptr) return nullptr;
  const std::shared_ptr<const OpenKvFile> file =
      options_.kv->Open(kept.name, kept.past->turn, [&] { return BindingOf(kept.name, *kept.past); });
  return file == nullptr ? nullptr : options_.kv->Send(file);
}

std::unique_ptr<KvIncoming> SessionStore::ReceiveKv(const SessionOwner& owner, const std::string& id,
                                                    const SessionPast& past, int64_t bytes, KvOutcome* why) {
  const std::string tenant = options_.tenant_name(owner.tenant);
  *why = KvOutcome::kNoRoom;
  if (owner.disk_bytes > 0 && bytes > owner.disk_bytes) return nullptr;
  return options_.kv->Receive(BindingOf(options_.journal->NameOf(tenant, id), past), bytes, why);
}

void SessionStore::TakeKv(const SessionOwner& owner, std::unique_ptr<KvIncoming> kv, int64_t used_s,
                          std::function<void(KvOutcome)> done) {
  KvWrite write;
  write.binding = kv->header().binding;
  write.tenant = options_.tenant_name(owner.tenant);
  write.used_s = used_s;
  write.received = std::move(kv);
  const auto outcome = std::make_shared<KvOutcome>(KvOutcome::kBusy);
  write.outcome = outcome;
  options_.kv->Write(std::move(write), /*urgent=*/true, [outcome, done = std::move(done)](bool) { done(*outcome); });
}

std::optional<ApiError> SessionStore::CheckImport(const SessionOwner& owner, const std::string& id, int64_t bytes) {
  const Lock lock(*this);
  Expire();
  return CheckImportNow(owner, id, bytes);
}

std::optional<ApiError> SessionStore::CheckImportNow(const SessionOwner& owner, const std::string& id, int64_t bytes) {
  if (const Session* session = Find(owner.tenant, id); session != nullptr) return SessionExists(session->past_turn);
  const Tenant& tenant = TenantOf(owner.tenant);
  if (owner.sessions_max > 0 && std::ssize(tenant.sessions) >= owner.sessions_max) {
    return RateLimited(absl::StrCat("The tenant has ", owner.sessions_max, " sessions, as many as it may."),
                       "session_limit_exceeded", 1);
  }
  if (owner.disk_bytes > 0 && options_.journal != nullptr && tenant.logged_bytes + bytes > owner.disk_bytes) {
    return SessionDiskExceeded(owner.disk_bytes - tenant.logged_bytes);
  }
  if (auto error = CheckWriteNow(owner.tenant, bytes)) return error;
  // What the journal has need not be in memory.
  const bool has_memory = options_.journal != nullptr || bytes_ + bytes <= options_.bytes_max;
  if (has_memory && std::ssize(by_number_) < options_.sessions_max) return std::nullopt;
  return Overloaded("The server keeps as many sessions as it can.", "too_many_sessions", 1);
}

std::optional<ApiError> SessionStore::CheckWrite(const SessionOwner& owner, const SessionPast& past) {
  const Lock lock(*this);
  return CheckWriteNow(owner.tenant, BytesOf(past));
}

// It waits twice: as it is, and as a record.
std::optional<ApiError> SessionStore::CheckWriteNow(int32_t tenant, int64_t bytes) {
  if (options_.journal == nullptr || options_.journal->TakesNow(TenantOf(tenant).name, 2 * bytes)) return std::nullopt;
  return Overloaded("More waits to be written to the disk than it takes.", "disk_behind", kDiskAgainS);
}

std::optional<ApiError> SessionStore::Import(const SessionOwner& owner, const std::string& id, const Kept& kept,
                                             std::function<void(bool)> done) {
  const int64_t used_s = std::min(kept.used_s, StampS());
  Session* session = nullptr;
  {
    const Lock lock(*this);
    Expire();
    if (options_.ttl_us > 0 && AgeUs(used_s) >= options_.ttl_us) {
      return InvalidField("last_used", "The session was last used longer ago than sessions are kept (--session-ttl).");
    }
    if (auto error = CheckImportNow(owner, id, BytesOf(kept.past))) return error;
    Tenant& tenant = TenantOf(owner.tenant);
    tenant.weight = owner.weight;
    tenant.sessions_max = owner.sessions_max;
    tenant.disk_bytes = owner.disk_bytes;
    session = Add(owner.tenant, id);
    session->turns = kept.past->turn;
    session->created_s = std::min(kept.created_s, used_s);
  }
  try {
    const auto told = [done = std::move(done)](Durability durable) { done(durable != Durability::kNone); };
    Commit(session, kept.past->turn, nullptr, kept.past, told, used_s);
  } catch (...) {
    End(session, kept.past->turn, nullptr, {});  // which forgets it
    throw;
  }
  return std::nullopt;
}

void SessionStore::Purge(int32_t tenant, const std::string& id, std::function<void(bool)> done) {
  if (options_.journal == nullptr) return done(true);
  options_.journal->Purge(options_.journal->NameOf(options_.tenant_name(tenant), id), std::move(done));
}

bool SessionStore::IsUnpurged(int32_t tenant, const std::string& id) const {
  return options_.journal != nullptr &&
         options_.journal->HasForgotten(options_.journal->NameOf(options_.tenant_name(tenant), id));
}

}  // namespace hydrant
