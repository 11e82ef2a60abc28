#include "server/tenants/key_ring.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cassert>

#include "server/process/ascii_text.h"
#include "server/process/sha256.h"

namespace hydrant {

KeyDigest DigestOfKey(std::string_view key) { return Sha256(key); }

std::optional<KeyDigest> KeyDigestFromHex(std::string_view text) {
  KeyDigest digest;
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = HexValue(text[2 * i]);
    const int low = HexValue(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

std::optional<std::string_view> BearerToken(std::string_view authorization) {
  static constexpr std::string_view kScheme = "bearer ";
  if (!StartsWithIgnoreCase(authorization, kScheme)) return std::nullopt;
  return Trim(authorization.substr(kScheme.size()));
}

bool KeyRing::Add(const KeyDigest& key, int32_t owner) {
  assert(owner >= 0);
  // Digests from a configuration are no secret to whoever wrote it: an early end tells nobody anything.
  if (std::any_of(keys_.begin(), keys_.end(), [&](const Entry& entry) { return entry.digest == key; })) return false;
  keys_.push_back({key, owner});
  return true;
}

int32_t KeyRing::OwnerOf(std::string_view key) const {
  const KeyDigest digest = DigestOfKey(key);
  uint32_t found = 0;  // owner + 1; no branch depends on a comparison
  for (const Entry& entry : keys_) {
    const auto differs = static_cast<uint32_t>(CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) & 0xff);
    const uint32_t mask = ((differs | (0u - differs)) >> 31) - 1u;  // all ones when nothing differs
    found |= mask & (static_cast<uint32_t>(entry.owner) + 1u);
  }
  return static_cast<int32_t>(found) - 1;
}

}  // namespace hydrant
