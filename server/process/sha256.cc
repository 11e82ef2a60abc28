#include "server/process/sha256.h"

#include <openssl/evp.h>

#include <cassert>

namespace hydrant {

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest{};
  unsigned int written = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &written, EVP_sha256(), nullptr);
  assert(ok == 1 && written == digest.size());
  return digest;
}

}  // namespace hydrant
