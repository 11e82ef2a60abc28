#include "server/process/aead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"

namespace hydrant {
namespace {

std::string Digits(std::string_view bytes) { return absl::BytesToHexString(std::string(bytes)); }
template <typename Bytes>
std::string DigitsOf(const Bytes& bytes) {
  return Digits({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// RFC 5869, A.1, the first 32 bytes; and test case 14 of "The Galois/Counter Mode of Operation" (McGrew, Viega).
TEST(Aead, IsThatOfTheStandards) {
  const SealKey derived = DeriveKey(std::string(22, '\x0b'), absl::HexStringToBytes("000102030405060708090a0b0c"),
                                    absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9"));
  EXPECT_EQ(DigitsOf(derived), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  std::string out(16 + kSealTagBytes, '\0');
  Seal(SealKey(), 0, "", std::string(16, '\0'), out.data());
  EXPECT_EQ(Digits(out), "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(Aead, OpensWhatItSealedWithTheSameNonceAlone) {
  SealKey key{};
  FillRandom(key);
  EXPECT_NE(key, SealKey());
  for (const size_t bytes : {0u, 1u, 15u, 16u, 17u, 5000u}) {
    const std::string text(bytes, 'x');
    std::string sealed(bytes + kSealTagBytes, '\0'), opened(bytes, '\0');
    Seal(key, 7, "beside", text, sealed.data());
    EXPECT_TRUE(Unseal(key, 7, "beside", sealed, opened.data()));
    EXPECT_EQ(opened, text);
    EXPECT_FALSE(Unseal(key, 8, "beside", sealed, opened.data()));
    EXPECT_FALSE(Unseal(key, 7, "", sealed, opened.data()));
    std::string same = text + std::string(kSealTagBytes, '\0');
    Seal(key, 7, "beside", std::string_view(same).substr(0, bytes), same.data());
    EXPECT_EQ(same, sealed) << "in its own place";
  }
}

}  // namespace
}  // namespace hydrant
