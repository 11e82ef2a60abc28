// PrefixSalts tells whose cached prefixes a request may share: those of its own tenant with the same `cache_salt`, computed with the
// same adapter. A secret
// drawn at start goes in, so nothing a client sends can be made to meet another tenant's salt.
//
// Thread: any (immutable).
#ifndef HYDRANT_SERVER_TENANTS_PREFIX_SALTS_H_
#define HYDRANT_SERVER_TENANTS_PREFIX_SALTS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "block_manager/prefix_index.h"

namespace hydrant {

class PrefixSalts {
 public:
  PrefixSalts();  // with a new secret

  // `adapter`: LoadedAdapter::digest; empty: none.
  PrefixSalt Of(std::string_view tenant, std::string_view cache_salt, std::string_view adapter = {}) const;

 private:
  std::array<uint8_t, 32> secret_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_PREFIX_SALTS_H_
