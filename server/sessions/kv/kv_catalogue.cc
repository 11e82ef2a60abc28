#include "server/sessions/kv/kv_catalogue.h"

#include <utility>

#include "scheduler/fairness/over_share.h"

namespace hydrant {

const KvFileEntry* KvCatalogue::Find(const SessionName& session) const {
  const auto found = files_.find(session);
  return found == files_.end() ? nullptr : &found->second;
}

void KvCatalogue::Put(const SessionName& session, KvFileEntry entry) {
  Remove(session);
  Tenant& tenant = tenants_[entry.tenant];
  tenant.by_use.emplace(entry.used_s, session);
  tenant.bytes += entry.bytes;
  bytes_ += entry.bytes;
  files_.emplace(session, std::move(entry));
}

void KvCatalogue::Remove(const SessionName& session) {
  const auto found = files_.find(session);
  if (found == files_.end()) return;
  const KvFileEntry& entry = found->second;
  const auto tenant = tenants_.find(entry.tenant);
  tenant->second.by_use.erase({entry.used_s, session});
  tenant->second.bytes -= entry.bytes;
  bytes_ -= entry.bytes;
  if (tenant->second.by_use.empty()) tenants_.erase(tenant);
  files_.erase(found);
}

void KvCatalogue::SetDamaged(const SessionName& session) {
  const auto found = files_.find(session);
  if (found != files_.end()) found->second.damaged = true;
}

bool KvCatalogue::MakeRoom(const Newcomer& file, int64_t bytes_max, int64_t tenant_bytes_max, WeightOf weight_of,
                           std::vector<SessionName>* losers) const {
  if (file.bytes > bytes_max || (tenant_bytes_max > 0 && file.bytes > tenant_bytes_max)) return false;
  // What each tenant would have: the one that asks is judged by what it is about to have.
  struct Left {
    int64_t bytes;
    double weight;
    decltype(Tenant::by_use)::const_iterator next, end;
    bool has_last;  // the session's own files, which go behind all others
    bool gives() const { return next != end || has_last; }
  };
  const auto own_files = files_.find(file.session);
  const bool has_files = own_files != files_.end();
  std::vector<Left> tenants;
  Left *own = nullptr, *holder = nullptr;
  tenants.reserve(tenants_.size() + 1);
  int64_t all = bytes_ + file.bytes;
  for (const auto& [name, of] : tenants_) {
    const bool has_own = has_files && own_files->second.tenant == name;
    tenants.push_back({of.bytes + (name == file.tenant ? file.bytes : 0), weight_of(name), of.by_use.begin(),
                       of.by_use.end(), has_own && file.goes_on});
    if (name == file.tenant) own = &tenants.back();
    if (has_own) holder = &tenants.back();
  }
  static const std::set<std::pair<int64_t, SessionName>> kNone;
  if (own == nullptr) {  // its first
    own = &tenants.emplace_back(Left{file.bytes, weight_of(file.tenant), kNone.end(), kNone.end(), /*has_last=*/false});
  }
  const auto take = [&](const SessionName& session, Left* from) {
    const int64_t less = files_.at(session).bytes;
    from->bytes -= less;
    all -= less;
    losers->push_back(session);
  };
  const auto lose = [&](Left* from) {
    if (from->next != from->end && from->next->second == file.session) ++from->next;
    if (from->next != from->end) return take((from->next++)->second, from);
    if (std::exchange(from->has_last, false)) take(file.session, from);
  };
  const auto tenant_is_over = [&] { return tenant_bytes_max > 0 && own->bytes > tenant_bytes_max; };
  if (has_files && !file.goes_on && (tenant_is_over() || all > bytes_max)) take(file.session, holder);
  while (tenant_is_over() && own->gives()) lose(own);
  while (all > bytes_max) {
    Left* loser = WhoLoses(tenants, own, [](const Left& left) {
      return ShareHeld{left.bytes, left.weight, left.gives()};
    });
    if (loser == nullptr) {
      losers->clear();
      return false;
    }
    lose(loser);
  }
  return true;
}

}  // namespace hydrant
