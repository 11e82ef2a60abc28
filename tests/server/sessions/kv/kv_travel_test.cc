#include "server/sessions/kv/kv_travel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/sessions/journal/crc32c.h"
#include "tests/server/sessions/kv/kv_bytes.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

constexpr int32_t kTravelLive = 40;

KvFileHeader Sent() {
  KvFileHeader sent = TinyHeader(kTravelLive);
  sent.format.directory = {};
  sent.binding.session = {};
  return sent;
}

// Blocks whose scores are numbers: what comes from elsewhere has to have such.
std::string FileThatTravels(const KvFileHeader& header) {
  std::vector<std::byte> payload = TinyPayload(header);
  const auto block_bytes = static_cast<size_t>(header.format.block_bytes);
  for (size_t end = block_bytes; end <= payload.size(); end += block_bytes) {
    std::fill_n(payload.begin() + static_cast<int64_t>(end - 2 * kBlockSlots * 4), kBlockSlots * 4, std::byte{0x3f});
  }
  return FileOf(header, payload);
}

class KvTravel : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path_);
    std::shared_ptr<const SessionKeys> keys;
    if (GetParam()) {
      const std::string key = temp_.Write("key", std::string(64, 'a'));
      std::filesystem::permissions(key, std::filesystem::perms::owner_read);
      keys = *SessionKeys::Load(key);
    }
    disk_ = std::make_unique<KvDisk>(DiskDirectory(open(path_.c_str(), O_RDONLY | O_DIRECTORY)), TinyFormat(), keys);
  }
  // "adopted", or why not.
  std::string Come(const std::string& bytes, size_t piece) {
    const std::unique_ptr<KvIncoming> incoming = disk_->Receive(TinyHeader(kTravelLive).binding, "x.kv.tmp");
    KvReject reject = KvReject::kNone;
    for (size_t at = 0; reject == KvReject::kNone && at < bytes.size(); at += piece) {
      reject = incoming->Take(std::string_view(bytes).substr(at, piece));
    }
    if (reject == KvReject::kNone) reject = incoming->Finish();
    if (reject != KvReject::kNone) return std::string(KvRejectName(reject));
    return disk_->Adopt(*incoming) == 0 ? "adopted" : "io";
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }

  const TempDir temp_;
  const std::string path_ = temp_.File("kv");
  std::unique_ptr<KvDisk> disk_;
};

TEST_P(KvTravel, WhatComesIsAFileOfThisDirectoryAndTravelsOnAsItCame) {
  const std::string file = FileThatTravels(Sent());
  for (const size_t piece : {size_t{1}, size_t{999}, file.size()}) {
    ASSERT_EQ(Come(file, piece), "adopted") << piece;
    KvReject reject = KvReject::kNone;
    const KvBinding own = TinyHeader(kTravelLive).binding;
    const auto open = disk_->Open(own.session, own.turn, &reject);
    ASSERT_NE(open, nullptr) << KvRejectName(reject);
    EXPECT_EQ(CheckKvBinding(open->header().binding, own), KvReject::kNone);
    std::string payload(static_cast<size_t>(open->header().payload_bytes()), '\0');
    EXPECT_EQ(disk_->Read(*open, std::as_writable_bytes(std::span(payload))), KvReject::kNone);
    EXPECT_EQ(payload, file.substr(static_cast<size_t>(open->header().head_bytes()), payload.size()));
    const auto outgoing = KvOutgoing::Open(*disk_, open, &reject);
    ASSERT_NE(outgoing, nullptr) << KvRejectName(reject);
    std::string again, part;
    do {
      ASSERT_EQ(outgoing->Next(&part), KvReject::kNone);
      again.append(part);
    } while (!part.empty());
    EXPECT_EQ(again, file);
    EXPECT_EQ(outgoing->bytes(), std::ssize(file));
    EXPECT_EQ(outgoing->crc(), Crc32c(file));
  }
}

TEST_P(KvTravel, WhatIsNotWhatItShouldBeLeavesNothing) {
  const std::string file = FileThatTravels(Sent());
  for (size_t i = 0; i < file.size(); i += i < 400 ? 3 : 131) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_NE(Come(damaged, 700), "adopted") << "byte " << i;
    if (i % 5 == 0) {
      EXPECT_EQ(Come(file.substr(0, i), 700), "short") << i;
    }
  }
  EXPECT_EQ(Come(file + "x", file.size()), "short");
  struct Case {
    const char* says;
    std::function<void(KvFileHeader*)> change;
  };
  const Case cases[] = {{"directory", [](KvFileHeader* header) { header->format.directory.fill(1); }},
                        {"session", [](KvFileHeader* header) { header->binding.session.fill(3); }},
                        {"model", [](KvFileHeader* header) { header->format.model.fill(9); }},
                        {"layout", [](KvFileHeader* header) { header->format.device = "cuda 1"; }},
                        {"layout", [](KvFileHeader* header) { header->format.type = 0; }},
                        {"turn", [](KvFileHeader* header) { header->binding.turn = 4; }},
                        {"tokens", [](KvFileHeader* header) { header->binding.tokens.fill(9); }},
                        {"tokens", [](KvFileHeader* header) { ++header->binding.computed; }},
                        {"policy", [](KvFileHeader* header) { header->binding.policy.fill(9); }}};
  for (const Case& row : cases) {
    KvFileHeader other = Sent();
    row.change(&other);
    EXPECT_EQ(Come(FileThatTravels(other), 1000), row.says);
  }
  std::vector<std::byte> payload(static_cast<size_t>(Sent().payload_bytes()));
  std::fill_n(payload.begin() + static_cast<int64_t>(Sent().format.block_bytes - 2 * kBlockSlots * 4), 4,
              std::byte{0xff});
  EXPECT_EQ(Come(FileOf(Sent(), payload), 1000), "positions") << "a score that is no number";
  EXPECT_THAT(Files(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(ClearAndSealed, KvTravel, testing::Bool());

}  // namespace
}  // namespace hydrant
