// AES-256-GCM (NIST SP 800-38D) and HKDF-SHA256 (RFC 5869), by OpenSSL.
//
// Thread: any.
#ifndef HYDRANT_SERVER_PROCESS_AEAD_H_
#define HYDRANT_SERVER_PROCESS_AEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hydrant {

using SealKey = std::array<uint8_t, 32>;
inline constexpr size_t kSealTagBytes = 16;

// 32 bytes of key material from `key`, of which at least 32 bytes are as good as random. Other salts and infos give keys that say
// nothing of each other.
SealKey DeriveKey(std::string_view key, std::string_view salt, std::string_view info);

// From the kernel's generator.
void FillRandom(std::span<uint8_t> bytes);

// Seals `text` into `out` [text.size() + kSealTagBytes]; both may begin at the same place. `nonce`: never twice under one key.
// `beside` is not in it and has to be the same when it is opened. Throws std::bad_alloc.
void Seal(const SealKey& key, uint64_t nonce, std::string_view beside, std::string_view text, char* out);
// Opens `sealed` into `out` [sealed.size() - kSealTagBytes]; both may begin at the same place. False: it is not what Seal made with these;
// what is in `out` then is not to be used. REQUIRES: sealed.size() >= kSealTagBytes.
bool Unseal(const SealKey& key, uint64_t nonce, std::string_view beside, std::string_view sealed, char* out);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_AEAD_H_
