// An API key as the tenants file has it.
#ifndef HYDRANT_TESTS_SERVER_KEY_HEX_H_
#define HYDRANT_TESTS_SERVER_KEY_HEX_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "server/tenants/key_ring.h"

namespace hydrant {

// Its digest in hexadecimal: an element of `api_keys_sha256`.
inline std::string HexOfKey(std::string_view key) {
  std::string text;
  for (const uint8_t byte : DigestOfKey(key)) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_KEY_HEX_H_
