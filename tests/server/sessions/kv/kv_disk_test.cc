#include "server/sessions/kv/kv_disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/sessions/journal/model_disk.h"
#include "tests/server/sessions/kv/kv_bytes.h"

namespace hydrant {
namespace {

constexpr int64_t kBlockBytes = 300'000;  // so that there are several chunks

constexpr char kNoKey[] = "";
const std::string kKey(64, 'a'), kOtherKey(64, 'b');

// `keys`: of a key file; kNoKey: nothing is sealed.
std::unique_ptr<KvDisk> MountOn(ModelDisk& disk, const std::string& keys = kNoKey) {
  std::shared_ptr<const SessionKeys> loaded;
  if (!keys.empty()) loaded = *SessionKeys::Parse(keys, "keys");
  return std::make_unique<KvDisk>(disk.Mount(), TinyFormat(kBlockBytes), std::move(loaded));
}

// Reads the file back. kNone and nothing in `*payload`: there is none.
KvReject ReadBack(KvDisk& files, const KvFileHeader& header, std::vector<std::byte>* payload) {
  payload->clear();
  KvReject reject = KvReject::kNone;
  const auto file = files.Open(header.binding.session, header.binding.turn, &reject);
  if (file == nullptr) return reject;
  EXPECT_EQ(file->header().binding, header.binding);
  payload->resize(static_cast<size_t>(file->header().payload_bytes()));
  return files.Read(*file, *payload);
}

TEST(KvDisk, ReadsWhatItWrote) {
  ModelDisk disk;
  const std::unique_ptr<KvDisk> files = MountOn(disk);
  const KvFileHeader header = TinyHeader(100, kBlockBytes);
  const std::vector<std::byte> payload = TinyPayload(header);
  ASSERT_EQ(files->Write(header, payload), 0);
  ASSERT_EQ(disk.names.size(), 1u);
  EXPECT_EQ(disk.names.begin()->first, KvFileName(header.binding.session, 7));
  std::vector<std::byte> read;
  EXPECT_EQ(ReadBack(*files, header, &read), KvReject::kNone);
  EXPECT_EQ(read, payload);
  // Whoever has it open reads it to the end.
  KvReject reject = KvReject::kNone;
  const auto open = files->Open(header.binding.session, 7, &reject);
  EXPECT_EQ(files->Remove(header.binding.session, 7, /*sync=*/true), 0);
  EXPECT_EQ(files->Read(*open, read), KvReject::kNone);
  EXPECT_EQ(ReadBack(*files, header, &read), KvReject::kNone);
  EXPECT_TRUE(read.empty()) << "there is none any more";
  EXPECT_EQ(files->Remove(header.binding.session, 7, /*sync=*/true), 0) << "nor is it a failure that there is none";
}

// What `write` gives where the k-th call of the disk fails so, or ends the process (0); -1: it did not come to its end.
template <typename Write>
int WriteFailing(ModelDisk* disk, int failure, int64_t k, Write write) {
  (failure == 0 ? disk->kill_at : disk->fail_at) = k;
  disk->failure = failure;
  int result = -1;
  try {
    result = write();
  } catch (const Killed&) {
    result = -1;
  }
  disk->kill_at = disk->fail_at = -1;
  return result;
}

class KvDiskCalls : public testing::TestWithParam<std::string> {};

// A store that failed is not found, and neither is one that was cut off by the end of the process or a loss of power: what is found is
// what was written, and what Write said is there is there.
TEST_P(KvDiskCalls, IsWholeOrNotThereWhicheverCallFails) {
  const KvFileHeader header = TinyHeader(40, kBlockBytes);
  const std::vector<std::byte> payload = TinyPayload(header);
  std::mt19937 random(11);
  const std::string key = GetParam();
  for (const int failure : {-EIO, -ENOSPC, -EINTR, 1, 0}) {  // 0: killed
    bool reached_end = false;
    for (int64_t k = 0; !reached_end; ++k) {
      ASSERT_LT(k, 100);
      ModelDisk disk;
      const int result = WriteFailing(&disk, failure, k, [&] { return MountOn(disk, key)->Write(header, payload); });
      reached_end = disk.calls <= k;
      for (const bool loses_power : {false, true}) {
        if (loses_power) disk.LosePower(random);
        std::vector<std::byte> read;
        const KvReject reject = ReadBack(*MountOn(disk, key), header, &read);
        if (result == 0 || !read.empty()) {
          EXPECT_EQ(reject, KvReject::kNone) << failure << " at call " << k << (loses_power ? ", power lost" : "");
          EXPECT_EQ(read, payload);
        }
        if (result != 0 && failure != 0 && !loses_power) {
          EXPECT_TRUE(read.empty()) << "a write that failed is not found: " << failure << " at call " << k;
        }
      }
      if (reached_end) {
        EXPECT_EQ(result, 0);
      }
    }
  }
}

// Turns whose KV grows, all of one history as far as their headers say.
struct Growing {
  static KvFileHeader HeaderOf(uint64_t turn, int32_t live) {
    KvFileHeader header = TinyHeader(live, kBlockBytes);
    header.binding = TinyHeader(200, kBlockBytes).binding;
    header.binding.turn = turn;
    return header;
  }
  std::vector<std::byte> PayloadOf(const KvFileHeader& header) const {
    return {all.begin(), all.begin() + header.payload_bytes()};
  }
  bool IsPayload(const std::vector<std::byte>& read, const KvFileHeader& header) const {
    return std::ssize(read) == header.payload_bytes() && std::memcmp(read.data(), all.data(), read.size()) == 0;
  }
  // Behind the file of the turn before, where that can be. Returns as KvDisk::Write; `*own` is what was to be written of the payload.
  int Append(KvDisk& files, const KvFileHeader& whole, int64_t* own = nullptr) const {
    KvFileHeader header = whole;
    const std::vector<std::byte> payload = PayloadOf(header);
    std::string head = EncodeKvHead(header, payload);
    KvReject reject = KvReject::kNone;
    const auto base = files.Open(header.binding.session, header.binding.turn - 1, &reject);
    if (base != nullptr) files.PutOnto(*base, &header, &head);
    if (own != nullptr) *own = header.own_bytes();
    return files.Write(header, head, payload);
  }

  const std::vector<std::byte> all = TinyPayload(HeaderOf(1, 200));
  const KvFileHeader first = HeaderOf(7, 64), second = HeaderOf(8, 100), third = HeaderOf(9, 112);  // 1.2, 2.1, 2.1 MB
};

TEST(KvDisk, WhatGrowsIsWrittenOnceAndReadFromAllItsFiles) {
  const Growing growing;
  for (const std::string& key : {std::string(), kKey}) {
    ModelDisk disk;
    const std::unique_ptr<KvDisk> files = MountOn(disk, key);
    int64_t own = 0;
    ASSERT_EQ(growing.Append(*files, growing.first, &own), 0);
    EXPECT_EQ(own, growing.first.payload_bytes());
    ASSERT_EQ(growing.Append(*files, growing.second, &own), 0);
    EXPECT_EQ(own, growing.second.payload_bytes() - (1 << 20)) << "whole chunks are not written again";
    ASSERT_EQ(growing.Append(*files, growing.third, &own), 0);
    EXPECT_EQ(own, growing.third.payload_bytes() - (2 << 20));
    std::vector<std::byte> read;
    for (const KvFileHeader& header : {growing.first, growing.second, growing.third}) {
      EXPECT_EQ(ReadBack(*files, header, &read), KvReject::kNone);
      EXPECT_TRUE(growing.IsPayload(read, header));
    }
    // Whatever is not as it was in any of them.
    const ModelDisk::Names names = disk.names;
    for (const auto& [name, file] : names) {
      const std::string whole = file->bytes;
      for (size_t at = 100; at < whole.size(); at += at < 5000 ? 1511 : 300'017) {
        file->bytes[at] = static_cast<char>(file->bytes[at] ^ 4);
        const KvReject reject = ReadBack(*files, growing.third, &read);
        EXPECT_TRUE(reject != KvReject::kNone || growing.IsPayload(read, growing.third)) << name << " at " << at;
        // The newest file's table is what counts, and a chunk that a later file has again is read there.
        const bool read_nowhere = (at >= kKvHeaderBytes && at < 2 * kKvHeaderBytes) || at > kKvChunkBytes;
        EXPECT_TRUE(reject != KvReject::kNone || read_nowhere) << name << " at " << at;
        file->bytes = whole;
      }
      file->bytes = whole.substr(0, whole.size() / 2);
      EXPECT_NE(ReadBack(*files, growing.third, &read), KvReject::kNone) << name;
      file->bytes = whole;
      disk.names.erase(name);
      const bool newest = name == KvFileName(growing.third.binding.session, 9);
      EXPECT_EQ(ReadBack(*files, growing.third, &read), newest ? KvReject::kNone : KvReject::kShort) << name;
      EXPECT_TRUE(!newest || read.empty());
      disk.names = names;
    }
    // One of the same name with another payload.
    ASSERT_EQ(files->Write(growing.first, TinyPayload(growing.first, /*seed=*/6)), 0);
    EXPECT_EQ(ReadBack(*files, growing.third, &read), KvReject::kDamaged);
  }
}

TEST(KvDisk, ASessionIsInSoManyFilesAndThenInOne) {
  ModelDisk disk;
  const std::unique_ptr<KvDisk> files = MountOn(disk);
  const Growing growing;
  int64_t own = 0;
  for (uint64_t turn = 1; turn <= KvDisk::kFilesMax + 1; ++turn) {
    const KvFileHeader header = Growing::HeaderOf(turn, 112);  // 2 MiB and 3 KB
    ASSERT_EQ(growing.Append(*files, header, &own), 0);
    const bool whole = turn == 1 || turn > KvDisk::kFilesMax;
    EXPECT_EQ(own, header.payload_bytes() - (whole ? 0 : 2 << 20)) << turn;
    std::vector<std::byte> read;
    EXPECT_EQ(ReadBack(*files, header, &read), KvReject::kNone) << turn;
  }
}

// A chunk that was not full is in every file again.
TEST(KvDisk, ItsFilesTakeHalfAsMuchAgainAsTheKvAtMost) {
  ModelDisk disk;
  const std::unique_ptr<KvDisk> files = MountOn(disk);
  const Growing growing;
  int64_t in_files = 0;
  bool goes_on = false;
  for (uint64_t turn = 1; turn <= 12; ++turn) {
    const KvFileHeader header = Growing::HeaderOf(turn, 144);  // 2 MiB and 600 KB
    int64_t own = 0;
    ASSERT_EQ(growing.Append(*files, header, &own), 0);
    in_files = own == header.payload_bytes() ? own : in_files + own;
    goes_on = goes_on || own < header.payload_bytes();
    EXPECT_LE(in_files, header.payload_bytes() / 2 * 3) << turn;
  }
  EXPECT_TRUE(goes_on);
}

// What was there before stays as it was.
TEST(KvDisk, AnAppendIsWholeOrNotThereWhicheverCallFails) {
  const Growing growing;
  std::mt19937 random(12);
  for (const int failure : {-EIO, 0}) {  // 0: killed
    bool reached_end = false;
    for (int64_t k = 0; !reached_end; ++k) {
      ASSERT_LT(k, 100);
      ModelDisk disk;
      ASSERT_EQ(growing.Append(*MountOn(disk), growing.first), 0);
      disk.calls = 0;
      const int result =
          WriteFailing(&disk, failure, k, [&] { return growing.Append(*MountOn(disk), growing.second); });
      reached_end = disk.calls <= k;
      for (const bool loses_power : {false, true}) {
        if (loses_power) disk.LosePower(random);
        std::vector<std::byte> read;
        EXPECT_EQ(ReadBack(*MountOn(disk), growing.first, &read), KvReject::kNone) << failure << " at " << k;
        EXPECT_TRUE(growing.IsPayload(read, growing.first));
        const KvReject reject = ReadBack(*MountOn(disk), growing.second, &read);
        if (result != 0 && read.empty()) continue;
        EXPECT_EQ(reject, KvReject::kNone) << failure << " at call " << k << (loses_power ? ", power lost" : "");
        EXPECT_TRUE(growing.IsPayload(read, growing.second));
      }
      if (reached_end) {
        EXPECT_EQ(result, 0);
      }
    }
  }
}

TEST_P(KvDiskCalls, AReadThatFailsIsNoAnswer) {
  const std::string key = GetParam();
  const KvFileHeader header = TinyHeader(40, kBlockBytes);
  const std::vector<std::byte> payload = TinyPayload(header);
  ModelDisk disk;
  ASSERT_EQ(MountOn(disk, key)->Write(header, payload), 0);
  for (const int failure : {-EIO, -EINTR, 1}) {
    for (int64_t k = disk.calls = 0;; ++k) {
      disk.calls = 0;
      disk.fail_at = k;
      disk.failure = failure;
      std::vector<std::byte> read;
      const KvReject reject = ReadBack(*MountOn(disk, key), header, &read);
      const bool all = disk.calls <= k;
      // A call that takes less than it was given, or was interrupted, is made again; of the size of a file there is no less.
      if (failure == -EIO && !all) {
        EXPECT_EQ(reject, KvReject::kIo) << k;
      }
      if (reject == KvReject::kNone && !read.empty()) {
        EXPECT_EQ(read, payload);
      }
      if (all) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, KvDiskCalls, testing::Values(kNoKey, kKey),
                         [](const auto& keys) { return keys.param.empty() ? "Plain" : "Sealed"; });

TEST(KvDisk, WhatWasDecipheredDoesNotStayInMemory) {
  ModelDisk disk;
  const std::unique_ptr<KvDisk> files = MountOn(disk, kKey);
  const KvFileHeader header = TinyHeader(100, kBlockBytes);
  ASSERT_EQ(files->Write(header, TinyPayload(header)), 0);
  KvReject reject = KvReject::kNone;
  const auto file = files->Open(header.binding.session, header.binding.turn, &reject);
  std::vector<std::byte> read(static_cast<size_t>(header.payload_bytes()));
  std::string head;
  ASSERT_EQ(files->ReadHead(*file, &head), KvReject::kNone);
  ASSERT_EQ(files->Read(*file, read), KvReject::kNone);
  std::string& bytes = disk.names.begin()->second->bytes;
  bytes[bytes.size() - 50] ^= 1;
  const auto [begin, end] = ChunkRange(header, header.chunks() - 1);
  EXPECT_EQ(files->ReadChunk(*file, head, header.chunks() - 1, std::span(read).first(static_cast<size_t>(end - begin))),
            KvReject::kDamaged)
      << "it is asked of the disk again";
}

// What is in the file is what is in one that is not sealed, and nobody finds it there.
TEST(KvDisk, ASealedFileIsOpenedWithItsKeyAlone) {
  ModelDisk disk;
  const KvFileHeader header = TinyHeader(100, kBlockBytes);
  const std::vector<std::byte> payload = TinyPayload(header);
  ASSERT_EQ(MountOn(disk, kKey)->Write(header, payload), 0);
  std::string& bytes = disk.names.begin()->second->bytes;
  const std::string whole = bytes;
  EXPECT_EQ(std::ssize(whole), MountOn(disk, kKey)->BytesOf(header));
  const std::string plain = FileOf(header, payload);
  for (size_t at = 0; at + 16 <= plain.size(); at += 4001) {
    if (plain.substr(at, 16) == std::string(16, '\0')) continue;
    EXPECT_EQ(whole.find(plain.substr(at, 16)), std::string::npos) << at;
  }
  std::vector<std::byte> read;
  EXPECT_EQ(ReadBack(*MountOn(disk, kKey), header, &read), KvReject::kNone);
  EXPECT_EQ(read, payload);
  EXPECT_EQ(ReadBack(*MountOn(disk), header, &read), KvReject::kKey);
  EXPECT_EQ(ReadBack(*MountOn(disk, kOtherKey), header, &read), KvReject::kKey);
  bytes = plain;
  EXPECT_EQ(ReadBack(*MountOn(disk, kKey), header, &read), KvReject::kKey) << "not sealed";
  for (size_t at = 0; at < whole.size(); at += at < 5000 ? 61 : 200'017) {
    bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 16);
    EXPECT_NE(ReadBack(*MountOn(disk, kKey), header, &read), KvReject::kNone) << at;
    bytes = whole.substr(0, at);
    EXPECT_NE(ReadBack(*MountOn(disk, kKey), header, &read), KvReject::kNone) << at;
  }
}

TEST(KvDisk, IsSealedAnewWithTheNewKey) {
  const KvFileHeader header = TinyHeader(100, kBlockBytes);
  const std::vector<std::byte> payload = TinyPayload(header);
  const std::string name = KvFileName(header.binding.session, header.binding.turn);
  const std::string both = kOtherKey + "\n" + kKey;
  for (int64_t k = 0;; ++k) {
    ModelDisk disk;
    ASSERT_EQ(MountOn(disk, kKey)->Write(header, payload), 0);
    disk.calls = 0;
    disk.fail_at = k;
    const int error = MountOn(disk, both)->Reseal(name);
    const bool all = disk.calls <= k;
    disk.fail_at = -1;
    std::vector<std::byte> read;
    EXPECT_EQ(ReadBack(*MountOn(disk, both), header, &read), KvReject::kNone) << "call " << k;
    EXPECT_EQ(read, payload) << "whatever failed";
    // Who is told that it is done throws the old key away.
    const KvReject without = ReadBack(*MountOn(disk, kOtherKey), header, &read);
    EXPECT_TRUE(error != 0 || without == KvReject::kNone) << "call " << k;
    if (error == 0 && all) {
      EXPECT_EQ(ReadBack(*MountOn(disk, kOtherKey), header, &read), KvReject::kNone);
      EXPECT_EQ(ReadBack(*MountOn(disk, kKey), header, &read), KvReject::kKey);
      const std::string bytes = disk.names[name]->bytes;
      EXPECT_EQ(MountOn(disk, both)->Reseal(name), 0);
      EXPECT_EQ(disk.names[name]->bytes, bytes) << "once";
      break;
    }
  }
}

TEST(KvDisk, RefusesWhatIsNotItsOwn) {
  ModelDisk disk;
  const std::unique_ptr<KvDisk> files = MountOn(disk);
  const KvFileHeader header = TinyHeader(40, kBlockBytes);
  ASSERT_EQ(files->Write(header, TinyPayload(header)), 0);
  const auto reason = [&] {
    KvReject reject = KvReject::kNone;
    EXPECT_EQ(files->Open(header.binding.session, 7, &reject), nullptr);
    return reject;
  };
  std::string& bytes = disk.names.begin()->second->bytes;
  const std::string whole = bytes;
  bytes.resize(100);
  EXPECT_EQ(reason(), KvReject::kShort);
  bytes = whole.substr(0, whole.size() - 1);
  EXPECT_EQ(reason(), KvReject::kShort);
  bytes = whole;
  bytes[50] ^= 1;
  EXPECT_EQ(reason(), KvReject::kDamaged);
  bytes = whole;
  KvFormat other = header.format;
  other.model[3] ^= 1;
  KvReject reject = KvReject::kNone;
  EXPECT_EQ(KvDisk(disk.Mount(), other).Open(header.binding.session, 7, &reject), nullptr);
  EXPECT_EQ(reject, KvReject::kModel);
  // The payload is looked at by Read.
  bytes[bytes.size() - 5000] ^= 1;
  std::vector<std::byte> read;
  EXPECT_EQ(ReadBack(*files, header, &read), KvReject::kDamaged);
}

}  // namespace
}  // namespace hydrant
