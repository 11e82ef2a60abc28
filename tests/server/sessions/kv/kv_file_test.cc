#include "server/sessions/kv/kv_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/process/sha256.h"
#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"
#include "tests/server/sessions/kv/kv_bytes.h"

namespace hydrant {
namespace {

KvReject Read(std::string_view file, const KvFileHeader& expected) {
  KvFileHeader header;
  std::string_view payload;
  return ReadKvFile(file, expected.format, &expected.binding, &header, &payload);
}

TEST(KvFile, ComesBackAsItWasWritten) {
  // A block, several, and more than a chunk whose last one is not full.
  for (const int64_t block_bytes : {int64_t{4224}, int64_t{700'000}}) {
    for (const int32_t live : {1, 15, 16, 17, 40}) {
      const KvFileHeader written = TinyHeader(live, block_bytes);
      const std::vector<std::byte> payload = TinyPayload(written);
      const std::string file = FileOf(written, payload);
      KvFileHeader header;
      std::string_view bytes;
      ASSERT_EQ(ReadKvFile(file, written.format, &written.binding, &header, &bytes), KvReject::kNone);
      EXPECT_EQ(header.format, written.format);
      EXPECT_EQ(header.binding, written.binding);
      EXPECT_EQ(header.live, live);
      EXPECT_EQ(header.wall_s, written.wall_s);
      EXPECT_EQ(bytes, std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size()));
    }
  }
}

// Files outlive the version that wrote them: one that is written otherwise needs another kKvFileMajor, or a feature.
TEST(KvFile, IsWrittenAsByEveryVersionBefore) {
  const auto digest = [](const std::string& bytes) {
    const Sha256Digest sum = Sha256(bytes);
    return absl::BytesToHexString(std::string(sum.begin(), sum.end()));
  };
  const KvFileHeader whole = TinyHeader(40, 700'000);
  EXPECT_EQ(digest(FileOf(whole, TinyPayload(whole))),
            "299258326c54c309232b3df6d0f1d6eb650d95fb5999f1afc736f3b9eba70845");
  KvFileHeader grown = whole;
  grown.base_turn = 6;
  grown.base_bytes = kKvChunkBytes;
  EXPECT_EQ(digest(EncodeKvHead(grown, TinyPayload(grown))),
            "11ee6917d9a8ac84fcca3faa86121807029dbd6dca32b421ee5d7bc9e127ed51");
}

TEST(KvFile, NoBitOfItCanBeAnother) {
  const KvFileHeader written = TinyHeader(17);
  const std::vector<std::byte> payload = TinyPayload(written);
  std::string file = FileOf(written, payload);
  // Every byte of the header that says something, of the table and the trailer; every 97th of what is in between.
  for (size_t at = 0; at < file.size(); at += at < 400 || at + 100 > file.size() ? 1 : 97) {
    const auto bit = static_cast<char>(1 << (at % 8));
    file[at] = static_cast<char>(file[at] ^ bit);
    const KvReject reject = Read(file, written);
    EXPECT_TRUE(reject == KvReject::kDamaged || reject == KvReject::kShort) << at << " " << KvRejectName(reject);
    file[at] = static_cast<char>(file[at] ^ bit);
  }
  EXPECT_EQ(Read(file, written), KvReject::kNone);
}

TEST(KvFile, APartOfItIsNone) {
  const KvFileHeader written = TinyHeader(40);
  const std::string file = FileOf(written, TinyPayload(written));
  for (size_t length = 0; length < file.size(); length += 4096) {
    EXPECT_EQ(Read(std::string_view(file).substr(0, length), written), KvReject::kShort) << length;
  }
  EXPECT_EQ(Read(std::string_view(file).substr(0, file.size() - 1), written), KvReject::kShort);
  EXPECT_EQ(Read(file + '\0', written), KvReject::kShort) << "nor is it more";
  // What a file system may leave of pages that were not synced.
  std::string torn = file;
  torn.replace(2 * 4096, 4096, 4096, '\0');
  EXPECT_EQ(Read(torn, written), KvReject::kDamaged);
}

// Each field for itself, with checksums that fit: what another server, model, tenant or turn wrote.
TEST(KvFile, SaysWhyAnotherOneIsNotIt) {
  struct Case {
    const char* what;
    KvReject reject;
    std::function<void(KvFileHeader*)> change;
  };
  const std::vector<Case> cases = {
      {"directory", KvReject::kDirectory, [](KvFileHeader* h) { ++h->format.directory[15]; }},
      {"weights of the same name", KvReject::kModel, [](KvFileHeader* h) { ++h->format.model[31]; }},
      {"device", KvReject::kLayout, [](KvFileHeader* h) { h->format.device = "cuda 1"; }},
      {"type", KvReject::kLayout, [](KvFileHeader* h) { h->format.type = 2; }},
      {"layers", KvReject::kLayout, [](KvFileHeader* h) { h->format.layers = 2; }},
      {"KV heads", KvReject::kLayout, [](KvFileHeader* h) { h->format.kv_heads = 2; }},
      {"head size", KvReject::kLayout, [](KvFileHeader* h) { h->format.head_dim = 32; }},
      {"inspected", KvReject::kLayout, [](KvFileHeader* h) { h->format.inspected = true; }},
      {"another tenant's", KvReject::kSession, [](KvFileHeader* h) { ++h->binding.session[0]; }},
      {"an older turn's", KvReject::kTurn, [](KvFileHeader* h) { --h->binding.turn; }},
      {"another history", KvReject::kTokens, [](KvFileHeader* h) { ++h->binding.tokens[7]; }},
      {"a longer history", KvReject::kTokens, [](KvFileHeader* h) { ++h->binding.computed; }},
      {"policy", KvReject::kPolicy, [](KvFileHeader* h) { ++h->binding.policy[0]; }},
  };
  const KvFileHeader expected = TinyHeader(20);
  std::set<KvReject> seen;
  for (const Case& one : cases) {
    KvFileHeader other = expected;
    one.change(&other);
    EXPECT_EQ(Read(FileOf(other, TinyPayload(other)), expected), one.reject) << one.what;
    seen.insert(one.reject);
  }
  EXPECT_EQ(seen.size(), 7u);
}

// A header is 4 KiB of fixed places; these are of the fields that only another version has.
std::string WithHeaderBytes(std::string file, size_t at, std::string_view bytes) {
  file.replace(at, bytes.size(), bytes);
  std::string crc;
  PutFixed(Crc32c(std::string_view(file).substr(0, kKvHeaderBytes - 4)), &crc);
  file.replace(kKvHeaderBytes - 4, 4, crc);
  const KvFileHeader tiny = TinyHeader(20);
  file.resize(file.size() - kKvTrailerBytes);
  return file + EncodeKvTrailer(tiny, std::string_view(file).substr(0, static_cast<size_t>(tiny.head_bytes())));
}

TEST(KvFile, IsReadByEveryVersionThatUnderstandsIt) {
  const KvFileHeader written = TinyHeader(20);
  const std::string file = FileOf(written, TinyPayload(written));
  EXPECT_EQ(Read(WithHeaderBytes(file, 8, "\x01"), written), KvReject::kNone);
  EXPECT_EQ(Read(WithHeaderBytes(file, 8, "\x02"), written), KvReject::kOtherVersion) << "another major version";
  EXPECT_EQ(Read(WithHeaderBytes(file, 12, "\x02"), written), KvReject::kOtherVersion) << "a feature that is not known";
  EXPECT_EQ(Read(WithHeaderBytes(file, 12, "\x01"), written), KvReject::kDamaged) << "nothing is before turn 0";
  EXPECT_EQ(Read(WithHeaderBytes(file, 4000, "more"), written), KvReject::kDamaged);
  EXPECT_EQ(Read(WithHeaderBytes(WithHeaderBytes(file, 10, "\x01"), 4000, "more"), written), KvReject::kNone)
      << "a later minor version says more";
  EXPECT_EQ(Read(WithHeaderBytes(file, 16, "\x01\x02\x03\x04"), written), KvReject::kLayout) << "another machine";
}

TEST(KvFile, SaysWhatIsInTheFileBefore) {
  KvFileHeader header = TinyHeader(100, 300'000);  // 2.1 MB
  const auto read = [](const KvFileHeader& from) {
    KvReject reject = KvReject::kNone;
    const std::optional<KvFileHeader> back = DecodeKvHeader(EncodeKvHeader(from), &reject);
    if (back.has_value()) {
      EXPECT_EQ(back->base_turn, from.base_turn);
      EXPECT_EQ(back->base_bytes, from.base_bytes);
      EXPECT_EQ(back->file_bytes(), from.file_bytes());
    }
    return reject;
  };
  const int64_t whole = header.file_bytes();
  header.base_turn = header.binding.turn - 1;
  header.base_bytes = 2 << 20;
  EXPECT_EQ(read(header), KvReject::kNone);
  EXPECT_EQ(header.file_bytes(), whole - (2 << 20));
  for (const int64_t bytes : {int64_t{0}, int64_t{1000}, int64_t{-1} << 20, int64_t{3} << 20, INT64_MAX}) {
    header.base_bytes = bytes;
    EXPECT_EQ(read(header), KvReject::kDamaged) << bytes;
  }
  header.base_bytes = 1 << 20;
  header.base_turn = header.binding.turn;
  EXPECT_EQ(read(header), KvReject::kDamaged) << "itself";
}

TEST(KvFile, HasPositionsThatItsTokensHave) {
  const KvFileHeader written = TinyHeader(17);
  for (const int32_t position : {-1, written.binding.computed}) {
    std::vector<std::byte> payload = TinyPayload(written);
    // The last live slot, the first of the second block; behind it nothing is said.
    const size_t at = payload.size() - kBlockSlots * 4;
    std::memcpy(payload.data() + at + 4, &position, 4);
    EXPECT_EQ(Read(FileOf(written, payload), written), KvReject::kNone) << "a slot that is not live";
    std::memcpy(payload.data() + at, &position, 4);
    EXPECT_EQ(Read(FileOf(written, payload), written), KvReject::kPositions);
  }
}

TEST(KvFile, NamesSayWhoseItIs) {
  SessionName session{};
  session[0] = 0xab;
  session[15] = 0x01;
  const std::string name = KvFileName(session, 42);
  EXPECT_EQ(name, "ab000000000000000000000000000001.42.kv");
  const std::optional<KvFileNameParts> parts = ParseKvFileName(name);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->session, session);
  EXPECT_EQ(parts->turn, 42u);
  for (const char* other :
       {"", "x", ".kv", "ab000000000000000000000000000001.42.kv.tmp", "ab000000000000000000000000000001..kv",
        "AB000000000000000000000000000001.42.kv", "ab000000000000000000000000000001.042.kv",
        "ag000000000000000000000000000001.42.kv", "ab000000000000000000000000000001.-1.kv"}) {
    EXPECT_FALSE(ParseKvFileName(other).has_value()) << other;
  }
}

TEST(KvFile, EveryReasonHasAName) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kKvRejects; ++i) names.insert(KvRejectName(static_cast<KvReject>(i)));
  EXPECT_EQ(names.size(), kKvRejects);
  EXPECT_EQ(KvRejectName(KvReject::kBusy), "busy");
}

}  // namespace
}  // namespace hydrant
