// StoreAddress is what --shared-limits says: where the store is, and which of its databases.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_SERVER_SHARED_LIMITS_STORE_ADDRESS_H_
#define HYDRANT_SERVER_SHARED_LIMITS_STORE_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

struct StoreAddress {
  std::string host;  // empty: `path`
  uint16_t port = 6379;
  std::string path;  // of a Unix socket
  std::string user;  // empty: the store's default one
  int32_t database = 0;

  std::string Text() const;  // for lines of the log
};

// redis://[USER@]HOST[:PORT][/DATABASE] or unix://PATH[?db=DATABASE]. Errors: INVALID_ARGUMENT, what is wrong: also of what is
// known and not done, such as TLS (rediss://) and a password where `ps` shows it.
absl::StatusOr<StoreAddress> ParseStoreAddress(std::string_view url);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHARED_LIMITS_STORE_ADDRESS_H_
