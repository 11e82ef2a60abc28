#include "server/tenants/prefix_salts.h"

#include <cstring>
#include <string>

#include "server/process/random_id.h"
#include "server/tenants/key_ring.h"

namespace hydrant {

PrefixSalts::PrefixSalts() {
  for (size_t i = 0; i < secret_.size(); i += sizeof(uint64_t)) {
    const uint64_t random = RandomSeed();
    std::memcpy(secret_.data() + i, &random, sizeof(random));
  }
}

PrefixSalt PrefixSalts::Of(std::string_view tenant, std::string_view cache_salt, std::string_view adapter) const {
  // The lengths in front: no tenant, adapter and salt can be cut differently and give the same text.
  const uint64_t tenant_bytes = tenant.size(), adapter_bytes = adapter.size();
  std::string text(reinterpret_cast<const char*>(secret_.data()), secret_.size());
  text.append(reinterpret_cast<const char*>(&tenant_bytes), sizeof(tenant_bytes));
  text.append(reinterpret_cast<const char*>(&adapter_bytes), sizeof(adapter_bytes));
  text.append(tenant).append(adapter).append(cache_salt);
  const KeyDigest digest = DigestOfKey(text);
  PrefixSalt salt;
  std::memcpy(&salt.high, digest.data(), sizeof(salt.high));
  std::memcpy(&salt.low, digest.data() + sizeof(salt.high), sizeof(salt.low));
  return salt;
}

}  // namespace hydrant
