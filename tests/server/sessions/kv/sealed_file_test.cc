#include "server/sessions/kv/sealed_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "tests/server/sessions/journal/model_disk.h"

namespace hydrant {
namespace {

std::string RandomText(std::mt19937& random, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

// Around the edges of pieces, written and read in parts of any length.
TEST(SealedFile, IsReadFromAnywhereAsItWasWritten) {
  const auto keys = *SessionKeys::Parse(std::string(64, 'd'), "keys");
  SessionName session{};
  session.fill(9);
  std::mt19937 random(5);
  constexpr int64_t kFirst = 4096, kPiece = 1 << 20;
  for (const int64_t bytes : {int64_t{1}, kFirst - 1, kFirst, kFirst + 1, kFirst + kPiece, kFirst + kPiece + 1}) {
    ModelDisk disk;
    const auto files = disk.Mount();
    const std::string text = RandomText(random, bytes);
    const int fd = files->Create("file");
    SealedWriter writer(*files, fd, *keys, session, 3, bytes);
    for (int64_t at = 0; at < bytes;) {
      const int64_t part = std::min<int64_t>(bytes - at, 1 + static_cast<int64_t>(random() % 400'000));
      ASSERT_EQ(writer.Append(std::string_view(text).substr(static_cast<size_t>(at), static_cast<size_t>(part))), 0);
      at += part;
    }
    EXPECT_EQ(files->Size(fd), SealedBytes(bytes));
    KvReject reject = KvReject::kIo;
    const auto reader = SealedReader::Open(*files, files->Open("file"), *keys, &reject);
    ASSERT_EQ(reject, KvReject::kNone);
    EXPECT_EQ(reader->text_bytes(), bytes);
    EXPECT_EQ(reader->session(), session);
    EXPECT_EQ(reader->turn(), 3u);
    EXPECT_TRUE(reader->is_current());
    for (int i = 0; i < 20; ++i) {
      const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(bytes));
      const auto part = static_cast<int64_t>(random() % static_cast<uint64_t>(bytes - at + 1));
      std::string read(static_cast<size_t>(part), '\0');
      ASSERT_EQ(reader->Read(read.data(), part, at), KvReject::kNone);
      ASSERT_EQ(read, text.substr(static_cast<size_t>(at), static_cast<size_t>(part))) << at << ", " << part;
    }
  }
}

// Pieces that change places, of one file or of two, are no text.
TEST(SealedFile, PiecesStayInTheirPlaces) {
  const auto keys = *SessionKeys::Parse(std::string(64, 'd'), "keys");
  constexpr int64_t kFirst = 4096, kPiece = 1 << 20, kTag = 16;
  std::mt19937 random(6);
  ModelDisk disk;
  const auto files = disk.Mount();
  for (const char* name : {"one", "two"}) {
    SealedWriter writer(*files, files->Create(name), *keys, SessionName(), 3, kFirst + 2 * kPiece);
    ASSERT_EQ(writer.Append(RandomText(random, kFirst + 2 * kPiece)), 0);
  }
  const auto second = static_cast<size_t>(kSealedHeadBytes + kFirst + kTag), piece = static_cast<size_t>(kPiece + kTag);
  std::string& one = disk.names["one"]->bytes;
  const std::string whole = one, two = disk.names["two"]->bytes;
  const auto read = [&] {
    KvReject reject = KvReject::kNone;
    const auto reader = SealedReader::Open(*files, files->Open("one"), *keys, &reject);
    char byte = 0;
    return reader == nullptr ? reject : reader->Read(&byte, 1, kFirst + kPiece / 2);
  };
  EXPECT_EQ(read(), KvReject::kNone);
  one.replace(second, piece, whole.substr(second + piece, piece));
  EXPECT_EQ(read(), KvReject::kDamaged) << "the next one";
  one = whole;
  one.replace(second, piece, two.substr(second, piece));
  EXPECT_EQ(read(), KvReject::kDamaged) << "another file's";
}

}  // namespace
}  // namespace hydrant
