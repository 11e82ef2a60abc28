#include "server/sessions/kv/kv_catalogue.h"

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

bool KvCatalogue::MakeRoom(int64_t bytes, const std::string& tenant, int64_t bytes_max, int64_t tenant_bytes_max,
                           WeightOf weight_of, std::vector<SessionName>* losers) const {
  if (bytes > bytes_max || (tenant_bytes_max > 0 && bytes > tenant_bytes_max)) return false;
  // What each tenant would have: the one that asks is judged by what it is about to have.
  struct Left {
    const std::string* name;
    int64_t bytes;
    double weight;
    decltype(Tenant::by_use)::const_iterator next, end;
  };
  std::vector<Left> tenants;
  Left* own = nullptr;
  tenants.reserve(tenants_.size());
  for (const auto& [name, of] : tenants_) {
    tenants.push_back(
        {&name, of.bytes + (name == tenant ? bytes : 0), weight_of(name), of.by_use.begin(), of.by_use.end()});
    if (name == tenant) own = &tenants.back();
  }
  int64_t all = bytes_ + bytes;
  const auto lose = [&](Left* from) {
    const SessionName& session = (from->next++)->second;
    const int64_t less = files_.at(session).bytes;
    from->bytes -= less;
    all -= less;
    losers->push_back(session);
  };
  while (own != nullptr && tenant_bytes_max > 0 && own->bytes > tenant_bytes_max && own->next != own->end) lose(own);
  while (all > bytes_max) {
    Left* most = nullptr;
    for (Left& left : tenants) {
      if (left.next == left.end) continue;
      const double share = static_cast<double>(left.bytes) / left.weight;
      if (most == nullptr || share > static_cast<double>(most->bytes) / most->weight) most = &left;
    }
    lose(most);  // there is one: without any file `bytes` have room
  }
  return true;
}

}  // namespace hydrant
