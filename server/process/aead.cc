#include "server/process/aead.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <cassert>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "server/process/sha256.h"

namespace hydrant {
namespace {

constexpr size_t kNonceBytes = 12;

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// A cipher that has the key, the nonce and what is beside the text. Null: it is not to be had.
Context Begin(const SealKey& key, uint64_t nonce, std::string_view beside, bool seals) {
  // EVP_aes_256_gcm() is looked up at each call.
  static const EVP_CIPHER* const kCipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  std::array<unsigned char, kNonceBytes> number{};
  for (size_t i = 0; i < sizeof(nonce); ++i) number[i] = static_cast<unsigned char>(nonce >> 8 * i);
  Context context(EVP_CIPHER_CTX_new());
  if (context == nullptr) throw std::bad_alloc();
  int written = 0;
  const bool ok =
      EVP_CipherInit_ex2(context.get(), kCipher, key.data(), number.data(), seals ? 1 : 0, nullptr) == 1 &&
      EVP_CipherUpdate(context.get(), nullptr, &written, Bytes(beside), static_cast<int>(beside.size())) == 1;
  assert(ok);
  static_cast<void>(ok);
  return context;
}

}  // namespace

SealKey DeriveKey(std::string_view key, std::string_view salt, std::string_view info) {
  const auto view = [](const Sha256Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  const Sha256Digest extracted = HmacSha256(salt, key);
  return HmacSha256(view(extracted), std::string(info).append(1, '\x01'));
}

void FillRandom(std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    assert(got > 0 || errno == EINTR);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

void Seal(const SealKey& key, uint64_t nonce, std::string_view beside, std::string_view text, char* out) {
  assert(text.size() < static_cast<size_t>(std::numeric_limits<int>::max()));
  const Context context = Begin(key, nonce, beside, /*seals=*/true);
  auto* const to = reinterpret_cast<unsigned char*>(out);
  int written = 0;
  int more = 0;
  const bool ok = EVP_CipherUpdate(context.get(), to, &written, Bytes(text), static_cast<int>(text.size())) == 1 &&
                  EVP_CipherFinal_ex(context.get(), to + written, &more) == 1 &&
                  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kSealTagBytes, to + text.size()) == 1;
  assert(ok && static_cast<size_t>(written + more) == text.size());
  static_cast<void>(ok);
}

bool Unseal(const SealKey& key, uint64_t nonce, std::string_view beside, std::string_view sealed, char* out) {
  assert(sealed.size() >= kSealTagBytes && sealed.size() < static_cast<size_t>(std::numeric_limits<int>::max()));
  std::string tag(sealed.substr(sealed.size() - kSealTagBytes));
  sealed.remove_suffix(kSealTagBytes);
  const Context context = Begin(key, nonce, beside, /*seals=*/false);
  auto* const to = reinterpret_cast<unsigned char*>(out);
  int written = 0;
  int more = 0;
  return EVP_CipherUpdate(context.get(), to, &written, Bytes(sealed), static_cast<int>(sealed.size())) == 1 &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kSealTagBytes, tag.data()) == 1 &&
         EVP_CipherFinal_ex(context.get(), to + written, &more) == 1;
}

}  // namespace hydrant
