#include "server/sessions/transfer/session_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

SessionFile AFile() {
  SessionFile file;
  file.facts.tenant = "acme";
  file.facts.id = "chat-1";
  file.facts.tokens = 3;
  file.model[0] = 9;
  file.turn = 7;
  file.used_s = 1'700'000'000;
  file.past = "what was said";
  return file;
}

std::string WrongOf(std::string_view bytes) {
  const absl::StatusOr<SessionFile> read = ReadSessionFile(bytes);
  return read.ok() ? "" : std::string(read.status().message());
}

// Sets the number at `offset` of the fixed start, whose checksum is mended.
std::string WithStart(std::string bytes, size_t offset, std::string_view value) {
  bytes.replace(offset, value.size(), value);
  std::string crc;
  PutFixed(Crc32c(std::string_view(bytes).substr(0, 28)), &crc);
  return bytes.replace(28, 4, crc);
}

std::string WithSection(uint8_t type, uint8_t flags) {
  std::string bytes = WriteSessionFile(AFile()), section;
  PutFixed(type, &section);
  PutFixed(flags, &section);
  PutFixed(uint16_t{0}, &section);
  PutFixed(Crc32c("new"), &section);
  PutFixed(uint64_t{3}, &section);
  PutFixed(Crc32c(section), &section);
  bytes.append(section).append("new");
  std::string size;
  PutFixed(uint64_t{bytes.size()}, &size);
  return WithStart(bytes, 16, size);
}

TEST(SessionFile, IsReadAsItWasWritten) {
  const absl::StatusOr<SessionFile> read = ReadSessionFile(WriteSessionFile(AFile()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->facts.tenant, "acme");
  EXPECT_EQ(read->facts.id, "chat-1");
  EXPECT_EQ(read->model[0], 9);
  EXPECT_EQ(read->turn, 7u);
  EXPECT_EQ(read->used_s, 1'700'000'000);
  EXPECT_EQ(read->past, "what was said");
}

TEST(SessionFile, EveryByteCounts) {
  const std::string bytes = WriteSessionFile(AFile());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 7}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_NE(WrongOf(damaged), "") << "byte " << i;
    }
    EXPECT_NE(WrongOf(bytes.substr(0, i)), "") << "cut off at " << i;
  }
  EXPECT_THAT(WrongOf(bytes + "x"), HasSubstr("start: the file should have"));
  EXPECT_THAT(WrongOf("PK\3\4"), HasSubstr("not a session's file"));
}

TEST(SessionFile, OfALaterVersionIsRefusedByNameOrReadWithoutWhatIsNew) {
  const std::string later = WithStart(WriteSessionFile(AFile()), 8, std::string("\2\0", 2));
  EXPECT_EQ(ReadSessionFile(later).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(WrongOf(later), HasSubstr("format 2.0; this version reads format 1.0"));
  EXPECT_EQ(WrongOf(WithStart(WriteSessionFile(AFile()), 10, std::string("\5\0", 2))), "") << "a minor version";
  EXPECT_EQ(WrongOf(WithSection(9, 0)), "") << "it may be passed over";
  EXPECT_THAT(WrongOf(WithSection(9, 1)), HasSubstr("section 2: of kind 9"));
  EXPECT_THAT(WrongOf(WithSection(1, 1)), HasSubstr("second of its kind"));
}

}  // namespace
}  // namespace hydrant
