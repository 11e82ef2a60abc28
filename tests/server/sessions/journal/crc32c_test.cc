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

TEST(Crc32c, ThatOfTwoTextsComesFromTheirs) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes.push_back(static_cast<char>(i * 37 + i / 256));
  const std::string_view all = bytes;
  for (const size_t at : {size_t{0}, size_t{1}, size_t{255}, size_t{2047}, size_t{2999}, size_t{3000}}) {
    EXPECT_EQ(Crc32cOfBoth(Crc32c(all.substr(0, at)), Crc32c(all.substr(at)), 3000 - at), Crc32c(all)) << at;
  }
}

}  // namespace
}  // namespace hydrant
