#include "api/wire/request_id.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(RequestIdTest, IsAShortWordOfSafeCharacters) {
  for (const char* good : {"a", "req-1", "A.b_c:9"}) EXPECT_TRUE(IsRequestId(good, 128)) << good;
  for (const char* bad : {"", "a b", "a\n", "a/b", "é", "a\"b"}) EXPECT_FALSE(IsRequestId(bad, 128)) << bad;
  EXPECT_TRUE(IsRequestId(std::string(128, 'x'), 128));
  EXPECT_FALSE(IsRequestId(std::string(129, 'x'), 128));
}

}  // namespace
}  // namespace hydrant
