#include "server/tenants/key_ring.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(KeyRing, ADigestIsTheSha256OfTheKey) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(DigestOfKey("abc"), KeyDigestFromHex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_EQ(DigestOfKey("abc"), KeyDigestFromHex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"));
}

TEST(KeyRing, AnythingBut64HexadecimalDigitsIsNoDigest) {
  const std::string good(64, 'a');
  ASSERT_TRUE(KeyDigestFromHex(good).has_value());
  for (const std::string& bad : {std::string(), good.substr(1), good + "a", good.substr(1) + "g", good.substr(2) + "0x",
                                 " " + good.substr(1), good.substr(1) + std::string(1, '\0')}) {
    EXPECT_FALSE(KeyDigestFromHex(bad).has_value()) << bad;
  }
}

TEST(KeyRing, TheSchemeIsBearerInAnyCaseAndTheKeyIsExact) {
  const struct {
    const char* authorization;
    std::optional<std::string_view> token;
  } cases[] = {
      {"Bearer secret-Key", "secret-Key"},
      {"bearer secret-Key", "secret-Key"},
      {"BEARER   secret-Key ", "secret-Key"},
      {"Bearer a b", "a b"},
      {"Bearer ", ""},
      {"Bearer", std::nullopt},
      {"", std::nullopt},
      {"secret-Key", std::nullopt},
      {"Basic secret-Key", std::nullopt},
      {"Bearersecret-Key", std::nullopt},
  };
  for (const auto& test : cases) EXPECT_EQ(BearerToken(test.authorization), test.token) << test.authorization;
}

TEST(KeyRing, EveryKeyHasItsOwnerAndNoOtherStringHasOne) {
  KeyRing keys;
  ASSERT_TRUE(keys.Add(DigestOfKey("first"), 0));
  ASSERT_TRUE(keys.Add(DigestOfKey("second"), 1));
  ASSERT_TRUE(keys.Add(DigestOfKey("rotated"), 0));
  ASSERT_TRUE(keys.Add(DigestOfKey("last"), 70'000));
  EXPECT_EQ(keys.OwnerOf("first"), 0);
  EXPECT_EQ(keys.OwnerOf("second"), 1);
  EXPECT_EQ(keys.OwnerOf("rotated"), 0);
  EXPECT_EQ(keys.OwnerOf("last"), 70'000);
  for (const char* other : {"", "First", "first ", "firs", "firstt", "secon"}) EXPECT_EQ(keys.OwnerOf(other), -1);
  EXPECT_EQ(KeyRing().OwnerOf("first"), -1);
}

TEST(KeyRing, AKeyHasOneOwner) {
  KeyRing keys;
  ASSERT_TRUE(keys.Add(DigestOfKey("key"), 0));
  EXPECT_FALSE(keys.Add(DigestOfKey("key"), 1));
  EXPECT_FALSE(keys.Add(DigestOfKey("key"), 0));
  EXPECT_EQ(keys.OwnerOf("key"), 0);
}

TEST(KeyRing, OneWrongBitAnywhereIsRefused) {
  const std::string right(64, 'k');
  KeyRing keys;
  ASSERT_TRUE(keys.Add(DigestOfKey(right), 5));
  for (size_t i = 0; i < right.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string wrong = right;
      wrong[i] = static_cast<char>(wrong[i] ^ (1 << bit));
      EXPECT_EQ(keys.OwnerOf(wrong), -1) << i;
    }
  }
}

}  // namespace
}  // namespace hydrant
