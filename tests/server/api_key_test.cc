#include "server/api_key.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(ApiKey, WithoutAKeyEverybodyMayEnter) {
  EXPECT_FALSE(ApiKey().required());
  EXPECT_TRUE(ApiKey().Admits(""));
  EXPECT_TRUE(ApiKey().Admits("Bearer anything"));
}

TEST(ApiKey, TheSchemeIsBearerInAnyCaseAndTheKeyIsExact) {
  const ApiKey key("secret-Key");
  const struct {
    const char* authorization;
    bool admitted;
  } cases[] = {
      {"Bearer secret-Key", true},
      {"bearer secret-Key", true},
      {"BEARER   secret-Key ", true},
      {"Bearer secret-key", false},
      {"Bearer secret-Ke", false},
      {"Bearer secret-Keyx", false},
      {"Bearer", false},
      {"Bearer ", false},
      {"", false},
      {"secret-Key", false},
      {"Basic secret-Key", false},
      {"Bearersecret-Key", false},
      {"Bearer secret-Key secret-Key", false},
  };
  for (const auto& test : cases) EXPECT_EQ(key.Admits(test.authorization), test.admitted) << test.authorization;
}

TEST(ApiKey, OneWrongByteAnywhereIsRefused) {
  const std::string right(64, 'k');
  const ApiKey key(right);
  ASSERT_TRUE(key.Admits("Bearer " + right));
  for (size_t i = 0; i < right.size(); ++i) {
    std::string wrong = right;
    wrong[i] ^= 1;
    EXPECT_FALSE(key.Admits("Bearer " + wrong)) << i;
  }
}

}  // namespace
}  // namespace hydrant
