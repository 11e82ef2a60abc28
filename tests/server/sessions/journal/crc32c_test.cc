#include "server/sessions/journal/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(Crc32c, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);            // the check value of CRC-32C
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, TheInstructionAndTheTableAgree) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(Crc32c(bytes), Crc32cByTable(bytes)) << i;
    bytes.push_back(static_cast<char>(i * 37));
  }
}

}  // namespace
}  // namespace hydrant
