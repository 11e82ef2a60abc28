#include "server/process/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"

namespace hydrant {
namespace {

std::string Hex(std::string_view bytes) {
  const Sha256Digest digest = Sha256(bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// The examples of FIPS 180-4.
TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Cases 1, 2 and 6 of RFC 4231.
TEST(HmacSha256, IsTheStandards) {
  const auto hex = [](std::string_view key, std::string_view bytes) {
    const Sha256Digest digest = HmacSha256(key, bytes);
    return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
  };
  EXPECT_EQ(hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace hydrant
