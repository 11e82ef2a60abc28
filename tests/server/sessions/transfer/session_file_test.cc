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

// What a reader says of a file that comes in pieces of `piece` bytes, and what it gave of the KV.
std::string SayOfPieces(std::string_view bytes, size_t piece, std::string* kv) {
  SessionFile begun;
  SessionFileReader reader(bytes.size(), 100,
                           {[&](const SessionFile& file, uint64_t) {
                              begun = file;
                              return absl::OkStatus();
                            },
                            [&](std::string_view more) {
                              kv->append(more);
                              return absl::OkStatus();
                            }});
  absl::Status status;
  for (size_t at = 0; status.ok() && at < bytes.size(); at += piece) status = reader.Take(bytes.substr(at, piece));
  if (status.ok()) status = reader.Finish();
  if (!status.ok()) return std::string(status.message());
  EXPECT_EQ(reader.file().past, "what was said");
  EXPECT_EQ(begun.past, kv->empty() ? "" : "what was said") << "before its KV";
  return "";
}

TEST(SessionFile, KvComesBehindWhatWasSaidPieceByPiece) {
  std::string kv;
  for (int i = 0; i < 500; ++i) kv.push_back(static_cast<char>(i * 7));
  const std::string bytes = WriteSessionHead(AFile(), kv.size(), Crc32c(kv)) + kv;
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, bytes.size()}) {
    std::string got;
    EXPECT_EQ(SayOfPieces(bytes, piece, &got), "") << piece;
    EXPECT_EQ(got, kv);
    got.clear();
    EXPECT_EQ(SayOfPieces(WriteSessionFile(AFile()), piece, &got), "") << "and without";
  }
  EXPECT_EQ(WrongOf(bytes), "") << "who has no use for it passes it over";
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes, got;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_NE(SayOfPieces(damaged, 50, &got), "") << "byte " << i;
    EXPECT_NE(WrongOf(damaged), "") << "byte " << i;
    EXPECT_NE(SayOfPieces(std::string_view(bytes).substr(0, i), 50, &got), "") << "cut off at " << i;
  }
  // Lengths that nobody has bytes for are refused by them, and not tried.
  const auto with_section = [&](uint8_t type, uint64_t said) {
    std::string section;
    PutFixed(type, &section);
    section.append(3, '\0');
    PutFixed(Crc32c(kv), &section);
    PutFixed(said, &section);
    PutFixed(Crc32c(section), &section);
    const size_t at = bytes.size() - kv.size() - section.size();
    return bytes.substr(0, at) + section + kv;
  };
  std::string got;
  EXPECT_THAT(SayOfPieces(with_section(2, ~uint64_t{0}), 50, &got), HasSubstr("section 2: is cut off"));
  EXPECT_THAT(SayOfPieces(with_section(1, kv.size()), 50, &got), HasSubstr("second of its kind"));
  SessionFile much = AFile();
  much.past.resize(101);
  EXPECT_THAT(SayOfPieces(WriteSessionFile(much), 50, &got), HasSubstr("what the session said has 101 bytes"));
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
