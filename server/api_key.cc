#include "server/api_key.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/ascii_text.h"

namespace hydrant {
namespace {

std::array<uint8_t, 32> Sha256(std::string_view text) {
  std::array<uint8_t, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

ApiKey::ApiKey(std::string_view key) : digest_(Sha256(key)) {}

bool ApiKey::Admits(std::string_view authorization) const {
  if (!required()) return true;
  static constexpr std::string_view kScheme = "bearer ";
  if (!StartsWithIgnoreCase(authorization, kScheme)) return false;
  const std::array<uint8_t, 32> digest = Sha256(Trim(authorization.substr(kScheme.size())));
  return CRYPTO_memcmp(digest.data(), digest_->data(), digest.size()) == 0;
}

}  // namespace hydrant
