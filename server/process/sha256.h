// SHA-256, and HMAC (RFC 2104) with it, by OpenSSL.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_PROCESS_SHA256_H_
#define HYDRANT_SERVER_PROCESS_SHA256_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace hydrant {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view bytes);
Sha256Digest HmacSha256(std::string_view key, std::string_view bytes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_SHA256_H_
